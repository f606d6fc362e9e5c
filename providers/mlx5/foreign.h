/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions of QPs that libmlx5 posts, on a CQ that we drive. */
#ifndef RING_FOREIGN_H
#define RING_FOREIGN_H

#include "providers/mlx5/cq.h"

#pragma GCC visibility push(hidden)

/* As sp_cq_foreign_*. */
int ring_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq);
int ring_foreign_feed(struct sp_cq *cq, struct ibv_cq *private_cq, uint32_t qpn);
int ring_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq);
/* A CQE of a QP that the engine does not know. The CQ's lock is held, here and below. */
void ring_foreign_take(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t qpn);
/* fed: those alone that were fed, and have something. */
int ring_foreign_poll(struct sp_cq *cq, bool fed, int n, struct ibv_wc *wc);

#pragma GCC visibility pop

#endif
