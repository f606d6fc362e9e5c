/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions of queue pairs that ended. */
#ifndef LED_FAILED_H
#define LED_FAILED_H

#include "providers/ledger/cq.h"

#pragma GCC visibility push(hidden)

bool led_failed_next(struct sp_cq *cq, struct ibv_wc *wc);
bool led_failed_waiting(const struct sp_cq *cq);
void led_failed_unlink(struct sp_qp *qp);
void led_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		 uint32_t n_delivered);

#pragma GCC visibility pop

#endif
