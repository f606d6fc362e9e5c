/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The libmlx5 of the process, which the engine is not linked to: functions for any thread. */
#ifndef RING_LIBMLX5_H
#define RING_LIBMLX5_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

/* mlx5dv_init_obj of the library that the NICs belong to. 0 or -errno; -ENOENT: there is none. */
int ring_init_obj(struct mlx5dv_obj *obj, uint64_t type);
bool ring_init_obj_there(void);
void ring_init_obj_override(int (*fn)(struct mlx5dv_obj *, uint64_t)); /* tests */
const struct mlx5_wqe_av *ring_ah_av(struct ibv_ah *ah);
/*
 * True for a ConnectX of the process's libmlx5. The first device that some loaded libmlx5 claims
 * decides which one that is. A ConnectX of another libmlx5 is left to the ledger.
 */
bool ring_serves(struct ibv_device *device);
/* mlx5dv_reg_dmabuf_mr; NULL: libmlx5 is older than rdma-core 54. */
typedef struct ibv_mr *(*ring_reg_dmabuf_fn)(struct ibv_pd *pd, uint64_t offset, size_t length,
					     uint64_t iova, int fd, int access, int mlx5_access);
ring_reg_dmabuf_fn ring_reg_dmabuf(void);
/* True if this extended QP was made with request builders that only libmlx5 has (mlx5dv_wr_*). */
bool ring_direct_builders(struct ibv_qp_ex *qp);
/* direct.c: true if something in this process may have been given rings */
bool ring_direct_verbs(void);

#pragma GCC visibility pop

#endif
