/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Leaving a path that is down: who is asked first, who waits for what, and how it ends. */
#include "tests/lib/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define STAY_NS (10ULL * FIXTURE_RETRY_TIME_NS)

static const char *looked(struct core_fixture *f, bool atomics)
{
	struct sc_event e = { .type = SC_EV_STAYS, .epoch = f->conn.stay.no, .atomics = atomics };

	return fixture_give(f, &e);
}

static const char *peer_says(struct core_fixture *f, enum sc_stay_phase phase, uint32_t no)
{
	struct sc_msg_state m = { .epoch = f->conn.epoch, .stay = (uint8_t)phase, .stay_no = no };

	return fixture_state_msg(f, m);
}

/* Protected, with a peer that answers before it is left. */
static void protected(struct core_fixture *f)
{
	fixture_at(f, AT_PROTECTED);
	f->conn.config.stay_ns = STAY_NS;
	f->conn.peer.stays = SC_STAYS_REPEATS;
}

static const char *paths_and_well(struct core_fixture *f, uint8_t up, uint8_t well)
{
	struct sc_event e = { .type = SC_EV_PATHS, .up = up, .steady = up, .well = well };

	return fixture_give(f, &e);
}

/* Its port went down, and it asks. */
static void asking(struct core_fixture *f)
{
	protected(f);
	paths_and_well(f, 2, 2);
	assert_string_equal(fixture_fault(f, SC_REASON_PORT, 0), "SEND_STATE");
	assert_int_equal(f->conn.stay.phase, SC_STAY_ASK);
	assert_int_equal(fixture_find(f, SC_ACT_SEND_STATE)->state.stay, SC_STAY_WAIT);
}

/* It asked, and has an answer. */
static void waiting(struct core_fixture *f, bool atomics)
{
	asking(f);
	assert_string_equal(peer_says(f, SC_STAY_WAIT, 1), "STAY");
	looked(f, atomics);
	assert_int_equal(f->conn.stay.phase, atomics ? SC_STAY_WAIT : SC_STAY_GO);
	assert_int_equal(fixture_find(f, SC_ACT_SEND_STATE)->state.stay, f->conn.stay.phase);
}

static void leaves_at_once(struct core_fixture *f, enum sc_reason reason)
{
	fixture_fault(f, reason, 0);
	assert_int_equal(f->conn.move, SC_MOVE_QUIESCING);
}

static void only_for_a_path_that_is_down(void **state)
{
	static const enum sc_reason dead[] = { SC_REASON_TRANSPORT, SC_REASON_DEVICE,
					       SC_REASON_RESOURCE };
	struct core_fixture f;

	for (uint32_t i = 0; i < 3; i++) {
		protected(&f);
		leaves_at_once(&f, dead[i]);
		asking(&f);
		leaves_at_once(&f, dead[i]);
		assert_int_equal(f.conn.stay.phase, SC_STAY_OVER);
	}
	waiting(&f, true);
	leaves_at_once(&f, SC_REASON_TRANSPORT);
	assert_int_equal(f.conn.stay.phase, SC_STAY_OVER);
}

static void not_of_a_peer_that_cannot_answer(void **state)
{
	struct core_fixture f;

	protected(&f);
	f.conn.peer.stays = SC_STAYS_NOT;
	leaves_at_once(&f, SC_REASON_PORT);
	protected(&f);
	f.conn.config.stay_ns = 0;
	leaves_at_once(&f, SC_REASON_SILENCE);
}

