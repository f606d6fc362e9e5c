// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What NCCL's Simple protocol does: the receiver grants a buffer by a small unsignaled inline WRITE
 * that the sender polls in memory; the sender answers with unsignaled WRITEs, closed by a signaled
 * WRITE_WITH_IMM whose arrival means that all of the bytes are there.
 */
#include "bytes.h"
#include "complete.h"
#include "oob.h"
#include "pattern.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <string.h>

enum { WINDOW = 8, MAX_CHUNKS = 4, GRANT_SIGNAL_EVERY = 8 };
#define TORN_NS 500000000ull

struct grant {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;
	uint64_t check;
	uint64_t number;
};

struct simple_spec {
	int chunks;
	uint32_t len[MAX_CHUNKS + 1];
	uint32_t total;
};

static struct simple_spec simple_spec_of(const struct vqp *q, int dir, uint64_t seq)
{
	struct simple_spec s = { 0 };
	uint64_t h = hash_of(q, dir, seq, SALT_SPEC);
	uint32_t share = verify_instance->opt.max_size / (MAX_CHUNKS + 1);

	s.chunks = (int)(h % (MAX_CHUNKS + 1));
	for (int i = 0; i <= s.chunks; i++) {
		h = mix64(h);
		s.len[i] = (uint32_t)(h % ((h >> 60) < 6 ? 64 : share));
		if (i < s.chunks)
			s.len[i]++;
		s.total += s.len[i];
	}
	return s;
}

static uint64_t grant_check(const struct grant *g)
{
	return mix64(g->addr ^ mix64(((uint64_t)g->rkey << 32 | g->size) ^ mix64(g->number)));
}

static uint8_t *buffer_of(const struct vqp *q, uint64_t seq)
{
	return slot_at(q, area_write(q), seq * 5 + verify_instance->opt.seed, SLOTS);
}

/* The number is read first and with acquire: what stands before it in the line came before it. */
static bool grant_read(struct vqp *q, uint64_t seq, struct grant *g)
{
	const uint8_t *at = q->mem + area_ctrl(q) + CTRL_GRANTS + seq % WINDOW * sizeof(*g);
	uint64_t number = __atomic_load_n((const uint64_t *)(at + offsetof(struct grant, number)),
					  __ATOMIC_ACQUIRE);

	if (number != seq + 1) {
		if (number > seq + 1 || (number && (seq + 1 - number) % WINDOW))
			verify_fail(q, FAIL_WRONG_BYTES, "grant %llu stands where %llu belongs",
				    (unsigned long long)number, (unsigned long long)seq + 1);
		return false;
	}
	memcpy(g, at, sizeof(*g));
	if (g->number == seq + 1 && g->check == grant_check(g)) {
		q->torn_since_ns = 0;
		return true;
	}
	if (!q->torn_since_ns)
		q->torn_since_ns = now_ns();
	else if (now_ns() - q->torn_since_ns > TORN_NS)
		verify_fail(q, FAIL_WRONG_BYTES, "grant %llu is torn", (unsigned long long)seq);
	return false;
}

static void simple_send(struct vqp *q, const struct grant *g)
{
	struct simple_spec s = simple_spec_of(q, dir_tx(), q->tx_next);
	uint8_t *from = slot_at(q, area_send(q), q->tx_next, SLOTS);
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = q->tx_next };
	uint32_t at = 0;

	if (g->size != s.total)
		verify_fail(q, FAIL_WRONG_BYTES, "grant for %u bytes, should be %u", g->size,
			    s.total);
	bytes_fill(q, from, s.total, id);
	for (int i = 0; i <= s.chunks; at += s.len[i++]) {
		bool last = i == s.chunks;
		struct request *r = batch_add(q);

		r->opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		r->imm = imm_of(q, dir_tx(), q->tx_next);
		r->raddr = g->addr + at;
		r->nsge = s.len[i] ? 1 : 0;
		r->sge[0] = (struct ibv_sge){ (uintptr_t)from + at, s.len[i], q->mr->lkey };
		r->expect.seq = q->tx_next;
		r->expect.kind = last ? KIND_DATA : KIND_PART;
		r->expect.signaled = last;
	}
	q->tx_next++;
	batch_post(q);
}

