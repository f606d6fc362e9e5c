/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rings of a shared queue and their users. Compiled into each engine, as pool.h is; the engine
 * has sp_pool_feed() and sp_pool_feed_or_tell() besides. These functions take the queue's lock.
 */
#ifndef SHIFT_SRQ_RINGS_H
#define SHIFT_SRQ_RINGS_H

#include "providers/common/pool.h"

static inline struct sp_srq_ring *sp_rings_find(struct sp_srq *srq, const struct ibv_srq *real)
{
	struct sp_srq_ring *ring;

	sp_lock(&srq->lock);
	for (ring = &srq->own; ring && ring->real != real;)
		ring = ring->next;
	sp_unlock(&srq->lock);
	return ring;
}

static inline void sp_rings_link(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	sp_lock(&srq->lock);
	ring->next = srq->own.next;
	srq->own.next = ring;
	sp_unlock(&srq->lock);
}

static inline void sp_rings_unlink(struct sp_srq *srq, const struct sp_srq_ring *ring)
{
	struct sp_srq_ring *prev;

	sp_lock(&srq->lock);
	for (prev = &srq->own; prev->next != ring;)
		prev = prev->next;
	prev->next = ring->next;
	sp_unlock(&srq->lock);
}

/* The carrier takes receives of its ring from here on. */
static inline void sp_ring_join(struct sp_carrier *c)
{
	struct sp_srq *srq;

	if (!c->srq || c->srq_user)
		return;
	srq = c->srq->srq;
	sp_lock(&srq->lock);
	c->srq_user = true;
	c->srq->users++;
	srq->split |= c->srq != &srq->own;
	if (srq->split || sp_pool_length(srq)) {
		sp_pool_feed_or_tell(srq);
		sp_pool_tell_if_in_want(srq, c->srq);
	}
	sp_pool_check_limit(srq); /* the device's own limit event is not passed on any more */
	sp_unlock(&srq->lock);
}

static inline void sp_ring_leave(struct sp_carrier *c)
{
	struct sp_srq *srq;

	if (!c->srq || !c->srq_user)
		return;
	srq = c->srq->srq;
	sp_lock(&srq->lock);
	SP_ASSERT(c->srq->users);
	c->srq_user = false;
	c->srq->users--;
	sp_unlock(&srq->lock);
}

/* -- operations of struct sp_srq_ops ----------------------------------------------------------- */

static inline struct sp_srq_ring *sp_rings_own(struct sp_srq *srq)
{
	return &srq->own;
}

static inline void sp_ring_query(struct sp_srq_ring *ring, struct sp_srq_state *out)
{
	struct sp_srq *srq = ring->srq;

	sp_lock(&srq->lock);
	out->users = ring->users;
	out->receives = sp_ring_receives(ring);
	out->spoiled = ring->spoiled;
	out->stale = ring->n_stale;
	out->split = srq->split;
	out->limit = srq->limit;
	sp_unlock(&srq->lock);
}

static inline int sp_ring_renew(struct sp_srq_ring *ring)
{
	int err = 0;

	sp_lock(&ring->srq->lock);
	if (ring->n_stale)
		err = -EBUSY;
	else
		ring->spoiled = false;
	sp_unlock(&ring->srq->lock);
	return err;
}

static inline void sp_ring_rest(struct sp_srq_ring *ring, bool rests)
{
	struct sp_srq *srq = ring->srq;

	sp_lock(&srq->lock);
	ring->rests = rests;
	if (srq->split)
		sp_pool_feed_or_tell(srq);
	sp_unlock(&srq->lock);
}

static inline int sp_rings_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	int err = 0;

	sp_lock(&srq->lock);
	if (srq->split) {
		err = sp_pool_feed(srq, now_ns, patience_ns);
		sp_pool_tell_if_starving(srq);
	}
	sp_unlock(&srq->lock);
	return err;
}

static inline void sp_rings_limit(struct sp_srq *srq, uint32_t limit)
{
	sp_lock(&srq->lock);
	srq->limit = limit;
	sp_pool_check_limit(srq);
	sp_unlock(&srq->lock);
}

#endif
