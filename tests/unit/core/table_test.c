/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every state against every event: the actions and where it leads. `core_table_test --dump` prints
 * the table as the core has it, to be read before it is taken over.
 */
#include "tests/lib/core_fixture.h"
#include "tests/unit/core/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *give_message(struct core_fixture *f, enum input in)
{
	struct sc_msg_state m = { .epoch = fixture_target(f) };

	if (in == IN_LEAVING || in == IN_WANTS)
		m.leaving = 1;
	m.wants = in == IN_WANTS;
	if (in == IN_FINAL) {
		m.final = m.quiesced = 1;
		m.recv_count = FIXTURE_PEER_COUNT;
	}
	if (in == IN_STATE_LOWER)
		m = (struct sc_msg_state){ .epoch = f->conn.epoch - 1, .final = 1, .quiesced = 1 };
	if (in == IN_STATE_SKIPPED)
		m.epoch += 2;
	if (in == IN_FATAL)
		m.flags = SC_FLAG_FATAL;
	if (in == IN_CLOSED)
		m.flags = SC_FLAG_CLOSED;
	return fixture_state_msg(f, m);
}

static const char *give_switch(struct core_fixture *f, enum input in)
{
	struct sc_msg_state m = { .epoch = f->conn.epoch };

	if (in == IN_PEER_STRANDED) {
		m.stranded = 1;
		m.lost = f->conn.epoch ? f->conn.epoch : 1;
	} else {
		m.phase = SC_SWITCH_PREP;
		m.switch_no = f->conn.sw.no + 1;
		m.target = f->conn.standby.epoch;
	}
	return fixture_state_msg(f, m);
}

static const char *give_peer(struct core_fixture *f, enum input in)
{
	switch (in) {
	case IN_PEER_MADE: return fixture_standby(f, SC_STANDBY_MADE, SC_STANDBY_NONE, false);
	case IN_PEER_READY: return fixture_standby(f, SC_STANDBY_READY, SC_STANDBY_MADE, false);
	case IN_PEER_STANDBY_FAILED:
		return fixture_standby(f, SC_STANDBY_FAILED, SC_STANDBY_NONE, false);
	case IN_LEAVING:
	case IN_WANTS:
	case IN_FINAL:
	case IN_STATE_LOWER:
	case IN_STATE_SKIPPED:
	case IN_FATAL:
	case IN_CLOSED: return give_message(f, in);
	case IN_PEER_STRANDED:
	case IN_PEER_PREP: return give_switch(f, in);
	case IN_PEER_FENCED: return fixture_switch(f, SC_SWITCH_FENCED);
	case IN_PEER_CANCEL: return fixture_switch(f, SC_SWITCH_CANCEL);
	case IN_UNKNOWN: return fixture_type(f, SC_EV_MSG_UNKNOWN);
	default: return NULL;
	}
}

static const char *give_own(struct core_fixture *f, enum input in)
{
	const struct sc_conn *c = &f->conn;

	switch (in) {
	case IN_INTRODUCED: return fixture_type(f, SC_EV_INTRODUCED);
	case IN_PATHS_DOWN: return fixture_paths(f, 2, 2, 0);
	case IN_PATHS_WELL: return fixture_paths(f, 3, 3, 0);
	case IN_DRAIN: return fixture_paths(f, c->paths.up, c->paths.steady, 1);
	case IN_FAULT: return fixture_fault(f, SC_REASON_TRANSPORT, c->epoch);
	case IN_FAULT_OLD: return fixture_fault(f, SC_REASON_TRANSPORT, c->epoch - 1);
	case IN_FAULT_NEXT: return fixture_fault(f, SC_REASON_TRANSPORT, fixture_target(f));
	case IN_PORT: return fixture_fault(f, SC_REASON_PORT, c->epoch);
	case IN_APP_ERROR: return fixture_type(f, SC_EV_APP_ERROR);
	case IN_APP_CLOSED: return fixture_type(f, SC_EV_APP_CLOSED);
	case IN_FENCE_LAID: return fixture_type(f, SC_EV_FENCE_LAID);
	case IN_FENCED: return fixture_type(f, SC_EV_FENCED);
	case IN_PATH_UP: return fixture_type(f, SC_EV_PATH_UP);
	case IN_TIMER: return fixture_timer(f);
	default: return NULL;
	}
}

