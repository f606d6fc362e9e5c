/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move from one carrier to another: withhold, flushed, seal, lay receives. Called by the shell;
 * nothing of the QP moves meanwhile (ring_qp_lock). Settling is in settle.c.
 */
#include "providers/mlx5/cq.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/errors.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/move.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/xlat.h"

/* -- the marker -------------------------------------------------------------------------------- */

static bool error_seen(const struct sp_carrier *c)
{
	return atomic_load(&c->err_mode) != RING_ERR_NONE;
}

/*
 * The marker, a hidden NOP behind the last request, ends a flush that would leave no trace:
 * acknowledged but unsignaled requests leave no completion. And a QP with nothing outstanding has
 * nothing to flush: only the NOP's flush tells a NIC that went to ERR from one that only said so
 * and goes on executing what the peer sends.
 */
static bool marker_proves(const struct sp_qp *qp, const struct sp_carrier *c)
{
	return !error_seen(c) && qp->max_post && !c->sq.blank &&
	       (c->srq || atomic_load(&c->rq.tail) == c->rq.pub);
}

static bool marker_wanted(const struct sp_qp *qp, struct sp_carrier *c)
{
	if (atomic_load(&c->sq.tail) == c->sq.head)
		return marker_proves(qp, c);
	return !c->sq_err && ring_nop_need(c) == RING_NOP_NEEDED;
}

/*
 * Posts the marker, only once there is no way back to this carrier, and never on the next one: it
 * takes a place that the application paid for. If receives were laid into a carrier that died
 * before the sends came, the marker goes there, where the send queue is empty.
 */
static void marker_try(struct sp_qp *qp)
{
	bool leaving = (qp->tx_mode & RING_HOLD) && (qp->rx_mode & RING_HOLD);

	if (leaving && !(qp->tx_mode & (RING_FOREIGN | RING_FAILED)) && marker_wanted(qp, qp->rx))
		ring_nop_post(qp->rx);
}

/* -- leave ------------------------------------------------------------------------------------- */

/*
 * Requests without a completion may be complete, and nothing says so: at a flap an atomic among
 * them would be waited for as one whose answer may still come. While the queue still executes, a
 * hidden NOP behind them tells, also where the path is down, as it is no packet. If it executes no
 * more, the NOP's flush is the marker.
 */
static void withhold_ask(struct sp_qp *qp)
{
	struct sp_carrier *c = qp->tx;

	if (c == qp->rx && !error_seen(c) && !(qp->tx_mode & (RING_FOREIGN | RING_FAILED)) &&
	    !ring_nops(c, atomic_load(&c->sq.tail)) && ring_nop_need(c) == RING_NOP_NEEDED &&
	    !ring_nop_early(c))
		ring_nop_post(c);
}

void ring_qp_withhold(struct sp_qp *qp)
{
	/* without memory, posts are refused until the move is over */
	(void)ring_hold_make(qp);
	ring_qp_lock(qp);
	ring_hold_enter(qp);
	atomic_store(&qp->withheld, true);
	if (!(qp->rx_mode & (RING_HOLD | RING_KEYS | RING_XLAT)))
		qp->rx->rq.pub = qp->rx->rq.head;
	qp->tx_mode |= RING_HOLD;
	qp->rx_mode |= RING_HOLD;
	ring_cq_watch_locked(qp->scq);
	ring_cq_watch_locked(qp->rcq);
	withhold_ask(qp);
	ring_qp_unlock(qp);
}

static bool queue_sealed(const struct sp_carrier *c, enum ring_attn queue)
{
	return atomic_load(&c->attn) & queue;
}

/*
 * True if the send queue's flush has begun: behind the queue's last good completion, in a QP that
 * executes nothing any more. The begin is enough, as a CQ that overran may never show the end. A
 * sealed queue counts as flushed: the receives may lie in a later carrier, which is being left too.
 */
static bool sends_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	bool complete = atomic_load(&c->sq.tail) == c->sq.head;

	return queue_sealed(c, RING_ATTN_SQ_SEALED) ||
	       ((error_seen(c) || !qp->max_post) && (c->sq_err || complete));
}

static bool receives_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	bool complete = atomic_load(&c->rq.tail) == (qp->rx_mode ? c->rq.pub : c->rq.head);

	if (c->srq) /* no flush shows it, the last of the queue's WQEs does */
		return queue_sealed(c, RING_ATTN_RQ_SEALED) || atomic_load(&c->last_receive);
	return queue_sealed(c, RING_ATTN_RQ_SEALED) ||
	       ((error_seen(c) || !qp->max_post) && (c->rq_err || complete));
}

void ring_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out)
{
	const struct sp_carrier *err;

	ring_qp_lock(qp);
	if (in_error) /* a QP in RTR would ignore the doorbell, and one in RTS execute the marker */
		marker_try(qp);
	err = sp_carrier_of_error(qp);
	out->error_seen = error_seen(qp->rx) || queue_sealed(qp->rx, RING_ATTN_RQ_SEALED) ||
			  (!queue_sealed(qp->tx, RING_ATTN_SQ_SEALED) && error_seen(qp->tx));
	out->sq = sends_flushed(qp, qp->tx);
	out->rq = receives_flushed(qp, qp->rx);
	out->recv_count = qp->recv_base + atomic_load(&qp->rx->rq.tail);
	out->status = atomic_load(&err->app_status);
	out->vendor_err = atomic_load(&err->app_vendor);
	ring_qp_unlock(qp);
}

