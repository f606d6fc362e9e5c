/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The core's rules about time, messages and ends. */
#include "tests/lib/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS	   (1000ULL * 1000)
#define LEAVING(e) ((struct sc_msg_state){ .epoch = (e), .leaving = 1 })
#define FINAL(e, count)                                                                            \
	((struct sc_msg_state){ .epoch = (e), .final = 1, .quiesced = 1, .recv_count = (count) })

static void standby_message_tells_address_and_what_was_seen(void **state)
{
	struct core_fixture f;
	const struct sc_action *a;

	fixture_at(&f, AT_MADE);
	a = fixture_find(&f, SC_ACT_SEND_STANDBY);
	assert_non_null(a);
	assert_int_equal(a->standby.epoch, 1);
	assert_int_equal(a->standby.phase, SC_STANDBY_MADE);
	assert_int_equal(a->standby.seen, SC_STANDBY_NONE);
	assert_int_equal(a->standby.address.qpn, 0x111);

	fixture_standby(&f, SC_STANDBY_MADE, SC_STANDBY_NONE, false);
	a = fixture_find(&f, SC_ACT_STANDBY_CONNECT);
	assert_int_equal(a->address.qpn, 0x222);
	a = fixture_find(&f, SC_ACT_SEND_STANDBY);
	assert_int_equal(a->standby.seen, SC_STANDBY_MADE);
	assert_int_equal(a->standby.ask, 0);
}

static void standby_is_repeated_with_doubling_until_seen(void **state)
{
	struct core_fixture f;
	uint64_t sent, gap;

	fixture_at(&f, AT_MADE);
	sent = f.now;
	gap = f.conn.config.resend_min_ns;
	for (int i = 0; i < 4; i++, gap *= 2) {
		assert_int_equal(f.conn.timer_at, sent + gap);
		assert_string_equal(fixture_timer(&f), "SEND_STANDBY");
		assert_int_equal(f.out.a[0].standby.ask, 1);
		sent = f.now;
	}
	fixture_standby(&f, SC_STANDBY_MADE, SC_STANDBY_MADE, false);
	assert_int_equal(f.conn.standby.resend_at, 0);
}

static struct sc_msg_standby proposal(uint32_t epoch, enum sc_standby_phase phase)
{
	return (struct sc_msg_standby){ .epoch = epoch,
					.phase = (uint8_t)phase,
					.path = 1,
					.up = 3,
					.steady = 3,
					.masks_no = 1,
					.address = { .qpn = 0x222 } };
}

static const char *introduce(struct core_fixture *f, bool leader)
{
	struct sc_event e = { .type = SC_EV_INTRODUCED, .leader = leader };

	return fixture_give(f, &e);
}

/* An entry of the store that was left over named a process that has ended; then the peer's own is there. */
static void the_peer_that_speaks_says_who_leads(void **state)
{
	struct core_fixture f;

	fixture_init(&f, false);
	assert_int_equal(f.conn.standby.phase, SC_STANDBY_NONE);
	assert_string_equal(introduce(&f, true), "SEND_STANDBY STANDBY_MAKE SEND_STANDBY");
	assert_true(f.conn.leader);

	fixture_at(&f, AT_MADE);
	assert_string_equal(introduce(&f, false), "STANDBY_DROP SEND_STANDBY");
	fixture_standby_msg(&f, proposal(2, SC_STANDBY_MADE));
	assert_int_equal(f.conn.standby.phase, SC_STANDBY_MAKING);
	assert_int_equal(f.conn.standby.epoch, 2);
	assert_string_equal(introduce(&f, true), "");
	assert_false(f.conn.leader);
}

static void who_follows_asks_and_takes_what_is_proposed(void **state)
{
	struct core_fixture f;

	fixture_init(&f, false);
	assert_string_equal(f.line, "SEND_STANDBY");
	assert_int_equal(f.out.a[0].standby.ask, 1);
	fixture_standby_msg(&f, proposal(1, SC_STANDBY_MADE));
	assert_int_equal(fixture_find(&f, SC_ACT_STANDBY_MAKE)->path, 1);
	assert_int_equal(fixture_find(&f, SC_ACT_STANDBY_MAKE)->epoch, 1);
	assert_string_equal(fixture_answer(&f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE),
			    "SEND_STANDBY STANDBY_CONNECT");
	/* READY was heard before our own */
	fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_MADE, false);
	assert_string_equal(fixture_answer(&f, SC_EV_STANDBY_CONNECTED, true, SC_REASON_NONE),
			    "SEND_STANDBY GUARD REPORT");
	assert_true(sc_protected(&f.conn));
}

static void who_follows_takes_the_highest_number_only(void **state)
{
	struct core_fixture f;

	fixture_init(&f, false);
	fixture_standby_msg(&f, proposal(3, SC_STANDBY_MAKING));
	assert_int_equal(f.conn.standby.epoch, 3);
	assert_null(strstr(fixture_standby_msg(&f, proposal(2, SC_STANDBY_MADE)), "MAKE"));
	assert_int_equal(f.conn.standby.epoch, 3);
	assert_non_null(strstr(fixture_standby_msg(&f, proposal(4, SC_STANDBY_MAKING)),
			       "STANDBY_DROP STANDBY_MAKE"));
	assert_int_equal(f.conn.standby.epoch, 4);
}

