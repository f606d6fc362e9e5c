/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Lazy connections: no standby until one is needed. */
#include "tests/lib/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Without a standby, both paths well; no: of its masks. */
static struct sc_msg_standby word(const struct core_fixture *f, uint8_t no, uint8_t up, bool lazy)
{
	return (struct sc_msg_standby){
		.up = up, .steady = up, .masks_no = no, .masks_seen = f->conn.paths.no, .lazy = lazy
	};
}

static void introduce(struct core_fixture *f, bool leader, uint8_t up)
{
	struct sc_event e = { .type = SC_EV_INTRODUCED, .leader = leader };
	struct sc_config config;

	memset(f, 0, sizeof(*f));
	sc_config_default(&config);
	config.retry_time_ns = FIXTURE_RETRY_TIME_NS;
	config.lazy = true;
	sc_init(&f->conn, &config);
	f->now = 1000 * 1000;
	fixture_paths(f, up, up, 0);
	fixture_give(f, &e);
}

static void rest(struct core_fixture *f, bool leader)
{
	introduce(f, leader, 3);
	fixture_standby_msg(f, word(f, 1, 3, true));
	assert_true(sc_rests(&f->conn));
}

static bool makes(const struct core_fixture *f)
{
	return fixture_find(f, SC_ACT_STANDBY_MAKE) != NULL;
}

static void a_leader_speaks_first_and_makes_none(void **state)
{
	struct core_fixture f;

	introduce(&f, true, 3);
	assert_string_equal(f.line, "SEND_STANDBY");
	assert_int_equal(f.out.a[0].standby.lazy, 1);
	assert_false(sc_protected(&f.conn));
	assert_string_equal(fixture_standby_msg(&f, word(&f, 1, 3, true)),
			    "SEND_STANDBY GUARD REPORT");
	assert_true(sc_protected(&f.conn));
	assert_int_equal(fixture_find(&f, SC_ACT_REPORT)->path, 1);
	assert_int_equal(f.conn.timer_at, 0);
}

static void a_peer_that_is_not_lazy_gets_its_standby(void **state)
{
	struct core_fixture f;

	introduce(&f, true, 3);
	fixture_standby_msg(&f, word(&f, 1, 3, false));
	assert_true(makes(&f));
	assert_false(sc_rests(&f.conn));
}

static void who_follows_makes_what_is_asked_for(void **state)
{
	struct sc_msg_standby m;
	struct core_fixture f;

	introduce(&f, false, 3);
	m = word(&f, 1, 3, false);
	m.epoch = 1;
	m.path = 1;
	m.phase = SC_STANDBY_MADE;
	fixture_standby_msg(&f, m);
	assert_true(makes(&f));
	assert_false(sc_protected(&f.conn));
}

/* Paths come up one after another: that the one in use is later is no fault. */
static void the_path_in_use_is_waited_for(void **state)
{
	struct core_fixture f;

	introduce(&f, true, 2);
	fixture_standby_msg(&f, word(&f, 1, 3, true));
	assert_false(makes(&f));
	assert_false(sc_protected(&f.conn));
	fixture_paths(&f, 3, 3, 0);
	assert_false(makes(&f));
	assert_true(sc_rests(&f.conn));
}

static void but_not_for_ever(void **state)
{
	struct core_fixture f;

	introduce(&f, true, 2);
	fixture_standby_msg(&f, word(&f, 1, 3, true));
	for (int i = 0; i < 64 && !makes(&f); i++)
		assert_string_not_equal(fixture_timer(&f), "");
	assert_true(makes(&f));
}

static void who_loses_the_carrier_is_stranded_and_makes_one(void **state)
{
	struct core_fixture f;

	rest(&f, true);
	fixture_fault(&f, SC_REASON_TRANSPORT, 0);
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
	assert_true(makes(&f));
	assert_false(sc_protected(&f.conn));
	/* all of a dead NIC stand in line: they have more time than a queue pair's retries */
	assert_true(f.conn.deadline_at - f.now > f.conn.config.deadline_ns);
	assert_true(f.conn.standby.deadline_at - f.now > f.conn.config.standby_ns);
}

