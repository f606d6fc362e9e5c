/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Error completions. */
#ifndef LED_ERRORS_H
#define LED_ERRORS_H

#include "providers/ledger/cq.h"

#pragma GCC visibility push(hidden)

bool led_take_error(struct sp_carrier *c, struct ibv_wc *wc, bool send);

/* The request that a completion belongs to. */
bool led_slot_number(const struct sp_qp *qp, uint64_t wr_id, uint32_t *n);
struct led_hidden *led_hidden_of(struct sp_carrier *c, uint64_t wr_id);
void led_advance(struct sp_qp *qp, uint32_t n);

#pragma GCC visibility pop

#endif
