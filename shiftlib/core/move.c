/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The abrupt move: leave the old carriers for the next epoch, agree with the peer on what was
 * executed, go on.
 *
 * Why nothing is executed twice (P5). A request may be laid into the new carrier once the peer has
 * sent its final count, and the count is final when nothing can add to it:
 * - QUIESCED{final}: the peer's old QP is in ERR and has flushed every entry. Its responder drops
 *   what still arrives.
 * - A sick NIC hangs, or says "done" with nothing flushed. Its responder may still execute, but
 *   only packets of ours: once our QP is in ERR (we said quiesced) and the longest packet lifetime
 *   has passed, there are none. A port that is down shortens nothing: it may come up in time to let
 *   late packets in. Two equal recounts settle_ns apart show that all it had executed has also
 *   reached the memory of its CQ, a way inside one machine that takes microseconds. Its requester
 *   may go on sending for ever: our responder is in ERR and drops that, and READ responses of ours
 *   are no older than the lifetime. So a side says `quiesced` only of QPs that flushed (or whose
 *   device is gone), and the final count of a sick side means the same to its peer.
 * - Both sides sick: neither can say `quiesced`, so the deadline ends the move with errors at both.
 *
 * What a NIC acknowledged is in memory if it lives: its writes before a receive completion are
 * there when the completion is (PCIe). A NIC that died may have lost what it had acknowledged
 * behind the last counted receive. So a side that counts on such a NIC says so (`dead`), for good,
 * as nobody knows when the peer settles; the peer then settles by the count what its application
 * has not seen complete. What the application has seen complete is in memory if the NIC could reach
 * memory settle_ns after the peer had left (else: `cut`).
 */
#include "shiftlib/core/internal.h"

/* ---- transitions ---------------------------------------------------------------------------- */

static void transition_none_to_quiescing(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_NONE);
	c->move = SC_MOVE_QUIESCING;
}

static void transition_stranded_to_quiescing(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_STRANDED);
	c->move = SC_MOVE_QUIESCING;
}

static void transition_none_to_stranded(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_NONE);
	c->move = SC_MOVE_STRANDED;
}

static void transition_moving_to_stranded(struct sc_conn *c)
{
	SC_ASSERT(sc_moving(c) && c->move != SC_MOVE_STRANDED);
	c->move = SC_MOVE_STRANDED;
}

static void transition_quiescing_to_counting(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_QUIESCING);
	c->move = SC_MOVE_COUNTING;
}

static void transition_quiescing_to_laying(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_QUIESCING);
	c->move = SC_MOVE_LAYING;
}

static void transition_counting_to_laying(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_COUNTING);
	c->move = SC_MOVE_LAYING;
}

static void transition_laying_to_awaiting_count(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_LAYING);
	c->move = SC_MOVE_AWAITING_COUNT;
}

static void transition_awaiting_count_to_settling(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_AWAITING_COUNT);
	c->move = SC_MOVE_SETTLING;
}

static void transition_settling_to_none(struct sc_conn *c)
{
	SC_ASSERT(c->move == SC_MOVE_SETTLING);
	c->move = SC_MOVE_NONE;
}

static void transition_recv_default_to_fallback(struct sc_conn *c)
{
	SC_ASSERT(c->recv == SC_RECV_DEFAULT);
	c->recv = SC_RECV_FALLBACK;
}

static void transition_recv_fallback_to_default(struct sc_conn *c)
{
	SC_ASSERT(c->recv == SC_RECV_FALLBACK);
	c->recv = SC_RECV_DEFAULT;
}

/* ---- leave ---------------------------------------------------------------------------------- */

static void move_forget_last(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->count_final = c->counted = c->recounting = false;
	if (!SC_MUTANT(KEEP_ANSWER))
		c->peer.final = c->peer.quiesced = false;
	sc_exact_forget(c);
	sc_stay_forget(c);
	c->fault_later = false;
	c->lifetime_until = c->retry.at = c->retry.interval = 0;
	sc_standby_suspect(x, false);
}

