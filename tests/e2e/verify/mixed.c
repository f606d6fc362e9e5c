// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * All operations in random order on one QP, both ways at once. Message n WRITEs into slot n of the
 * peer; the next two-sided message tells the peer that those bytes are there. The peer gives
 * credit by a small inline WRITE that is polled in memory.
 */
#include "atomics.h"
#include "bytes.h"
#include "complete.h"
#include "credit.h"
#include "oob.h"
#include "pattern.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <inttypes.h>
#include <string.h>

enum { BURST = 5, TWO_SIDED_EVERY = 4, CREDIT_EVERY = 4 };

enum message { MSG_SEND, MSG_SEND_IMM, MSG_WRITE_IMM, MSG_WRITE, MSG_READ, MSG_ATOMIC };

static enum message message_of(const struct vqp *q, int dir, uint64_t seq)
{
	uint64_t h = hash_of(q, dir, seq, SALT_SPEC);
	unsigned int kinds = q->pattern == PATTERN_FENCED ? 6 : 5;

	if (seq % TWO_SIDED_EVERY == TWO_SIDED_EVERY - 1)
		kinds = 3;
	return (enum message)(h % kinds);
}

static bool two_sided(enum message m)
{
	return m == MSG_SEND || m == MSG_SEND_IMM || m == MSG_WRITE_IMM;
}

static uint32_t message_len(const struct vqp *q, int dir, uint64_t seq)
{
	uint64_t h = mix64(hash_of(q, dir, seq, SALT_SPEC));
	uint32_t max = verify_instance->opt.max_size;

	return (uint32_t)(mix64(h) % (h % 8 < 5 ? 100 : max) + 1);
}

static size_t static_offset(const struct vqp *q, int dir, uint64_t seq)
{
	return hash_of(q, dir, seq, SALT_STATIC) % (STATIC_LEN - verify_instance->opt.max_size);
}

static int recv_layout(const struct vqp *q, uint64_t seq, struct ibv_sge *sge)
{
	return sge_layout(q, hash_of(q, dir_rx(), seq, SALT_RECV_LAYOUT),
			  slot_at(q, area_recv(q), seq, RQ_DEPTH), verify_instance->opt.max_size,
			  sge);
}

static void mixed_refill(struct vqp *q)
{
	struct ibv_sge sge[MAX_SGE];
	int n = recv_layout(q, q->rx_posted, sge);

	recv_post(q, q->rx_posted, sge, n);
	q->rx_posted++;
}

static void mixed_start(struct vqp *q)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_STATIC };

	bytes_fill(q, q->mem + area_static(q), STATIC_LEN, id);
	poison_fill(q->mem + area_recv(q), (RQ_DEPTH + SLOTS + SLOTS) * q->slot_len);
	while (q->rx_posted < RQ_DEPTH)
		mixed_refill(q);
}

static void build_data(struct vqp *q, struct request *r, enum message m, uint64_t seq)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = seq };

	r->opcode = m == MSG_SEND	 ? IBV_WR_SEND
		    : m == MSG_SEND_IMM	 ? IBV_WR_SEND_WITH_IMM
		    : m == MSG_WRITE_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM
					 : IBV_WR_RDMA_WRITE;
	r->imm = imm_of(q, dir_tx(), seq);
	r->raddr = q->remote.addr + area_write(q) + seq % SLOTS * q->slot_len;
	r->nsge = sge_layout(q, hash_of(q, dir_tx(), seq, SALT_LAYOUT),
			     slot_at(q, area_send(q), seq, SLOTS), message_len(q, dir_tx(), seq),
			     r->sge);
	sges_fill(q, r->sge, r->nsge, id);
}

static void build_read(struct vqp *q, struct request *r, uint64_t seq)
{
	uint8_t *to = slot_at(q, area_read(q), seq, SLOTS);

	poison_check(q, "landing of a READ", to, q->slot_len);
	r->opcode = IBV_WR_RDMA_READ;
	r->raddr = q->remote.addr + area_static(q) + static_offset(q, dir_tx(), seq);
	r->nsge = sge_layout(q, hash_of(q, dir_tx(), seq, SALT_LAYOUT), to,
			     message_len(q, dir_tx(), seq), r->sge);
}

static void mixed_build(struct vqp *q)
{
	uint64_t seq = q->tx_next++;
	enum message m = message_of(q, dir_tx(), seq);
	struct request *r = batch_add(q);

	if (m == MSG_READ)
		build_read(q, r, seq);
	else if (m == MSG_ATOMIC)
		atomic_request(q, r, seq);
	else
		build_data(q, r, m, seq);
	if (q->pattern == PATTERN_FENCED && hash_of(q, dir_tx(), seq, SALT_STYLE) % 4 == 0)
		r->flags |= IBV_SEND_FENCE;
	r->expect.kind = KIND_DATA;
	r->expect.seq = seq;
}

static bool mixed_step(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	if (!q->last_seen && q->rx_next - q->granted >= CREDIT_EVERY && sq_room(q, 1) &&
	    !atomic_load(&verify_instance->paused))
		credit_give(q);
	while (burst-- && vqp_may_post(q) && sq_room(q, 1) && q->tx_next - q->tx_done < SLOTS &&
	       q->tx_next - credit_read(q) < SLOTS)
		mixed_build(q);
	if (q->batched) {
		batch_post(q);
		return true;
	}
	if (vqp_shall_end(q))
		post_last(q);
	return false;
}

