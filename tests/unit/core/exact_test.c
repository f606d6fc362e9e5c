/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who asks for an expected PSN, when it is asked for, and what is told. */
#include "tests/lib/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PSN 0xfffffe

static const char *withheld(struct core_fixture *f, bool exact, uint32_t carrier)
{
	struct sc_event e = {
		.type = SC_EV_WITHHELD, .epoch = f->conn.epoch, .exact = exact, .carrier = carrier
	};

	return fixture_give(f, &e);
}

static const char *told(struct core_fixture *f, uint32_t carrier, bool ok)
{
	struct sc_event e = { .type = SC_EV_PSN, .epoch = carrier, .ok = ok, .psn = PSN };

	return fixture_give(f, &e);
}

static struct sc_msg_state final_of(const struct core_fixture *f)
{
	return (struct sc_msg_state){ .epoch = f->conn.epoch,
				      .seen_epoch = f->conn.epoch,
				      .final = 1,
				      .quiesced = 1,
				      .recv_count = FIXTURE_PEER_COUNT };
}

/* The peer's final count, and what it says of the number. */
static const char *peer_says(struct core_fixture *f, enum sc_exact exact, uint32_t of)
{
	struct sc_msg_state m = final_of(f);

	m.exact = (uint8_t)exact;
	m.exact_of = of;
	m.exact_psn = exact == SC_EXACT_TOLD ? PSN : 0;
	return fixture_state_msg(f, m);
}

static const char *peer_wants(struct core_fixture *f, uint32_t of, bool final)
{
	struct sc_msg_state m = { .epoch = f->conn.epoch, .leaving = 1 };

	if (final)
		m = final_of(f);
	m.exact = SC_EXACT_LATER;
	m.wants = 1;
	m.wants_of = of;
	return fixture_state_msg(f, m);
}

static const struct sc_msg_state *sent(const struct core_fixture *f)
{
	const struct sc_action *a = fixture_find(f, SC_ACT_SEND_STATE);

	assert_non_null(a);
	return &a->state;
}