static void a_path_that_goes_down_ends_the_rest(void **state)
{
	struct core_fixture f;

	rest(&f, true);
	fixture_paths(&f, 2, 2, 0);
	assert_true(makes(&f));
	rest(&f, true);
	fixture_standby_msg(&f, word(&f, 2, 2, true)); /* there */
	assert_true(makes(&f));
	rest(&f, true);
	fixture_paths(&f, 3, 3, 1); /* drained */
	assert_true(makes(&f));
}

static void without_another_path_it_is_not_protected(void **state)
{
	struct core_fixture f;

	rest(&f, true);
	fixture_paths(&f, 1, 1, 0);
	assert_false(makes(&f));
	assert_false(sc_protected(&f.conn));
	assert_non_null(fixture_find(&f, SC_ACT_REPORT));
	fixture_paths(&f, 3, 1, 0);
	assert_true(sc_rests(&f.conn));
	assert_non_null(fixture_find(&f, SC_ACT_REPORT));
}

/* The leader may rest and knows nothing of it. */
static void a_doubt_of_who_follows_is_told(void **state)
{
	uint8_t no;
	struct core_fixture f;

	rest(&f, false);
	no = f.conn.paths.no;
	fixture_fault(&f, SC_REASON_SILENCE, 0);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STANDBY)->standby.lazy, 0);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STANDBY)->standby.masks_no, no + 1);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STANDBY)->on, 1);
	assert_string_equal(fixture_timer(&f), "SEND_STANDBY"); /* until seen */
	rest(&f, true);
	fixture_standby_msg(&f, word(&f, 2, 3, false));
	assert_true(makes(&f));
}

/* Known to be hard, or impossible: then it is found out now. */
static void who_is_suspicious_does_not_rest(void **state)
{
	struct sc_event e = { .type = SC_EV_PATHS, .up = 3, .steady = 3, .suspicious = true };
	struct core_fixture f;

	rest(&f, true);
	fixture_give(&f, &e);
	assert_true(makes(&f));
	assert_false(sc_protected(&f.conn));
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STANDBY)->standby.lazy, 0);
}

/* On the default path again: the memory of the standby is free until the next fault. */
static void after_the_return_it_rests(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_RETURNING);
	f.conn.config.lazy = f.conn.peer.lazy = true;
	fixture_quiesced(&f, true, FIXTURE_COUNT);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	fixture_state_msg(&f, (struct sc_msg_state){ .epoch = f.conn.epoch,
						     .seen_epoch = f.conn.epoch,
						     .final = 1,
						     .quiesced = 1,
						     .recv_count = FIXTURE_PEER_COUNT });
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	assert_int_equal(f.conn.path, 0);
	assert_false(makes(&f));
	assert_true(sc_rests(&f.conn));
}

/* The way back needs one, ready when the path has stood still long enough. */
static void on_another_path_it_does_not_rest_once_the_default_is_up(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_FALLBACK);
	f.conn.config.lazy = f.conn.peer.lazy = true;
	fixture_paths(&f, 7, 6, 0);
	assert_true(makes(&f));
	assert_int_equal(fixture_find(&f, SC_ACT_STANDBY_MAKE)->path, 0);
	fixture_at(&f, AT_FALLBACK);
	f.conn.config.lazy = f.conn.peer.lazy = true;
	f.conn.peer.paths.up = 7;
	fixture_paths(&f, 6, 6, 0);
	assert_false(makes(&f));
	assert_true(sc_rests(&f.conn));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leader_speaks_first_and_makes_none),
		cmocka_unit_test(a_peer_that_is_not_lazy_gets_its_standby),
		cmocka_unit_test(who_follows_makes_what_is_asked_for),
		cmocka_unit_test(the_path_in_use_is_waited_for),
		cmocka_unit_test(but_not_for_ever),
		cmocka_unit_test(who_loses_the_carrier_is_stranded_and_makes_one),
		cmocka_unit_test(a_path_that_goes_down_ends_the_rest),
		cmocka_unit_test(without_another_path_it_is_not_protected),
		cmocka_unit_test(a_doubt_of_who_follows_is_told),
		cmocka_unit_test(who_is_suspicious_does_not_rest),
		cmocka_unit_test(after_the_return_it_rests),
		cmocka_unit_test(on_another_path_it_does_not_rest_once_the_default_is_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
