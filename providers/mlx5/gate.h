/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends that run when the shell lets them pass. */
#ifndef RING_GATE_H
#define RING_GATE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_qp_gate(struct sp_qp *qp, bool on);
int ring_qp_atomics(struct sp_qp *qp, bool may, bool *used);
uint32_t ring_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max);
int ring_qp_pass(struct sp_qp *qp, uint32_t n);

#pragma GCC visibility pop

#endif
