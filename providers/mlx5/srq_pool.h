/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue. The queue's lock is held, except in ring_pool_make(). */
#ifndef RING_SRQ_POOL_H
#define RING_SRQ_POOL_H

#include "providers/mlx5/srq.h"

#pragma GCC visibility push(hidden)

int ring_pool_make(struct sp_srq *srq);
struct ring_pooled *ring_pool_add(struct sp_srq *srq, bool front);
void ring_pool_load(const struct sp_srq_ring *ring, uint32_t idx, struct ring_pooled *out);
void ring_pool_feed_or_tell(struct sp_srq *srq);
uint32_t ring_srq_total(const struct sp_srq *srq);
void ring_srq_check_limit(struct sp_srq *srq);
void ring_srq_tell_if_in_want(struct sp_srq *srq, const struct sp_srq_ring *ring);
void ring_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring);

#pragma GCC visibility pop

#endif
