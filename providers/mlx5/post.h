/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting, and the parts that all posts of sends share. */
#ifndef RING_POST_H
#define RING_POST_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ring_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ring_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ring_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int ring_tx_enter(struct sp_qp *qp);
void ring_tx_commit(struct sp_qp *qp, struct ring_sq *sq, const struct ring_batch *batch);
void ring_tx_unlock(struct sp_qp *qp);
uint32_t ring_tx_limit(struct sp_qp *qp);
int ring_rq_publish(struct sp_qp *qp, bool shell);
int ring_recv_key(struct sp_qp *qp, const struct sp_carrier *c, uint32_t key, bool shell,
		  uint32_t *wire);
int ring_umr_build(struct ring_sq *sq, uint8_t **seg, uint32_t *ds, enum ibv_mw_type type,
		   uint32_t rkey, const struct ibv_mw_bind_info *info);

#pragma GCC visibility pop

#endif
