/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The move of a QP to another carrier: what the shell asks, in its order. */
#ifndef LED_MOVE_H
#define LED_MOVE_H

#include "providers/ledger/base.h"

#pragma GCC visibility push(hidden)

void led_qp_last_receive(struct sp_qp *qp, uint32_t epoch);
void led_qp_withhold(struct sp_qp *qp);
int led_qp_fence(struct sp_qp *qp, bool *unrepeatable);
bool led_qp_fenced(struct sp_qp *qp);
void led_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
void led_qp_seal(struct sp_qp *qp);
int led_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to);
int led_qp_recall(struct sp_qp *qp, enum sp_last_seen *seen);
bool led_recalled_answer(const struct sp_qp *qp, uint32_t n);
void led_qp_writes_only(struct sp_qp *qp);
uint32_t led_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max);
int led_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates, uint32_t n,
		  struct sp_settled *out);
int led_qp_gate(struct sp_qp *qp, bool on);
int led_qp_atomics(struct sp_qp *qp, bool may, bool *used);
uint32_t led_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max);
int led_qp_pass(struct sp_qp *qp, uint32_t n);
uint32_t led_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
		     uint32_t room);

#pragma GCC visibility pop

#endif
