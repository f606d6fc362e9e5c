/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends that may not run yet. */
#ifndef RING_HOLD_H
#define RING_HOLD_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

int ring_hold_make(struct sp_qp *qp);
bool ring_hold_must_ask(const struct sp_qp *qp);
uint32_t ring_hold_len(const struct sp_qp *qp);
void ring_hold_pop(struct sp_qp *qp);
void ring_hold_enter(struct sp_qp *qp);
void ring_hold_exit(struct sp_qp *qp);
int ring_hold_go(struct sp_qp *qp);
int ring_hold_go_some(struct sp_qp *qp, uint32_t max);
int ring_hold_publish_all(struct sp_qp *qp);
void ring_late_link(struct sp_qp *qp);
void ring_late_poll(struct sp_cq *cq);
void ring_late_unlink(struct sp_qp *qp);
int ring_qp_publish(struct sp_qp *qp);
int ring_qp_resume(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