static void simple_grant(struct vqp *q)
{
	uint64_t seq = q->granted;
	size_t at = seq % WINDOW * sizeof(struct grant);
	uint8_t *buffer = buffer_of(q, seq);
	struct grant *g = (struct grant *)(q->mem + area_ctrl_src(q) + at);
	struct request *r;

	poison_check(q, "granted buffer", buffer, q->slot_len);
	recv_post(q, seq, NULL, 0);
	*g = (struct grant){ .addr = (uintptr_t)buffer,
			     .rkey = q->mr->rkey,
			     .number = seq + 1,
			     .size = simple_spec_of(q, dir_rx(), seq).total };
	g->check = grant_check(g);
	r = batch_add(q);
	r->opcode = IBV_WR_RDMA_WRITE;
	r->raddr = q->remote.addr + area_ctrl(q) + CTRL_GRANTS + at;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)g, sizeof(*g), q->mr->lkey };
	r->flags = q->inline_max >= sizeof(*g) ? IBV_SEND_INLINE : 0;
	r->expect.kind = KIND_GRANT;
	r->expect.seq = seq;
	r->expect.signaled = seq % GRANT_SIGNAL_EVERY == 0;
	q->granted++;
	batch_post(q);
}

static bool simple_step_sender(struct vqp *q)
{
	bool moved = false;
	struct grant g;

	while (vqp_may_post(q) && q->tx_next - q->tx_done < WINDOW && sq_room(q, MAX_CHUNKS + 1) &&
	       grant_read(q, q->tx_next, &g)) {
		simple_send(q, &g);
		moved = true;
	}
	if (vqp_shall_end(q))
		post_last(q);
	return moved;
}

static bool simple_step_receiver(struct vqp *q)
{
	bool moved = false;

	while (!q->last_seen && !atomic_load(&verify_instance->paused) &&
	       q->granted - q->rx_next < WINDOW && sq_room(q, 1)) {
		simple_grant(q);
		moved = true;
	}
	if (q->last_seen)
		post_last(q);
	return moved;
}

static bool simple_step(struct vqp *q)
{
	return q->initiator ? simple_step_sender(q) : simple_step_receiver(q);
}

static void simple_sent(struct vqp *q, const struct expect *e)
{
	if (e->kind == KIND_DATA)
		q->tx_done = e->seq + 1;
}

static void simple_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	struct simple_spec s = simple_spec_of(q, dir_rx(), q->rx_next);
	struct bytes_id id = { .dir = dir_rx(), .salt = SALT_DATA, .seq = q->rx_next };
	uint8_t *buffer = buffer_of(q, q->rx_next);

	if (vqp_take_last(q, c))
		return;
	if (c->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		verify_fail(q, FAIL_WRONG_OPCODE, "opcode %d for a write with immediate",
			    c->opcode);
	if (!(c->flags & IBV_WC_WITH_IMM) || c->imm != imm_of(q, dir_rx(), q->rx_next))
		verify_fail(q, FAIL_WRONG_IMM, "message %llu: immediate %08x, should be %08x",
			    (unsigned long long)q->rx_next, c->imm,
			    imm_of(q, dir_rx(), q->rx_next));
	if (c->byte_len != s.len[s.chunks])
		verify_fail(q, FAIL_WRONG_LENGTH, "byte_len %u, should be %u", c->byte_len,
			    s.len[s.chunks]);
	bytes_check(q, "granted buffer", buffer, s.total, id);
	poison_fill(buffer, s.total);
	q->rx_next++;
}

static void simple_start(struct vqp *q)
{
	poison_fill(q->mem + area_write(q), SLOTS * q->slot_len);
	if (q->initiator)
		recv_post(q, 0, NULL, 0);
}

static void simple_finish(struct vqp *q, const struct final_info *peer)
{
	if (!q->initiator && !q->failed)
		for (unsigned int i = 0; i < SLOTS; i++)
			poison_check(q, "granted buffer", slot_at(q, area_write(q), i, SLOTS),
				     q->slot_len);
}

const struct pattern_ops pattern_simple = {
	.name = "simple",
	.polls_memory = true,
	.start = simple_start,
	.step = simple_step,
	.sent = simple_sent,
	.received = simple_received,
	.finish = simple_finish,
};