static void a_leader_takes_nothing(void **state)
{
	struct core_fixture f;

	fixture_init(&f, true);
	assert_int_equal(f.conn.standby.epoch, 1);
	fixture_standby_msg(&f, proposal(7, SC_STANDBY_MADE));
	assert_int_equal(f.conn.standby.epoch, 1);
}

static void a_standby_that_comes_too_late_is_dropped(void **state)
{
	struct sc_event made = { .type = SC_EV_STANDBY_MADE, .epoch = 1, .ok = true };
	struct core_fixture f;

	fixture_at(&f, AT_HOME);
	made.epoch = 1; /* older than what is in use */
	assert_string_equal(fixture_give(&f, &made), "STANDBY_DROP");
	assert_int_equal(f.out.a[0].epoch, 1);
}

/* ---- the ordered switch --------------------------------------------------------------------- */

static void a_number_never_serves_twice(void **state)
{
	struct core_fixture f;
	struct sc_msg_state late;

	fixture_at(&f, AT_FENCED);
	late = (struct sc_msg_state){ .epoch = 1,
				      .phase = SC_SWITCH_FENCED,
				      .switch_no = f.conn.sw.no,
				      .target = f.conn.sw.target };
	fixture_switch(&f, SC_SWITCH_CANCEL);
	assert_int_equal(f.conn.send, SC_SEND_FALLBACK);
	fixture_state_msg(&f, late);
	assert_int_equal(f.conn.send, SC_SEND_FALLBACK);
	while (f.conn.send == SC_SEND_FALLBACK)
		fixture_timer(&f);
	assert_int_equal(f.conn.sw.no, late.switch_no + 1);
	fixture_type(&f, SC_EV_FENCE_LAID);
	fixture_type(&f, SC_EV_FENCED);
	fixture_state_msg(&f, late);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	fixture_switch(&f, SC_SWITCH_FENCED);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

/* Runs its timer until the switch is off or has left. */
static void wait_for_fence(struct core_fixture *f)
{
	for (int i = 0; i < 1000 && f->conn.move == SC_MOVE_NONE && f->conn.timer_at &&
			f->conn.sw.phase == SC_SWITCH_PREP;
	     i++)
		fixture_timer(f);
}

static void a_fence_that_does_not_complete_is_cancelled(void **state)
{
	struct core_fixture f;

	/* the peer is not fenced: nobody knows what it has */
	fixture_at(&f, AT_WAIT_DRAINED);
	wait_for_fence(&f);
	assert_int_equal(f.conn.send, SC_SEND_FALLBACK);
	assert_non_null(fixture_find(&f, SC_ACT_UNFENCE));
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.phase, SC_SWITCH_CANCEL);
}

static void a_fence_that_does_not_complete_leaves_to_a_fenced_peer(void **state)
{
	struct sc_event laid = { .type = SC_EV_FENCE_LAID, .atomics = true, .epoch = 1 };
	struct core_fixture f;

	fixture_at(&f, AT_WAIT_DRAINED);
	fixture_switch(&f, SC_SWITCH_FENCED);
	wait_for_fence(&f);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);

	/* but not with what cannot be repeated */
	fixture_at(&f, AT_WAIT_SIGNALED);
	fixture_give(&f, &laid);
	fixture_switch(&f, SC_SWITCH_FENCED);
	wait_for_fence(&f);
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
	assert_int_equal(f.conn.send, SC_SEND_FALLBACK);
}

static void who_is_fenced_waits_for_a_peer_that_is_heard(void **state)
{
	struct core_fixture f;
	uint64_t silence;

	fixture_at(&f, AT_FENCED);
	silence = f.conn.config.silence_ns;
	for (uint64_t end = f.now + 5 * silence; f.now < end;) {
		fixture_timer(&f);
		fixture_switch(&f, SC_SWITCH_PREP);
		assert_int_equal(f.conn.sw.phase, SC_SWITCH_FENCED);
	}
	for (int i = 0; i < 1000 && f.conn.move == SC_MOVE_NONE; i++)
		fixture_timer(&f);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
}

static void a_higher_number_of_the_peer_burns_the_own(void **state)
{
	struct core_fixture f;
	struct sc_msg_state m = { .epoch = 1, .phase = SC_SWITCH_PREP };

	fixture_at(&f, AT_FENCED);
	m.switch_no = f.conn.sw.no + 1;
	m.target = f.conn.sw.target;
	fixture_state_msg(&f, m);
	assert_int_equal(f.conn.sw.no, m.switch_no);
	assert_int_equal(f.conn.sw.phase, SC_SWITCH_PREP);
	assert_int_equal(f.conn.send, SC_SEND_WAIT_SIGNALED);
}

/* ---- stranded ------------------------------------------------------------------------------- */

