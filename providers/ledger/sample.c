/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A sample of the memory keys in use. A shell that is about to call a connection protected can ask
 * whether it knows them, as memory may have been registered past all that it sees. A look costs the
 * application nothing; a queue that is busy now is looked at next time.
 */
#include "providers/ledger/move.h"
#include "providers/ledger/qp.h"
#include "providers/ledger/srq.h"

enum { SAMPLE_REQUESTS = 8, SAMPLE_RECEIVES = 4, SAMPLE_SLOTS = 16 };

struct sample {
	struct sp_key *keys;
	uint32_t n, room;
};

static void sample_add(struct sample *s, uint32_t key, bool remote)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (s->keys[i].key == key && s->keys[i].remote == remote)
			return;
	if (s->n < s->room)
		s->keys[s->n++] = (struct sp_key){ key, remote };
}

static void sample_sges(struct sample *s, const struct ibv_sge *sge, int n)
{
	for (int i = 0; i < n; i++)
		if (sge[i].length)
			sample_add(s, sge[i].lkey, false);
}

static void sample_request(struct sample *s, const struct ibv_send_wr *wr)
{
	if (!(wr->send_flags & IBV_SEND_INLINE))
		sample_sges(s, wr->sg_list, wr->num_sge);
	switch (led_kind(wr->opcode)) {
	case SP_REQ_WRITE:
	case SP_REQ_READ: sample_add(s, wr->wr.rdma.rkey, true); break;
	case SP_REQ_ATOMIC: sample_add(s, wr->wr.atomic.rkey, true); break;
	case SP_REQ_TWO_SIDED:
		if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			sample_add(s, wr->wr.rdma.rkey, true);
		break;
	case SP_REQ_LOCAL: break;
	}
}

/* Samples sends. sq_lock is held. */
static void sample_sends(struct sample *s, const struct sp_qp *qp)
{
	uint32_t n = qp->sq.head, left = SAMPLE_REQUESTS;

	for (; left && n != led_tail(qp); left--, n--)
		sample_request(s, &led_slot(qp, n - 1)->wr);
}

/* Samples the latest receive, and some of the others in turn. rq_lock is held. */
static void sample_receives(struct sample *s, const struct sp_qp *qp, uint32_t turn)
{
	const struct led_rq *rq = &qp->rq;
	uint32_t head = led_recv_head(rq);
	uint32_t posted = head - atomic_load_explicit(&rq->tail, memory_order_acquire);

	for (uint32_t i = 0; i < SAMPLE_RECEIVES && i < posted; i++) {
		uint32_t back = i ? (turn * SAMPLE_RECEIVES + i) % posted : 0;
		uint32_t n = head - 1 - back;

		sample_sges(s, led_recv_sges(rq, n), led_recv_slot(rq, n)->num_sge);
	}
}

static void sample_shared(struct sample *s, struct sp_srq *srq, uint32_t turn)
{
	if (!sp_trylock(&srq->lock))
		return;
	for (uint32_t i = 0; i < SAMPLE_SLOTS && !srq->foreign; i++) {
		const struct led_shared *r = &srq->slots[(turn * SAMPLE_SLOTS + i) % srq->max_wr];

		if (r->used)
			sample_sges(s, r->wr.sg_list, r->wr.num_sge);
	}
	sp_unlock(&srq->lock);
}

uint32_t led_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
		     uint32_t room)
{
	struct sample s = { .keys = keys, .room = room };

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
