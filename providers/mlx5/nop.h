/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hidden NOPs: requests of our own, never shown to the application. */
#ifndef RING_NOP_H
#define RING_NOP_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

/* The use of a hidden NOP at the end of a send ring. */
enum ring_nop_need {
	RING_NOP_IDLE,	   /* nothing is outstanding */
	RING_NOP_SIGNALED, /* the last request is signaled: its completion tells */
	RING_NOP_NEEDED,
	RING_NOP_NO_ROOM, /* no room, or a ring that cannot be read */
};
enum ring_nop_need ring_nop_need(const struct sp_carrier *c);
bool ring_nop_early(const struct sp_carrier *c); /* a completion before the NOP's is awaited */
void ring_nop_post(struct sp_carrier *c);
void ring_nops_withdraw(struct sp_carrier *c);
void ring_lay(struct sp_carrier *to, const struct ring_wqe *app, const struct ring_wqe *wire,
	      uint64_t wr_id, uint8_t wr_data, struct ring_batch *batch);

#pragma GCC visibility pop

#endif