static void who_is_stranded_tells_what_is_lost_and_goes_on(void **state)
{
	struct core_fixture f;
	const struct sc_action *a;

	fixture_at(&f, AT_UNPROTECTED);
	fixture_fault(&f, SC_REASON_TRANSPORT, 0);
	a = fixture_find(&f, SC_ACT_SEND_STATE);
	assert_int_equal(a->state.stranded, 1);
	assert_int_equal(a->state.lost, 1);
	a = fixture_find(&f, SC_ACT_STANDBY_MAKE);
	assert_int_equal(a->epoch, 2);
	fixture_answer(&f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE);
	fixture_standby(&f, SC_STANDBY_MADE, SC_STANDBY_MADE, false);
	fixture_answer(&f, SC_EV_STANDBY_CONNECTED, true, SC_REASON_NONE);
	fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_READY, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	assert_int_equal(f.conn.epoch, 2);
}

static void who_is_stranded_waits_no_longer_than_stock(void **state)
{
	struct core_fixture f;
	uint64_t lost;

	fixture_at(&f, AT_STRANDED);
	lost = f.now;
	for (int i = 0; i < 10000 && f.conn.move != SC_MOVE_ENDED; i++)
		fixture_timer(&f);
	assert_int_equal(fixture_find(&f, SC_ACT_FAIL)->reason, SC_REASON_NO_STANDBY);
	assert_in_range(f.now - lost, FIXTURE_RETRY_TIME_NS, f.conn.config.deadline_ns);
}

/* One of two paths whose heartbeats are answered; it was tried so often, with nothing completed. */
static const char *fruitless_fault(struct core_fixture *f, uint32_t tried, uint64_t for_ns,
				   bool fruitless)
{
	struct sc_event fault = { .type = SC_EV_FAULT,
				  .reason = SC_REASON_TRANSPORT,
				  .fruitless = fruitless };

	fixture_at(f, AT_PROTECTED);
	f->conn.fruitless = tried;
	f->conn.fruitless_since = f->now - for_ns;
	return fixture_give(f, &fault);
}

static void paths_that_pass_nothing_are_tried_twice_each(void **state)
{
	struct core_fixture f;

	fruitless_fault(&f, 0, 0, true);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	assert_int_equal(f.conn.fruitless, 1);
	fruitless_fault(&f, 2, FIXTURE_RETRY_TIME_NS, true);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	fruitless_fault(&f, 3, FIXTURE_RETRY_TIME_NS, true);
	assert_int_equal(f.conn.move, SC_MOVE_ENDED);
	assert_int_equal(fixture_find(&f, SC_ACT_FAIL)->reason, SC_REASON_TRANSPORT);
	/* not before the application's own patience */
	fruitless_fault(&f, 3, FIXTURE_RETRY_TIME_NS - 1, true);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	/* and what has passed begins the count anew */
	fruitless_fault(&f, 3, FIXTURE_RETRY_TIME_NS, false);
	assert_int_equal(f.conn.move, SC_MOVE_QUIESCING);
	assert_int_equal(f.conn.fruitless, 1);
}

/* A late report of the standby, which has come into use meanwhile. */
static void a_standby_lost_may_be_the_carrier(void **state)
{
	struct sc_event lost = { .type = SC_EV_STANDBY_LOST,
				 .reason = SC_REASON_DEVICE,
				 .epoch = 1 };
	struct core_fixture f;

	fixture_at(&f, AT_FALLBACK);
	fixture_give(&f, &lost);
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
}

/* ---- messages and counts -------------------------------------------------------------------- */

static void answers_do_not_chase_each_other(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_PROTECTED);
	assert_int_equal(f.conn.timer_at, 0);
	assert_string_equal(fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_READY, false), "");
	assert_string_equal(fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_READY, true),
			    "SEND_STANDBY");
	assert_int_equal(f.out.a[0].standby.ask, 0);

	fixture_at(&f, AT_FALLBACK);
	assert_string_equal(fixture_state_msg(&f, FINAL(1, 9)), "SEND_STATE");
	assert_int_equal(f.out.a[0].state.ask, 0);
	assert_int_equal(f.out.a[0].state.seen_epoch, 1);
}

static void a_late_ready_does_not_undo_a_failure(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_PROTECTED);
	fixture_standby(&f, SC_STANDBY_FAILED, SC_STANDBY_READY, false);
	assert_false(sc_protected(&f.conn));
	fixture_standby(&f, SC_STANDBY_READY, SC_STANDBY_READY, false);
	assert_false(sc_protected(&f.conn));
	assert_int_equal(f.conn.standby.phase, SC_STANDBY_FAILED);
}

