/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends: written into the ledger, and from there handed to a provider. */
#ifndef LED_SEND_H
#define LED_SEND_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

int led_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int led_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

int led_sq_alloc(struct sp_qp *qp, const struct ibv_qp_init_attr_ex *attr);
void led_sq_free(struct led_sq *sq);
int led_sq_scratch(struct sp_qp *qp);
int led_inline_make(struct led_sq *sq);
int led_wide_make(struct led_sq *sq);
int led_put_wide(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr);
int led_sends_posted(struct sp_qp *qp, uint32_t from);
void led_tx_tell(struct sp_qp *qp); /* tells the shell of a post, if it asked for that */
uint32_t led_limit(struct sp_qp *qp, uint32_t head);
void led_unwrite(struct sp_qp *qp, uint32_t n);

/* Returns the place for a slot's inline data. */
LED_INLINE uint8_t *led_inline_at(const struct led_sq *sq, const union led_send *slot)
{
	return sq->inlined + (size_t)(slot - sq->slots) * sq->max_inline;
}

/* Returns the place of a slot's SGEs, if they are more than a slot has. */
LED_INLINE struct ibv_sge *led_many_sges(const struct led_sq *sq, const union led_send *slot)
{
	return sq->sges + (size_t)(slot - sq->slots) * sq->max_sge;
}

LED_INLINE uint32_t led_copy_sge(struct ibv_sge *to, const struct ibv_sge *from)
{
	*to = *from;
	return from->length;
}

/*
 * Most lists are short: these are copied without a loop, whose counting costs as much as the
 * copying. Returns the bytes.
 */
LED_INLINE uint32_t led_copy_sges(struct ibv_sge *to, const struct ibv_sge *from, uint32_t n)
{
	uint32_t bytes = 0;

	for (; led_unlikely(n > 4); n--)
		bytes += led_copy_sge(&to[n - 1], &from[n - 1]);
	switch (n) {
	case 4: bytes += led_copy_sge(&to[3], &from[3]); __attribute__((fallthrough));
	case 3: bytes += led_copy_sge(&to[2], &from[2]); __attribute__((fallthrough));
	case 2: bytes += led_copy_sge(&to[1], &from[1]); __attribute__((fallthrough));
	case 1: bytes += led_copy_sge(&to[0], &from[0]); __attribute__((fallthrough));
	default: break;
	}
	return bytes;
}

enum { LED_SHORT = 64 };

/* Copies up to LED_SHORT bytes, some of them twice: a call, or a loop, would cost more. */
LED_INLINE void led_copy_short(uint8_t *to, const uint8_t *from, size_t n)
{
	if (n >= 32) {
		memcpy(to, from, 32);
		memcpy(to + n - 32, from + n - 32, 32);
	} else if (n >= 16) {
		memcpy(to, from, 16);
		memcpy(to + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		memcpy(to, from, 8);
		memcpy(to + n - 8, from + n - 8, 8);
	} else {
		for (; n; n--)
			*to++ = *from++;
	}
}

bool led_must_ask(const struct sp_qp *qp, uint32_t n);
int led_translate_send(struct sp_qp *qp, struct sp_carrier *c, uint32_t n, struct ibv_send_wr *out,
		       struct ibv_sge *sges);
int led_hand_over(struct sp_qp *qp, struct sp_carrier *c, uint32_t max, uint32_t *done);
int led_go_some(struct sp_qp *qp, uint32_t max);
int led_go(struct sp_qp *qp);
bool led_tx_direct(const struct sp_qp *qp);
int led_qp_publish(struct sp_qp *qp);
int led_qp_resume(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
