/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The recall: the peer's NIC died with what it had acknowledged. */
#ifndef RING_RECALL_H
#define RING_RECALL_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_qp_recall(struct sp_qp *qp, enum sp_last_seen *seen);
void ring_qp_writes_only(struct sp_qp *qp);
/* True if data of request number n have come, though it is outstanding again. */
bool ring_recalled_answer(const struct sp_carrier *c, uint32_t n, uint32_t slot);

#pragma GCC visibility pop

#endif
