// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Requests to the device, by ibv_post_send or by the ibv_wr_* calls. */
#include "bytes.h"
#include "complete.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <arpa/inet.h>
#include <string.h>

/* Unsignaled requests in a row are bounded so that the slots and the ring come free again. */
#define UNSIGNALED_MAX 6

struct request *batch_add(struct vqp *q)
{
	struct request *r = &q->batch[q->batched++];

	memset(r, 0, sizeof(*r));
	return r;
}

bool sq_room(const struct vqp *q, unsigned int n)
{
	return q->sq.tail - q->sq.head + (unsigned int)q->batched + n <= SQ_DEPTH - 8 &&
	       (unsigned int)q->batched + n <= MAX_BATCH;
}

static enum ibv_wc_opcode wc_opcode_of(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	default: return IBV_WC_SEND;
	}
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint32_t request_len(const struct request *r)
{
	uint32_t len = 0;

	if (is_atomic(r->opcode))
		return sizeof(uint64_t);
	for (int i = 0; i < r->nsge; i++)
		len += r->sge[i].length;
	return len;
}

/* Decides signaling and inlining where the pattern left it open, and books the request. */
static void request_book(struct vqp *q, struct request *r)
{
	uint64_t h = hash_of(q, dir_tx(), q->sq.posted, SALT_SIGNAL);
	bool one_way = r->opcode != IBV_WR_RDMA_READ && !is_atomic(r->opcode);
	struct expect *e = &r->expect;

	e->len = request_len(r);
	e->opcode = wc_opcode_of(r->opcode);
	if (e->kind == KIND_DATA && h % 2)
		e->signaled = true;
	if (q->unsignaled_run >= UNSIGNALED_MAX || q->sig_all)
		e->signaled = true;
	q->unsignaled_run = e->signaled ? 0 : q->unsignaled_run + 1;
	if (one_way && e->len && e->len <= q->inline_max && (h & 4))
		r->flags |= IBV_SEND_INLINE;
	if (e->signaled)
		r->flags |= IBV_SEND_SIGNALED;
	e->wr_id = hash_of(q, 3, q->sq.posted, SALT_WR_ID);
	fifo_push(q, &q->sq, e);
}

static void wr_build(struct ibv_send_wr *wr, struct request *r, const struct vqp *q)
{
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = r->expect.wr_id;
	wr->opcode = r->opcode;
	wr->send_flags = r->flags;
	wr->imm_data = htonl(r->imm);
	wr->sg_list = r->sge;
	wr->num_sge = r->nsge;
	if (is_atomic(r->opcode)) {
		wr->wr.atomic.remote_addr = r->raddr;
		wr->wr.atomic.rkey = q->remote.rkey;
		wr->wr.atomic.compare_add = r->compare_add;
		wr->wr.atomic.swap = r->swap;
	} else {
		wr->wr.rdma.remote_addr = r->raddr;
		wr->wr.rdma.rkey = q->remote.rkey;
	}
}

static int post_list(struct vqp *q)
{
	struct ibv_send_wr wr[MAX_BATCH], *bad = NULL;

	for (int i = 0; i < q->batched; i++) {
		wr_build(&wr[i], &q->batch[i], q);
		if (i)
			wr[i - 1].next = &wr[i];
	}
	return ibv_post_send(q->qp, wr, &bad);
}

static void wr_head(struct ibv_qp_ex *x, const struct request *r, uint32_t rkey)
{
	switch (r->opcode) {
	case IBV_WR_SEND: ibv_wr_send(x); break;
	case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(x, htonl(r->imm)); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(x, rkey, r->raddr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, rkey, r->raddr, htonl(r->imm));
		break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(x, rkey, r->raddr); break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, rkey, r->raddr, r->compare_add, r->swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(x, rkey, r->raddr, r->compare_add);
		break;
	default: break;
	}
}

static void wr_data(struct ibv_qp_ex *x, const struct request *r)
{
	struct ibv_data_buf bufs[MAX_SGE];

	if (r->flags & IBV_SEND_INLINE) {
		for (int i = 0; i < r->nsge; i++) {
			bufs[i].addr = (void *)(uintptr_t)r->sge[i].addr;
			bufs[i].length = r->sge[i].length;
		}
		if (r->nsge == 1)
			ibv_wr_set_inline_data(x, bufs[0].addr, bufs[0].length);
		else
			ibv_wr_set_inline_data_list(x, (size_t)r->nsge, bufs);
	} else if (r->nsge == 1) {
		ibv_wr_set_sge(x, r->sge[0].lkey, r->sge[0].addr, r->sge[0].length);
	} else {
		ibv_wr_set_sge_list(x, (size_t)r->nsge, r->sge);
	}
}