/*
 * Begins a move to the standby, which must be ready at this end: the peer's STATE says more than
 * its READY. An ordered switch under way, or a move that lost its carrier, is taken over by this
 * move: all carriers older than the epoch are quiesced, and counts run over all of them.
 */
void sc_move_begin(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	SC_ASSERT(sc_standby_ready_for(c, c->standby.epoch));
	if (c->move == SC_MOVE_STRANDED)
		transition_stranded_to_quiescing(c);
	else
		transition_none_to_quiescing(c);
	c->sw.led = sc_switch_leads(c, reason);
	sc_switch_forget(x);
	c->epoch = c->standby.epoch;
	c->path = c->standby.path;
	move_forget_last(x);
	sc_patience_start(x, reason);
	sc_standby_use(x);
	sc_guard(x, true);
	sc_emit(x, SC_ACT_WITHHOLD)->epoch = c->epoch;
	sc_state_tell(x);
	sc_emit(x, SC_MUTANT(COUNT_EARLY) ? SC_ACT_RECOUNT : SC_ACT_QUIESCE)->epoch = c->epoch;
	sc_report(x);
}

/*
 * Strands the connection: the carrier is lost, in use or on the way to it, and there is no other.
 * Both ends withhold sends, and the leader makes a standby on whatever path there is.
 */
void sc_move_strand(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	if (c->move == SC_MOVE_STRANDED)
		return;
	if (c->move == SC_MOVE_SETTLING && !c->retry.interval) {
		c->fault_later = true;
		return;
	}
	if (c->move == SC_MOVE_NONE) {
		transition_none_to_stranded(c);
		sc_patience_start(x, reason);
	} else {
		transition_moving_to_stranded(c);
		c->reason = reason; /* the path to come died, so its reason is told */
	}
	sc_switch_forget(x);
	c->sw.turned_back |= c->sw.led;
	c->sw.led = false;
	move_forget_last(x);
	if (sc_epoch_cmp(c->epoch, c->lost) > 0)
		c->lost = c->epoch;
	sc_standby_hurry(x);
	sc_guard(x, true);
	sc_emit(x, SC_ACT_WITHHOLD)->epoch = c->epoch;
	sc_state_tell(x);
	sc_report(x);
}

static void move_begin_or_strand(struct sc_frame *x, enum sc_reason reason)
{
	if (x->c->move == SC_MOVE_NONE && sc_standby_ready(x->c))
		sc_move_begin(x, reason);
	else
		sc_move_strand(x, reason);
}

/* Begins the move that had to wait for a standby. */
void sc_move_advance(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_standby_ready(c))
		return;
	if (c->move == SC_MOVE_STRANDED)
		sc_move_begin(x, c->reason);
	else if (c->move == SC_MOVE_NONE && c->suspect && !sc_staying(c))
		sc_stay_or_move(x, SC_REASON_PORT);
}

static void move_fault_unguarded(struct sc_frame *x)
{
	/*
	 * TRANSPORT: withheld just before the guard went off. DEVICE: the application learns of its
	 * own NIC as on stock, but never of another one.
	 */
	if (x->ev->reason == SC_REASON_TRANSPORT ||
	    (x->ev->reason == SC_REASON_DEVICE && x->c->epoch))
		sc_end_fail(x, x->ev->reason);
}

/* A dead path may come back within the retry time of the QP; a dead carrier does not. */
static bool move_carrier_is_dead(enum sc_reason reason)
{
	return reason == SC_REASON_TRANSPORT || reason == SC_REASON_DEVICE ||
	       reason == SC_REASON_RESOURCE;
}

void sc_move_fault(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	int32_t age = sc_epoch_cmp(x->ev->epoch, c->epoch);

	if (age < 0)
		return;
	if (age == 0)
		sc_patience_beyond(x, x->ev->reason);
	if (age > 0)
		sc_standby_lost(x);
	else if (!c->guarded)
		move_fault_unguarded(x);
	else if (sc_patience_nothing_passes(x))
		sc_end_fail(x, SC_REASON_TRANSPORT);
	else if (sc_moving(c) || move_carrier_is_dead(x->ev->reason))
		move_begin_or_strand(x, x->ev->reason);
	else
		sc_stay_or_move(x, x->ev->reason);
}