static void laid(struct core_fixture *f)
{
	fixture_quiesced(f, true, FIXTURE_COUNT);
	fixture_answer(f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(f->conn.move, SC_MOVE_AWAITING_COUNT);
}

/* On the way to epoch 1, with requests in carrier 0 that the count does not tell of. */
static void awaiting_count(struct core_fixture *f)
{
	fixture_at(f, AT_QUIESCING);
	assert_string_equal(withheld(f, true, 0), "SEND_STATE");
	assert_int_equal(sent(f)->wants, 1);
	laid(f);
	assert_int_equal(sent(f)->wants, 1);
	assert_int_equal(sent(f)->wants_of, 0);
}

/* ---- who wants to know ---------------------------------------------------------------------- */

static void who_needs_no_number_asks_for_none(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	assert_string_equal(withheld(&f, false, 0), "");
	laid(&f);
	assert_int_equal(sent(&f)->wants, 0);
	assert_string_equal(peer_says(&f, SC_EXACT_LATER, 0), "SETTLE");
	assert_false(f.out.a[0].exact);
}

static void a_peer_that_tells_is_waited_for(void **state)
{
	struct core_fixture f;

	awaiting_count(&f);
	assert_string_equal(peer_says(&f, SC_EXACT_LATER, 0), "");
	assert_string_equal(fixture_timer(&f), "SEND_STATE");
	assert_int_equal(sent(&f)->ask, 1);
	assert_int_equal(sent(&f)->exact_seen, 0);
	assert_string_equal(peer_says(&f, SC_EXACT_TOLD, 0), "SEND_STATE SETTLE");
	assert_int_equal(sent(&f)->exact_seen, 1);
	assert_true(f.out.a[1].exact);
	assert_int_equal(f.out.a[1].exact_of, 0);
	assert_int_equal(f.out.a[1].exact_psn, PSN);
}

static void one_that_does_not_know_is_not(void **state)
{
	struct core_fixture f;

	awaiting_count(&f);
	assert_string_equal(peer_says(&f, SC_EXACT_UNKNOWN, 0), "SEND_STATE SETTLE");
	assert_int_equal(sent(&f)->exact_seen, 1);
	assert_false(f.out.a[1].exact);
}

/* It is switched off there. */
static void nor_one_that_never_tells(void **state)
{
	struct core_fixture f;

	awaiting_count(&f);
	assert_string_equal(peer_says(&f, SC_EXACT_SILENT, 0), "SETTLE");
	assert_false(f.out.a[0].exact);
}

static void a_number_before_the_receives_are_laid_is_kept(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	withheld(&f, true, 0);
	peer_says(&f, SC_EXACT_TOLD, 0);
	fixture_quiesced(&f, true, FIXTURE_COUNT);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_true(fixture_find(&f, SC_ACT_SETTLE)->exact);
}

/* Datagrams overtake each other. */
static void a_late_message_takes_nothing_back(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	withheld(&f, true, 0);
	peer_says(&f, SC_EXACT_TOLD, 0);
	peer_says(&f, SC_EXACT_LATER, 0);
	peer_says(&f, SC_EXACT_SILENT, 0);
	peer_says(&f, SC_EXACT_UNKNOWN, 0);
	fixture_quiesced(&f, true, FIXTURE_COUNT);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_true(fixture_find(&f, SC_ACT_SETTLE)->exact);
}

static void a_number_of_another_carrier_is_not_taken(void **state)
{
	struct core_fixture f;

	awaiting_count(&f);
	assert_string_equal(peer_says(&f, SC_EXACT_TOLD, 7), "");
	assert_string_equal(peer_says(&f, SC_EXACT_UNKNOWN, 7), "");
	assert_string_equal(peer_says(&f, SC_EXACT_TOLD, 0), "SEND_STATE SETTLE");
}

static void a_late_answer_of_the_engine_means_nothing(void **state)
{
	struct sc_event late = { .type = SC_EV_WITHHELD, .exact = true };
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	late.epoch = f.conn.epoch + 1;
	assert_string_equal(fixture_give(&f, &late), "");
	assert_false(f.conn.exact.wants);
	fixture_at(&f, AT_FALLBACK);
	late.epoch = f.conn.epoch;
	assert_string_equal(fixture_give(&f, &late), "");
	assert_false(f.conn.exact.wants);
}

static void without_a_carrier_there_is_nobody_to_hear(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_STRANDED);
	assert_string_equal(withheld(&f, true, 0), "");
}

/* ---- who is asked --------------------------------------------------------------------------- */

static void the_nic_is_asked_when_its_carriers_are_quiesced(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	assert_null(strstr(peer_wants(&f, 0, false), "ASK_PSN"));
	assert_string_equal(fixture_quiesced(&f, true, FIXTURE_COUNT), "SEAL LAY_RECEIVES ASK_PSN");
	assert_int_equal(f.out.a[2].epoch, 0);
	/* behind the count, in a message of its own */
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_LATER);
	assert_string_equal(told(&f, 0, true), "SEND_STATE");
	assert_int_equal(sent(&f)->exact, SC_EXACT_TOLD);
	assert_int_equal(sent(&f)->exact_of, 0);
	assert_int_equal(sent(&f)->exact_psn, PSN);
	assert_int_equal(sent(&f)->final, 1);
}

static void or_with_the_count_if_it_comes_before(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_LAYING);
	assert_non_null(strstr(peer_wants(&f, 0, false), "ASK_PSN"));
	assert_string_equal(told(&f, 0, true), "");
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_TOLD);
}

static void it_is_asked_once(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	assert_string_equal(peer_wants(&f, 0, true), "SETTLE ASK_PSN");
	assert_null(strstr(peer_wants(&f, 0, true), "ASK_PSN"));
	told(&f, 0, true);
	assert_null(strstr(peer_wants(&f, 0, true), "ASK_PSN"));
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	assert_null(fixture_find(&f, SC_ACT_ASK_PSN));
}

/* Also when this end has arrived: the peer waits. */
static void it_is_told_whenever_it_comes(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	assert_string_equal(told(&f, 0, true), "SEND_STATE");
	assert_int_equal(sent(&f)->exact, SC_EXACT_TOLD);
}

