/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions of QPs that libmlx5 posts, on a CQ that we drive. */
#ifndef RING_FOREIGN_H
#define RING_FOREIGN_H

#include "providers/mlx5/cq.h"

#pragma GCC visibility push(hidden)

int ring_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events);
int ring_foreign_feed(struct sp_cq *cq, const struct sp_cq_user *user);
void ring_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq);
void ring_foreign_unmute(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset);
int ring_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq);
/* Takes a CQE of a QP that the engine does not know. The CQ's lock is held, here and below. */
void ring_foreign_take(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t qpn);
/* Polls private CQs. fed: only those that were fed, and have something. */
int ring_foreign_poll(struct sp_cq *cq, bool fed, int n, struct ibv_wc *wc);
/* Returns one completion for a CQ with start_poll: the readers look at a copy. */
bool ring_foreign_next(struct sp_cq *cq, bool fed, struct ring_comp *comp, struct ring_entry *soft);
/* Arm all private CQs; and tell if something of theirs is in memory, of which no NIC tells. */
void ring_foreign_arm(struct sp_cq *cq, bool solicited);
bool ring_foreign_waiting(const struct sp_cq *cq);
/*
 * Hands out an event after slots were given back: the NIC may find nothing to tell an armed program
 * of.
 */
void ring_foreign_tell(struct sp_cq *cq);

/*
 * Polls of CQs that are not driven. A thread that drives a CQ, with the CQ's lock held, publishes
 * it first, and then waits until no poll goes on that has not seen that.
 */
int ring_unknown_poll(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
void ring_unknown_wait(const struct ibv_cq *ibv);
/*
 * Adds QPs that complete into the ring of a CQ that is not published yet. What was added before an
 * error goes with the CQ.
 */
int ring_foreign_feed_all(struct sp_cq *cq, const struct sp_cq_user *users, uint32_t n);
void ring_foreign_free(struct sp_cq *cq);

#pragma GCC visibility pop

#endif