static void the_whole_move(void **state)
{
	struct core_fixture f;
	const struct sc_action *a;

	fixture_at(&f, AT_PROTECTED);
	fixture_fault(&f, SC_REASON_PORT, 0);
	a = fixture_find(&f, SC_ACT_SEND_STATE);
	assert_int_equal(a->state.epoch, 1);
	assert_int_equal(a->state.leaving, 1);
	assert_int_equal(a->state.final, 0);
	assert_int_equal(a->state.quiesced, 0);
	assert_int_equal(a->state.reason, SC_REASON_PORT);
	/* the peer left too, and is not quiesced: it may be counting */
	fixture_state_msg(&f, LEAVING(1));
	assert_string_equal(fixture_quiesced(&f, true, 7), "SEAL LAY_RECEIVES");
	assert_string_equal(fixture_answer(&f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY),
			    "SEND_STATE");
	assert_int_equal(f.out.a[0].state.quiesced, 1);
	assert_int_equal(f.out.a[0].state.final, 0);
	assert_string_equal(fixture_answer(&f, SC_EV_RECEIVES_LAID, true, 0), "SEND_STATE");
	assert_int_equal(f.out.a[0].state.final, 1);
	assert_int_equal(f.out.a[0].state.leaving, 0);
	assert_int_equal(f.out.a[0].state.recv_count, 7);
	fixture_state_msg(&f, FINAL(1, 9));
	a = fixture_find(&f, SC_ACT_SETTLE);
	assert_int_equal(a->recv_count, 9);
	assert_int_equal(a->epoch, 1);
	assert_string_equal(fixture_answer(&f, SC_EV_SETTLED, true, 0),
			    "DROP_OLD REPORT STANDBY_MAKE SEND_STANDBY");
	assert_int_equal(f.conn.epoch, 1);
	assert_false(sc_protected(&f.conn));
}

static void the_answer_may_come_before_the_own_count(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	assert_string_equal(fixture_state_msg(&f, FINAL(1, 9)), "");
	fixture_quiesced(&f, true, 7);
	assert_string_equal(fixture_answer(&f, SC_EV_RECEIVES_LAID, true, 0), "SEND_STATE SETTLE");
	assert_int_equal(f.out.a[0].state.ask, 1);
	assert_int_equal(f.out.a[0].state.seen_epoch, 1);
}

/* The application polled one more of a sick NIC between the count and the seal. */
static void what_was_polled_before_the_seal_counts(void **state)
{
	struct sc_event laid = {
		.type = SC_EV_RECEIVES_LAID, .ok = true, .recv_count = 8, .epoch = 1
	};
	struct core_fixture f;

	fixture_at(&f, AT_QUIESCING);
	fixture_quiesced(&f, true, 7);
	fixture_give(&f, &laid);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.recv_count, 8);
}

static void a_second_count_is_not_believed(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_SETTLING);
	fixture_state_msg(&f, FINAL(1, 5));
	assert_int_equal(f.conn.peer.recv_count, FIXTURE_PEER_COUNT);
}

static void answers_of_an_earlier_epoch_are_ignored(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_AWAITING_COUNT);
	assert_string_equal(fixture_state_msg(&f, FINAL(0, 3)), "");
	assert_int_equal(f.conn.move, SC_MOVE_AWAITING_COUNT);
	/* but one that asks is behind: it gets ours */
	assert_string_equal(fixture_state_msg(&f, (struct sc_msg_state){ .epoch = 0, .ask = 1 }),
			    "SEND_STATE");
}

/* Over, and the peer has not shown that it has seen our count. */
static void settle_unseen(struct core_fixture *f)
{
	fixture_at(f, AT_AWAITING_COUNT);
	fixture_state_msg(f, FINAL(1, 9));
	fixture_answer(f, SC_EV_SETTLED, true, SC_REASON_NONE);
}

static void state_is_repeated_until_the_final_one_was_seen(void **state)
{
	struct core_fixture f;

	settle_unseen(&f);
	assert_string_equal(fixture_timer(&f), "SEND_STATE");
	assert_int_equal(f.out.a[0].state.ask, 1);
	assert_int_equal(f.out.a[0].state.final, 1);
	fixture_state_msg(&f, (struct sc_msg_state){ .epoch = 1, .final = 1, .seen_epoch = 1 });
	assert_int_equal(f.conn.timer_at, 0);
}

/* Of many in a row all were lost. What comes of the peer shows that there is a way again. */
static void any_word_of_the_peer_brings_the_state_forward(void **state)
{
	struct sc_msg_standby word = { .epoch = 1, .up = 3, .steady = 3, .masks_no = 1 };
	struct core_fixture f;
	uint64_t min, first;

	fixture_at(&f, AT_AWAITING_COUNT);
	min = f.conn.config.resend_min_ns;
	f.conn.config.busy_ns = first = 8 * min; /* patience with its commands, not with the way */
	for (int i = 0; i < 6; i++)
		fixture_timer(&f);
	assert_true(f.conn.resend_at > f.now + first);
	f.now += 2 * min;
	fixture_standby_msg(&f, word);
	assert_int_equal(f.conn.resend_at, f.now);
	assert_true(f.conn.timer_at <= f.now);
	assert_string_equal(fixture_type(&f, SC_EV_TIMER), "SEND_STATE");
	assert_int_equal(f.out.a[0].state.ask, 1);
	/* not more often, however many come */
	fixture_standby_msg(&f, word);
	assert_int_equal(f.conn.resend_at, f.now + min);
	fixture_standby_msg(&f, word);
	assert_int_equal(f.conn.resend_at, f.now + min);
}

