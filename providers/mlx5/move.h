/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The move to another carrier, up to settling. */
#ifndef RING_MOVE_H
#define RING_MOVE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

void ring_qp_withhold(struct sp_qp *qp);
void ring_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
void ring_qp_seal(struct sp_qp *qp);
int ring_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to);

#pragma GCC visibility pop

#endif
