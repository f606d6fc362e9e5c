/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The end of a move. */
#ifndef RING_SETTLE_H
#define RING_SETTLE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

uint32_t ring_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max);
int ring_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates, uint32_t n,
		   struct sp_settled *out);

#pragma GCC visibility pop

#endif