static void a_peer_that_never_saw_it_is_given_up_in_the_end(void **state)
{
	struct core_fixture f;
	int sent = 0;

	settle_unseen(&f);
	while (f.conn.resend_at && sent < 1000) {
		fixture_timer(&f);
		sent++;
	}
	assert_in_range(sent, 10, 200);
}

static void sick_nic_counts_after_the_peer_is_quiesced(void **state)
{
	struct core_fixture f;
	uint64_t lifetime;

	fixture_at(&f, AT_COUNTING);
	lifetime = f.conn.config.packet_lifetime_ns;
	assert_int_equal(f.conn.lifetime_until, 0);
	fixture_state_msg(&f, LEAVING(1));
	assert_int_equal(f.conn.lifetime_until, 0);
	fixture_state_msg(&f, (struct sc_msg_state){ .epoch = 1, .leaving = 1, .quiesced = 1 });
	assert_int_equal(f.conn.lifetime_until, f.now + lifetime);

	f.now += lifetime;
	fixture_type(&f, SC_EV_TIMER);
	assert_non_null(fixture_find(&f, SC_ACT_RECOUNT));
	assert_string_equal(fixture_quiesced(&f, false, 7), "");
	f.now += f.conn.config.settle_ns;
	fixture_type(&f, SC_EV_TIMER);
	assert_non_null(fixture_find(&f, SC_ACT_RECOUNT));
	/* it moved: once more */
	assert_string_equal(fixture_quiesced(&f, false, 8), "");
	f.now += f.conn.config.settle_ns;
	fixture_type(&f, SC_EV_TIMER);
	assert_string_equal(fixture_quiesced(&f, false, 8), "SEAL LAY_RECEIVES");
	assert_int_equal(f.conn.recv_count, 8);
}

static void a_device_that_is_gone_counts_at_once(void **state)
{
	struct sc_event gone = {
		.type = SC_EV_QUIESCED, .disassociated = true, .recv_count = 4, .epoch = 1
	};
	struct core_fixture f;

	fixture_at(&f, AT_COUNTING);
	assert_string_equal(fixture_give(&f, &gone), "SEAL LAY_RECEIVES");
	fixture_at(&f, AT_QUIESCING);
	assert_string_equal(fixture_give(&f, &gone), "SEAL LAY_RECEIVES");
}

static void missing_keys_are_tried_again(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_LAYING);
	assert_string_equal(fixture_answer(&f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY), "");
	fixture_timer(&f);
	assert_non_null(fixture_find(&f, SC_ACT_LAY_RECEIVES));
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	fixture_state_msg(&f, FINAL(1, 9));
	fixture_answer(&f, SC_EV_SETTLED, false, SC_REASON_KEY);
	fixture_timer(&f);
	assert_int_equal(fixture_find(&f, SC_ACT_SETTLE)->recv_count, 9);
	assert_string_equal(fixture_answer(&f, SC_EV_SETTLED, true, 0), "DROP_OLD REPORT");
}

static enum sc_reason run_to_fail(struct core_fixture *f, bool peer_talks, bool answer_key)
{
	for (int i = 0; i < 10000 && f->conn.timer_at; i++) {
		fixture_timer(f);
		if (fixture_find(f, SC_ACT_FAIL))
			return fixture_find(f, SC_ACT_FAIL)->reason;
		if (fixture_find(f, SC_ACT_LAY_RECEIVES) && answer_key)
			fixture_answer(f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY);
		if (peer_talks)
			fixture_state_msg(f, LEAVING(1));
	}
	return SC_REASON_NONE;
}

/* It may be stopped: stock would not know. */
static void a_silent_peer_has_the_retry_time(void **state)
{
	struct core_fixture f;
	uint64_t left;

	fixture_at(&f, AT_AWAITING_COUNT);
	left = f.now;
	f.conn.beyond = false;
	f.conn.config.retry_time_ns = f.conn.config.deadline_ns * 4;
	f.conn.deadline_at = left + f.conn.config.retry_time_ns;
	assert_int_equal(run_to_fail(&f, false, false), SC_REASON_DEADLINE);
	assert_int_equal(f.now, left + f.conn.config.retry_time_ns);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.flags, SC_FLAG_FATAL);
}

/* IBA 9.7.6.1.3: stock's NIC may retry for four times the nominal time. Where it has given up already, nothing is outlived. */
static void retries_may_last_four_times_as_long(void **state)
{
	static const enum sc_reason reasons[] = { SC_REASON_PORT, SC_REASON_TRANSPORT };
	struct core_fixture f;

	for (int i = 0; i < 2; i++) {
		uint64_t left, times = reasons[i] == SC_REASON_PORT ? SC_RETRY_STRETCH : 1;

		fixture_at(&f, AT_PROTECTED);
		left = f.now;
		f.conn.config.retry_time_ns = f.conn.config.deadline_ns * 2;
		fixture_fault(&f, reasons[i], 0);
		assert_int_equal(run_to_fail(&f, true, false), SC_REASON_DEADLINE);
		assert_int_equal(f.now - left, times * f.conn.config.retry_time_ns +
						       8 * f.conn.config.packet_lifetime_ns);
	}
}

