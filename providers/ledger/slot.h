/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The slot: a request in the ledger. */
#ifndef LED_SLOT_H
#define LED_SLOT_H

#include <assert.h>
#include <stddef.h>

#include "providers/ledger/base.h"

#pragma GCC visibility push(hidden)

enum { LED_SLOT_SGES = 3 };

/*
 * The provider gets the slot itself: wr_id is the slot's address, next and sg_list lead to the next
 * slot and to the slot's SGEs. A request of RC uses the first 72 bytes of an ibv_send_wr; behind
 * them lies what is the application's. Requests that use more are kept beside: led_put_wide().
 */
union led_send {
	struct ibv_send_wr wr;
	struct {
		uint8_t used[offsetof(struct ibv_send_wr, qp_type)];
		uint64_t wr_id;
		struct ibv_sge sge[LED_SLOT_SGES];
	} own;
};
static_assert(sizeof(union led_send) == 128, "two cache lines");

/* The mark beside a slot: what a move decided. Zero while the slot is free. */
enum led_mark {
	LED_MARK_DELIVERED =
		1,	     /* executed by the peer: completes in its turn, is not posted again */
	LED_MARK_SIGNAL = 2, /* posted with a signal that the application did not ask for */
	LED_MARK_WIDE = 4,   /* the whole request is in led_sq.wide */
	LED_MARK_LOGGED = 8, /* a log WQE lies behind it; meaningless once it is complete */
};

LED_INLINE enum sp_request_kind led_kind(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE: return SP_REQ_WRITE;
	case IBV_WR_RDMA_READ: return SP_REQ_READ;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return SP_REQ_TWO_SIDED;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return SP_REQ_ATOMIC;
	default: return SP_REQ_LOCAL;
	}
}

/* Inline data counts: its SGE leads to the copy. */
LED_INLINE uint32_t led_length(const struct ibv_send_wr *wr)
{
	uint32_t n = 0;

	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

#pragma GCC visibility pop

#endif