/* ---- count, lay, settle --------------------------------------------------------------------- */

/* Starts the wait for the peer, whose silence counts only now: before, we were busy ourselves. */
static void move_await_peer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->peer.heard_at = x->now;
	sc_backoff_start(&c->resend_at, &c->resend_interval, x->now, sc_resend_first_ns(c));
}

static void move_settle(struct sc_frame *x)
{
	struct sc_action *a = sc_emit(x, SC_ACT_SETTLE);

	a->epoch = x->c->epoch;
	a->recv_count = x->c->peer.recv_count;
	a->dead = x->c->peer.dead;
	a->cut = x->c->peer.cut;
	sc_exact_settle(x->c, a);
}

static void move_begin_settling(struct sc_frame *x)
{
	transition_awaiting_count_to_settling(x->c);
	move_settle(x);
}

static void move_lay_receives(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->recv_count = x->ev->recv_count;
	c->count_final = true;
	c->lifetime_until = 0;
	if (!SC_MUTANT(COUNT_EARLY))
		sc_emit(x, SC_ACT_SEAL)->epoch = c->epoch;
	if (SC_MUTANT(RECEIVES_LATE))
		sc_state_send(x, false);
	sc_emit(x, SC_ACT_LAY_RECEIVES)->epoch = c->epoch;
}

static void move_begin_counting(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->lifetime_until || c->recounting || c->counted)
		return;
	if (!c->peer.quiesced && !SC_MUTANT(NO_PEER_QUIESCE))
		return;
	c->lifetime_until = x->now + (SC_MUTANT(NO_LIFETIME) ? 1 : c->config.packet_lifetime_ns);
}

static void move_note_dead_count(struct sc_frame *x)
{
	x->c->dead = x->c->epoch;
	if (x->ev->cut)
		x->c->cut = x->c->epoch;
}

/* Takes a recount. An unasked answer (a command that hung and came back) counts only when final. */
static void move_take_recount(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool still = c->counted && c->recv_count == x->ev->recv_count;

	if (!c->recounting)
		return;
	c->recounting = false;
	if (still || SC_MUTANT(NO_LIFETIME)) {
		transition_counting_to_laying(c);
		move_note_dead_count(x);
		move_lay_receives(x);
		return;
	}
	c->counted = true;
	c->recv_count = x->ev->recv_count;
	c->lifetime_until = x->now + c->config.settle_ns;
}

void sc_move_quiesced(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool final = x->ev->final || x->ev->disassociated || SC_MUTANT(COUNT_EARLY);

	if (x->ev->epoch != c->epoch)
		return;
	if (final && (x->ev->dead || x->ev->disassociated) && !c->count_final)
		move_note_dead_count(x);
	if (c->move == SC_MOVE_QUIESCING && final) {
		transition_quiescing_to_laying(c);
		move_lay_receives(x);
	} else if (c->move == SC_MOVE_QUIESCING) {
		transition_quiescing_to_counting(c);
		move_await_peer(x);
		move_begin_counting(x);
	} else if (c->move == SC_MOVE_COUNTING && final) {
		transition_counting_to_laying(c);
		move_lay_receives(x);
	} else if (c->move == SC_MOVE_COUNTING) {
		move_take_recount(x);
	}
}

/* Repeats later if a key of the backup NIC or a right to run may come; ends otherwise. */
static void move_retry_or_fail(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (x->ev->reason != SC_REASON_KEY && x->ev->reason != SC_REASON_HOME) {
		sc_end_fail(x, x->ev->reason);
		return;
	}
	if (!c->retry.interval || c->retry.reason != x->ev->reason)
		c->retry.since = x->now;
	c->retry.reason = x->ev->reason;
	if (c->retry.interval)
		sc_backoff_next(&c->retry.at, &c->retry.interval, x->now, c->config.resend_max_ns);
	else
		sc_backoff_start(&c->retry.at, &c->retry.interval, x->now, c->config.resend_min_ns);
}

