/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The keys of the ledger that are in use: a sample, out of its slots. */
#include "providers/common/sample.h"
#include "providers/ledger/move.h"
#include "providers/ledger/qp.h"
#include "providers/ledger/srq.h"

static void sample_sges(struct sp_sample *s, const struct ibv_sge *sge, int n)
{
	for (int i = 0; i < n; i++)
		if (sge[i].length)
			sp_sample_add(s, sge[i].lkey, false);
}

static void sample_request(struct sp_sample *s, const struct ibv_send_wr *wr)
{
	if (!(wr->send_flags & IBV_SEND_INLINE))
		sample_sges(s, wr->sg_list, wr->num_sge);
	switch (led_kind(wr->opcode)) {
	case SP_REQ_WRITE:
	case SP_REQ_READ: sp_sample_add(s, wr->wr.rdma.rkey, true); break;
	case SP_REQ_ATOMIC: sp_sample_add(s, wr->wr.atomic.rkey, true); break;
	case SP_REQ_TWO_SIDED:
		if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			sp_sample_add(s, wr->wr.rdma.rkey, true);
		break;
	case SP_REQ_LOCAL: break;
	}
}

/* Samples sends. sq_lock is held. */
static void sample_sends(struct sp_sample *s, const struct sp_qp *qp)
{
	uint32_t n = qp->sq.head, left = SP_SAMPLE_REQUESTS;

	for (; left && n != led_tail(qp); left--, n--)
		sample_request(s, &led_slot(qp, n - 1)->wr);
}

/* Samples the latest receive, and some of the others in turn. rq_lock is held. */
static void sample_receives(struct sp_sample *s, const struct sp_qp *qp, uint32_t turn)
{
	const struct led_rq *rq = &qp->rq;
	uint32_t head = led_recv_head(rq);
	uint32_t posted = head - atomic_load_explicit(&rq->tail, memory_order_acquire);

	for (uint32_t i = 0; i < SP_SAMPLE_RECEIVES && i < posted; i++) {
		uint32_t back = sp_sample_back(turn, i, posted);
		uint32_t n = head - 1 - back;

		sample_sges(s, led_recv_sges(rq, n), led_recv_slot(rq, n)->num_sge);
	}
}

static void sample_shared(struct sp_sample *s, struct sp_srq *srq, uint32_t turn)
{
	if (!sp_trylock(&srq->lock))
		return;
	for (uint32_t i = 0; i < SP_SAMPLE_SLOTS && !srq->foreign; i++) {
		const struct led_shared *r =
			&srq->slots[(turn * SP_SAMPLE_SLOTS + i) % srq->max_wr];

		if (r->used)
			sample_sges(s, r->wr.sg_list, r->wr.num_sge);
	}
	sp_unlock(&srq->lock);
}

uint32_t led_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
		     uint32_t room)
{
	struct sp_sample s = { .keys = keys, .room = room };

	if (qp->srq) {
		sample_shared(&s, qp->srq, turn);
	} else if (sp_trylock(&qp->rq_lock)) {
		sample_receives(&s, qp, turn);
		sp_unlock(&qp->rq_lock);
	}
	if (sends && sp_trylock(&qp->sq_lock)) {
		sample_sends(&s, qp);
		sp_unlock(&qp->sq_lock);
	}
	return s.n;
}
