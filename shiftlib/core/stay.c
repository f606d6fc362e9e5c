/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waiting out a flap (P9). A path that is down may be back before the QP's retries are spent, and then its
 * NICs still bring the answers of what ran there. A move would take the old carriers to ERR, at both ends,
 * and with that destroy them. Most requests are settled without an answer; an atomic that ran is not, nor
 * is a READ before a fenced request. So where the QP of either end takes atomics, who would leave for a path that
 * is down withholds its sends, looks for such requests, and asks the peer to do the same:
 *
 *	WAIT	some are outstanding here
 *	GO	none are, and none can come, as sends are withheld
 *
 * At GO of both nothing is lost by leaving. Before, the path may come back: all goes on where it is. Or the
 * retries are spent, which is a dead carrier, and ends the wait as any does. An end says GO too when no NIC
 * may have retried for longer; and nobody waits longer than stay_ns.
 *
 * After its own GO a side does not go on by itself, as its peer may have left on it: it says BACK, and goes on
 * when the peer says OVER, that it has not left and will not. Waits are numbered, and a number never serves
 * twice: a late GO of another wait means nothing.
 */
#include "shiftlib/core/internal.h"

/* ---- transitions ---------------------------------------------------------------------------- */

static void transition_stay_idle_to_wait(struct sc_conn *c)
{
	SC_ASSERT(!sc_staying(c));
	c->stay.phase = SC_STAY_WAIT;
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

/* ---- begin ---------------------------------------------------------------------------------- */

uint8_t sc_stay_told(const struct sc_conn *c)
{
	if (!c->config.stay_ns)
		return SC_STAYS_NOT;
	return c->config.atomics ? SC_STAYS_ATOMICS : SC_STAYS_REPEATS;
}

/* Connections without atomics leave at once, without a word more. */
static bool may_stay(const struct sc_conn *c, enum sc_reason reason)
{
	bool flap = reason == SC_REASON_PORT || reason == SC_REASON_SILENCE;
	bool both = c->config.stay_ns && c->peer.stays != SC_STAYS_NOT;

	return flap && both && (c->config.atomics || c->peer.stays == SC_STAYS_ATOMICS);
}

static void look(struct sc_frame *x)
{
	struct sc_action *a = sc_emit(x, SC_ACT_STAY);

	a->on = true;
	a->epoch = x->c->stay.no;
}

static void follow(struct sc_frame *x, uint32_t no)
{
	struct sc_conn *c = x->c;

	c->stay.no = no;
	c->stay.peer_goes = c->stay.told = false;
	sc_backoff_start(&c->stay.look_at, &c->stay.look_interval, x->now, c->config.resend_min_ns);
	look(x);
}

static void begin(struct sc_frame *x, uint32_t no, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	transition_stay_idle_to_wait(c);
	c->stay.wished = reason != SC_REASON_PEER;
	c->stay.was_down = false;
	c->stay.since = x->now;
	c->stay.reason = reason;
	follow(x, no);
}

/* For a path that is down, and may come back. */
void sc_stay_or_leave(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	if (!sc_standby_ready(c)) {
		sc_standby_suspect(x, true);
	} else if (!may_stay(c, reason)) {
		sc_move_leave(x, reason);
	} else if (c->stay.phase == SC_STAY_WAIT || c->stay.phase == SC_STAY_GO) {
		c->stay.wished = true;
		c->stay.reason = reason;
	} else if (!sc_staying(c) && sc_switch_call_off(x)) {
		begin(x, c->stay.no + 1, reason);
	} else {
		sc_standby_suspect(x, true); /* the peer's word is awaited first */
	}
}

/* ---- end ------------------------------------------------------------------------------------ */

static void over(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	struct sc_action *a;

	transition_stay_staying_to_over(c);
	c->stay.look_at = 0;
	a = sc_emit(x, SC_ACT_STAY);
	a->epoch = c->stay.no;
	sc_state_send(x, false);
}

/* Still it would rather leave: once its standby is ready, or the peer has gone on from this wait. */
static void over_for_now(struct sc_frame *x)
{
	bool wished = x->c->stay.wished;

	over(x);
	if (wished)
		sc_standby_suspect(x, true);
}

void sc_stay_leave(struct sc_conn *c)
{
	if (sc_staying(c))
		transition_stay_staying_to_over(c);
	c->stay.look_at = 0;
}

void sc_stay_abandon(struct sc_frame *x)
{
	if (sc_staying(x->c))
		over(x);
}

static void back(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase == SC_STAY_WAIT) {
		over(x);
		return;
	}
	transition_stay_go_to_back(c);
	sc_state_tell(x);
}