static int post_calls(struct vqp *q)
{
	struct ibv_qp_ex *x = q->qpx;

	ibv_wr_start(x);
	for (int i = 0; i < q->batched; i++) {
		x->wr_id = q->batch[i].expect.wr_id;
		x->wr_flags = q->batch[i].flags;
		wr_head(x, &q->batch[i], q->remote.rkey);
		wr_data(x, &q->batch[i]);
	}
	return ibv_wr_complete(x);
}

void batch_post(struct vqp *q)
{
	int rc;

	if (!q->batched)
		return;
	for (int i = 0; i < q->batched; i++)
		request_book(q, &q->batch[i]);
	rc = q->wr_api ? post_calls(q) : post_list(q);
	if (rc)
		verify_fail(q, FAIL_POST_FAILED, "posting %d requests: %s", q->batched,
			    strerror(rc));
	q->batched = 0;
}

void recv_post(struct vqp *q, uint64_t seq, struct ibv_sge *sge, int nsge)
{
	struct expect e = { .seq = seq,
			    .signaled = true,
			    .kind = KIND_DATA,
			    .wr_id = hash_of(q, 2, q->rq.posted, SALT_WR_ID) };
	struct ibv_recv_wr wr = { .wr_id = e.wr_id, .sg_list = sge, .num_sge = nsge }, *bad = NULL;
	int rc;

	fifo_push(q, &q->rq, &e);
	rc = ibv_post_recv(q->qp, &wr, &bad);
	if (rc)
		verify_fail(q, FAIL_POST_FAILED, "posting a receive: %s", strerror(rc));
}

/* Splits len bytes into 1..MAX_SGE pieces with a gap after each. */
int sge_layout(const struct vqp *q, uint64_t hash, uint8_t *base, size_t len, struct ibv_sge *sge)
{
	size_t nsge = 1 + hash % MAX_SGE, done = 0;

	if (!len)
		return 0;
	if (len < nsge)
		nsge = 1;
	for (size_t i = 0; i < nsge; i++) {
		size_t rest = len - done - (nsge - 1 - i);
		size_t piece = i + 1 == nsge ? len - done : 1 + mix64(hash + i) % rest;

		sge[i].addr = (uintptr_t)base + done + i * SGE_GAP;
		sge[i].length = (uint32_t)piece;
		sge[i].lkey = q->mr->lkey;
		done += piece;
	}
	return (int)nsge;
}

void sges_fill(struct vqp *q, const struct ibv_sge *sge, int nsge, struct bytes_id id)
{
	for (int i = 0; i < nsge; i++) {
		bytes_fill(q, (void *)(uintptr_t)sge[i].addr, sge[i].length, id);
		id.offset += sge[i].length;
	}
}

/* Checks the first len bytes and makes them poison again. */
void sges_check(struct vqp *q, const char *what, const struct ibv_sge *sge, int nsge, size_t len,
		struct bytes_id id)
{
	for (int i = 0; i < nsge && len; i++) {
		size_t n = len < sge[i].length ? len : sge[i].length;

		bytes_check(q, what, (void *)(uintptr_t)sge[i].addr, n, id);
		poison_fill((void *)(uintptr_t)sge[i].addr, n);
		id.offset += n;
		len -= n;
	}
}

void post_last(struct vqp *q)
{
	struct request *r;

	if (q->last_sent || q->failed || !sq_room(q, 1))
		return;
	r = batch_add(q);
	r->opcode = IBV_WR_SEND_WITH_IMM;
	r->imm = IMM_LAST | ((uint32_t)q->tx_next & ~IMM_LAST);
	r->expect.kind = KIND_LAST;
	r->expect.signaled = true;
	q->last_sent = true;
	batch_post(q);
}

bool post_step(struct vqp *q)
{
	if (q->batched) {
		batch_post(q);
		return true;
	}
	if (q->initiator ? vqp_shall_end(q) : q->last_seen)
		post_last(q);
	return false;
}