void sc_move_laid(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->move != SC_MOVE_LAYING || x->ev->epoch != c->epoch)
		return;
	if (!x->ev->ok) {
		move_retry_or_fail(x);
		/* a sick peer counts from our quiescence on, another one hears of it later */
		if (c->move == SC_MOVE_LAYING && c->peer.epoch == c->epoch && !c->peer.quiesced)
			sc_state_send(x, false);
		if (c->move == SC_MOVE_LAYING && !c->resend_at)
			move_await_peer(x);
		return;
	}
	c->retry.at = c->retry.interval = 0;
	/* receives polled between the count and the seal belong to the application */
	if (!SC_MUTANT(COUNT_EARLY))
		c->recv_count = x->ev->recv_count;
	transition_laying_to_awaiting_count(c);
	/* if the peer's final count came first, the peer has only to say that it has seen ours */
	sc_state_send(x, c->peer.final);
	move_await_peer(x);
	if (sc_exact_complete(c) || SC_MUTANT(NO_ANSWER))
		move_begin_settling(x);
}

/* A fault in the meantime makes the carrier useless, whatever was missing. */
static void move_settle_failed(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool lost = c->fault_later;

	move_retry_or_fail(x);
	if (lost && c->move == SC_MOVE_SETTLING)
		sc_move_strand(x, SC_REASON_TRANSPORT);
}

static void move_arrive(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	sc_switch_arrive(x);
	if (c->path && c->recv == SC_RECV_DEFAULT)
		transition_recv_default_to_fallback(c);
	else if (!c->path && c->recv == SC_RECV_FALLBACK)
		transition_recv_fallback_to_default(c);
	sc_standby_ask(x);
}

void sc_move_settled(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->move != SC_MOVE_SETTLING || x->ev->epoch != c->epoch)
		return;
	if (!x->ev->ok) {
		move_settle_failed(x);
		return;
	}
	c->retry.at = c->retry.interval = 0;
	transition_settling_to_none(c);
	move_arrive(x);
	if (SC_MUTANT(COUNT_EARLY))
		sc_emit(x, SC_ACT_QUIESCE)->epoch = c->epoch;
	sc_emit(x, SC_ACT_DROP_OLD)->epoch = c->epoch;
	sc_report(x);
	if (c->fault_later)
		sc_move_strand(x, SC_REASON_TRANSPORT);
}

/* ---- the peer's STATE ----------------------------------------------------------------------- */

static void move_record_peer(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	if ((m->quiesced || m->final) && !c->peer.quiesced) {
		c->peer.quiesced = true;
		c->peer.quiesced_at = x->now;
	}
	if (m->final && !c->peer.final) {
		c->peer.final = true;
		c->peer.recv_count = m->recv_count;
		c->peer.dead = m->dead;
		c->peer.cut = m->cut;
	}
	if (m->seen_epoch == c->epoch)
		c->peer.seen_epoch = c->epoch;
	sc_exact_heard(x);
}

static bool move_final_is_sent(const struct sc_conn *c)
{
	return c->count_final && c->move != SC_MOVE_LAYING;
}

/*
 * True if the peer has its count, but not ours. Before it has counted, ours may still be on its
 * way; if that is lost, the peer's count comes without it, or the peer asks.
 */
static bool move_is_unseen(const struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;

	return move_final_is_sent(x->c) && m->final && m->seen_epoch != x->c->epoch;
}

