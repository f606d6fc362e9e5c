/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The stay: waiting out a flap before leaving a path that is down (P9). The path may be back before
 * the QP's retries are spent, and until then its NICs go on by themselves. A move loses two things:
 *
 * - the connection, if the peer cannot follow. A peer whose process is halted (a debugger, SIGSTOP)
 *   has a NIC that serves the old carrier, and nothing else. So an end that would leave asks the
 *   peer first (ASK, told as WAIT), and changes nothing meanwhile: the NIC retries, and its last
 *   error ends the question, as it ends stock's connection. If the path is back before an answer,
 *   there was no fault.
 * - the answers that may still come, as old carriers go to ERR at both ends. Most requests are
 *   settled without an answer; an atomic that ran is not, nor is a READ before a fenced request. So
 *   as soon as both ends have heard of each other, each withholds its sends, looks for such
 *   requests, and says
 *
 *	WAIT	some are outstanding here
 *	GO	none are, and none can come, as sends are withheld
 *
 * An end without such requests that hears GO leaves. If the path comes back before, all goes on
 * where it is. If the retries are spent, the carrier is dead, which ends the wait. An end also says
 * GO when no NIC may have retried for longer; and nobody waits longer than stay_ns.
 *
 * After its own GO a side does not go on by itself, as its peer may have left on it. It says BACK,
 * and goes on when the peer says OVER: the peer has not left, and will not. GO is said only to a
 * peer that was heard in this wait. Waits are numbered, and a number never serves twice: a late GO
 * of another wait means nothing.
 */
#include "shiftlib/core/internal.h"

/* ---- transitions ---------------------------------------------------------------------------- */

static void transition_stay_idle_to_wait(struct sc_conn *c)
{
	SC_ASSERT(!sc_staying(c));
	c->stay.phase = SC_STAY_WAIT;
}

static void transition_stay_idle_to_ask(struct sc_conn *c)
{
	SC_ASSERT(!sc_staying(c));
	c->stay.phase = SC_STAY_ASK;
}

static void transition_stay_staying_to_wait(struct sc_conn *c)
{
	SC_ASSERT(sc_staying(c));
	c->stay.phase = SC_STAY_WAIT;
}

static void transition_stay_wait_to_go(struct sc_conn *c)
{
	SC_ASSERT(c->stay.phase == SC_STAY_WAIT);
	c->stay.phase = SC_STAY_GO;
}

static void transition_stay_go_to_back(struct sc_conn *c)
{
	SC_ASSERT(c->stay.phase == SC_STAY_GO);
	c->stay.phase = SC_STAY_BACK;
}

static void transition_stay_staying_to_over(struct sc_conn *c)
{
	SC_ASSERT(sc_staying(c));
	c->stay.phase = SC_STAY_OVER;
}

static void transition_stay_idle_to_over(struct sc_conn *c)
{
	SC_ASSERT(!sc_staying(c));
	c->stay.phase = SC_STAY_OVER;
}

bool sc_stay_withholds(const struct sc_conn *c)
{
	return c->stay.phase == SC_STAY_WAIT || c->stay.phase == SC_STAY_GO ||
	       c->stay.phase == SC_STAY_BACK;
}

bool sc_staying(const struct sc_conn *c)
{
	return c->stay.phase == SC_STAY_ASK || sc_stay_withholds(c);
}

/* ---- begin ---------------------------------------------------------------------------------- */

uint8_t sc_stay_told(const struct sc_conn *c)
{
	if (!c->config.stay_ns)
		return SC_STAYS_NOT;
	return c->config.atomics ? SC_STAYS_ATOMICS : SC_STAYS_REPEATS;
}

/* Returns the phase to tell: ASK is told as WAIT. */
enum sc_stay_phase sc_stay_phase_told(const struct sc_conn *c)
{
	return c->stay.phase == SC_STAY_ASK ? SC_STAY_WAIT : c->stay.phase;
}

static bool stay_is_possible(const struct sc_conn *c, enum sc_reason reason)
{
	bool flap = reason == SC_REASON_PORT || reason == SC_REASON_SILENCE;
	bool both = c->config.stay_ns && c->peer.stays != SC_STAYS_NOT;

	if (SC_MUTANT(LEAVE_UNHEARD) && !c->config.atomics && c->peer.stays != SC_STAYS_ATOMICS)
		return false;
	return flap && both;
}

