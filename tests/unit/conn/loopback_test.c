/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When may a loopback QP leave a NIC that does not obey? When nothing that the QP has sent can
 * count any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "providers/engine.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/qp.h"

#define BEGUN	 (1000 * SH_NS_PER_MS)
#define LIFETIME (50 * SH_NS_PER_MS)
#define SETTLE	 (10 * SH_NS_PER_MS)
#define LATER	 (BEGUN + LIFETIME + SETTLE)
#define COUNT	 7

static uint32_t outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max);
static void send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done);

static const struct shift_provider engine = { .qp.send_counts = send_counts,
					      .move.outstanding = outstanding };
static const struct shift_provider *object[SP_ENGINE_AT / sizeof(void *) + 1] = {
	[SP_ENGINE_AT / sizeof(void *)] = &engine
};

static struct sp_request requests[100];
static uint32_t n_requests, n_done;
static struct ibv_qp real = { .qp_num = 0x42 };
static struct sh_qp qp;

static uint32_t outstanding(struct sp_qp *sp, struct sp_request *info, uint32_t max)
{
	(void)sp;
	memcpy(info, requests, (n_requests < max ? n_requests : max) * sizeof(*info));
	return n_requests;
}

static void send_counts(struct sp_qp *sp, uint32_t *posted, uint32_t *done)
{
	(void)sp;
	*posted = *done = n_done;
}

static int setup(void **state)
{
	(void)state;
	sh.config.core.packet_lifetime_ns = LIFETIME;
	sh.config.core.settle_ns = SETTLE;
	qp = (struct sh_qp){ .qp = &real, .sp = (struct sp_qp *)object };
	qp.gid.valid = true;
	qp.app.attr.dest_qp_num = real.qp_num;
	qp.quiesce.begun = BEGUN;
	n_requests = 0;
	n_done = COUNT;
	return 0;
}

static void posted(enum sp_request_kind kind, uint32_t brings)
{
	requests[n_requests++] =
		(struct sp_request){ .kind = kind, .published = 1, .brings = brings };
}

static void nothing_is_outstanding(void **state)
{
	(void)state;
	assert_true(sh_loopback_part.move.is_over(&qp, COUNT, BEGUN));
}

static void a_receive_is_still_to_come(void **state)
{
	(void)state;
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT - 1, LATER));
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT + 1, LATER));
}

static void short_reads_run_again(void **state)
{
	(void)state;
	posted(SP_REQ_READ, 1);
	posted(SP_REQ_READ, 0);
	posted(SP_REQ_LOCAL, 0);
	posted(SP_REQ_READ, 4);
	assert_true(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
}

static void more_of_them_than_are_asked_for_at_once(void **state)
{
	(void)state;
	while (n_requests < 99)
		posted(SP_REQ_READ, 1);
	assert_true(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
	posted(SP_REQ_READ, 5);
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
}

/* The other NIC must find in memory what this one had taken in. */
static void but_not_before_what_came_is_in_memory(void **state)
{
	(void)state;
	posted(SP_REQ_READ, 1);
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT, BEGUN));
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT, LATER - 1));
}

/* The NIC may write the bytes once more when the program uses the buffer for something else. */
static void a_longer_read_waits(void **state)
{
	(void)state;
	posted(SP_REQ_READ, 5);
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
}

static void whatever_changes_memory_waits(void **state)
{
	static const enum sp_request_kind kinds[] = { SP_REQ_WRITE, SP_REQ_TWO_SIDED,
						      SP_REQ_ATOMIC };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		n_requests = 0;
		posted(SP_REQ_READ, 1);
		posted(kinds[i], 0);
		posted(SP_REQ_READ, 1);
		assert_false(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
	}
}

static void another_queue_pair_never_is(void **state)
{
	(void)state;
	qp.app.attr.dest_qp_num++;
	assert_false(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
}

/* What the program posts while its sends are withheld has not been shown to the NIC. */
static void withheld_requests_do_not_matter(void **state)
{
	(void)state;
	posted(SP_REQ_READ, 1);
	posted(SP_REQ_WRITE, 0);
	requests[1].published = 0;
	assert_true(sh_loopback_part.move.is_over(&qp, COUNT, LATER));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup(test, setup)
	const struct CMUnitTest tests[] = {
		CASE(nothing_is_outstanding),
		CASE(a_receive_is_still_to_come),
		CASE(short_reads_run_again),
		CASE(more_of_them_than_are_asked_for_at_once),
		CASE(but_not_before_what_came_is_in_memory),
		CASE(a_longer_read_waits),
		CASE(whatever_changes_memory_waits),
		CASE(another_queue_pair_never_is),
		CASE(withheld_requests_do_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