static void mixed_sent(struct vqp *q, const struct expect *e)
{
	struct bytes_id id = { .dir = dir_rx(),
			       .salt = SALT_STATIC,
			       .offset = static_offset(q, dir_tx(), e->seq) };
	struct ibv_sge sge[MAX_SGE];

	if (e->kind != KIND_DATA)
		return;
	switch (message_of(q, dir_tx(), e->seq)) {
	case MSG_READ: {
		int n = sge_layout(q, hash_of(q, dir_tx(), e->seq, SALT_LAYOUT),
				   slot_at(q, area_read(q), e->seq, SLOTS), e->len, sge);

		sges_check(q, "READ", sge, n, e->len, id);
		break;
	}
	case MSG_ATOMIC: atomic_check(q, e); break;
	default: break;
	}
	q->tx_done = e->seq + 1;
}

static void check_written(struct vqp *q, uint64_t seq)
{
	struct bytes_id id = { .dir = dir_rx(), .salt = SALT_DATA, .seq = seq };
	uint8_t *at = slot_at(q, area_write(q), seq, SLOTS);
	uint32_t len = message_len(q, dir_rx(), seq);

	bytes_check(q, "what a WRITE before this message wrote", at, len, id);
	poison_fill(at, len);
	poison_check(q, "slot of a WRITE", at, q->slot_len);
}

/* All messages up to the next two-sided one; returns its number. */
static void mixed_catch_up(struct vqp *q, const struct completion *c)
{
	bool last = c->flags & IBV_WC_WITH_IMM && c->imm & IMM_LAST;
	uint32_t end = c->imm & ~IMM_LAST;

	while (last ? ((uint32_t)q->rx_next & ~IMM_LAST) != end
		    : !two_sided(message_of(q, dir_rx(), q->rx_next))) {
		if (last && two_sided(message_of(q, dir_rx(), q->rx_next)))
			verify_fail(q, FAIL_LOST, "message %" PRIu64 " before the last one",
				    q->rx_next);
		if (message_of(q, dir_rx(), q->rx_next) == MSG_WRITE)
			check_written(q, q->rx_next);
		q->rx_next++;
	}
}

static void check_header(struct vqp *q, const struct completion *c, enum message m)
{
	bool imm = m != MSG_SEND;
	enum ibv_wc_opcode op = m == MSG_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	if (c->opcode != op)
		verify_fail(q, FAIL_WRONG_OPCODE, "message %" PRIu64 ": opcode %d, should be %d",
			    q->rx_next, c->opcode, op);
	if (!!(c->flags & IBV_WC_WITH_IMM) != imm)
		verify_fail(q, FAIL_WRONG_FLAGS, "message %" PRIu64 ": flags 0x%x", q->rx_next,
			    c->flags);
	if (imm && c->imm != imm_of(q, dir_rx(), q->rx_next))
		verify_fail(q, FAIL_WRONG_IMM, "message %" PRIu64 ": immediate %08x", q->rx_next,
			    c->imm);
	if (c->byte_len != message_len(q, dir_rx(), q->rx_next))
		verify_fail(q, FAIL_WRONG_LENGTH, "message %" PRIu64 ": byte_len %u, should be %u",
			    q->rx_next, c->byte_len, message_len(q, dir_rx(), q->rx_next));
}

static void mixed_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	struct bytes_id id = { .dir = dir_rx(), .salt = SALT_DATA };
	struct ibv_sge sge[MAX_SGE];
	enum message m;

	mixed_catch_up(q, c);
	if (vqp_take_last(q, c))
		return;
	m = message_of(q, dir_rx(), q->rx_next);
	check_header(q, c, m);
	id.seq = q->rx_next;
	if (m == MSG_WRITE_IMM)
		check_written(q, q->rx_next);
	else
		sges_check(q, "receive buffer", sge, recv_layout(q, e->seq, sge), c->byte_len, id);
	poison_check(q, "receive buffer", slot_at(q, area_recv(q), e->seq, RQ_DEPTH), q->slot_len);
	q->rx_next++;
	mixed_refill(q);
}

static bool is_atomic(const struct vqp *q, uint64_t seq)
{
	return message_of(q, dir_tx(), seq) == MSG_ATOMIC;
}

static void mixed_finish(struct vqp *q, const struct final_info *peer)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_STATIC };

	bytes_check(q, "memory that nobody writes", q->mem + area_static(q), STATIC_LEN, id);
	if (!q->failed)
		poison_check(q, "buffers after the end", q->mem + area_recv(q),
			     (RQ_DEPTH + SLOTS + SLOTS) * q->slot_len);
	if (q->pattern == PATTERN_FENCED)
		atomic_verdict(q, peer, is_atomic);
}

const struct pattern_ops pattern_mixed = {
	.name = "mixed",
	.polls_memory = true,
	.start = mixed_start,
	.step = mixed_step,
	.sent = mixed_sent,
	.received = mixed_received,
	.finish = mixed_finish,
};

const struct pattern_ops pattern_fenced = {
	.name = "fenced",
	.polls_memory = true,
	.may_fail = true,
	.start = mixed_start,
	.step = mixed_step,
	.sent = mixed_sent,
	.received = mixed_received,
	.finish = mixed_finish,
};