static const char *give_exact(struct core_fixture *f, enum sc_event_type type, uint32_t epoch)
{
	struct sc_event e = { .type = type, .epoch = epoch, .ok = true, .exact = true, .psn = 7 };

	return fixture_give(f, &e);
}

static const char *give_answer(struct core_fixture *f, enum input in)
{
	switch (in) {
	case IN_MADE: return fixture_answer(f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE);
	case IN_CONNECTED: return fixture_answer(f, SC_EV_STANDBY_CONNECTED, true, 0);
	case IN_STANDBY_FAILED:
		return fixture_answer(f, SC_EV_STANDBY_FAILED, false, SC_REASON_RESOURCE);
	case IN_STANDBY_LOST: return fixture_answer(f, SC_EV_STANDBY_LOST, false, SC_REASON_PORT);
	case IN_WITHHELD: return give_exact(f, SC_EV_WITHHELD, f->conn.epoch);
	case IN_PSN: return give_exact(f, SC_EV_PSN, 0);
	case IN_QUIESCED: return fixture_quiesced(f, true, FIXTURE_COUNT);
	case IN_QUIESCED_SICK: return fixture_quiesced(f, false, FIXTURE_COUNT);
	case IN_LAID: return fixture_answer(f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	case IN_LAID_KEY: return fixture_answer(f, SC_EV_RECEIVES_LAID, false, SC_REASON_KEY);
	case IN_LAID_BAD: return fixture_answer(f, SC_EV_RECEIVES_LAID, false, SC_REASON_RESOURCE);
	case IN_SETTLED: return fixture_answer(f, SC_EV_SETTLED, true, SC_REASON_NONE);
	case IN_SETTLED_KEY: return fixture_answer(f, SC_EV_SETTLED, false, SC_REASON_KEY);
	case IN_SETTLED_ATOMIC: return fixture_answer(f, SC_EV_SETTLED, false, SC_REASON_ATOMIC);
	default: return NULL;
	}
}

static const char *give_input(struct core_fixture *f, enum input in)
{
	const char *line = give_own(f, in);

	if (!line)
		line = give_peer(f, in);
	return line ? line : give_answer(f, in);
}

static bool same_place(const struct cell *a, const struct sc_conn *c)
{
	return a->send == c->send && a->move == c->move && a->standby == c->standby.phase;
}

static struct cell expected(enum fixture_state state, enum input in, const struct core_fixture *f)
{
	if (table[state][in].actions)
		return table[state][in];
	return (struct cell){ "", f->conn.send, f->conn.move, f->conn.standby.phase };
}

static void check_cell(enum fixture_state state, enum input in)
{
	struct core_fixture f;
	struct cell want;
	const char *line;

	fixture_at(&f, state);
	want = expected(state, in, &f);
	line = give_input(&f, in);
	if (strcmp(line, want.actions) || !same_place(&want, &f.conn))
		fail_msg("%s + %s: '%s' -> %s %s %s, expected '%s' -> %s %s %s",
			 fixture_state_names[state], input_names[in], line,
			 sc_send_state_name(f.conn.send), sc_move_phase_name(f.conn.move),
			 sc_standby_phase_name(f.conn.standby.phase), want.actions,
			 sc_send_state_name(want.send), sc_move_phase_name(want.move),
			 sc_standby_phase_name(want.standby));
}

static void dump_cell(enum fixture_state state, enum input in)
{
	struct core_fixture f;
	struct cell before;
	const char *line;

	fixture_at(&f, state);
	before = (struct cell){ "", f.conn.send, f.conn.move, f.conn.standby.phase };
	line = give_input(&f, in);
	if (line[0] || !same_place(&before, &f.conn))
		printf("\t\t[IN_%s] = { \"%s\", TO(%s, %s, %s) },\n", input_names[in], line,
		       sc_send_state_name(f.conn.send), sc_move_phase_name(f.conn.move),
		       sc_standby_phase_name(f.conn.standby.phase));
}

static void dump(void)
{
	for (enum fixture_state s = AT_NEW; s < FIXTURE_STATES; s++) {
		printf("\t[AT_%s] = {\n", fixture_state_names[s]);
		for (enum input in = IN_INTRODUCED; in < INPUTS; in++)
			dump_cell(s, in);
		printf("\t},\n");
	}
}

static void every_state_meets_every_event(void **state)
{
	for (enum fixture_state s = AT_NEW; s < FIXTURE_STATES; s++)
		for (enum input in = IN_INTRODUCED; in < INPUTS; in++)
			check_cell(s, in);
}

/* Whatever comes twice does what it did, or nothing: no event traps, nothing leaves ENDED. */
static void no_pair_of_events_traps(void **state)
{
	struct core_fixture f;

	for (enum fixture_state s = AT_NEW; s < FIXTURE_STATES; s++) {
		for (enum input a = IN_INTRODUCED; a < INPUTS; a++) {
			for (enum input b = IN_INTRODUCED; b < INPUTS; b++) {
				bool ended;

				fixture_at(&f, s);
				give_input(&f, a);
				ended = f.conn.move == SC_MOVE_ENDED;
				give_input(&f, b);
				assert_true(!ended || f.conn.move == SC_MOVE_ENDED);
				assert_true(f.conn.move == SC_MOVE_NONE ||
					    f.conn.move == SC_MOVE_ENDED || f.conn.guarded);
			}
		}
	}
}

/* As the names say. */
static void every_state_was_reached(void **state)
{
	static const enum sc_move_phase moves[FIXTURE_STATES] = {
		[AT_QUIESCING] = SC_MOVE_QUIESCING, [AT_COUNTING] = SC_MOVE_COUNTING,
		[AT_LAYING] = SC_MOVE_LAYING,	    [AT_AWAITING_COUNT] = SC_MOVE_AWAITING_COUNT,
		[AT_SETTLING] = SC_MOVE_SETTLING,   [AT_STRANDED] = SC_MOVE_STRANDED,
		[AT_RETURNING] = SC_MOVE_QUIESCING, [AT_CLOSED] = SC_MOVE_ENDED,
		[AT_FAILED] = SC_MOVE_ENDED,
	};
	static const enum sc_send_state sends[FIXTURE_STATES] = {
		[AT_FALLBACK] = SC_SEND_FALLBACK,
		[AT_BACK_MAKING] = SC_SEND_FALLBACK,
		[AT_WAIT_SIGNALED] = SC_SEND_WAIT_SIGNALED,
		[AT_WAIT_DRAINED] = SC_SEND_WAIT_DRAINED,
		[AT_FENCED] = SC_SEND_WAIT_DRAINED,
		[AT_CANCELLED] = SC_SEND_FALLBACK,
		[AT_RETURNING] = SC_SEND_WAIT_DRAINED,
	};
	struct core_fixture f;

	for (enum fixture_state s = AT_NEW; s < FIXTURE_STATES; s++) {
		fixture_at(&f, s);
		assert_int_equal(f.conn.move, moves[s]);
		assert_int_equal(f.conn.send, sends[s]);
		assert_int_equal(f.conn.recv, s >= AT_FALLBACK && s < AT_HOME ? SC_RECV_FALLBACK
									      : SC_RECV_DEFAULT);
		assert_int_equal(sc_protected(&f.conn),
				 s == AT_PROTECTED || (s >= AT_WAIT_SIGNALED && s <= AT_CANCELLED));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_state_was_reached),
		cmocka_unit_test(every_state_meets_every_event),
		cmocka_unit_test(no_pair_of_events_traps),
	};

	if (argc > 1 && !strcmp(argv[1], "--dump")) {
		dump();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
