/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ordered switch, for the return to the default NIC and for a drain. Each side fences what it
 * has in flight and withholds later requests. When both are fenced nothing is outstanding, and both
 * leave for the standby; settling then publishes the withheld requests, and sends nothing twice.
 *
 * Attempts are numbered, and a number never serves twice: a late PREP or FENCED of a cancelled
 * attempt means nothing. A cancel does not touch the standby, so a fault at any moment of a switch
 * is the same abrupt move as without the switch.
 *
 * After its own FENCED a side does not go back by itself: the peer may know of it, have left, and
 * count on the new carrier. Only the peer's word leads back, that it will not leave: CANCEL, or the
 * loss of the standby.
 */
#include "shiftlib/core/internal.h"

/* ---- transitions ---------------------------------------------------------------------------- */

static void transition_send_default_to_wait_signaled(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_DEFAULT);
	c->send = SC_SEND_WAIT_SIGNALED;
}

static void transition_send_fallback_to_wait_signaled(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_FALLBACK);
	c->send = SC_SEND_WAIT_SIGNALED;
}

static void transition_send_wait_signaled_to_wait_drained(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_WAIT_SIGNALED);
	c->send = SC_SEND_WAIT_DRAINED;
}

static void transition_send_wait_signaled_to_default(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_WAIT_SIGNALED);
	c->send = SC_SEND_DEFAULT;
}

static void transition_send_wait_signaled_to_fallback(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_WAIT_SIGNALED);
	c->send = SC_SEND_FALLBACK;
}

static void transition_send_wait_drained_to_default(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_WAIT_DRAINED);
	c->send = SC_SEND_DEFAULT;
}

static void transition_send_wait_drained_to_fallback(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_WAIT_DRAINED);
	c->send = SC_SEND_FALLBACK;
}

static void transition_send_default_to_fallback(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_DEFAULT);
	c->send = SC_SEND_FALLBACK;
}

static void transition_send_fallback_to_default(struct sc_conn *c)
{
	SC_ASSERT(c->send == SC_SEND_FALLBACK);
	c->send = SC_SEND_DEFAULT;
}

static void transition_switch_idle_to_prep(struct sc_conn *c)
{
	SC_ASSERT(!sc_switching(c));
	c->sw.phase = SC_SWITCH_PREP;
}

static void transition_switch_prep_to_fenced(struct sc_conn *c)
{
	SC_ASSERT(c->sw.phase == SC_SWITCH_PREP);
	c->sw.phase = SC_SWITCH_FENCED;
}

static void transition_switch_switching_to_cancel(struct sc_conn *c)
{
	SC_ASSERT(sc_switching(c));
	c->sw.phase = SC_SWITCH_CANCEL;
}

static void transition_switch_none_to_cancel(struct sc_conn *c)
{
	SC_ASSERT(c->sw.phase == SC_SWITCH_NONE);
	c->sw.phase = SC_SWITCH_CANCEL;
}

static void transition_switch_any_to_none(struct sc_conn *c)
{
	SC_ASSERT(c->sw.phase != SC_SWITCH_NONE);
	c->sw.phase = SC_SWITCH_NONE;
}

/* Sets the send state to that of the path in use. */
static void switch_set_send_state(struct sc_conn *c)
{
	bool fallback = c->path;

	switch (c->send) {
	case SC_SEND_DEFAULT:
		if (fallback)
			transition_send_default_to_fallback(c);
		break;
	case SC_SEND_FALLBACK:
		if (!fallback)
			transition_send_fallback_to_default(c);
		break;
	case SC_SEND_WAIT_SIGNALED:
		if (fallback)
			transition_send_wait_signaled_to_fallback(c);
		else
			transition_send_wait_signaled_to_default(c);
		break;
	case SC_SEND_WAIT_DRAINED:
		if (fallback)
			transition_send_wait_drained_to_fallback(c);
		else
			transition_send_wait_drained_to_default(c);
		break;
	}
}

/* ---- begin ---------------------------------------------------------------------------------- */

static bool switch_can_begin(const struct sc_conn *c)
{
	return c->move == SC_MOVE_NONE && c->guarded && !sc_switching(c) && !sc_staying(c) &&
	       !c->suspect && c->standby.phase == SC_STANDBY_READY;
}

static void switch_begin(struct sc_frame *x, uint32_t no, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	if (c->send == SC_SEND_DEFAULT)
		transition_send_default_to_wait_signaled(c);
	else
		transition_send_fallback_to_wait_signaled(c);
	transition_switch_idle_to_prep(c);
	c->sw.no = no;
	c->sw.target = c->standby.epoch;
	c->sw.peer_fenced = c->sw.atomics = false;
	c->sw.reason = reason;
	c->sw.deadline_at = x->now + c->config.fence_ns;
	sc_emit(x, SC_ACT_FENCE)->epoch = no;
	sc_state_tell(x);
}

