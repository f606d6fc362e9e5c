/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/core_fixture.h"

#include <stdio.h>
#include <string.h>

const char *const fixture_state_names[FIXTURE_STATES] = {
	[AT_NEW] = "NEW",
	[AT_MAKING] = "MAKING",
	[AT_MADE] = "MADE",
	[AT_CONNECTING] = "CONNECTING",
	[AT_READY] = "READY",
	[AT_PROTECTED] = "PROTECTED",
	[AT_UNPROTECTED] = "UNPROTECTED",
	[AT_STRANDED] = "STRANDED",
	[AT_QUIESCING] = "QUIESCING",
	[AT_COUNTING] = "COUNTING",
	[AT_LAYING] = "LAYING",
	[AT_AWAITING_COUNT] = "AWAITING_COUNT",
	[AT_SETTLING] = "SETTLING",
	[AT_FALLBACK] = "FALLBACK",
	[AT_BACK_MAKING] = "BACK_MAKING",
	[AT_WAIT_SIGNALED] = "WAIT_SIGNALED",
	[AT_WAIT_DRAINED] = "WAIT_DRAINED",
	[AT_FENCED] = "FENCED",
	[AT_CANCELLED] = "CANCELLED",
	[AT_RETURNING] = "RETURNING",
	[AT_HOME] = "HOME",
	[AT_CLOSED] = "CLOSED",
	[AT_FAILED] = "FAILED",
};

const char *fixture_give(struct core_fixture *f, const struct sc_event *event)
{
	size_t at = 0;

	sc_step(&f->conn, event, f->now, &f->out);
	f->line[0] = 0;
	for (uint32_t i = 0; i < f->out.n; i++)
		at += (size_t)snprintf(f->line + at, sizeof(f->line) - at, "%s%s", i ? " " : "",
				       sc_action_name(f->out.a[i].type));
	return f->line;
}

const char *fixture_type(struct core_fixture *f, enum sc_event_type type)
{
	struct sc_event e = { .type = type, .leader = true, .epoch = f->conn.sw.no };

	return fixture_give(f, &e);
}

const char *fixture_fault(struct core_fixture *f, enum sc_reason reason, uint32_t epoch)
{
	struct sc_event e = { .type = SC_EV_FAULT, .reason = reason, .epoch = epoch };

	return fixture_give(f, &e);
}

const char *fixture_paths(struct core_fixture *f, uint8_t up, uint8_t steady, uint8_t drained)
{
	struct sc_event e = { .type = SC_EV_PATHS, .up = up, .steady = steady, .drained = drained };

	return fixture_give(f, &e);
}

const char *fixture_standby_msg(struct core_fixture *f, struct sc_msg_standby m)
{
	struct sc_event e = { .type = SC_EV_MSG_STANDBY, .standby = m };

	return fixture_give(f, &e);
}

const char *fixture_standby(struct core_fixture *f, enum sc_standby_phase phase,
			    enum sc_standby_phase seen, bool ask)
{
	return fixture_standby_msg(f, (struct sc_msg_standby){
					      .epoch = f->conn.standby.epoch,
					      .phase = (uint8_t)phase,
					      .seen = (uint8_t)seen,
					      .ask = ask,
					      .path = f->conn.standby.path,
					      .up = 3,
					      .steady = 3,
					      .masks_no = 1,
					      .masks_seen = f->conn.paths.no,
					      .address = { .qpn = 0x222 },
				      });
}

const char *fixture_state_msg(struct core_fixture *f, struct sc_msg_state m)
{
	struct sc_event e = { .type = SC_EV_MSG_STATE, .state = m };

	return fixture_give(f, &e);
}

const char *fixture_switch(struct core_fixture *f, enum sc_switch_phase phase)
{
	return fixture_state_msg(f, (struct sc_msg_state){ .epoch = f->conn.epoch,
							   .seen_epoch = f->conn.epoch,
							   .final = 1,
							   .quiesced = 1,
							   .recv_count = FIXTURE_PEER_COUNT,
							   .phase = (uint8_t)phase,
							   .switch_no = f->conn.sw.no,
							   .target = f->conn.sw.target });
}

static bool about_standby(enum sc_event_type type)
{
	return type == SC_EV_STANDBY_MADE || type == SC_EV_STANDBY_CONNECTED ||
	       type == SC_EV_STANDBY_FAILED || type == SC_EV_STANDBY_LOST;
}

const char *fixture_answer(struct core_fixture *f, enum sc_event_type type, bool ok,
			   enum sc_reason reason)
{
	struct sc_event e = { .type = type, .ok = ok, .reason = reason };

	e.epoch = about_standby(type) ? f->conn.standby.epoch : f->conn.epoch;
	e.recv_count = FIXTURE_COUNT;
	e.address.qpn = 0x111;
	return fixture_give(f, &e);
}

const char *fixture_quiesced(struct core_fixture *f, bool final, uint32_t count)
{
	struct sc_event e = {
		.type = SC_EV_QUIESCED, .epoch = f->conn.epoch, .final = final, .recv_count = count
	};

	return fixture_give(f, &e);
}

const char *fixture_timer(struct core_fixture *f)
{
	f->line[0] = 0;
	f->out.n = 0;
	if (!f->conn.timer_at)
		return f->line;
	f->now = f->conn.timer_at;
	return fixture_type(f, SC_EV_TIMER);
}

const struct sc_action *fixture_find(const struct core_fixture *f, enum sc_action_type type)
{
	for (uint32_t i = 0; i < f->out.n; i++)
		if (f->out.a[i].type == type)
			return &f->out.a[i];
	return NULL;
}