static void stay_ask_shell(struct sc_frame *x)
{
	struct sc_action *a = sc_emit(x, SC_ACT_STAY);

	a->on = true;
	a->epoch = x->c->stay.no;
}

/* Withholds sends from now on: the peer was heard in this wait, or began it. */
static void stay_withhold(struct sc_frame *x, uint32_t no)
{
	struct sc_conn *c = x->c;

	SC_ASSERT(c->stay.phase == SC_STAY_WAIT);
	c->stay.no = no;
	c->stay.peer_goes = c->stay.told = c->stay.clear = false;
	sc_backoff_start(&c->stay.look_at, &c->stay.look_interval, x->now, c->config.resend_min_ns);
	stay_ask_shell(x);
}

/* Joins the wait of a peer that wants to leave. */
static void stay_join(struct sc_frame *x, uint32_t no)
{
	struct sc_conn *c = x->c;

	transition_stay_idle_to_wait(c);
	c->stay.wished = false;
	c->stay.since = x->now;
	c->stay.reason = SC_REASON_PEER;
	stay_withhold(x, no);
}

static void stay_ask_peer(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	transition_stay_idle_to_ask(c);
	c->stay.no++;
	c->stay.wished = true;
	c->stay.was_down = c->stay.was_unwell = false;
	c->stay.peer_goes = c->stay.clear = false;
	c->stay.reason = reason;
	c->stay.look_at = 0;
	sc_state_tell(x);
}

/* Leaves a path that is down and may come back, at once or after a wait. */
void sc_stay_or_move(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	if (!sc_standby_ready(c)) {
		sc_standby_suspect(x, true);
	} else if (!stay_is_possible(c, reason)) {
		sc_move_begin(x, reason);
	} else if (sc_staying(c) && c->stay.phase != SC_STAY_BACK) {
		c->stay.wished = true;
		c->stay.reason = reason;
	} else if (!sc_staying(c) && sc_switch_call_off(x)) {
		stay_ask_peer(x, reason);
	} else {
		sc_standby_suspect(x, true); /* the peer's word is awaited first */
	}
}

/* ---- end ------------------------------------------------------------------------------------ */

static void stay_end(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	struct sc_action *a;

	transition_stay_staying_to_over(c);
	c->stay.look_at = 0;
	a = sc_emit(x, SC_ACT_STAY);
	a->epoch = c->stay.no;
	sc_state_send(x, false);
}

/*
 * Ends the wait, and leaves later if this end wished to: once its standby is ready, or the peer has
 * gone on from this wait.
 */
static void stay_end_for_now(struct sc_frame *x)
{
	bool wished = x->c->stay.wished;

	stay_end(x);
	if (wished)
		sc_standby_suspect(x, true);
}

void sc_stay_forget(struct sc_conn *c)
{
	if (sc_staying(c))
		transition_stay_staying_to_over(c);
	c->stay.look_at = 0;
}

void sc_stay_abandon(struct sc_frame *x)
{
	if (sc_staying(x->c))
		stay_end(x);
}

static void stay_go_back(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase != SC_STAY_GO) {
		stay_end(x);
		return;
	}
	transition_stay_go_to_back(c);
	sc_state_tell(x);
}

/* ---- own requests --------------------------------------------------------------------------- */

static void stay_say_go(struct sc_frame *x)
{
	transition_stay_wait_to_go(x->c);
	x->c->stay.look_at = 0;
	x->c->stay.told = true;
	sc_state_tell(x);
}

void sc_stay_looked(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase != SC_STAY_WAIT || x->ev->epoch != c->stay.no)
		return;
	c->stay.clear = !x->ev->atomics;
	if (!c->stay.clear && !c->stay.told) {
		c->stay.told = true;
		sc_state_tell(x);
	}
}

/* ---- the peer ------------------------------------------------------------------------------- */

