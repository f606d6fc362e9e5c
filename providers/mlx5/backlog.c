/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The backlog of a CQ: completions that a collect took out of a ring, or that settle made. Under
 * the CQ's lock.
 */
#include <stdlib.h>

#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/qp.h"

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
		sp_lock(&cq->lock);
		enough = ring_backlog_has(cq, n);
		sp_unlock(&cq->lock);
		if (enough)
			return 0;
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		sp_lock(&cq->lock);
		chunk->next = cq->chunks;
		cq->chunks = chunk;
		for (uint32_t i = 0; i < RING_CHUNK; i++) {
			chunk->entries[i].next = cq->free;
			cq->free = &chunk->entries[i];
		}
		sp_unlock(&cq->lock);
	}
}

static void mark_used(struct sp_cq *cq)
{
	struct ring_chunk *chunk;
	struct ring_entry *e;

	for (chunk = cq->chunks; chunk; chunk = chunk->next)
		for (uint32_t i = 0; i < RING_CHUNK; i++)
			chunk->entries[i].used = false;
	for (e = cq->first; e; e = e->next)
		e->used = true;
}

/*
 * Puts the free entries of the chunk in the list. False: all its entries are free, and the list is
 * as before.
 */
static bool chunk_keep(struct sp_cq *cq, struct ring_chunk *chunk)
{
	struct ring_entry *was = cq->free;
	uint32_t n = 0;

	for (uint32_t i = 0; i < RING_CHUNK; i++) {
		if (chunk->entries[i].used)
			continue;
		chunk->entries[i].next = cq->free;
		cq->free = &chunk->entries[i];
		n++;
	}
	if (n < RING_CHUNK)
		return true;
	cq->free = was;
	return false;
}

static struct ring_chunk *take_unused(struct sp_cq *cq)
{
	struct ring_chunk **at = &cq->chunks, *chunk, *unused = NULL;

	mark_used(cq);
	cq->free = NULL;
	while ((chunk = *at)) {
		if (chunk_keep(cq, chunk)) {
			at = &chunk->next;
			continue;
		}
		*at = chunk->next;
		chunk->next = unused;
		unused = chunk;
	}
	return unused;
}

static void free_chunks(struct ring_chunk *chunk)
{
	struct ring_chunk *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
}

/* Gives back what was reserved and is not used. Takes the CQ's lock. */
void ring_backlog_trim(struct sp_cq *cq)
{
	struct ring_chunk *unused;

	sp_lock(&cq->lock);
	unused = take_unused(cq);
	sp_unlock(&cq->lock);
	free_chunks(unused);
}

/* True if there were armings that nobody has answered; answers them. */
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
 * Hands an event to an application that waits for one, once per arming. Any lock may be held. The
 * barrier is between `lone`, which the caller has cleared, and the armings: see notify().
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

/* Appends a completion; room was reserved under the same hold of the lock. */
void ring_backlog_push(struct sp_cq *cq, struct sp_qp *qp, const struct ring_comp *comp)
{
	struct ring_entry *e = cq->free;
	uint8_t own = comp->cqe->op_own;

	SP_ASSERT(e);
	cq->free = e->next;
	e->cqe = *comp->cqe;
	e->qp = qp;
	e->wr_id = comp->wr_id;
	e->qpn = comp->qpn;
	e->epoch = comp->carrier ? comp->carrier->epoch : UINT32_MAX;
	e->status = comp->status;
	e->op = comp->op;
	e->next = NULL;
	*cq->last = e;
	cq->last = &e->next;
	cq->more = 1;
	cq->slow = true;
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
	free_chunks(cq->chunks);
	cq->chunks = NULL;
}

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
