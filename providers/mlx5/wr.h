/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The builders of ibv_wr_*. */
#ifndef RING_WR_H
#define RING_WR_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

void ring_wr_install(struct sp_qp *qp);
void ring_wr_restore(struct sp_qp *qp);

/* wr_xlat.c: for carriers with other keys. */
void ring_xlat_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr);
void ring_xlat_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm);
void ring_xlat_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr);
void ring_xlat_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				 uint64_t compare, uint64_t swap);
void ring_xlat_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				   uint64_t add);
void ring_xlat_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length);
void ring_xlat_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge);
int ring_xlat_wr_complete(struct ibv_qp_ex *ex); /* of requests in the carrier's ring */

void ring_log_xlat_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length);
void ring_log_xlat_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge);

/* wr_set.c; those with log in their name for carriers that are logged. */
void ring_wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
void ring_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length);
void ring_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge);
void ring_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length);
void ring_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *buf);
void ring_log_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length);
void ring_log_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge);
void ring_log_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length);
void ring_log_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				      const struct ibv_data_buf *buf);

#pragma GCC visibility pop

#endif