static void a_peer_that_talks_has_the_retry_time(void **state)
{
	struct core_fixture f;
	uint64_t left;

	fixture_at(&f, AT_AWAITING_COUNT);
	left = f.now;
	assert_int_equal(run_to_fail(&f, true, false), SC_REASON_DEADLINE);
	assert_int_equal(f.now - left,
			 f.conn.config.silence_ns + 8 * f.conn.config.packet_lifetime_ns);

	/* not a transport error here: nothing has been retried yet */
	fixture_at(&f, AT_PROTECTED);
	fixture_fault(&f, SC_REASON_PORT, 0);
	left = f.now;
	assert_int_equal(run_to_fail(&f, true, false), SC_REASON_DEADLINE);
	assert_int_equal(f.now - left,
			 f.conn.config.deadline_ns + 8 * f.conn.config.packet_lifetime_ns);
}

/* On stock only its own requests end a QP; and a NIC that died would have ended any. */
static void who_has_nothing_to_send_is_not_ended(void **state)
{
	struct sc_event timer = { .type = SC_EV_TIMER, .idle = true };
	struct core_fixture f;
	uint64_t asked;

	fixture_at(&f, AT_PROTECTED);
	fixture_fault(&f, SC_REASON_PORT, 0);
	for (int i = 0; i < 10000; i++) {
		f.now = f.conn.timer_at;
		fixture_give(&f, &timer);
	}
	assert_int_not_equal(f.conn.move, SC_MOVE_ENDED);
	asked = f.now;
	assert_int_equal(run_to_fail(&f, false, false), SC_REASON_DEADLINE);
	assert_true(f.now - asked >= f.conn.config.deadline_ns);

	fixture_at(&f, AT_PROTECTED);
	fixture_fault(&f, SC_REASON_DEVICE, 0);
	for (int i = 0; i < 10000 && f.conn.move != SC_MOVE_ENDED; i++) {
		f.now = f.conn.timer_at;
		fixture_give(&f, &timer);
	}
	assert_int_equal(f.conn.move, SC_MOVE_ENDED);
}

static void at_fallback(struct core_fixture *f, enum sc_reason reason)
{
	fixture_at(f, AT_FALLBACK);
	f->conn.beyond = reason == SC_REASON_DEVICE;
}

static void give_dark(struct core_fixture *f, bool dark, uint64_t silent_ns)
{
	fixture_give(f,
		     &(struct sc_event){ .type = SC_EV_DARK, .ok = dark, .silent_ns = silent_ns });
}

/* Timers until it ended or that much time is over. */
static bool ends_within(struct core_fixture *f, uint64_t ns, bool idle)
{
	uint64_t until = f->now + ns;

	while (f->conn.move != SC_MOVE_ENDED && f->conn.timer_at && f->conn.timer_at <= until) {
		f->now = f->conn.timer_at;
		fixture_give(f, &(struct sc_event){ .type = SC_EV_TIMER, .idle = idle });
	}
	return f->conn.move == SC_MOVE_ENDED;
}

/* The default NIC had died, and then no path to the peer has an answer: both its NICs may be dead. */
static void who_waits_in_the_dark_is_ended(void **state)
{
	struct core_fixture f;
	uint64_t full, said = 3000ULL * 1000 * 1000;

	at_fallback(&f, SC_REASON_DEVICE);
	full = f.conn.config.deadline_ns + 8 * f.conn.config.packet_lifetime_ns;
	give_dark(&f, true, said);
	assert_false(ends_within(&f, full - said - 1, true));
	assert_true(ends_within(&f, full, true));
	assert_int_equal(fixture_find(&f, SC_ACT_FAIL)->reason, SC_REASON_DEADLINE);

	at_fallback(&f, SC_REASON_DEVICE);
	give_dark(&f, true, 0);
	assert_false(ends_within(&f, full / 2, true));
	give_dark(&f, false, 0);
	assert_false(ends_within(&f, 10 * full, true));

	/* its own retries will tell */
	at_fallback(&f, SC_REASON_DEVICE);
	give_dark(&f, true, 0);
	assert_false(ends_within(&f, 10 * full, false));

	/* stock would wait too */
	at_fallback(&f, SC_REASON_PORT);
	give_dark(&f, true, 0);
	assert_false(ends_within(&f, 10 * full, true));
}

/* From path 1 to path 0, which had been left while it could come back. */
static void at_returning(struct core_fixture *f)
{
	fixture_at(f, AT_RETURNING);
	f->conn.beyond = false;
}

/* c->path is that to come: why the peer left another one says nothing of it. */
static void a_reason_is_of_the_path_that_was_left(void **state)
{
	struct core_fixture f;
	struct sc_event event = { .type = SC_EV_MSG_STATE };

	at_returning(&f);
	assert_int_equal(f.conn.path, 0);
	event.state = (struct sc_msg_state){ .epoch = f.conn.epoch,
					     .stranded = 1,
					     .leaving = 1,
					     .lost = f.conn.epoch,
					     .reason = SC_REASON_TRANSPORT };
	fixture_give(&f, &event);
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
	assert_false(f.conn.beyond);
	at_returning(&f);
	fixture_fault(&f, SC_REASON_PORT, f.conn.epoch);
	assert_int_equal(f.conn.reason, SC_REASON_PORT);
	assert_false(f.conn.beyond);
	at_returning(&f);
	fixture_fault(&f, SC_REASON_DEVICE, f.conn.epoch);
	assert_true(f.conn.beyond);
}

