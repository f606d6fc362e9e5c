/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Intruders: programs that write to rings that the engine drives. */
#ifndef RING_INTRUDER_H
#define RING_INTRUDER_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

bool ring_qp_own_tx(struct sp_qp *qp);
bool ring_qp_own_rx(struct sp_qp *qp);
const char *ring_qp_reason(struct sp_qp *qp, bool *intruder);

#pragma GCC visibility pop

#endif
