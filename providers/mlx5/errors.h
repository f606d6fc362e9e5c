/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions that need a closer look. */
#ifndef RING_ERRORS_H
#define RING_ERRORS_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

bool ring_take_attn(struct sp_carrier *c, uint32_t attn, const struct mlx5_cqe64 *cqe);
bool ring_take_error(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, struct ring_comp *comp);

#pragma GCC visibility pop

#endif
