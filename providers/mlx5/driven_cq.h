/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine's completion queue, as the shell sees it. */
#ifndef RING_DRIVEN_CQ_H
#define RING_DRIVEN_CQ_H

#include "providers/cq.h"
#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_cq_drive(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
		  void *cookie, struct sp_cq **out);
int ring_cq_drive_used(struct sp_dev *dev, struct ibv_cq *ibv, void *cookie,
		       const struct sp_cq_user *users, uint32_t n, struct sp_cq **out);
int ring_cq_undrive(struct sp_cq *cq);
int ring_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
		     struct sp_cq_ring **out);
void ring_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring);
void ring_cq_take_over(struct sp_cq *cq, const struct sp_cq_past *past);
struct sp_cq_ring *ring_cq_own_ring(struct sp_cq *cq);
bool ring_cq_event_read(struct sp_cq_ring *ring);
int ring_cq_collect(struct sp_cq *cq);
int ring_cq_resize_reserve(struct sp_cq *cq, struct ibv_cq *real);
int ring_cq_resize_keep_out(struct sp_cq *cq);
void ring_cq_resize_let_poll(struct sp_cq *cq);
bool ring_cq_polled(struct sp_cq *cq);
int ring_cq_resize_begin(struct sp_cq *cq, struct ibv_cq *real);
int ring_cq_resize_end(struct sp_cq *cq, struct ibv_cq *real);
bool ring_cq_error_waiting(struct sp_cq *cq);
/* Counts the sends that are complete; false: there may be more. The CQ's lock is held. */
bool ring_cq_sent(const struct sp_cq_ring *ring, const struct sp_carrier *c, uint32_t *done);
void ring_live(struct sp_cq_ring *ring, bool *flag);
void ring_unlive(struct sp_cq_ring *ring, bool *flag);

#pragma GCC visibility pop

#endif
