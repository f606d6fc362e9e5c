/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The backlog of a CQ: completions that a collect took out of a ring, or that settle made. */
#ifndef LED_BACKLOG_H
#define LED_BACKLOG_H

#include "providers/ledger/cq.h"

#pragma GCC visibility push(hidden)

bool led_backlog_has(const struct sp_cq *cq, uint32_t n);
int led_backlog_reserve(struct sp_cq *cq, uint32_t n);
void led_backlog_event(struct sp_cq *cq, bool solicited);
void led_backlog_keep(struct sp_cq *cq, const struct ibv_wc *wc, const struct led_taken *taken);
void led_backlog_push(struct sp_cq *cq, const struct ibv_wc *wc, const struct led_taken *taken);
bool led_backlog_pop(struct sp_cq *cq, struct ibv_wc *wc);
bool led_ahead_pop(struct sp_cq *cq, struct ibv_wc *wc);
void led_backlog_drop(struct sp_cq *cq, const struct sp_qp *qp);
uint32_t led_backlog_take_back(struct sp_cq *cq, const struct sp_carrier *c, bool count_only);
void led_backlog_free(struct sp_cq *cq);

/* Makes the completion of a send that no NIC has completed. */
void led_soft_send(const struct sp_qp *qp, uint32_t n, enum ibv_wc_status status,
		   uint32_t vendor_err, struct ibv_wc *wc);

#pragma GCC visibility pop

#endif
