/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The backlog of a CQ. Under the CQ's lock, except for the event. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"

bool led_backlog_has(const struct sp_cq *cq, uint32_t n)
{
	const struct led_entry *e = cq->free;

	for (; n && e; n--)
		e = e->next;
	return !n;
}

static void give(struct sp_cq *cq, struct led_entry *e)
{
	e->next = cq->free;
	cq->free = e;
}

/* Make room for n more entries. Takes and drops the CQ's lock around the allocation. */
int led_backlog_reserve(struct sp_cq *cq, uint32_t n)
{
	struct led_chunk *chunk;
	bool enough;

	for (;;) {
		sp_lock(&cq->lock);
		enough = led_backlog_has(cq, n);
		sp_unlock(&cq->lock);
		if (enough)
			return 0;
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		sp_lock(&cq->lock);
		chunk->next = cq->chunks;
		cq->chunks = chunk;
		for (uint32_t i = 0; i < LED_CHUNK; i++)
			give(cq, &chunk->entries[i]);
		sp_unlock(&cq->lock);
	}
}

/* True if there were armings that nobody has answered; answers them. */
static bool armings_answer(struct led_armings *armings)
{
	uint32_t told = atomic_load(&armings->told), count;

	do {
		count = atomic_load(&armings->count);
		if (count == told)
			return false;
	} while (!atomic_compare_exchange_weak(&armings->told, &told, count));
	return true;
}

/* Hands an event to an application that waits for one, once per arming. Any lock may be held. */
void led_backlog_event(struct sp_cq *cq, bool solicited)
{
	__sync_synchronize();
	if (!armings_answer(&cq->armings[LED_ARMED_ANY]) &&
	    (!solicited || !armings_answer(&cq->armings[LED_ARMED_SOLICITED])))
		return;
	(void)led_cq_event_read(&cq->ring);
	cq->dev->cb->cq_event(cq->cookie);
}

/*
 * Room was reserved under the same hold of the lock. No event: the provider's CQ was armed if the
 * application waits, so its device tells of what it completed. A second event, read instead of that
 * one, would let the application arm before the provider has heard of the first: then nobody tells
 * of the next.
 */
void led_backlog_keep(struct sp_cq *cq, const struct ibv_wc *wc, const struct led_taken *taken)
{
	struct led_entry *e = cq->free;

	SP_ASSERT(e);
	cq->free = e->next;
	e->wc = *wc;
	e->qp = taken->qp;
	e->epoch = taken->epoch;
	e->send = taken->send;
	e->next = NULL;
	*cq->last = e;
	cq->last = &e->next;
	led_cq_slow(cq, true);
}

/* Appends a completion that no device has made, and hands out an event. */
void led_backlog_push(struct sp_cq *cq, const struct ibv_wc *wc, const struct led_taken *taken)
{
	led_backlog_keep(cq, wc, taken);
	led_backlog_event(cq, wc->status != IBV_WC_SUCCESS);
}

bool led_backlog_pop(struct sp_cq *cq, struct ibv_wc *wc)
{
	struct led_entry *e = cq->first;

	if (!e)
		return false;
	cq->first = e->next;
	if (!cq->first)
		cq->last = &cq->first;
	*wc = e->wc;
	give(cq, e);
	return true;
}

bool led_ahead_pop(struct sp_cq *cq, struct ibv_wc *wc)
{
	if (!led_has_ahead(cq))
		return false;
	*wc = *cq->ahead.at++;
	return true;
}

/*
 * Counts the completions that are ahead for that queue pair, or for its sends alone. If they are
 * dropped, the others move up.
 */
static uint32_t ahead_of(struct sp_cq *cq, const struct sp_qp *qp, bool sends, bool drop)
{
	struct led_ahead *ahead = &cq->ahead;
	struct ibv_wc *kept = ahead->at;
	uint32_t n = 0;

	for (const struct ibv_wc *wc = ahead->at; wc != ahead->end; wc++) {
		if (wc->qp_num == qp->app_qpn && !(sends && (wc->opcode & IBV_WC_RECV)))
			n++;
		else if (drop)
			*kept++ = *wc;
	}
	if (drop)
		ahead->end = kept;
	return n;
}

/* Forgets the completions of a QP that is reset or destroyed. */
void led_backlog_drop(struct sp_cq *cq, const struct sp_qp *qp)
{
	struct led_entry **at = &cq->first, *e;

	ahead_of(cq, qp, false, true);
	while ((e = *at)) {
		if (e->qp != qp) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		give(cq, e);
	}
	cq->last = at;
}

/*
 * Counts the completions of that carrier's sends that the application has not seen, and drops them
 * unless count_only.
 */
uint32_t led_backlog_take_back(struct sp_cq *cq, const struct sp_carrier *c, bool count_only)
{
	struct led_entry **at = &cq->first, *e;
	uint32_t n = 0;

	if (c->sring == &cq->ring)
		n = ahead_of(cq, c->qp, true, !count_only);
	while ((e = *at)) {
		if (e->qp != c->qp || !e->send || e->epoch != c->epoch) {
			at = &e->next;
			continue;
		}
		n++;
		if (count_only) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		give(cq, e);
	}
	cq->last = at;
	return n;
}

void led_backlog_free(struct sp_cq *cq)
{
	struct led_chunk *chunk;

	while ((chunk = cq->chunks)) {
		cq->chunks = chunk->next;
		free(chunk);
	}
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW: return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV: return IBV_WC_LOCAL_INV;
	default: return IBV_WC_SEND;
	}
}

/* An atomic brings 8 bytes, whatever its buffers have room for. */
static uint32_t wc_length(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
		       ? (uint32_t)sizeof(uint64_t)
		       : led_length(wr);
}

void led_soft_send(const struct sp_qp *qp, uint32_t n, enum ibv_wc_status status,
		   uint32_t vendor_err, struct ibv_wc *wc)
{
	const union led_send *slot = led_slot(qp, n);

	*wc = (struct ibv_wc){ .wr_id = slot->own.wr_id,
			       .status = status,
			       .opcode = wc_opcode(slot->wr.opcode),
			       .vendor_err = vendor_err,
			       .qp_num = qp->app_qpn };
	if (status == IBV_WC_SUCCESS)
		wc->byte_len = wc_length(&slot->wr);
}
