/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Taking receives back from a shared queue that others still take from. */
#ifndef RING_RECLAIM_H
#define RING_RECLAIM_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		      struct sp_reclaim **out);
void ring_reclaim_free(struct sp_reclaim *reclaim);
uint32_t ring_reclaim_ask(struct sp_reclaim *reclaim, uint32_t n);
int ring_reclaim_collect(struct sp_reclaim *reclaim);

#pragma GCC visibility pop

#endif
