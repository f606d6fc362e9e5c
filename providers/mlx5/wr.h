/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_wr_*. */
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
int ring_xlat_wr_complete(struct ibv_qp_ex *ex); /* of what lies in the carrier's ring */

/* wr_log.c: for carriers that are logged. */
void ring_log_wr_send(struct ibv_qp_ex *ex);
void ring_log_wr_send_imm(struct ibv_qp_ex *ex, __be32 imm);
void ring_log_wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey);
void ring_log_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr);
void ring_log_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm);
void ring_log_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr);
void ring_log_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				uint64_t compare, uint64_t swap);
void ring_log_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add);
void ring_log_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
			 const struct ibv_mw_bind_info *info);
void ring_log_wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey);
int ring_log_wr_complete(struct ibv_qp_ex *ex);

#pragma GCC visibility pop

#endif
