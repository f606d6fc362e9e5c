/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receives of a QP's own queue. */
#ifndef LED_RECV_H
#define LED_RECV_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

int led_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

int led_rq_alloc(struct led_rq *rq, const struct ibv_qp_cap *cap);
void led_rq_free(struct led_rq *rq);
int led_recvs_check(struct sp_qp *qp, struct sp_carrier *to);
void led_recvs_at(struct led_rq *rq, uint32_t n);
void led_recvs_hold(struct sp_qp *qp, uint32_t mode);
int led_recvs_go(struct sp_qp *qp, bool shell);

#pragma GCC visibility pop

#endif
