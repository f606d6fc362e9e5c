/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reclaim: takes receives back from a shared queue that others still take from. What a NIC was
 * given cannot be unposted. But a loopback QP of SHIFT's own on that queue can take receives as any
 * other QP does, with messages that carry nothing, and its completions say which it got.
 */
#include <stdlib.h>

#include "providers/ledger/srq.h"

struct sp_reclaim {
	struct sp_srq_ring *ring;
	const struct shift_provider *engine;
	struct ibv_qp *real;
	struct ibv_cq *cq;
	uint32_t out; /* number of messages whose receive has not completed */
	bool broken;
};

int led_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		     struct sp_reclaim **out)
{
	struct sp_reclaim *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->engine = ring->engine;
	r->ring = ring;
	r->real = real;
	r->cq = cq;
	*out = r;
	return 0;
}

void led_reclaim_free(struct sp_reclaim *r)
{
	free(r);
}

uint32_t led_reclaim_ask(struct sp_reclaim *r, uint32_t n)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	uint32_t i;

	for (i = 0; i < n && !r->ring->dev->saved.post_send(r->real, &wr, &bad); i++)
		;
	r->out += i;
	return i;
}

static void collect_one(struct sp_reclaim *r, const struct ibv_wc *wc)
{
	r->broken |= wc->status != IBV_WC_SUCCESS;
	if (!led_srq_has(r->ring, wc->wr_id))
		return; /* the send */
	r->out--;
	led_srq_return(r->ring, wc->wr_id);
}

int led_reclaim_collect(struct sp_reclaim *r)
{
	struct ibv_wc wc;

	while (r->ring->dev->saved.poll_cq(r->cq, 1, &wc) == 1)
		collect_one(r, &wc);
	return r->broken ? -EIO : (int)r->out;
}
