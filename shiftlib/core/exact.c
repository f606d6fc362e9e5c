/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The exact count, by the expected PSNs of old carriers. A NIC logs what it received itself: the
 * expected PSN of a QP in ERR that has flushed names the first packet that the QP did not take, for
 * good. An end with requests whose fate the count of receives does not tell asks for the PSN of
 * their carrier, in STATE. The peer asks its NIC once its own carriers are quiesced, and never
 * before. The peer keeps the answer, as the asker may lose the next carrier before settling, and
 * ask again.
 *
 * An end waits only for an answer that was promised: an end where it is off says nothing (SILENT),
 * a sick NIC is not asked, and a NIC that does not answer in exact_ns is not waited for (UNKNOWN).
 */
#include "shiftlib/core/internal.h"

void sc_exact_forget(struct sc_conn *c)
{
	c->exact.wants = false;
	c->peer.wants = c->peer.exact_seen = false;
	c->peer.exact = SC_EXACT_SILENT;
}

/* ---- what we want --------------------------------------------------------------------------- */

/*
 * Notes the wish for a PSN. The peer has heard that we left; the wish follows soon enough for its
 * NIC to be asked in time.
 */
void sc_exact_withheld(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_moving(c) || x->ev->epoch != c->epoch || !x->ev->exact || !c->config.exact)
		return;
	c->exact.wants = true;
	c->exact.wants_of = x->ev->carrier;
	if (c->move != SC_MOVE_STRANDED)
		sc_state_send(x, false);
}

bool sc_exact_complete(const struct sc_conn *c)
{
	return c->peer.final && !(c->exact.wants && c->peer.exact == SC_EXACT_LATER);
}

void sc_exact_settle(const struct sc_conn *c, struct sc_action *settle)
{
	settle->exact = c->peer.exact == SC_EXACT_TOLD;
	settle->exact_of = c->exact.wants_of;
	settle->exact_psn = c->peer.exact_psn;
}

static bool exact_is_last_word(enum sc_exact exact)
{
	return exact == SC_EXACT_TOLD || exact == SC_EXACT_UNKNOWN;
}

/*
 * Messages overtake each other: a peer that has told does not take it back, and repeats it until
 * seen.
 */
static void exact_hear_answer(struct sc_frame *x, const struct sc_msg_state *m)
{
	struct sc_conn *c = x->c;

	if (exact_is_last_word(c->peer.exact))
		return;
	if (!exact_is_last_word(m->exact)) {
		if (m->exact == SC_EXACT_LATER)
			c->peer.exact = SC_EXACT_LATER;
		return;
	}
	if (!c->exact.wants || (m->exact_of != c->exact.wants_of && !SC_MUTANT(OTHER_PSN))) {
		c->peer.exact = SC_EXACT_LATER;
		return;
	}
	c->peer.exact = m->exact;
	c->peer.exact_psn = m->exact_psn;
	sc_state_send(x, false);
}

/* ---- what the peer wants -------------------------------------------------------------------- */

void sc_exact_heard(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	if (!c->config.exact)
		return;
	if (m->wants) {
		c->peer.wants = true;
		c->peer.wants_of = m->wants_of;
		c->peer.exact_seen |= m->exact_seen;
	}
	exact_hear_answer(x, m);
}

static bool exact_is_answered(const struct sc_conn *c)
{
	return c->exact.answered && (c->exact.of == c->peer.wants_of || SC_MUTANT(OTHER_PSN));
}

void sc_exact_tell(const struct sc_conn *c, struct sc_msg_state *m)
{
	if (!c->config.exact)
		return;
	m->wants = c->exact.wants;
	m->wants_of = c->exact.wants ? c->exact.wants_of : 0;
	m->exact_seen = c->exact.wants && exact_is_last_word(c->peer.exact);
	m->exact = SC_EXACT_LATER;
	if (!c->peer.wants || !c->count_final || !exact_is_answered(c))
		return;
	m->exact = c->exact.known ? SC_EXACT_TOLD : SC_EXACT_UNKNOWN;
	m->exact_of = c->exact.of;
	m->exact_psn = c->exact.psn;
}

/* The answer has a message of its own if the count went out before. */
static void exact_note_answer(struct sc_frame *x, uint32_t of, bool known, uint32_t psn)
{
	struct sc_exact_count *exact = &x->c->exact;

	exact->asked = false;
	exact->asked_until = 0;
	exact->answered = true;
	exact->of = of;
	exact->known = known;
	exact->psn = known ? psn & SC_PSN_MASK : 0;
	if (x->c->peer.wants && x->c->count_final && x->c->move != SC_MOVE_LAYING)
		sc_state_tell(x);
}

bool sc_exact_unseen(const struct sc_conn *c)
{
	return c->count_final && c->peer.wants && !c->peer.exact_seen;
}

/* A NIC that did not show that it obeys may still execute, so its PSN means nothing. */
static bool exact_may_ask(const struct sc_conn *c, uint32_t carrier)
{
	bool sick = c->dead && sc_epoch_cmp(carrier, c->dead) < 0 && !SC_MUTANT(SICK_PSN);

	return sc_epoch_cmp(carrier, c->epoch) < 0 && !sick;
}

void sc_exact_advance(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint32_t carrier = c->peer.wants_of;

	if (!c->peer.wants || !(c->count_final || SC_MUTANT(EARLY_PSN)) || exact_is_answered(c))
		return;
	if (c->exact.asked && c->exact.of == carrier)
		return;
	if (!exact_may_ask(c, carrier)) {
		exact_note_answer(x, carrier, false, 0);
		return;
	}
	c->exact.asked = true;
	c->exact.answered = false;
	c->exact.of = carrier;
	c->exact.asked_until = x->now + c->config.exact_ns;
	sc_emit(x, SC_ACT_ASK_PSN)->epoch = carrier;
}

void sc_exact_answered(struct sc_frame *x)
{
	if (x->c->exact.asked && x->ev->epoch == x->c->exact.of)
		exact_note_answer(x, x->ev->epoch, x->ev->ok, x->ev->psn);
}

void sc_exact_timer(struct sc_frame *x)
{
	if (x->c->exact.asked && sc_due(x->c->exact.asked_until, x->now))
		exact_note_answer(x, x->c->exact.of, false, 0);
}