/* Its message may be lost, and who waits for it has perhaps no time to ask. */
static void it_is_repeated_until_it_is_seen(void **state)
{
	struct sc_msg_state m;
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	told(&f, 0, true);
	for (int i = 0; i < 3; i++) {
		while (!fixture_find(&f, SC_ACT_SEND_STATE) || !sent(&f)->ask)
			fixture_timer(&f);
		assert_int_equal(sent(&f)->exact, SC_EXACT_TOLD);
		f.out.n = 0;
	}
	m = final_of(&f);
	m.wants = m.exact_seen = 1;
	fixture_state_msg(&f, m);
	assert_int_equal(f.conn.resend_at, 0);
}

static void a_nic_that_does_not_know_is_believed(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	assert_string_equal(told(&f, 0, false), "SEND_STATE");
	assert_int_equal(sent(&f)->exact, SC_EXACT_UNKNOWN);
	assert_int_equal(sent(&f)->exact_psn, 0);
}

static void a_nic_that_does_not_answer_is_not_waited_for(void **state)
{
	struct core_fixture f;
	uint64_t until;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	until = f.now + f.conn.config.exact_ns;
	while (f.now < until) {
		assert_int_not_equal(f.conn.timer_at, 0);
		assert_true(f.conn.timer_at <= until);
		fixture_timer(&f);
	}
	assert_int_equal(sent(&f)->exact, SC_EXACT_UNKNOWN);
	/* what has been said stays said */
	assert_string_equal(told(&f, 0, true), "");
	peer_wants(&f, 0, true);
	assert_false(f.conn.exact.known);
}

static void a_late_answer_is_of_its_carrier(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	assert_string_equal(told(&f, 5, true), "");
	assert_string_equal(told(&f, 0, true), "SEND_STATE");
}

/* ---- whose word is not asked for ------------------------------------------------------------ */

static void a_sick_nic_is_not_asked(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_COUNTING);
	peer_wants(&f, 0, true);
	while (f.conn.move == SC_MOVE_COUNTING) {
		fixture_timer(&f);
		if (fixture_find(&f, SC_ACT_RECOUNT))
			fixture_quiesced(&f, false, FIXTURE_COUNT);
		assert_null(fixture_find(&f, SC_ACT_ASK_PSN));
	}
	assert_int_equal(f.conn.dead, f.conn.epoch);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_UNKNOWN);
}

static void nor_one_that_is_gone(void **state)
{
	struct sc_event gone = { .type = SC_EV_QUIESCED, .final = true, .disassociated = true };
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	peer_wants(&f, 0, false);
	gone.epoch = f.conn.epoch;
	assert_string_equal(fixture_give(&f, &gone), "SEAL LAY_RECEIVES");
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_UNKNOWN);
}

/* Anybody may write anything into a datagram. */
static void nor_is_one_of_a_carrier_that_is_not_left(void **state)
{
	static const uint32_t strange[] = { 1, 2, 0x7fffffff };
	struct core_fixture f;

	for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
		fixture_at(&f, AT_AWAITING_COUNT);
		peer_wants(&f, strange[i], true);
		assert_null(fixture_find(&f, SC_ACT_ASK_PSN));
		assert_int_equal(sent(&f)->exact, SC_EXACT_UNKNOWN);
		assert_int_equal(sent(&f)->exact_of, strange[i]);
	}
}

/* ---- from move to move ---------------------------------------------------------------------- */