static void move_message_equal(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool left_for = (sc_moving(c) && c->move != SC_MOVE_STRANDED) || c->count_final;

	if (left_for)
		move_record_peer(x);
	if (c->move == SC_MOVE_COUNTING)
		move_begin_counting(x);
	else if (c->move == SC_MOVE_AWAITING_COUNT && sc_exact_complete(c))
		move_begin_settling(x);
	else if (c->move == SC_MOVE_NONE)
		sc_switch_message(x);
	if (c->move != SC_MOVE_ENDED && !x->ev->copy && (x->ev->state.ask || move_is_unseen(x)))
		sc_state_send(x, false);
}

/*
 * Follows the peer, which leaves for a standby that both had ready; if ours is lost since, both
 * wait.
 */
static void move_message_higher(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint32_t epoch = x->ev->state.epoch;

	/* a stranded peer speaks of the carrier that it went to */
	if (c->move == SC_MOVE_NONE && !x->ev->state.stranded)
		sc_patience_beyond(x, x->ev->state.reason);
	if (sc_standby_ready_for(c, epoch)) {
		if (c->move != SC_MOVE_NONE)
			sc_move_strand(x, SC_REASON_PEER);
		if (c->move == SC_MOVE_SETTLING)
			return;
		sc_move_begin(x, SC_REASON_PEER);
		move_message_equal(x);
		return;
	}
	if (sc_epoch_cmp(epoch, c->lost) > 0)
		c->lost = epoch;
	if (c->move == SC_MOVE_STRANDED)
		sc_state_send(x, false);
	else
		sc_move_strand(x, SC_REASON_PEER);
}

/* Gives up the carriers that the peer has lost: they are of no use here either. */
static void move_message_lost(struct sc_frame *x)
{
	const struct sc_msg_state *m = &x->ev->state;
	struct sc_conn *c = x->c;

	if (sc_epoch_cmp(m->lost, c->peer.lost) > 0)
		c->peer.lost = m->lost;
	sc_standby_gone_at_peer(x, m->lost);
	if (m->stranded && m->epoch == c->epoch && c->move == SC_MOVE_NONE)
		sc_patience_beyond(x, m->reason);
	if ((m->stranded && m->epoch == c->epoch) ||
	    (sc_epoch_cmp(m->lost, c->epoch) >= 0 && sc_epoch_cmp(m->epoch, c->epoch) < 0))
		move_begin_or_strand(x, SC_REASON_PEER);
}

void sc_move_message(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	int32_t age;

	if (x->ev->state.lost || x->ev->state.stranded)
		move_message_lost(x);
	age = sc_epoch_cmp(x->ev->state.epoch, c->epoch);
	if (age > 0)
		move_message_higher(x);
	else if (age == 0 || (SC_MUTANT(ANY_EPOCH) && sc_moving(c)))
		move_message_equal(x);
	else if (x->ev->state.ask && !x->ev->copy)
		sc_state_send(x, false);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void move_recount(struct sc_frame *x)
{
	x->c->lifetime_until = 0;
	x->c->recounting = true;
	sc_emit(x, SC_ACT_RECOUNT)->epoch = x->c->epoch;
}

static void move_retry(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->retry.at = 0;
	if (c->move == SC_MOVE_LAYING)
		sc_emit(x, SC_ACT_LAY_RECEIVES)->epoch = c->epoch;
	else if (c->move == SC_MOVE_SETTLING)
		move_settle(x);
}

static enum sc_reason move_late_reason(const struct sc_conn *c)
{
	if (c->move == SC_MOVE_STRANDED)
		return SC_REASON_NO_STANDBY;
	return c->retry.interval ? c->retry.reason : SC_REASON_DEADLINE;
}

void sc_move_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_moving(c))
		return;
	sc_patience_follow(x);
	if (sc_switch_turns_back(x)) {
		sc_move_strand(x, SC_REASON_KEY);
		return;
	}
	if (sc_due(c->deadline_at, x->now) && !SC_MUTANT(FOR_EVER)) {
		sc_end_fail(x, move_late_reason(c));
		return;
	}
	if (sc_due(c->lifetime_until, x->now))
		move_recount(x);
	if (sc_due(c->retry.at, x->now))
		move_retry(x);
}