/* Follows a peer that began another wait: it is still here, and has left on no GO of ours. */
static void stay_message_newer(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;
	bool joins = m->stay == SC_STAY_WAIT || m->stay == SC_STAY_GO;

	if (sc_staying(c) && (!joins || c->stay.phase == SC_STAY_BACK))
		stay_end_for_now(x);
	if (sc_staying(c)) {
		if (c->stay.phase == SC_STAY_ASK)
			c->stay.since = x->now;
		transition_stay_staying_to_wait(c);
		stay_withhold(x, m->stay_no);
	} else if (joins && c->guarded && sc_switch_call_off(x)) {
		stay_join(x, m->stay_no);
	} else {
		c->stay.no = m->stay_no;
		transition_stay_idle_to_over(c);
		sc_state_send(x, false);
	}
}

/* Begins to withhold: the peer can follow. */
static void stay_take_answer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase != SC_STAY_ASK)
		return;
	transition_stay_staying_to_wait(c);
	c->stay.since = x->now;
	stay_withhold(x, c->stay.no);
}

static void stay_message_equal(struct sc_frame *x)
{
	switch ((enum sc_stay_phase)x->ev->state.stay) {
	case SC_STAY_WAIT: stay_take_answer(x); break;
	case SC_STAY_GO:
		stay_take_answer(x);
		x->c->stay.peer_goes = true;
		break;
	case SC_STAY_BACK:
	case SC_STAY_OVER: stay_end_for_now(x); break;
	case SC_STAY_NONE:
	case SC_STAY_ASK:
	case SC_STAYS: break;
	}
}

void sc_stay_message(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;
	int32_t age = sc_epoch_cmp(m->stay_no, c->stay.no);

	if (c->move != SC_MOVE_NONE || m->epoch != c->epoch || m->stay == SC_STAY_NONE || age < 0)
		return;
	if (age > 0)
		stay_message_newer(x);
	else if (!sc_staying(c) && m->stay != SC_STAY_OVER)
		sc_state_send(x, false);
	if (sc_staying(c) && m->stay_no == c->stay.no)
		stay_message_equal(x);
}

/* ---- whatever the event was ----------------------------------------------------------------- */

/*
 * True if the path is back. Before the peer has answered, the own NIC is enough: a halted peer
 * answers no heartbeat.
 */
static bool stay_path_is_back(struct sc_conn *c)
{
	bool up = c->paths.up >> c->path & 1, well = c->paths.well >> c->path & 1;

	c->stay.was_down |= !up;
	c->stay.was_unwell |= !well;
	return (up && c->stay.was_down) ||
	       (c->stay.phase == SC_STAY_ASK && well && c->stay.was_unwell);
}

static bool stay_may_move(const struct sc_conn *c)
{
	if (SC_MUTANT(LEAVE_WITHOUT_GO))
		return true;
	return c->stay.peer_goes && (c->stay.phase == SC_STAY_GO || c->stay.clear);
}

void sc_stay_advance(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool wishes = sc_staying(c) && c->stay.wished && c->stay.phase != SC_STAY_BACK;

	if (wishes && stay_path_is_back(c)) {
		sc_standby_suspect(x, false);
		c->stay.wished = false;
		stay_go_back(x);
	} else if (wishes && !sc_standby_ready(c)) {
		sc_standby_suspect(x, true);
		stay_go_back(x);
	} else if (wishes && stay_may_move(c)) {
		sc_move_begin(x, c->stay.reason);
	} else if (c->stay.phase == SC_STAY_WAIT && c->stay.clear) {
		stay_say_go(x);
	}
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t sc_stay_until(const struct sc_conn *c)
{
	uint64_t ns = c->config.stay_ns, retries = sc_retries_ns(&c->config);

	if (!sc_stay_withholds(c) || SC_MUTANT(STAY_FOREVER))
		return 0;
	if (c->stay.phase == SC_STAY_WAIT && retries && retries < ns)
		ns = retries;
	return c->stay.since + ns;
}

static void stay_waited_enough(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase == SC_STAY_WAIT)
		stay_say_go(x);
	else if (c->stay.phase == SC_STAY_GO && c->stay.wished && sc_standby_ready(c))
		sc_move_begin(x, c->stay.reason);
	else
		stay_end(x);
}

void sc_stay_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (sc_due(c->stay.look_at, x->now)) {
		stay_ask_shell(x);
		sc_backoff_next(&c->stay.look_at, &c->stay.look_interval, x->now,
				c->config.resend_max_ns);
	}
	if (sc_due(sc_stay_until(c), x->now))
		stay_waited_enough(x);
}
