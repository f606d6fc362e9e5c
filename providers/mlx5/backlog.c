/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completions that do not lie in a ring: the backlog (taken out by a drain, or made by settle), and
 * the failed queues, whose completions are made from the rings when they are polled, so that they
 * need no memory and stay bounded by what may be posted. All under the CQ's lock.
 */
#include <stdlib.h>

#include "providers/mlx5/cqe.h"

/* Is there room for n more entries? */
bool ring_backlog_has(struct sp_cq *cq, uint32_t n)
{
	struct ring_entry *e = cq->free;

	for (; n && e; n--)
		e = e->next;
	return !n;
}

/* Make room for n more entries. Takes and drops the CQ's lock around the allocation. */
int ring_backlog_reserve(struct sp_cq *cq, uint32_t n)
{
	struct ring_chunk *chunk;
	bool enough;

	for (;;) {
		ring_lock(&cq->lock);
		enough = ring_backlog_has(cq, n);
		ring_unlock(&cq->lock);
		if (enough)
			return 0;
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		ring_lock(&cq->lock);
		chunk->next = cq->chunks;
		cq->chunks = chunk;
		for (uint32_t i = 0; i < RING_CHUNK; i++) {
			chunk->entries[i].next = cq->free;
			cq->free = &chunk->entries[i];
		}
		ring_unlock(&cq->lock);
	}
}

/* Were there any that nobody has answered? */
static bool armings_answer(struct ring_armings *armings)
{
	uint64_t told = atomic_load(&armings->told), count;

	do {
		count = atomic_load(&armings->count);
		if (!ring_armings_open(count, told))
			return false;
	} while (!atomic_compare_exchange_weak(&armings->told, &told, count));
	return true;
}

/*
 * An event for an application that waits for one: once per arming. Any lock may be held. The fence
 * is between `lone`, which the caller has cleared, and the armings: see notify().
 */
void ring_backlog_event(struct sp_cq *cq, bool solicited)
{
	__sync_synchronize();
	if (!armings_answer(&cq->armings[RING_ARMED_ANY]) &&
	    (!solicited || !armings_answer(&cq->armings[RING_ARMED_SOLICITED])))
		return;
	ring_cq_told(cq);
	cq->dev->cb->cq_event(cq->cookie);
}

/* Room was reserved under the same hold of the lock. */
void ring_backlog_push(struct sp_cq *cq, struct sp_qp *qp, const struct ring_comp *comp)
{
	struct ring_entry *e = cq->free;
	uint8_t own = comp->cqe->op_own;

	cq->free = e->next;
	e->cqe = *comp->cqe;
	e->qp = qp;
	e->wr_id = comp->wr_id;
	e->qpn = comp->qpn;
	e->status = comp->status;
	e->op = comp->op;
	e->next = NULL;
	*cq->last = e;
	cq->last = &e->next;
	cq->more = cq->slow = 1;
	atomic_store_explicit(&cq->lone, NULL, memory_order_relaxed);
	ring_backlog_event(cq, comp->status || (own & 2));
}

bool ring_backlog_pop(struct sp_cq *cq, struct ring_entry *out)
{
	struct ring_entry *e = cq->first;

	if (!e)
		return false;
	cq->first = e->next;
	if (!cq->first)
		cq->last = &cq->first;
	*out = *e;
	e->next = cq->free;
	cq->free = e;
	return true;
}

/* Forget the completions of a QP that is reset or destroyed. */
void ring_backlog_drop(struct sp_cq *cq, struct sp_qp *qp)
{
	struct ring_entry **at = &cq->first, *e;

	while ((e = *at)) {
		if (e->qp != qp) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = cq->free;
		cq->free = e;
	}
	cq->last = at;
}

void ring_backlog_free(struct sp_cq *cq)
{
	struct ring_chunk *chunk;

	while ((chunk = cq->chunks)) {
		cq->chunks = chunk->next;
		free(chunk);
	}
}

/* -- failed queues ---------------------------------------------------------------------------- */

void ring_soft_make(struct ring_entry *out, struct sp_qp *qp, uint8_t opcode, uint8_t op,
		    enum ibv_wc_status status, uint32_t vendor_err)
{
	memset(&out->cqe, 0, sizeof(out->cqe));
	out->cqe.op_own = opcode << 4;
	out->cqe.sop_drop_qpn = htobe32((uint32_t)op << 24 | qp->app_qpn);
	if (status != IBV_WC_SUCCESS)
		((struct mlx5_err_cqe *)&out->cqe)->vendor_err_synd = vendor_err;
	out->qp = qp;
	out->qpn = qp->app_qpn;
	out->status = status;
	out->op = op;
}

/* A delivered request: complete it as the NIC would have. False: it was not signaled. */
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

/* The oldest request of this queue. False: it needs no completion. */
static bool failed_send(struct sp_qp *qp, struct ring_sq *sq, struct ring_entry *out)
{
	struct ring_failed *f = &qp->tx_failed;
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
	if (!ring_trylock(&qp->sq_lock))
		return false;
	for (int i = 0; i < 2 && !found; i++)
		while (!found && queues[i]->head != atomic_load(&queues[i]->tail))
			found = failed_send(qp, queues[i], out);
	ring_unlock(&qp->sq_lock);
	return found;
}

static bool failed_rx_next(struct sp_qp *qp, struct ring_entry *out)
{
	struct ring_rq *rq = &qp->rx->rq;
	uint32_t tail;
	bool found;

	if (qp->srq)
		return false; /* what a shared queue holds is not this QP's to flush */
	ring_lock(&qp->rq_lock);
	tail = atomic_load(&rq->tail);
	found = rq->head != tail;
	if (found) {
		out->wr_id = rq->wrid[tail & rq->mask];
		ring_soft_make(out, qp, MLX5_CQE_RESP_ERR, 0, IBV_WC_WR_FLUSH_ERR, 0);
		atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
	}
	ring_unlock(&qp->rq_lock);
	return found;
}

/* While somebody posts, a poll finds nothing (failed_tx_next): better wake once too often. */
static bool failed_tx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (!ring_trylock(&qp->sq_lock))
		return true;
	waiting = qp->tx->sq.head != atomic_load(&qp->tx->sq.tail) ||
		  qp->hold.head != atomic_load(&qp->hold.tail);
	ring_unlock(&qp->sq_lock);
	return waiting;
}

static bool failed_rx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (qp->srq)
		return false;
	ring_lock(&qp->rq_lock);
	waiting = qp->rx->rq.head != atomic_load(&qp->rx->rq.tail);
	ring_unlock(&qp->rq_lock);
	return waiting;
}

/* Are there completions of failed queues that nobody has polled? CQ lock held. */
bool ring_failed_waiting(const struct sp_cq *cq)
{
	struct sp_qp *qp;

	for (qp = cq->failed_tx; qp; qp = qp->tx_failed.next)
		if (failed_tx_waiting(qp))
			return true;
	for (qp = cq->failed_rx; qp; qp = qp->rx_failed.next)
		if (failed_rx_waiting(qp))
			return true;
	return false;
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