/* The peer lost the new carrier before it had settled: its requests lie where they lay, and that is destroyed here. */
static void the_answer_serves_the_next_move(void **state)
{
	struct core_fixture f;
	struct sc_msg_state m;

	fixture_at(&f, AT_AWAITING_COUNT);
	peer_wants(&f, 0, true);
	told(&f, 0, true);
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	assert_non_null(fixture_find(&f, SC_ACT_DROP_OLD));
	fixture_fault(&f, SC_REASON_TRANSPORT, f.conn.epoch);
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
	fixture_paths(&f, 3, 3, 0);
	fixture_answer(&f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE);
	fixture_standby(&f, SC_STANDBY_MADE, SC_STANDBY_MADE, false);
	fixture_answer(&f, SC_EV_STANDBY_CONNECTED, true, SC_REASON_NONE);
	fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_READY, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	m = (struct sc_msg_state){ .epoch = f.conn.epoch, .leaving = 1, .wants = 1 };
	fixture_state_msg(&f, m);
	assert_string_equal(fixture_quiesced(&f, true, FIXTURE_COUNT), "SEAL LAY_RECEIVES");
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_TOLD);
	assert_int_equal(sent(&f)->exact_of, 0);
	assert_int_equal(sent(&f)->exact_psn, PSN);
}

static void what_was_wanted_is_forgotten_with_the_move(void **state)
{
	struct core_fixture f;

	awaiting_count(&f);
	peer_says(&f, SC_EXACT_TOLD, 0);
	fixture_answer(&f, SC_EV_SETTLED, true, SC_REASON_NONE);
	fixture_fault(&f, SC_REASON_TRANSPORT, f.conn.epoch);
	assert_false(f.conn.exact.wants);
	assert_int_equal(f.conn.peer.exact, SC_EXACT_SILENT);
	assert_int_equal(sent(&f)->wants, 0);
}

/* ---- switched off --------------------------------------------------------------------------- */

static void switched_off_it_is_as_before(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	f.conn.config.exact = false;
	assert_string_equal(withheld(&f, true, 0), "");
	peer_wants(&f, 0, false);
	assert_string_equal(fixture_quiesced(&f, true, FIXTURE_COUNT), "SEAL LAY_RECEIVES");
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	assert_int_equal(sent(&f)->exact, SC_EXACT_SILENT);
	assert_int_equal(sent(&f)->wants, 0);
	assert_string_equal(peer_says(&f, SC_EXACT_TOLD, 0), "SETTLE");
	assert_false(f.out.a[0].exact);
}

static void words_are_complete(void **state)
{
	for (int i = 0; i < SC_EXACTS; i++)
		assert_string_not_equal(sc_exact_name((enum sc_exact)i), "unknown");
	assert_string_equal(sc_exact_name(SC_EXACT_TOLD), "told");
	assert_string_equal(sc_exact_name((enum sc_exact)SC_EXACTS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_needs_no_number_asks_for_none),
		cmocka_unit_test(a_peer_that_tells_is_waited_for),
		cmocka_unit_test(one_that_does_not_know_is_not),
		cmocka_unit_test(nor_one_that_never_tells),
		cmocka_unit_test(a_number_before_the_receives_are_laid_is_kept),
		cmocka_unit_test(a_late_message_takes_nothing_back),
		cmocka_unit_test(a_number_of_another_carrier_is_not_taken),
		cmocka_unit_test(a_late_answer_of_the_engine_means_nothing),
		cmocka_unit_test(without_a_carrier_there_is_nobody_to_hear),
		cmocka_unit_test(the_nic_is_asked_when_its_carriers_are_quiesced),
		cmocka_unit_test(or_with_the_count_if_it_comes_before),
		cmocka_unit_test(it_is_asked_once),
		cmocka_unit_test(it_is_told_whenever_it_comes),
		cmocka_unit_test(it_is_repeated_until_it_is_seen),
		cmocka_unit_test(a_nic_that_does_not_know_is_believed),
		cmocka_unit_test(a_nic_that_does_not_answer_is_not_waited_for),
		cmocka_unit_test(a_late_answer_is_of_its_carrier),
		cmocka_unit_test(a_sick_nic_is_not_asked),
		cmocka_unit_test(nor_one_that_is_gone),
		cmocka_unit_test(nor_is_one_of_a_carrier_that_is_not_left),
		cmocka_unit_test(the_answer_serves_the_next_move),
		cmocka_unit_test(what_was_wanted_is_forgotten_with_the_move),
		cmocka_unit_test(switched_off_it_is_as_before),
		cmocka_unit_test(words_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
