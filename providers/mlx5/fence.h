/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fence of an ordered switch. */
#ifndef RING_FENCE_H
#define RING_FENCE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_qp_fence(struct sp_qp *qp, bool *atomics);
bool ring_qp_fenced(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
