/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet numbers. Every request takes some of its QP's: as many as its data fills packets (for a
 * READ, the answer's), and one if it has no data or is an atomic. A fence and a log WQE of the
 * engine's own take one each.
 *
 * sq.pub counts the first packet of each request. Where posts go straight to the provider, further
 * packets are added when a request is written, and led_uncount takes back those of requests that
 * did not get there; else all are counted as they are handed over. sq_lock is held for all of this.
 */
#ifndef LED_PSN_H
#define LED_PSN_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

enum { LED_PSN_MASK = 0xffffff };

/*
 * A mask by opcode: all bits, where the number of packets follows from the length. An atomic has
 * one packet, whatever its buffer holds.
 */
static const uint32_t led_by_length[32] = {
	[IBV_WR_RDMA_WRITE] = UINT32_MAX, [IBV_WR_RDMA_WRITE_WITH_IMM] = UINT32_MAX,
	[IBV_WR_SEND] = UINT32_MAX,	  [IBV_WR_SEND_WITH_IMM] = UINT32_MAX,
	[IBV_WR_RDMA_READ] = UINT32_MAX,
};

/* Returns the number of packets behind the first one. */
LED_INLINE uint32_t led_more_packets(const struct led_psn *psn, enum ibv_wr_opcode opcode,
				     uint32_t bytes)
{
	return (bytes - 1) >> psn->shift & led_by_length[(unsigned)opcode % 32];
}

/*
 * Counts a request of so many bytes that is written, of a kind that a slot has room for: adds its
 * packets but the first to *ahead.
 */
LED_INLINE void led_count(const struct led_psn *psn, enum ibv_wr_opcode opcode, uint32_t bytes,
			  uint32_t *ahead)
{
	if (led_unlikely(bytes > psn->limit))
		*ahead += led_more_packets(psn, opcode, bytes);
}

/* Counts a request that is not written again. */
LED_INLINE void led_count_now(struct led_sq *sq, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	led_count(&sq->psn, opcode, bytes, &sq->psn.ahead);
}

/* Returns the number of packets behind the first one, for any request. */
LED_INLINE uint32_t led_more_packets_of(const struct led_psn *psn, const struct ibv_send_wr *wr)
{
	uint32_t bytes = wr->num_sge == 1 ? wr->sg_list->length : led_length(wr);

	return led_likely(bytes <= 1u << psn->shift) ? 0 : led_more_packets(psn, wr->opcode, bytes);
}

/* Counts a fence that the engine posted behind all that were published. */
LED_INLINE void led_count_fence(struct led_sq *sq, uint32_t behind)
{
	sq->psn.ahead++;
	sq->psn.fence = behind;
	sq->psn.fenced = true;
}

void led_uncount_from(struct sp_qp *qp, uint32_t n);
void led_unpost(struct sp_qp *qp, uint32_t n);
void led_psn_begin(struct sp_qp *qp, const struct sp_carrier *c);
void led_psn_end(struct sp_qp *qp);
void led_psn_tell(const struct sp_qp *qp, struct sp_request *info, uint32_t have);
void led_qp_number(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu);

/* Requests from number n on were written, and did not go straight to the provider. */
LED_INLINE void led_uncount(struct sp_qp *qp, uint32_t n)
{
	if (qp->sq.psn.limit != LED_PSN_NO_LIMIT)
		led_uncount_from(qp, n);
}

#pragma GCC visibility pop

#endif
