// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completions against what was posted: order, wr_id, opcode, length, status. */
#include "bytes.h"
#include "complete.h"
#include "lane.h"
#include "options.h"
#include "pattern.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <inttypes.h>

struct vqp *vqp_of(struct lane *l, uint32_t qp_num)
{
	for (int i = 0; i < l->nqps; i++)
		if (l->qps[i]->qp->qp_num == qp_num)
			return l->qps[i];
	return NULL;
}

bool errors_allowed(const struct vqp *q)
{
	const struct options *o = &verify_instance->opt;

	return o->expect_error || o->may_fail || q->ops->may_fail;
}

static struct expect *fifo_at(struct fifo *f, uint64_t n)
{
	return &f->ring[n % EXPECT_RING];
}

void fifo_push(struct vqp *q, struct fifo *f, const struct expect *e)
{
	if (f->tail - f->head >= EXPECT_RING / 2)
		verify_fail(q, FAIL_SETUP, "own book-keeping is full");
	*fifo_at(f, f->tail) = *e;
	f->tail++;
	f->posted++;
	f->signaled += e->signaled;
}

static bool fifo_find(struct fifo *f, uint64_t from, uint64_t to, uint64_t wr_id, uint64_t *where)
{
	for (uint64_t n = from; n < to; n++) {
		if (fifo_at(f, n)->wr_id == wr_id) {
			*where = n;
			return true;
		}
	}
	return false;
}

/* A wr_id that is not outstanding: was it answered before, or never posted? */
static void explain_unknown(struct vqp *q, const struct completion *c)
{
	struct fifo *both[] = { &q->sq, &q->rq };
	uint64_t where;

	for (int i = 0; i < 2; i++) {
		uint64_t oldest = both[i]->tail > EXPECT_RING ? both[i]->tail - EXPECT_RING : 0;

		if (fifo_find(both[i], oldest, both[i]->head, c->wr_id, &where))
			verify_fail(q, FAIL_DOUBLED,
				    "%s request %" PRIu64 " completed again (status %s)",
				    i ? "receive" : "send", where, ibv_wc_status_str(c->status));
	}
	verify_fail(q, FAIL_WRONG_WR_ID, "wr_id %016" PRIx64 " was never posted (status %s)",
		    c->wr_id, ibv_wc_status_str(c->status));
}

/* Requests before the completed one may stay silent only if they were unsignaled sends. */
static void check_skipped(struct vqp *q, struct fifo *f, uint64_t where)
{
	for (uint64_t n = f->head; n < where; n++)
		if (fifo_at(f, n)->signaled)
			verify_fail(q, f == &q->rq ? FAIL_REORDERED : FAIL_LOST,
				    "%s request %" PRIu64 " completed before request %" PRIu64
				    ": lost or reordered",
				    f == &q->rq ? "receive" : "send", where, n);
}

static void check_send(struct vqp *q, const struct expect *e, const struct completion *c)
{
	if (!e->signaled)
		verify_fail(q, FAIL_INVENTED, "an unsignaled request completed");
	if (c->opcode != e->opcode)
		verify_fail(q, FAIL_WRONG_OPCODE, "opcode %d, should be %d", c->opcode, e->opcode);
	if ((e->opcode == IBV_WC_RDMA_READ || e->opcode == IBV_WC_FETCH_ADD ||
	     e->opcode == IBV_WC_COMP_SWAP) &&
	    c->byte_len != e->len)
		verify_fail(q, FAIL_WRONG_LENGTH, "byte_len %u, should be %u", c->byte_len, e->len);
}

static void take_good(struct vqp *q, struct fifo *f, uint64_t where, const struct completion *c)
{
	struct expect e = *fifo_at(f, where);

	if (f->errors)
		verify_fail(q, FAIL_REORDERED, "success after an error on the same queue");
	if (f == &q->sq)
		check_send(q, &e, c);
	while (f->head <= where) {
		struct expect one = *fifo_at(f, f->head++);

		f->done++;
		f->signaled -= one.signaled;
		if (f == &q->rq)
			q->ops->received(q, &one, c);
		else if (one.kind == KIND_LAST)
			q->last_done = true;
		else
			q->ops->sent(q, &one);
	}
}

