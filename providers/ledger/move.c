/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move from one carrier to another: withhold, flushed, seal, lay receives. Called by the shell;
 * nothing of the QP moves meanwhile (led_qp_lock). Settling is in settle.c.
 */
#include "providers/ledger/cq.h"
#include "providers/ledger/move.h"
#include "providers/ledger/recv.h"
#include "providers/ledger/send.h"
#include "providers/ledger/srq.h"

/* -- the marker -------------------------------------------------------------------------------- */

/* Counts requests handed to that carrier and not known complete. */
static uint32_t outstanding_on(const struct sp_qp *qp, const struct sp_carrier *c)
{
	return c == qp->tx ? led_pub(qp) - led_tail(qp) : 0;
}

/*
 * The marker, a hidden request behind the last one, ends a flush that would leave no trace:
 * acknowledged but unsignaled requests leave no completion. And a QP with nothing outstanding has
 * nothing to flush: only the marker's flush tells a NIC that went to ERR from one that only said so
 * and goes on executing what the peer sends.
 */
static bool marker_wanted(const struct sp_qp *qp, const struct sp_carrier *c)
{
	if (c->hidden[LED_HIDDEN_MARKER].out || c->hidden[LED_HIDDEN_FENCE].out || !qp->sq.max_post)
		return false;
	if (!outstanding_on(qp, c))
		return !led_error_seen(c) &&
		       (c->srq || atomic_load(&qp->rq.tail) == led_recv_pub(qp));
	return !c->sq_err && !led_completes(qp, led_pub(qp) - 1);
}

/*
 * Posts the marker, once there is no way back to this carrier. If receives were laid into a carrier
 * that died before the sends came, the marker goes there, where the send queue is empty. A provider
 * that takes nothing in ERR, or of a QP that was never in RTS, has to show its flush by what it
 * had.
 */
static void marker_try(struct sp_qp *qp)
{
	bool leaving = (qp->tx_mode & LED_HOLD) && (qp->rx_mode & LED_HOLD);
	struct led_hidden *marker = &qp->rx->hidden[LED_HIDDEN_MARKER];
	struct ibv_send_wr *bad;

	if (!leaving || (qp->tx_mode & LED_FAILED) || !marker_wanted(qp, qp->rx))
		return;
	marker->n = qp->rx == qp->tx ? led_pub(qp) : led_tail(qp);
	marker->out = !qp->rx->dev->saved.post_send(qp->rx->real, &marker->slot.wr, &bad);
	qp->rx->mute = !marker->out && !outstanding_on(qp, qp->rx);
}

/* -- leave ------------------------------------------------------------------------------------- */

/*
 * Withholds all posts. A post that was inside of the provider has left it when the locks are ours.
 */
void led_qp_withhold(struct sp_qp *qp)
{
	led_qp_lock(qp);
	atomic_store(&qp->withheld, true);
	qp->tx_mode |= LED_HOLD;
	led_recvs_hold(qp, LED_HOLD);
	led_cq_watch_locked(qp->scq);
	led_cq_watch_locked(qp->rcq);
	led_qp_unlock(qp);
}

/* True if no flush can be made visible: the shell asks whether the NIC is to be trusted. */
static bool shows_nothing(const struct sp_qp *qp, const struct sp_carrier *c)
{
	return !qp->sq.max_post || c->mute;
}

/*
 * True if the send queue's flush has begun: behind the queue's last good completion, in a QP that
 * executes nothing any more. The begin is enough, as a CQ that overran may never show the end. A
 * sealed queue counts as flushed: the receives may lie in a later carrier, which is being left too.
 */
static bool sends_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	return led_sealed(c, LED_ATTN_SQ_SEALED) || ((led_error_seen(c) || shows_nothing(qp, c)) &&
						     (c->sq_err || !outstanding_on(qp, c)));
}

static bool receives_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	bool complete = atomic_load(&qp->rq.tail) == led_recv_pub(qp);

	if (c->srq) /* no flush shows it, the last receive does */
		return led_sealed(c, LED_ATTN_RQ_SEALED) || atomic_load(&c->last_receive);
	return led_sealed(c, LED_ATTN_RQ_SEALED) ||
	       ((led_error_seen(c) || shows_nothing(qp, c)) && (c->rq_err || complete));
}

void led_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out)
{
	const struct sp_carrier *err;

	led_qp_lock(qp);
	if (in_error) /* a QP in RTS would execute the marker */
		marker_try(qp);
	err = sp_carrier_of_error(qp);
	out->error_seen = led_error_seen(qp->rx) || led_sealed(qp->rx, LED_ATTN_RQ_SEALED) ||
			  (!led_sealed(qp->tx, LED_ATTN_SQ_SEALED) && led_error_seen(qp->tx));
	out->sq = sends_flushed(qp, qp->tx);
	out->rq = receives_flushed(qp, qp->rx);
	out->recv_count = atomic_load(&qp->rq.tail);
	out->status = atomic_load(&err->app_status);
	out->vendor_err = atomic_load(&err->app_vendor);
	led_qp_unlock(qp);
}

void led_qp_seal(struct sp_qp *qp)
{
	struct sp_carrier *c;
	uint32_t last;

	led_qp_lock(qp);
	last = sp_carriers_last(qp);
	for (c = qp->carriers; c; c = c->next)
		if (c->epoch <= last)
			led_carrier_seal(c);
	led_qp_unlock(qp);
}

/*
 * Only the shell adds and removes carriers: no lock. A receive that the carrier took may still lie
 * in the CQ. If the carrier left before it is collected, it would be recovered with the ring, and
 * used twice.
 */
void led_qp_last_receive(struct sp_qp *qp, uint32_t epoch)
{
	struct sp_carrier *c = sp_carrier_at(qp, epoch);

	if (!c)
		return;
	atomic_store(&c->last_receive, true);
	if (!led_cq_collect(qp->rcq))
		led_srq_leave(c);
}

/* -- receives ---------------------------------------------------------------------------------- */

/* Makes all that is outstanding withheld work of the next carrier. */
static void recv_move(struct sp_qp *qp, struct sp_carrier *to)
{
	struct sp_carrier *from = qp->rx;

	/* nothing that the old carrier still says counts */
	atomic_fetch_or(&from->attn, LED_ATTN_RQ_SEALED);
	qp->rx = to;
	led_recvs_hold(qp, LED_XLAT);
	qp->rx_mode = LED_XLAT;
	qp->rq.pub = atomic_load(&qp->rq.tail);
	led_live(to->rring, &to->rring_live);
	led_srq_leave(from);
	led_srq_join(to);
	if (led_recvs_go(qp, true))
		qp->dev->cb->key_missing(qp->cookie); /* the shell asks again for the rest */
}

int led_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to)
{
	int err = 0;

	led_qp_lock(qp);
	if (to != qp->rx) {
		err = qp->srq ? 0 : led_recvs_check(qp, to);
		if (!err)
			recv_move(qp, to);
	}
	led_qp_unlock(qp);
	return err;
}
