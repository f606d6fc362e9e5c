/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Failed queues. Their completions are made from the rings when they are polled, so that they need
 * no memory and stay bounded by what may be posted. All functions run under the CQ's lock.
 */
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/failed.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"
#include "providers/common/failed_queues.h"

/* Completes a delivered request as the NIC would have. False: it was not signaled. */
static bool failed_delivered(struct sp_qp *qp, struct ring_sq *sq, uint32_t slot, uint8_t op,
			     struct ring_entry *out)
{
	struct ring_wqe wqe;

	qp->tx_failed.delivered--;
	if (!ring_ctrl_signaled(ring_sq_ctrl(sq, slot)))
		return false;
	ring_wqe_load(sq, slot, qp->type, &wqe);
	ring_soft_make(out, qp, MLX5_CQE_REQ, op, IBV_WC_SUCCESS, 0);
	out->cqe.byte_cnt = htobe32(ring_wqe_data_len(&wqe));
	return true;
}

/* Completes the oldest request of this queue. False: it needs no completion. */
static bool failed_send(struct sp_qp *qp, struct ring_sq *sq, struct ring_entry *out)
{
	struct sp_failed *f = &qp->tx_failed;
	uint32_t tail = atomic_load_explicit(&sq->tail, memory_order_relaxed);
	uint32_t slot = sq->tail_post & sq->mask;
	bool first = !f->first_done;
	uint8_t op;

	sq->tail_post += ring_wqe_bbs(sq, slot);
	atomic_store_explicit(&sq->tail, tail + 1, memory_order_release);
	if (sq->wr_data[slot] == RING_OP_HIDDEN)
		return false;
	op = sq->wr_data[slot] ? sq->wr_data[slot] : ring_ctrl_opcode(ring_sq_ctrl(sq, slot));
	out->wr_id = sq->wrid[slot];
	if (f->delivered)
		return failed_delivered(qp, sq, slot, op, out);
	ring_soft_make(out, qp, MLX5_CQE_REQ_ERR, op, first ? f->first : IBV_WC_WR_FLUSH_ERR,
		       first ? f->vendor_err : 0);
	f->first_done = true;
	return true;
}

static bool failed_tx_next(struct sp_qp *qp, struct ring_entry *out)
{
	struct ring_sq *queues[2] = { &qp->tx->sq, &qp->hold };
	bool found = false;

	/* the poller itself may be between wr_start and wr_complete: it will poll again */
	if (!sp_trylock(&qp->sq_lock))
		return false;
	for (int i = 0; i < 2 && !found; i++)
		while (!found && queues[i]->head != atomic_load(&queues[i]->tail))
			found = failed_send(qp, queues[i], out);
	sp_unlock(&qp->sq_lock);
	return found;
}

static bool failed_rx_next(struct sp_qp *qp, struct ring_entry *out)
{
	struct ring_rq *rq = &qp->rx->rq;
	uint32_t tail;
	bool found;

	if (qp->srq)
		return false; /* a shared queue's receives are not this QP's to flush */
	sp_lock(&qp->rq_lock);
	tail = atomic_load(&rq->tail);
	found = rq->head != tail;
	if (found) {
		out->wr_id = rq->wrid[tail & rq->mask];
		ring_soft_make(out, qp, MLX5_CQE_RESP_ERR, 0, IBV_WC_WR_FLUSH_ERR, 0);
		atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
	}
	sp_unlock(&qp->rq_lock);
	return found;
}

/* While somebody posts, a poll finds nothing (failed_tx_next): better wake once too often. */
static bool failed_tx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (!sp_trylock(&qp->sq_lock))
		return true;
	waiting = qp->tx->sq.head != atomic_load(&qp->tx->sq.tail) ||
		  qp->hold.head != atomic_load(&qp->hold.tail);
	sp_unlock(&qp->sq_lock);
	return waiting;
}

static bool failed_rx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (qp->srq)
		return false;
	sp_lock(&qp->rq_lock);
	waiting = qp->rx->rq.head != atomic_load(&qp->rx->rq.tail);
	sp_unlock(&qp->rq_lock);
	return waiting;
}

bool ring_failed_waiting(const struct sp_cq *cq)
{
	return sp_failed_waiting(cq);
}

bool ring_failed_next(struct sp_cq *cq, struct ring_entry *out)
{
	struct sp_qp *qp;

	for (qp = cq->failed_tx; qp; qp = qp->tx_failed.next)
		if (failed_tx_next(qp, out))
			return true;
	for (qp = cq->failed_rx; qp; qp = qp->rx_failed.next)
		if (failed_rx_next(qp, out))
			return true;
	return false;
}

void ring_failed_unlink(struct sp_qp *qp)
{
	sp_failed_unlink(qp);
}

/* -- fail -------------------------------------------------------------------------------------- */

static void fail_queues(struct sp_qp *qp)
{
	struct ring_sq *sq = &qp->tx->sq;

	(void)ring_sq_find(sq, atomic_load(&sq->tail), &sq->tail_post);
	qp->tx_mode = qp->rx_mode = RING_FAILED;
	ring_cq_refresh_slow(qp->scq);
	ring_cq_refresh_slow(qp->rcq);
}

void ring_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		  uint32_t n_delivered)
{
	struct sp_carrier *c;

	(void)ring_hold_make(qp); /* without memory, later posts are refused */
	ring_qp_lock(qp);
	for (c = qp->carriers; c; c = c->next)
		atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	if (!qp->tx_failed.on) {
		sp_failed_link(qp, first, vendor_err, n_delivered);
		fail_queues(qp);
		ring_backlog_event(qp->scq, true);
		ring_backlog_event(qp->rcq, true);
	}
	ring_qp_unlock(qp);
}