static void take_error(struct vqp *q, struct fifo *f, uint64_t where, const struct completion *c)
{
	if (!errors_allowed(q))
		verify_fail(q, FAIL_UNEXPECTED_STATUS,
			    "%s request %" PRIu64 ": %s (%d), vendor 0x%x",
			    f == &q->rq ? "receive" : "send", where, ibv_wc_status_str(c->status),
			    c->status, c->vendor_err);
	if (f->errors && c->status != IBV_WC_WR_FLUSH_ERR)
		verify_fail(q, FAIL_UNEXPECTED_STATUS, "%s after an error: should be a flush",
			    ibv_wc_status_str(c->status));
	while (f->head <= where) {
		struct expect one = *fifo_at(f, f->head++);

		f->signaled -= one.signaled;
		/* what lies before the first error was executed and only not reported */
		if (!f->errors && f->head <= where && f == &q->sq && one.kind != KIND_LAST)
			q->ops->sent(q, &one);
	}
	f->errors++;
	if (!q->failed || q->first_status == IBV_WC_WR_FLUSH_ERR)
		q->first_status = c->status;
	q->failed = true;
}

void complete_one(struct lane *l, const struct completion *c)
{
	struct vqp *q = vqp_of(l, c->qp_num);
	struct fifo *f;
	uint64_t where;

	if (!q)
		verify_fail(NULL, FAIL_WRONG_QP_NUM, "completion for QP %u on lane %d", c->qp_num,
			    l->index);
	if (fifo_find(&q->sq, q->sq.head, q->sq.tail, c->wr_id, &where))
		f = &q->sq;
	else if (fifo_find(&q->rq, q->rq.head, q->rq.tail, c->wr_id, &where))
		f = &q->rq;
	else
		explain_unknown(q, c);
	if (c->status == IBV_WC_SUCCESS && (f == &q->rq) != !!(c->opcode & IBV_WC_RECV))
		verify_fail(q, FAIL_WRONG_OPCODE, "opcode %d for a %s request", c->opcode,
			    f == &q->rq ? "receive" : "send");
	check_skipped(q, f, where);
	if (c->status == IBV_WC_SUCCESS)
		take_good(q, f, where, c);
	else
		take_error(q, f, where, c);
}

bool vqp_done(const struct vqp *q)
{
	if (q->failed)
		return !q->sq.signaled && q->rq.head == q->rq.tail;
	return q->last_done && q->last_seen && !q->sq.signaled;
}

bool vqp_may_post(const struct vqp *q)
{
	const struct verify *v = verify_instance;

	return !q->failed && !q->last_sent && !vqp_shall_end(q) && !atomic_load(&v->paused);
}

bool vqp_shall_end(const struct vqp *q)
{
	const struct verify *v = verify_instance;

	if (v->opt.rounds)
		return q->tx_next >= v->opt.rounds;
	return atomic_load(&v->stopping);
}

bool vqp_take_last(struct vqp *q, const struct completion *c)
{
	if (!(c->flags & IBV_WC_WITH_IMM) || !(c->imm & IMM_LAST))
		return false;
	if (q->pattern == PATTERN_READ || q->pattern == PATTERN_ATOMIC)
		q->rx_next = c->imm & ~IMM_LAST; /* the receiver of these cannot count them */
	if (c->imm != (IMM_LAST | ((uint32_t)q->rx_next & ~IMM_LAST)))
		verify_fail(q, FAIL_LOST, "last message is number %u, only %" PRIu64 " received",
			    c->imm & ~IMM_LAST, q->rx_next);
	if (c->opcode != IBV_WC_RECV || c->byte_len)
		verify_fail(q, FAIL_WRONG_OPCODE, "last message: opcode %d, length %u", c->opcode,
			    c->byte_len);
	if (q->last_seen)
		verify_fail(q, FAIL_DOUBLED, "last message received again");
	q->last_seen = true;
	return true;
}
