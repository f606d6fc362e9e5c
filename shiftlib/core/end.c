/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The end of a connection. A side that cannot go on says FATAL or CLOSED, and the application gets
 * its own completions and errors in order, as without SHIFT. No transition leads out of ENDED.
 */
#include "shiftlib/core/internal.h"

static void transition_any_to_ended(struct sc_conn *c)
{
	SC_ASSERT(c->move != SC_MOVE_ENDED);
	c->move = SC_MOVE_ENDED;
}

static void end_say_last_words(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->resend_at = 0;
	if (!c->peer.introduced && !c->peer.known)
		return;
	sc_state_send(x, !c->peer.ended);
	if (c->peer.ended)
		return;
	c->last_words = SC_LAST_WORDS;
	sc_backoff_start(&c->resend_at, &c->resend_interval, x->now, c->config.resend_min_ns);
}

static void end_fail_once(struct sc_frame *x, enum sc_reason reason)
{
	if (x->c->failed)
		return;
	x->c->failed = true;
	sc_emit(x, SC_ACT_FAIL)->reason = reason;
}

static void end_connection(struct sc_frame *x, enum sc_reason reason, uint8_t flags, bool fail)
{
	struct sc_conn *c = x->c;

	transition_any_to_ended(c);
	c->reason = reason;
	c->flags = flags;
	if (fail) {
		sc_switch_forget(x);
		sc_stay_forget(c);
		end_fail_once(x, reason);
	} else {
		sc_switch_abandon(x);
		sc_stay_abandon(x);
	}
	sc_guard(x, false);
	sc_standby_end(x);
	end_say_last_words(x);
	sc_report(x);
}

static bool end_withholds(const struct sc_conn *c)
{
	return sc_moving(c) || sc_switching(c) || sc_stay_withholds(c);
}

void sc_end_fail(struct sc_frame *x, enum sc_reason reason)
{
	end_connection(x, reason, SC_FLAG_FATAL, true);
}

/*
 * Ends the connection after the application has seen an error: its QP is dead to it. In the middle
 * of a move the rest of the completions is withheld and has to be failed; else the real QP flushes
 * by itself. An error that the shell made has its reason in the event.
 */
void sc_end_app_error(struct sc_frame *x)
{
	enum sc_reason reason = x->ev->reason ? x->ev->reason : SC_REASON_APPLICATION;

	end_connection(x, reason, SC_FLAG_FATAL, end_withholds(x->c));
}

void sc_end_app_closed(struct sc_frame *x)
{
	end_connection(x, SC_REASON_APPLICATION, SC_FLAG_CLOSED, end_withholds(x->c));
}

/*
 * Ends the connection that the peer's instance does not know. Before anything was heard of the
 * peer, it may only be early. Later the peer has closed, or a new process has the old address.
 */
void sc_end_unknown(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!c->peer.known && !sc_moving(c))
		return;
	c->peer.ended = true;
	end_connection(x, SC_REASON_PEER_CLOSED, SC_FLAG_CLOSED, sc_moving(c));
}

/* The reason of this end's end, by the peer's. The error of a program is nobody else's (P6). */
static enum sc_reason end_reason_of(const struct sc_msg_state *m)
{
	if (!(m->flags & SC_FLAG_FATAL))
		return SC_REASON_PEER_CLOSED;
	if (m->reason == SC_REASON_APPLICATION || m->reason == SC_REASON_PEER_APPLICATION)
		return SC_REASON_PEER_APPLICATION;
	if (m->reason == SC_REASON_OVERRUN)
		return SC_REASON_OVERRUN;
	return SC_REASON_PEER_FATAL;
}

/*
 * Ends as the peer did. FATAL: the peer's application gets errors, and ours must not wait for it.
 * CLOSED outside of a move: as on stock, where nobody learns of a closed QP before posting.
 */
void sc_end_peer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool fatal = x->ev->state.flags & SC_FLAG_FATAL;

	c->peer.ended = true;
	end_connection(x, end_reason_of(&x->ev->state), fatal ? SC_FLAG_FATAL : SC_FLAG_CLOSED,
		       fatal || sc_moving(c));
}

/* ---- once ended ----------------------------------------------------------------------------- */

static void end_answer(struct sc_frame *x, bool ask)
{
	if (ask && (x->c->peer.introduced || x->c->peer.known))
		sc_state_send(x, false);
}

static void end_take_message(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	c->peer.known = true;
	if (m->flags) {
		c->peer.ended = true;
		c->resend_at = 0;
		/* the quiet end at this side was none at the peer */
		if (m->flags & SC_FLAG_FATAL && c->reason == SC_REASON_PEER_CLOSED)
			end_fail_once(x, end_reason_of(m));
	}
	end_answer(x, m->ask || !m->flags);
}

void sc_end_event(struct sc_frame *x)
{
	switch (x->ev->type) {
	case SC_EV_MSG_STATE: end_take_message(x); break;
	case SC_EV_MSG_STANDBY: end_answer(x, true); break;
	case SC_EV_MSG_UNKNOWN:
		x->c->peer.ended = true;
		x->c->resend_at = 0;
		break;
	case SC_EV_STANDBY_MADE: sc_emit(x, SC_ACT_STANDBY_DROP)->epoch = x->ev->epoch; break;
	case SC_EV_FAULT:
		/*
		 * a completion withheld just before the guard went off: nobody else would release
		 * it
		 */
		if (x->ev->reason == SC_REASON_TRANSPORT)
			end_fail_once(x, SC_REASON_TRANSPORT);
		break;
	case SC_EV_TIMER: sc_state_timer(x); break;
	case SC_EV_PATH_UP: sc_state_send_again(x); break;
	case SC_EV_APP_CLOSED: /* the peer has been told that it ended */
	case SC_EV_APP_ERROR:
	case SC_EV_INTRODUCED:
	case SC_EV_PATHS:
	case SC_EV_DARK:
	case SC_EV_FENCE_LAID:
	case SC_EV_FENCED:
	case SC_EV_STAYS:
	case SC_EV_STANDBY_CONNECTED:
	case SC_EV_STANDBY_FAILED:
	case SC_EV_STANDBY_LOST:
	case SC_EV_WITHHELD:
	case SC_EV_QUIESCED:
	case SC_EV_PSN:
	case SC_EV_RECEIVES_LAID:
	case SC_EV_SETTLED:
	case SC_EVENT_TYPES: break;
	}
}