/* Returns the leader's reason to begin a switch now, if any. */
static enum sc_reason switch_wanted(const struct sc_conn *c)
{
	if (sc_paths_drained(c, c->path) && !sc_paths_drained(c, c->standby.path))
		return SC_REASON_ORDER;
	if (sc_paths_before(c, c->standby.path, c->path) &&
	    sc_paths_both_steady(c, c->standby.path) && !sc_paths_drained(c, c->standby.path))
		return SC_REASON_RETURN;
	return SC_REASON_NONE;
}

void sc_switch_advance(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	enum sc_reason reason;

	if (!c->leader || c->sw.next_at || !switch_can_begin(c) || !sc_standby_ready(c))
		return;
	reason = switch_wanted(c);
	if (reason != SC_REASON_NONE)
		switch_begin(x, c->sw.no + (SC_MUTANT(NUMBER_AGAIN) ? !c->sw.no : 1), reason);
}

/* ---- the own fence -------------------------------------------------------------------------- */

void sc_switch_laid(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->sw.phase != SC_SWITCH_PREP || x->ev->epoch != c->sw.no ||
	    c->send != SC_SEND_WAIT_SIGNALED)
		return;
	transition_send_wait_signaled_to_wait_drained(c);
	c->sw.atomics = x->ev->atomics;
}

static void switch_move_if_both(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->sw.phase == SC_SWITCH_FENCED && (c->sw.peer_fenced || SC_MUTANT(ALONE)) &&
	    sc_standby_ready_for(c, c->sw.target))
		sc_move_begin(x, c->sw.reason);
}

void sc_switch_fenced(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->sw.phase != SC_SWITCH_PREP || x->ev->epoch != c->sw.no ||
	    c->send != SC_SEND_WAIT_DRAINED)
		return;
	transition_switch_prep_to_fenced(c);
	c->sw.deadline_at =
		x->now + (SC_MUTANT(GO_BACK) ? c->config.resend_min_ns : c->config.silence_ns);
	sc_state_tell(x);
	switch_move_if_both(x);
}

/* ---- back ----------------------------------------------------------------------------------- */

static void switch_forget_attempt(struct sc_conn *c)
{
	c->sw.deadline_at = 0;
	c->sw.peer_fenced = false;
}

static void switch_try_later(struct sc_frame *x)
{
	struct sc_switch *sw = &x->c->sw;
	const struct sc_config *cfg = &x->c->config;

	if (sw->interval)
		sc_backoff_next(&sw->next_at, &sw->interval, x->now, cfg->choose_max_ns);
	else
		sc_backoff_start(&sw->next_at, &sw->interval, x->now, cfg->choose_min_ns);
}

static void switch_cancel(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	transition_switch_switching_to_cancel(c);
	switch_forget_attempt(c);
	switch_set_send_state(c);
	sc_emit(x, SC_ACT_UNFENCE)->epoch = c->sw.no;
	switch_try_later(x);
	sc_state_send(x, false);
	sc_report(x);
}

/*
 * Reacts to the loss of the standby. Before the own FENCED the switch can be cancelled; after it,
 * the peer has to say that it stays.
 */
void sc_switch_standby_gone(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->sw.phase == SC_SWITCH_PREP)
		switch_cancel(x);
	else if (c->sw.phase == SC_SWITCH_FENCED)
		sc_state_tell(x);
}

bool sc_switch_call_off(struct sc_frame *x)
{
	if (x->c->sw.phase == SC_SWITCH_PREP)
		switch_cancel(x);
	return x->c->sw.phase != SC_SWITCH_FENCED;
}

void sc_switch_abandon(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_switching(c))
		return;
	transition_switch_switching_to_cancel(c);
	switch_forget_attempt(c);
	switch_set_send_state(c);
	sc_emit(x, SC_ACT_UNFENCE)->epoch = c->sw.no;
}

/* ---- the move takes over -------------------------------------------------------------------- */

void sc_switch_forget(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->sw.phase != SC_SWITCH_NONE)
		transition_switch_any_to_none(c);
	switch_forget_attempt(c);
	c->sw.next_at = 0;
}

void sc_switch_arrive(struct sc_frame *x)
{
	struct sc_switch *sw = &x->c->sw;

	if (sw->turned_back)
		switch_try_later(x);
	else
		sw->interval = 0;
	sw->turned_back = false;
	switch_set_send_state(x->c);
}