void ring_qp_seal(struct sp_qp *qp)
{
	struct sp_carrier *c;
	uint32_t last;

	ring_qp_lock(qp);
	last = sp_carriers_last(qp);
	for (c = qp->carriers; c; c = c->next)
		if (c->epoch <= last)
			atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	ring_qp_unlock(qp);
}

/* -- receives ---------------------------------------------------------------------------------- */

struct recv_wqe {
	struct mlx5_wqe_data_seg seg[256];
	uint32_t keys[256];
	uint32_t n;
};

/* Loads an entry with the application's keys, and with those of the carrier. */
static int recv_load(struct sp_qp *qp, struct sp_carrier *from, struct sp_carrier *to,
		     uint32_t index, struct recv_wqe *w)
{
	struct ring_rq *rq = &from->rq;
	uint32_t idx = index & rq->mask, wire;
	const uint8_t *at = rq->buf + ((size_t)idx << rq->shift);
	/* an entry that was not published yet has the application's keys still in place */
	bool aside = rq->keys && (int32_t)(index - rq->pub) < 0;

	memcpy(w->seg, at, 1u << rq->shift);
	for (w->n = 0; w->n < rq->max_gs; w->n++) {
		if (be32toh(w->seg[w->n].lkey) == MLX5_INVALID_LKEY)
			break;
		w->keys[w->n] = be32toh(w->seg[w->n].lkey);
		if (aside)
			w->keys[w->n] = *(uint32_t *)(rq->keys + (at - rq->buf) + w->n * 16);
		wire = w->keys[w->n];
		if (to->xlat && ring_recv_key(qp, to, w->keys[w->n], true, &wire))
			return -ENOENT;
		w->seg[w->n].lkey = htobe32(wire);
	}
	return 0;
}

static void recv_lay(struct sp_carrier *to, const struct recv_wqe *w, uint64_t wr_id)
{
	struct ring_rq *rq = &to->rq;
	uint32_t idx = rq->head++ & rq->mask;
	struct mlx5_wqe_data_seg *seg = (void *)(rq->buf + ((size_t)idx << rq->shift));

	memcpy(seg, w->seg, w->n * sizeof(*seg));
	for (uint32_t n = 0; rq->keys && n < w->n; n++)
		ring_key_aside(rq->keys_at, (uint8_t *)&seg[n], w->keys[n]);
	if (w->n < rq->max_gs)
		seg[w->n] = (struct mlx5_wqe_data_seg){ .lkey = htobe32(MLX5_INVALID_LKEY) };
	rq->wrid[idx] = wr_id;
}

static int recv_check(struct sp_qp *qp, struct sp_carrier *to)
{
	struct ring_rq *rq = &qp->rx->rq;
	struct recv_wqe w;

	if (!to->xlat || qp->srq)
		return 0;
	for (uint32_t i = atomic_load(&rq->tail); i != rq->head; i++)
		if (recv_load(qp, qp->rx, to, i, &w))
			return -ENOENT;
	return 0;
}

static uint32_t recv_source(uint32_t i, uint32_t tail, uint32_t head)
{
#if SHIFT_MUTANT == 4
	if (head - tail >= 2 && i - tail < 2)
		return tail + 1 - (i - tail);
#endif
	return i;
}

static void recv_move(struct sp_qp *qp, struct sp_carrier *to)
{
	struct sp_carrier *from = qp->rx;
	uint32_t tail = atomic_load(&from->rq.tail), at;
	struct recv_wqe w;

	for (uint32_t i = tail; !qp->srq && i != from->rq.head; i++) {
		at = recv_source(i, tail, from->rq.head);
		(void)recv_load(qp, from, to, at, &w); /* checked: the keys are there */
		recv_lay(to, &w, from->rq.wrid[at & from->rq.mask]);
	}
	/* nothing that the old ring still says counts */
	atomic_fetch_or(&from->attn, RING_ATTN_RQ_SEALED);
	qp->recv_base += tail;
	qp->rx = to;
	qp->rx_mode &= RING_FIRST;
	qp->rx_mode |= to->xlat ? RING_XLAT : 0;
	ring_xlat_forget(&qp->rx_xlat);
	to->rq.pub = to->rq.head;
	ring_live(to->rring, &to->rring_live);
	ring_srq_leave(from);
	ring_srq_join(to);
	ring_to_device_barrier();
	ring_store_record(&to->dbrec[MLX5_RCV_DBR], to->rq.head & 0xffff);
}

int ring_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to)
{
	int err = 0;

	ring_qp_lock(qp);
	if (to != qp->rx) {
		err = recv_check(qp, to);
		if (!err)
			recv_move(qp, to);
	}
	ring_qp_unlock(qp);
	return err;
}
