/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queues whose completions are made when they are polled. */
#ifndef RING_FAILED_H
#define RING_FAILED_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

bool ring_failed_next(struct sp_cq *cq, struct ring_entry *out);
bool ring_failed_waiting(const struct sp_cq *cq);
void ring_failed_unlink(struct sp_qp *qp);
void ring_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		  uint32_t n_delivered);

#pragma GCC visibility pop

#endif