static void the_operators_limit_ends_a_move(void **state)
{
	struct core_fixture f;
	uint64_t left;

	fixture_at(&f, AT_PROTECTED);
	f.conn.config.limit_ns = 700 * 1000 * 1000;
	left = f.now;
	fixture_fault(&f, SC_REASON_PORT, 0);
	assert_int_equal(run_to_fail(&f, true, false), SC_REASON_DEADLINE);
	assert_int_equal(f.now - left, f.conn.config.limit_ns);
}

/* Posted behind a move, for a key or another thing of the peer. */
static void the_operators_limit_holds_for_a_request_that_waits(void **state)
{
	struct sc_config config = { .deadline_ns = 10, .retry_time_ns = 7 };

	assert_int_equal(sc_patience_ns(&config), 10);
	config.retry_time_ns = 20;
	assert_int_equal(sc_patience_ns(&config), 20);
	config.limit_ns = 3;
	assert_int_equal(sc_patience_ns(&config), 3);
	config.limit_ns = 30;
	assert_int_equal(sc_patience_ns(&config), 20);
}

static void keys_that_never_come_end_the_move(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_LAYING);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY);
	assert_int_equal(run_to_fail(&f, true, true), SC_REASON_KEY);
}

/* A return that nobody forced: where it lived well it goes on, and it tries again later. */
static void a_return_without_its_keys_turns_back(void **state)
{
	struct core_fixture f;
	uint64_t left;

	fixture_at(&f, AT_RETURNING);
	left = f.now;
	fixture_quiesced(&f, true, FIXTURE_COUNT);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY);
	while (!fixture_find(&f, SC_ACT_STANDBY_MAKE)) {
		assert_true(f.now < left + 2 * f.conn.config.fence_ns);
		fixture_timer(&f);
		assert_null(fixture_find(&f, SC_ACT_FAIL));
		if (fixture_find(&f, SC_ACT_LAY_RECEIVES))
			fixture_answer(&f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY);
	}
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
	assert_int_equal(fixture_find(&f, SC_ACT_STANDBY_MAKE)->path, 1);
	assert_true(f.conn.sw.turned_back);
}

/* What waits is not a key, and the reason says so. */
static void atomics_that_may_never_run_end_the_move(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_LAYING);
	fixture_answer(&f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	fixture_state_msg(&f, FINAL(1, 9));
	fixture_answer(&f, SC_EV_SETTLED, false, SC_REASON_HOME);
	fixture_timer(&f);
	assert_non_null(fixture_find(&f, SC_ACT_SETTLE));
	fixture_answer(&f, SC_EV_SETTLED, false, SC_REASON_HOME);
	assert_int_equal(run_to_fail(&f, true, true), SC_REASON_HOME);
}

static void last_words_are_repeated_and_stop(void **state)
{
	struct core_fixture f;
	int sent = 0;

	fixture_at(&f, AT_CLOSED);
	assert_int_equal(fixture_find(&f, SC_ACT_SEND_STATE)->state.flags, SC_FLAG_CLOSED);
	while (f.conn.timer_at && sent < 100) {
		assert_string_equal(fixture_timer(&f), "SEND_STATE");
		sent++;
	}
	assert_int_equal(sent, 32);

	fixture_at(&f, AT_CLOSED);
	fixture_state_msg(&f, (struct sc_msg_state){ .flags = SC_FLAG_CLOSED });
	assert_int_equal(f.conn.timer_at, 0);
}

static void an_ended_side_answers_who_goes_on(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_CLOSED);
	assert_string_equal(fixture_state_msg(&f, LEAVING(1)), "SEND_STATE");
	assert_int_equal(f.out.a[0].state.flags, SC_FLAG_CLOSED);
	assert_string_equal(fixture_state_msg(&f, (struct sc_msg_state){ .flags = 1, .ask = 0 }),
			    "");
}

static void errors_withheld_at_the_end_are_released(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_PROTECTED);
	fixture_state_msg(&f, (struct sc_msg_state){ .flags = SC_FLAG_CLOSED });
	assert_string_equal(fixture_fault(&f, SC_REASON_TRANSPORT, 0), "FAIL");
	assert_string_equal(fixture_fault(&f, SC_REASON_TRANSPORT, 0), "");
}

static void unknown_before_anything_was_heard_is_only_early(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_MADE);
	assert_string_equal(fixture_type(&f, SC_EV_MSG_UNKNOWN), "");
	assert_int_equal(f.conn.move, SC_MOVE_NONE);
}

