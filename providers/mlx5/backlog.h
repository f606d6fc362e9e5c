/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The backlog: completions that do not lie in a ring. */
#ifndef RING_BACKLOG_H
#define RING_BACKLOG_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

bool ring_backlog_has(struct sp_cq *cq, uint32_t n);
int ring_backlog_reserve(struct sp_cq *cq, uint32_t n);
void ring_backlog_trim(struct sp_cq *cq);
void ring_backlog_push(struct sp_cq *cq, struct sp_qp *qp, const struct ring_comp *comp);
bool ring_backlog_pop(struct sp_cq *cq, struct ring_entry *out);
void ring_backlog_drop(struct sp_cq *cq, struct sp_qp *qp);
void ring_backlog_free(struct sp_cq *cq);
void ring_backlog_event(struct sp_cq *cq, bool solicited);
void ring_soft_make(struct ring_entry *out, struct sp_qp *qp, uint8_t opcode, uint8_t op,
		    enum ibv_wc_status status, uint32_t vendor_err);

#pragma GCC visibility pop

#endif
