/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * STATE, one idempotent message with all that a side has to say. Loss, doubling and crossing are
 * harmless: a side repeats STATE until the peer shows that it has seen the final count. Only an own
 * timer or a changed state asks for an answer, so answers never chase each other.
 */
#include "shiftlib/core/internal.h"

static void state_fill(const struct sc_conn *c, struct sc_msg_state *m, bool ask)
{
	bool there = c->move == SC_MOVE_NONE || c->move == SC_MOVE_AWAITING_COUNT ||
		     c->move == SC_MOVE_SETTLING;

	if (SC_MUTANT(RECEIVES_LATE) && c->move == SC_MOVE_LAYING)
		there = true;
	*m = (struct sc_msg_state){
		.epoch = c->epoch,
		.seen_epoch = c->peer.final ? c->epoch : 0,
		.recv_count = c->recv_count,
		.leaving = !there && sc_moving(c),
		.final = there && c->count_final,
		.quiesced = c->count_final,
		.flags = c->flags,
		.reason = (uint8_t)c->reason,
		.ask = ask,
		.phase = (uint8_t)c->sw.phase,
		.stranded = c->move == SC_MOVE_STRANDED && !SC_MUTANT(NO_LOST),
		.switch_no = c->sw.no,
		.target = c->sw.target,
		.lost = SC_MUTANT(NO_LOST) ? 0 : c->lost,
		.dead = SC_MUTANT(ACKED_IS_PLACED) ? 0 : c->dead,
		.cut = SC_MUTANT(ACKED_IS_PLACED) ? 0 : c->cut,
	};
	m->stay = (uint8_t)sc_stay_phase_told(c);
	m->stay_no = c->stay.no;
	sc_exact_tell(c, m);
}

uint64_t sc_resend_first_ns(const struct sc_conn *c)
{
	return c->config.busy_ns > c->config.resend_min_ns ? c->config.busy_ns
							   : c->config.resend_min_ns;
}

void sc_state_send(struct sc_frame *x, bool ask)
{
	struct sc_action *a = sc_emit(x, SC_ACT_SEND_STATE);

	a->epoch = x->c->epoch;
	state_fill(x->c, &a->state, ask);
	x->c->told_at = x->now;
}

void sc_state_tell(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	sc_state_send(x, false);
	sc_backoff_start(&c->resend_at, &c->resend_interval, x->now, sc_resend_first_ns(c));
}

/*
 * True if an end has something to hear from the other. While our own commands stand in line, the
 * peer only has to hear that we left, which a peer that left for the same epoch knows.
 */
static bool state_is_wanted(const struct sc_conn *c)
{
	switch (c->move) {
	case SC_MOVE_QUIESCING: return c->peer.epoch != c->epoch;
	case SC_MOVE_STRANDED:
	case SC_MOVE_COUNTING:
	case SC_MOVE_LAYING:
	case SC_MOVE_AWAITING_COUNT: return true;
	case SC_MOVE_NONE:
	case SC_MOVE_SETTLING:
		return sc_switching(c) || sc_staying(c) ||
		       (c->count_final && c->peer.seen_epoch != c->epoch) || sc_exact_unseen(c);
	case SC_MOVE_ENDED: return c->last_words && !c->peer.ended;
	}
	return false;
}

static void state_stop_if_done(struct sc_conn *c, uint64_t now)
{
	bool late = c->move == SC_MOVE_NONE && !sc_switching(c) && !sc_staying(c) &&
		    now >= c->deadline_at;

	/* a peer that has not answered for a whole deadline is gone: its data path says so */
	if (!state_is_wanted(c) || late || SC_MUTANT(NO_RESEND))
		c->resend_at = 0;
}

/* Keeps the interval up with the peer's work, which may have grown since STATE was sent. */
static void state_have_patience(struct sc_conn *c)
{
	uint64_t least = sc_resend_first_ns(c);

	if (!c->resend_at || c->resend_interval >= least)
		return;
	c->resend_at += least - c->resend_interval;
	c->resend_interval = least;
}

void sc_state_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint64_t max = c->config.resend_max_ns;

	state_stop_if_done(c, x->now);
	state_have_patience(c);
	if (!sc_due(c->resend_at, x->now))
		return;
	/* last words are in no hurry, but every path may be dark for longer than a move may take */
	if (c->move == SC_MOVE_ENDED) {
		c->last_words--;
		max = c->config.choose_max_ns;
	}
	sc_state_send(x, true);
	sc_backoff_next(&c->resend_at, &c->resend_interval, x->now, max);
	state_stop_if_done(c, x->now);
}

void sc_state_send_again(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!state_is_wanted(c))
		return;
	sc_state_send(x, true);
	sc_backoff_start(&c->resend_at, &c->resend_interval, x->now, sc_resend_first_ns(c));
	state_stop_if_done(c, x->now);
}

/*
 * Speeds up the next repetition, as another message of the peer came: a STATE sent a while ago may
 * be lost. The patience for the peer's commands is not needed.
 */
void sc_state_hurry(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint64_t at = c->told_at + c->config.resend_min_ns;

	if (!c->resend_at || c->move == SC_MOVE_ENDED || at >= c->resend_at)
		return;
	c->resend_at = at > x->now ? at : x->now;
	c->resend_interval = sc_resend_first_ns(c);
}

void sc_state_message(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->peer.known = true;
	c->peer.heard_at = x->now;
	c->peer.epoch = x->ev->state.epoch;
	if (x->ev->state.flags)
		sc_end_peer(x);
	else
		sc_move_message(x);
	sc_stay_message(x);
	state_stop_if_done(c, x->now);
}