/* True if an ordered switch of this end or the peer leads to the move, and no fault in between. */
bool sc_switch_leads(const struct sc_conn *c, enum sc_reason reason)
{
	return sc_switching(c) && (reason == SC_REASON_RETURN || reason == SC_REASON_ORDER ||
				   reason == SC_REASON_PEER);
}

/*
 * True if a switch leads to a NIC that lacks a key for too long. The connection lived well where it
 * was (P9), so it goes back: its carrier on the way is given up, as if the NIC had died.
 */
bool sc_switch_turns_back(const struct sc_frame *x)
{
	const struct sc_conn *c = x->c;

	return c->sw.led && c->move != SC_MOVE_STRANDED && c->retry.interval &&
	       c->retry.reason == SC_REASON_KEY && !SC_MUTANT(NO_TURN) &&
	       x->now - c->retry.since >= c->config.fence_ns;
}

/* ---- the peer ------------------------------------------------------------------------------- */

/*
 * Follows a peer that asks for a switch, or goes on with one: the number is new, or the one under
 * way.
 */
static void switch_message_asks(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	if (sc_epoch_cmp(m->switch_no, c->sw.no) > 0) {
		/* the peer has burnt our number, and has not left for it */
		if (sc_switching(c))
			switch_cancel(x);
		if (switch_can_begin(c) && m->target == c->standby.epoch) {
			switch_begin(x, m->switch_no, SC_REASON_PEER);
		} else {
			c->sw.no = m->switch_no;
			if (c->sw.phase == SC_SWITCH_NONE)
				transition_switch_none_to_cancel(c);
		}
	}
	if (!sc_switching(c) || (m->switch_no != c->sw.no && !SC_MUTANT(OBEY_LATE))) {
		sc_state_send(x, false);
		return;
	}
	if (m->phase == SC_SWITCH_FENCED)
		c->sw.peer_fenced = true;
	switch_move_if_both(x);
}

static void switch_message_cancels(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	if (sc_switching(c) && sc_epoch_cmp(m->switch_no, c->sw.no) >= 0)
		switch_cancel(x);
	if (!sc_switching(c) && sc_epoch_cmp(m->switch_no, c->sw.no) > 0)
		c->sw.no = m->switch_no;
}

void sc_switch_message(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	/* a peer that lost the standby before leaving will never leave for it */
	if (sc_switching(c) && m->lost && sc_epoch_cmp(m->lost, c->sw.target) >= 0) {
		switch_cancel(x);
		return;
	}
	switch ((enum sc_switch_phase)m->phase) {
	case SC_SWITCH_PREP:
	case SC_SWITCH_FENCED: switch_message_asks(x); break;
	case SC_SWITCH_CANCEL: switch_message_cancels(x); break;
	case SC_SWITCH_NONE: break;
	}
}

/* ---- time ----------------------------------------------------------------------------------- */

/*
 * Decides after the deadline of a fenced end. Nothing is outstanding here, and the peer judges its
 * own requests: the peer is waited for, as long as it is heard.
 */
static void switch_deadline_fenced(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint64_t silent_at = c->peer.heard_at + c->config.silence_ns;

	if (SC_MUTANT(GO_BACK))
		switch_cancel(x);
	else if (x->now < silent_at)
		c->sw.deadline_at = silent_at;
	else if (sc_standby_ready_for(c, c->sw.target))
		sc_move_begin(x, c->sw.reason);
	else
		sc_move_strand(x, SC_REASON_NO_STANDBY);
}

/*
 * Decides about a fence that does not complete: the last send may wait for a receive that the peer
 * posts only when its withheld requests have run. Settling helps, unless it could end the
 * connection: some requests cannot be repeated, and nobody here knows what an unfenced peer has.
 */
static void switch_deadline(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->sw.deadline_at = 0;
	if (c->sw.phase == SC_SWITCH_FENCED)
		switch_deadline_fenced(x);
	else if (((c->sw.peer_fenced && !c->sw.atomics) || SC_MUTANT(FENCE_ATOMICS)) &&
		 c->send == SC_SEND_WAIT_DRAINED && sc_standby_ready_for(c, c->sw.target))
		sc_move_begin(x, c->sw.reason);
	else
		switch_cancel(x);
}

void sc_switch_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (sc_due(c->sw.next_at, x->now))
		c->sw.next_at = 0;
	if (sc_switching(c) && sc_due(c->sw.deadline_at, x->now))
		switch_deadline(x);
}