uint32_t fixture_target(const struct core_fixture *f)
{
	const struct sc_conn *c = &f->conn;

	return c->move == SC_MOVE_NONE && c->standby.epoch > c->epoch ? c->standby.epoch : c->epoch;
}

/* ---- states --------------------------------------------------------------------------------- */

static void peer_final(struct core_fixture *f)
{
	fixture_state_msg(f, (struct sc_msg_state){ .epoch = f->conn.epoch,
						    .seen_epoch = f->conn.epoch,
						    .final = 1,
						    .quiesced = 1,
						    .recv_count = FIXTURE_PEER_COUNT });
}

static void make_standby(struct core_fixture *f)
{
	fixture_answer(f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE);
	fixture_standby(f, SC_STANDBY_MADE, SC_STANDBY_MADE, false);
	fixture_answer(f, SC_EV_STANDBY_CONNECTED, true, SC_REASON_NONE);
	fixture_standby(f, SC_STANDBY_READY, SC_STANDBY_READY, false);
}

static void finish_move(struct core_fixture *f)
{
	fixture_quiesced(f, true, FIXTURE_COUNT);
	fixture_answer(f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE);
	peer_final(f);
	fixture_answer(f, SC_EV_SETTLED, true, SC_REASON_NONE);
}

static void lose_path_0(struct core_fixture *f)
{
	fixture_paths(f, 2, 2, 0);
	fixture_standby(f, SC_STANDBY_READY, SC_STANDBY_READY, false);
	fixture_fault(f, SC_REASON_TRANSPORT, 0);
}

static void step_into(struct core_fixture *f, enum fixture_state state)
{
	switch (state) {
	case AT_NEW: break;
	case AT_MAKING: fixture_type(f, SC_EV_INTRODUCED); break;
	case AT_MADE: fixture_answer(f, SC_EV_STANDBY_MADE, true, SC_REASON_NONE); break;
	case AT_CONNECTING: fixture_standby(f, SC_STANDBY_MADE, SC_STANDBY_MADE, false); break;
	case AT_READY: fixture_answer(f, SC_EV_STANDBY_CONNECTED, true, SC_REASON_NONE); break;
	case AT_PROTECTED: fixture_standby(f, SC_STANDBY_READY, SC_STANDBY_READY, false); break;
	case AT_STRANDED:
		fixture_answer(f, SC_EV_STANDBY_LOST, false, SC_REASON_PORT);
		fixture_fault(f, SC_REASON_TRANSPORT, 0);
		fixture_paths(f, 0, 0, 0);
		break;
	case AT_UNPROTECTED: fixture_answer(f, SC_EV_STANDBY_LOST, false, SC_REASON_PORT); break;
	case AT_QUIESCING: lose_path_0(f); break;
	case AT_COUNTING: fixture_quiesced(f, false, FIXTURE_COUNT); break;
	case AT_LAYING: fixture_quiesced(f, true, FIXTURE_COUNT); break;
	case AT_AWAITING_COUNT: fixture_answer(f, SC_EV_RECEIVES_LAID, true, SC_REASON_NONE); break;
	case AT_SETTLING: peer_final(f); break;
	case AT_FALLBACK: fixture_answer(f, SC_EV_SETTLED, true, SC_REASON_NONE); break;
	case AT_BACK_MAKING: fixture_paths(f, 3, 3, 0); break;
	case AT_WAIT_SIGNALED: make_standby(f); break;
	case AT_WAIT_DRAINED: fixture_type(f, SC_EV_FENCE_LAID); break;
	case AT_FENCED: fixture_type(f, SC_EV_FENCED); break;
	case AT_CANCELLED: fixture_switch(f, SC_SWITCH_CANCEL); break;
	case AT_RETURNING: fixture_switch(f, SC_SWITCH_FENCED); break;
	case AT_HOME: finish_move(f); break;
	case AT_CLOSED: fixture_type(f, SC_EV_APP_CLOSED); break;
	case AT_FAILED:
		fixture_state_msg(f, (struct sc_msg_state){ .flags = SC_FLAG_FATAL });
		break;
	case FIXTURE_STATES: break;
	}
}

static bool aside(enum fixture_state state)
{
	return state == AT_UNPROTECTED || state == AT_STRANDED || state == AT_COUNTING ||
	       state == AT_CANCELLED || state == AT_CLOSED || state == AT_FAILED;
}

/* The ends and what happens without a standby are entered from PROTECTED. */
static bool on_the_way(enum fixture_state step, enum fixture_state goal)
{
	if (step == goal)
		return true;
	if (aside(step) || step > goal)
		return false;
	return !aside(goal) || goal == AT_COUNTING || goal == AT_CANCELLED || step <= AT_PROTECTED;
}

static void start(struct core_fixture *f)
{
	struct sc_config config;

	memset(f, 0, sizeof(*f));
	sc_config_default(&config);
	config.retry_time_ns = FIXTURE_RETRY_TIME_NS;
	sc_init(&f->conn, &config);
	f->now = 1000 * 1000;
}

void fixture_init(struct core_fixture *f, bool leader)
{
	struct sc_event e = { .type = SC_EV_INTRODUCED, .leader = leader };

	start(f);
	fixture_paths(f, 3, 3, 0);
	fixture_give(f, &e);
}

void fixture_at(struct core_fixture *f, enum fixture_state state)
{
	start(f);
	fixture_paths(f, 3, 3, 0);
	for (enum fixture_state s = AT_NEW; s < FIXTURE_STATES; s++)
		if (on_the_way(s, state))
			step_into(f, s);
}
