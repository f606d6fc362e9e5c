/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Data inside a CQE. */
#ifndef RING_SCATTER_H
#define RING_SCATTER_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

uint32_t ring_scatter_list(const struct mlx5_wqe_data_seg *seg, uint32_t n, const uint8_t **data,
			   uint32_t size);
uint8_t ring_scatter_send(struct ring_sq *sq, uint32_t idx, const void *data, uint32_t size);
uint8_t ring_scatter_recv(struct ring_rq *rq, uint32_t idx, const void *data, uint32_t size);

#pragma GCC visibility pop

#endif