/* ---- own requests --------------------------------------------------------------------------- */

static void go(struct sc_frame *x)
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
	if (!x->ev->atomics) {
		go(x);
	} else if (!c->stay.told) {
		c->stay.told = true;
		sc_state_tell(x);
	}
}

/* ---- the peer ------------------------------------------------------------------------------- */

/* It began another wait, so it is still here, and has left on no GO of ours. */
static void message_newer(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;
	bool joins = m->stay == SC_STAY_WAIT || m->stay == SC_STAY_GO;

	if (sc_staying(c) && (!joins || c->stay.phase == SC_STAY_BACK))
		over_for_now(x);
	if (sc_staying(c)) {
		transition_stay_staying_to_wait(c);
		follow(x, m->stay_no);
	} else if (joins && c->guarded && sc_switch_call_off(x)) {
		begin(x, m->stay_no, SC_REASON_PEER);
	} else {
		c->stay.no = m->stay_no;
		transition_stay_idle_to_over(c);
		sc_state_send(x, false);
	}
}

static void message_equal(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	switch ((enum sc_stay_phase)x->ev->state.stay) {
	case SC_STAY_GO: c->stay.peer_goes = true; break;
	case SC_STAY_BACK:
	case SC_STAY_OVER: over_for_now(x); break;
	case SC_STAY_WAIT:
	case SC_STAY_NONE:
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
		message_newer(x);
	else if (!sc_staying(c) && m->stay != SC_STAY_OVER)
		sc_state_send(x, false);
	if (sc_staying(c) && m->stay_no == c->stay.no)
		message_equal(x);
}

/* ---- whatever the event was ----------------------------------------------------------------- */

static bool path_is_back(struct sc_conn *c)
{
	bool up = c->paths.up >> c->path & 1;

	c->stay.was_down |= !up;
	return up && c->stay.was_down;
}

void sc_stay_advance(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_staying(c) || !c->stay.wished || c->stay.phase == SC_STAY_BACK)
		return;
	if (path_is_back(c)) {
		sc_standby_suspect(x, false);
		c->stay.wished = false;
		back(x);
	} else if (!sc_standby_ready(c)) {
		sc_standby_suspect(x, true);
		back(x);
	} else if (SC_MUTANT(LEAVE_WITHOUT_GO) ||
		   (c->stay.phase == SC_STAY_GO && c->stay.peer_goes)) {
		sc_move_leave(x, c->stay.reason);
	}
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t sc_stay_until(const struct sc_conn *c)
{
	uint64_t ns = c->config.stay_ns, retries = sc_retries_ns(&c->config);

	if (!sc_staying(c) || SC_MUTANT(STAY_FOREVER))
		return 0;
	if (c->stay.phase == SC_STAY_WAIT && retries && retries < ns)
		ns = retries;
	return c->stay.since + ns;
}

static void waited_enough(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->stay.phase == SC_STAY_WAIT)
		go(x);
	else if (c->stay.phase == SC_STAY_GO && c->stay.wished && sc_standby_ready(c))
		sc_move_leave(x, c->stay.reason);
	else
		over(x);
}

void sc_stay_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (sc_due(c->stay.look_at, x->now)) {
		look(x);
		sc_backoff_next(&c->stay.look_at, &c->stay.look_interval, x->now,
				c->config.resend_max_ns);
	}
	if (sc_due(sc_stay_until(c), x->now))
		waited_enough(x);
}
