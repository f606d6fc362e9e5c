/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue. The queue's lock is held, except in ring_pool_make(). */
#ifndef RING_SRQ_POOL_H
#define RING_SRQ_POOL_H

#include "providers/mlx5/srq.h"

#pragma GCC visibility push(hidden)

int ring_pool_make(struct sp_srq *srq);
struct ring_pooled *ring_pool_add(struct sp_srq *srq, bool front);
void ring_pool_load(const struct sp_srq_ring *ring, uint32_t idx, struct ring_pooled *out);
int ring_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience);
void ring_pool_feed_or_tell(struct sp_srq *srq);
uint32_t ring_srq_total(const struct sp_srq *srq);
void ring_srq_check_limit(struct sp_srq *srq);
void ring_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring);

/* -- for providers/common/pool.h and srq_rings.h ----------------------------------------------- */

RING_INLINE uint32_t sp_ring_receives(const struct sp_srq_ring *ring)
{
	return ring->outstanding;
}

RING_INLINE bool sp_ring_full(const struct sp_srq_ring *ring)
{
	return ring->head == ring->tail;
}

RING_INLINE uint32_t sp_pool_length(const struct sp_srq *srq)
{
	return srq->pool_n;
}

RING_INLINE uint32_t sp_srq_total(const struct sp_srq *srq)
{
	return ring_srq_total(srq);
}

RING_INLINE int sp_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	return ring_pool_feed(srq, now, patience);
}

RING_INLINE void sp_pool_feed_or_tell(struct sp_srq *srq)
{
	ring_pool_feed_or_tell(srq);
}

#pragma GCC visibility pop

#endif
