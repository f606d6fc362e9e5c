/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions of QPs that libmlx5 posts, on a CQ that we drive. */
#ifndef RING_FOREIGN_H
#define RING_FOREIGN_H

#include "providers/mlx5/cq.h"

#pragma GCC visibility push(hidden)

/* As sp_cq_foreign_*. */
int ring_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events);
int ring_foreign_feed(struct sp_cq *cq, const struct sp_cq_user *user);
void ring_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq);
void ring_foreign_unmute(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset);
int ring_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq);
/* A CQE of a QP that the engine does not know. The CQ's lock is held, here and below. */
void ring_foreign_take(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t qpn);
/* fed: those alone that were fed, and have something. */
int ring_foreign_poll(struct sp_cq *cq, bool fed, int n, struct ibv_wc *wc);
/* The same of a CQ with start_poll, one completion: what the readers look at is a copy. */
bool ring_foreign_next(struct sp_cq *cq, bool fed, struct ring_comp *comp, struct ring_entry *soft);
/* All of them; and is anything of them in memory, of which no NIC tells? */
void ring_foreign_arm(struct sp_cq *cq, bool solicited);
bool ring_foreign_waiting(const struct sp_cq *cq);
/* Slots were given back, so the NIC may find nothing to tell of, for who has armed. */
void ring_foreign_tell(struct sp_cq *cq);

/*
 * Polls of CQs that are not driven. Who drives one with the CQ's lock held shows it first, and then waits until none of
 * these goes on that has not seen that.
 */
int ring_unknown_poll(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
void ring_unknown_wait(const struct ibv_cq *ibv);
/* The CQ is not shown yet: these complete into its ring. What was added before an error goes with the CQ. */
int ring_foreign_feed_all(struct sp_cq *cq, const struct sp_cq_user *users, uint32_t n);
void ring_foreign_free(struct sp_cq *cq);

#pragma GCC visibility pop

#endif