static void a_dead_backup_nic_strands_a_fallback(void **state)
{
	struct core_fixture f;

	fixture_at(&f, AT_FALLBACK);
	assert_string_equal(fixture_fault(&f, SC_REASON_DEVICE, 0), "");
	/* a port may come back within the retry time */
	assert_string_equal(fixture_fault(&f, SC_REASON_PORT, 1), "");
	fixture_fault(&f, SC_REASON_DEVICE, 1);
	assert_int_equal(f.conn.move, SC_MOVE_STRANDED);
}

static void names_are_complete(void **state)
{
	for (int i = 0; i < SC_REASONS; i++) {
		assert_string_not_equal(sc_reason_name((enum sc_reason)i), "unknown");
		assert_string_not_equal(sc_reason_text((enum sc_reason)i), "unknown");
	}
	for (int i = 0; i < SC_EVENT_TYPES; i++)
		assert_string_not_equal(sc_event_name((enum sc_event_type)i), "unknown");
	for (int i = 0; i <= SC_ACT_REPORT; i++)
		assert_string_not_equal(sc_action_name((enum sc_action_type)i), "unknown");
	for (int i = 0; i <= SC_MOVE_ENDED; i++)
		assert_string_not_equal(sc_move_phase_name((enum sc_move_phase)i), "unknown");
	assert_string_equal(sc_reason_name((enum sc_reason)250), "unknown");
	assert_string_equal(sc_send_state_name(SC_SEND_WAIT_DRAINED), "WAIT_DRAINED");
	assert_string_equal(sc_recv_state_name(SC_RECV_FALLBACK), "FALLBACK");
	assert_string_equal(sc_standby_phase_name(SC_STANDBY_FAILED), "FAILED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(standby_message_tells_address_and_what_was_seen),
		cmocka_unit_test(standby_is_repeated_with_doubling_until_seen),
		cmocka_unit_test(the_peer_that_speaks_says_who_leads),
		cmocka_unit_test(who_follows_asks_and_takes_what_is_proposed),
		cmocka_unit_test(who_follows_takes_the_highest_number_only),
		cmocka_unit_test(a_leader_takes_nothing),
		cmocka_unit_test(a_standby_that_comes_too_late_is_dropped),
		cmocka_unit_test(a_number_never_serves_twice),
		cmocka_unit_test(a_fence_that_does_not_complete_is_cancelled),
		cmocka_unit_test(a_fence_that_does_not_complete_leaves_to_a_fenced_peer),
		cmocka_unit_test(who_is_fenced_waits_for_a_peer_that_is_heard),
		cmocka_unit_test(a_higher_number_of_the_peer_burns_the_own),
		cmocka_unit_test(who_is_stranded_tells_what_is_lost_and_goes_on),
		cmocka_unit_test(who_is_stranded_waits_no_longer_than_stock),
		cmocka_unit_test(paths_that_pass_nothing_are_tried_twice_each),
		cmocka_unit_test(a_standby_lost_may_be_the_carrier),
		cmocka_unit_test(answers_do_not_chase_each_other),
		cmocka_unit_test(a_late_ready_does_not_undo_a_failure),
		cmocka_unit_test(the_whole_move),
		cmocka_unit_test(the_answer_may_come_before_the_own_count),
		cmocka_unit_test(what_was_polled_before_the_seal_counts),
		cmocka_unit_test(a_second_count_is_not_believed),
		cmocka_unit_test(answers_of_an_earlier_epoch_are_ignored),
		cmocka_unit_test(state_is_repeated_until_the_final_one_was_seen),
		cmocka_unit_test(any_word_of_the_peer_brings_the_state_forward),
		cmocka_unit_test(a_peer_that_never_saw_it_is_given_up_in_the_end),
		cmocka_unit_test(sick_nic_counts_after_the_peer_is_quiesced),
		cmocka_unit_test(a_device_that_is_gone_counts_at_once),
		cmocka_unit_test(missing_keys_are_tried_again),
		cmocka_unit_test(a_silent_peer_has_the_retry_time),
		cmocka_unit_test(retries_may_last_four_times_as_long),
		cmocka_unit_test(a_peer_that_talks_has_the_retry_time),
		cmocka_unit_test(who_has_nothing_to_send_is_not_ended),
		cmocka_unit_test(who_waits_in_the_dark_is_ended),
		cmocka_unit_test(a_reason_is_of_the_path_that_was_left),
		cmocka_unit_test(the_operators_limit_ends_a_move),
		cmocka_unit_test(the_operators_limit_holds_for_a_request_that_waits),
		cmocka_unit_test(keys_that_never_come_end_the_move),
		cmocka_unit_test(a_return_without_its_keys_turns_back),
		cmocka_unit_test(atomics_that_may_never_run_end_the_move),
		cmocka_unit_test(last_words_are_repeated_and_stop),
		cmocka_unit_test(an_ended_side_answers_who_goes_on),
		cmocka_unit_test(errors_withheld_at_the_end_are_released),
		cmocka_unit_test(unknown_before_anything_was_heard_is_only_early),
		cmocka_unit_test(a_dead_backup_nic_strands_a_fallback),
		cmocka_unit_test(names_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
