// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The receiver's word in the sender's memory. Its numbers count up. */
#include "credit.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"

#include <inttypes.h>

enum { CREDIT_WORDS = 64 };

void credit_give(struct vqp *q)
{
	uint64_t *word = (uint64_t *)(q->mem + area_ctrl_src(q) + CTRL_CREDIT +
				      q->granted % CREDIT_WORDS * 8);
	struct request *r = batch_add(q);

	*word = q->granted = q->rx_next;
	r->opcode = IBV_WR_RDMA_WRITE;
	r->raddr = q->remote.addr + area_ctrl(q) + CTRL_CREDIT;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)word, 8, q->mr->lkey };
	r->flags = q->inline_max >= 8 ? IBV_SEND_INLINE : 0;
	r->expect.kind = KIND_GRANT;
	r->expect.seq = q->granted;
}

/* A WRITE that is executed again may show an older credit for a moment: RC allows a resend. */
uint64_t credit_read(struct vqp *q)
{
	uint64_t v = __atomic_load_n((uint64_t *)(q->mem + area_ctrl(q) + CTRL_CREDIT),
				     __ATOMIC_ACQUIRE);

	if (v > q->tx_next + 1)
		verify_fail(q, FAIL_WRONG_BYTES, "credit %" PRIu64 ", only %" PRIu64 " sent", v,
			    q->tx_next);
	if (v < q->credit_seen)
		q->rewinds++;
	else
		q->credit_seen = v;
	return q->credit_seen;
}
