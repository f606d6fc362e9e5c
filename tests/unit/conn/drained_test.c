/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When may a side say that what its dead NIC acknowledged is in memory? Behind the peer's leaving, by a look that
 * was made in the same life of the NIC. Anything less loses a WRITE that its sender saw complete (P3).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"

#define MS    SH_NS_PER_MS
#define BEGUN (1000 * MS)
#define LIFE  3

static struct sh_nic nic;
static struct sh_ctx ctx;
static struct sh_qp qp;
static struct sh_carrier carrier; /* that it left */

/* It has died; we began to leave at BEGUN, and it was seen to reach memory at that time. */
static int setup(void **state)
{
	sh.config.core.settle_ns = 10 * MS;
	nic = (struct sh_nic){ .incarnation = LIFE, .fatal = true, .ctx = NULL };
	nic.cut.fd = 0;
	nic.cut.on_of = LIFE;
	ctx = (struct sh_ctx){ .nic = &nic };
	qp = (struct sh_qp){ .ctx = &ctx };
	qp.quiesce.begun = BEGUN;
	qp.active = qp.receiving = &carrier;
	*qp.active = (struct sh_carrier){ .nic = &nic, .incarnation = LIFE };
	return 0;
}

static bool drained(uint64_t on_at)
{
	nic.cut.on_at = nic.cut.seen_at = on_at;
	return sh_quiesce_drained(&qp, qp.active);
}

static void peer_left(uint64_t at)
{
	qp.core.peer.quiesced = true;
	qp.core.peer.quiesced_at = at;
}

static void a_peer_that_has_not_left_sees_more(void **state)
{
	assert_false(drained(BEGUN + 11 * MS));
	assert_false(drained(BEGUN + 60000 * MS));
	assert_false(sh_quiesce_drain_unknown(&qp)); /* no look would tell */
}

static void it_counts_from_the_peers_leaving(void **state)
{
	peer_left(BEGUN + 500 * MS);
	assert_false(drained(BEGUN + 11 * MS));
	assert_true(sh_quiesce_drain_unknown(&qp));
	assert_false(drained(BEGUN + 510 * MS));
	assert_true(drained(BEGUN + 511 * MS));
	assert_false(sh_quiesce_drain_unknown(&qp));
}

/* The peer began: what we executed until we left counts too. */
static void or_from_our_own(void **state)
{
	peer_left(BEGUN - 500 * MS);
	assert_false(drained(BEGUN - 100 * MS));
	assert_false(drained(BEGUN + 10 * MS));
	assert_true(drained(BEGUN + 11 * MS));
}

static void what_was_seen_outlives_the_life(void **state)
{
	peer_left(BEGUN);
	nic.incarnation = LIFE + 1;
	nic.fatal = false;
	assert_true(drained(BEGUN + 11 * MS));
	assert_false(drained(BEGUN + 9 * MS));
	assert_false(sh_quiesce_drain_unknown(&qp)); /* nobody can look any more */
}

static void another_life_says_nothing(void **state)
{
	peer_left(BEGUN);
	nic.incarnation = nic.cut.on_of = LIFE + 1;
	assert_false(drained(BEGUN + 11 * MS));
	nic.fatal = false; /* that it is well now, neither */
	assert_false(drained(BEGUN + 11 * MS));
}

static void one_that_is_well_has_all(void **state)
{
	nic.fatal = false;
	assert_true(drained(0));
}

/* Its NIC may hang, and nobody was told to send to it. */
static void a_standby_that_carried_nothing_is_not_waited_for(void **state)
{
	struct sh_carrier standby = { .nic = &nic, .qp = (struct ibv_qp *)&qp, .epoch = 1 };

	qp.quiesce.epoch = 2;
	assert_false(sh_quiesce_left(&qp, &standby));
	standby.reached = true;
	assert_true(sh_quiesce_left(&qp, &standby));
	standby.reached = false;
	qp.receiving = &standby;
	assert_true(sh_quiesce_left(&qp, &standby));
	standby.epoch = 2; /* the one to come */
	assert_false(sh_quiesce_left(&qp, &standby));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup(test, setup)
	const struct CMUnitTest tests[] = {
		CASE(a_peer_that_has_not_left_sees_more),
		CASE(it_counts_from_the_peers_leaving),
		CASE(or_from_our_own),
		CASE(what_was_seen_outlives_the_life),
		CASE(another_life_says_nothing),
		CASE(one_that_is_well_has_all),
		CASE(a_standby_that_carried_nothing_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