static void a_peer_that_is_halted_is_asked_for_ever(void **state)
{
	struct core_fixture f;

	asking(&f);
	for (int i = 0; i < 1000; i++) {
		fixture_timer(&f);
		assert_null(fixture_find(&f, SC_ACT_STAY));
		assert_null(fixture_find(&f, SC_ACT_WITHHOLD));
	}
	assert_true(f.now > 10 * STAY_NS);
	assert_int_equal(f.conn.stay.phase, SC_STAY_ASK);
	peer_says(&f, SC_STAY_GO, 1);
	looked(&f, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

/* It answers no heartbeat either: that its own port is up again has to do. */
static void who_asks_goes_on_when_its_port_is_up(void **state)
{
	struct core_fixture f;
	const struct sc_action *a;

	asking(&f);
	paths_and_well(&f, 2, 3);
	a = fixture_find(&f, SC_ACT_STAY);
	assert_true(a && !a->on);
	assert_int_equal(f.conn.stay.phase, SC_STAY_OVER);
	assert_false(f.conn.suspect);
	peer_says(&f, SC_STAY_GO, 1); /* late */
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.stay, SC_STAY_OVER);
}

static void go_is_an_answer(void **state)
{
	struct core_fixture f;

	asking(&f);
	peer_says(&f, SC_STAY_GO, 1);
	assert_int_equal(f.conn.move, SC_MOVE_NONE); /* of its own requests it knows nothing yet */
	assert_null(fixture_find(&f, SC_ACT_SEND_STATE));
	looked(&f, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

static void both_ask_at_once(void **state)
{
	struct core_fixture f;

	asking(&f);
	peer_says(&f, SC_STAY_WAIT, 1);
	looked(&f, false);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.stay, SC_STAY_GO);
	peer_says(&f, SC_STAY_GO, 1);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

static void leaves_when_both_say_go(void **state)
{
	struct core_fixture f;

	waiting(&f, false);
	peer_says(&f, SC_STAY_WAIT, 1);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	peer_says(&f, SC_STAY_GO, 1);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	assert_int_equal(f.conn.reason, SC_REASON_PORT);

	waiting(&f, true);
	peer_says(&f, SC_STAY_GO, 1);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	looked(&f, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

static void a_late_go_means_nothing(void **state)
{
	struct core_fixture f;

	waiting(&f, false);
	fixture_paths(&f, 3, 3, 0);
	peer_says(&f, SC_STAY_OVER, 1);
	fixture_paths(&f, 2, 2, 0);
	fixture_fault(&f, SC_REASON_PORT, 0);
	assert_int_equal(f.conn.stay.no, 2);
	peer_says(&f, SC_STAY_GO, 1);
	assert_int_equal(f.conn.stay.phase, SC_STAY_ASK);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
}

static void goes_on_when_the_path_is_back(void **state)
{
	struct core_fixture f;
	const struct sc_action *a;

	waiting(&f, true);
	fixture_paths(&f, 3, 3, 0);
	a = fixture_find(&f, SC_ACT_STAY);
	assert_true(a && !a->on);
	assert_int_equal(f.conn.stay.phase, SC_STAY_OVER);

	waiting(&f, false); /* the peer may have left on our GO */
	fixture_paths(&f, 3, 3, 0);
	assert_null(fixture_find(&f, SC_ACT_STAY));
	assert_int_equal(f.conn.stay.phase, SC_STAY_BACK);
	peer_says(&f, SC_STAY_OVER, 1);
	a = fixture_find(&f, SC_ACT_STAY);
	assert_true(a && !a->on);
}

static void the_peer_waits_too(void **state)
{
	struct core_fixture f;

	protected(&f);
	peer_says(&f, SC_STAY_GO, 5);
	assert_true(fixture_find(&f, SC_ACT_STAY)->on);
	looked(&f, true);
	assert_int_equal(f.conn.stay.phase, SC_STAY_WAIT);
	looked(&f, false);
	assert_int_equal(f.conn.stay.phase, SC_STAY_GO);
	assert_int_equal(f.conn.move, SC_MOVE_NONE); /* it is the peer that wants to leave */
	peer_says(&f, SC_STAY_BACK, 5);
	assert_int_equal(f.conn.stay.phase, SC_STAY_OVER);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.stay_no, 5);
}

static void ends_with_the_retry_time(void **state)
{
	struct core_fixture f;
	uint64_t began;

	waiting(&f, true);
	began = f.conn.stay.since;
	while (f.conn.stay.phase == SC_STAY_WAIT) {
		assert_true(f.now < began + SC_RETRY_STRETCH * FIXTURE_RETRY_TIME_NS);
		fixture_timer(&f);
	}
	assert_int_equal(f.now, began + SC_RETRY_STRETCH * FIXTURE_RETRY_TIME_NS);
	assert_int_equal(f.conn.stay.phase, SC_STAY_GO); /* the peer may wait for longer */
	while (f.conn.move == SC_MOVE_NONE) {
		fixture_timer(&f);
		assert_true(f.now <= began + STAY_NS);
	}
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

static void no_ordered_switch_meanwhile(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_WAIT_DRAINED);
	f.conn.config.stay_ns = STAY_NS;
	f.conn.peer.stays = SC_STAYS_REPEATS;
	fixture_fault(&f, SC_REASON_PORT, f.conn.epoch);
	assert_non_null(fixture_find(&f, SC_ACT_UNFENCE));
	assert_int_equal(f.conn.stay.phase, SC_STAY_ASK);
	assert_int_equal(f.conn.sw.phase, SC_SWITCH_CANCEL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_for_a_path_that_is_down),
		cmocka_unit_test(not_of_a_peer_that_cannot_answer),
		cmocka_unit_test(a_peer_that_is_halted_is_asked_for_ever),
		cmocka_unit_test(who_asks_goes_on_when_its_port_is_up),
		cmocka_unit_test(go_is_an_answer),
		cmocka_unit_test(both_ask_at_once),
		cmocka_unit_test(leaves_when_both_say_go),
		cmocka_unit_test(a_late_go_means_nothing),
		cmocka_unit_test(goes_on_when_the_path_is_back),
		cmocka_unit_test(the_peer_waits_too),
		cmocka_unit_test(ends_with_the_retry_time),
		cmocka_unit_test(no_ordered_switch_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
