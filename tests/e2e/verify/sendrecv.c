// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* SEND and RECV both ways at once: with and without immediate, scattered, inline, of length zero.
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

enum { BURST = 6 };

static uint32_t message_len(const struct vqp *q, int dir, uint64_t seq)
{
	uint64_t h = hash_of(q, dir, seq, SALT_SPEC);
	uint64_t v = mix64(h);
	uint32_t max = verify_instance->opt.max_size;

	if (h % 8 == 0)
		return 0;
	if (h % 8 < 4)
		return (uint32_t)(v % 80 + 1);
	return (uint32_t)(v % (h % 8 < 6 && max > 4096 ? 4096 : max) + 1);
}

static bool message_has_imm(const struct vqp *q, int dir, uint64_t seq)
{
	return hash_of(q, dir, seq, SALT_SPEC) & 0x100;
}

static int recv_layout(const struct vqp *q, uint64_t seq, struct ibv_sge *sge)
{
	return sge_layout(q, hash_of(q, dir_rx(), seq, SALT_RECV_LAYOUT),
			  slot_at(q, area_recv(q), seq, RQ_DEPTH), verify_instance->opt.max_size,
			  sge);
}

static void sendrecv_refill(struct vqp *q)
{
	struct ibv_sge sge[MAX_SGE];
	int n = recv_layout(q, q->rx_posted, sge);

	recv_post(q, q->rx_posted, sge, n);
	q->rx_posted++;
}

static void sendrecv_start(struct vqp *q)
{
	poison_fill(q->mem + area_recv(q), RQ_DEPTH * q->slot_len);
	while (q->rx_posted < RQ_DEPTH)
		sendrecv_refill(q);
}

static void sendrecv_build(struct vqp *q)
{
	uint64_t seq = q->tx_next++;
	struct request *r = batch_add(q);
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = seq };

	r->nsge = sge_layout(q, hash_of(q, dir_tx(), seq, SALT_LAYOUT),
			     slot_at(q, area_send(q), seq, SLOTS), message_len(q, dir_tx(), seq),
			     r->sge);
	sges_fill(q, r->sge, r->nsge, id);
	r->opcode = message_has_imm(q, dir_tx(), seq) ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	r->imm = imm_of(q, dir_tx(), seq);
	r->expect.seq = seq;
	r->expect.kind = KIND_DATA;
}

static bool sendrecv_step(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	while (burst-- && vqp_may_post(q) && sq_room(q, 1) && q->tx_next - q->tx_done < SLOTS)
		sendrecv_build(q);
	if (q->batched) {
		batch_post(q);
		return true;
	}
	if (vqp_shall_end(q))
		post_last(q);
	return false;
}

static void sendrecv_sent(struct vqp *q, const struct expect *e)
{
	q->tx_done = e->seq + 1;
}

static void sendrecv_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	struct bytes_id id = { .dir = dir_rx(), .salt = SALT_DATA, .seq = q->rx_next };
	bool imm = message_has_imm(q, dir_rx(), q->rx_next);
	uint32_t len = message_len(q, dir_rx(), q->rx_next);
	struct ibv_sge sge[MAX_SGE];
	int n = recv_layout(q, e->seq, sge);

	if (vqp_take_last(q, c))
		return;
	if (c->opcode != IBV_WC_RECV)
		verify_fail(q, FAIL_WRONG_OPCODE, "opcode %d for a send", c->opcode);
	if (!!(c->flags & IBV_WC_WITH_IMM) != imm)
		verify_fail(q, FAIL_WRONG_FLAGS, "message %llu: flags 0x%x, immediate %s",
			    (unsigned long long)q->rx_next, c->flags, imm ? "sent" : "not sent");
	if (imm && c->imm != imm_of(q, dir_rx(), q->rx_next))
		verify_fail(q, FAIL_WRONG_IMM, "message %llu: immediate %08x, should be %08x",
			    (unsigned long long)q->rx_next, c->imm,
			    imm_of(q, dir_rx(), q->rx_next));
	if (c->byte_len != len)
		verify_fail(q, FAIL_WRONG_LENGTH, "message %llu: byte_len %u, should be %u",
			    (unsigned long long)q->rx_next, c->byte_len, len);
	sges_check(q, "receive buffer", sge, n, len, id);
	poison_check(q, "receive buffer", slot_at(q, area_recv(q), e->seq, RQ_DEPTH), q->slot_len);
	q->rx_next++;
	sendrecv_refill(q);
}

static void sendrecv_finish(struct vqp *q, const struct final_info *peer)
{
	if (!q->failed)
		poison_check(q, "unused receive buffers", q->mem + area_recv(q),
			     RQ_DEPTH * q->slot_len);
}

const struct pattern_ops pattern_sendrecv = {
	.name = "sendrecv",
	.start = sendrecv_start,
	.step = sendrecv_step,
	.sent = sendrecv_sent,
	.received = sendrecv_received,
	.finish = sendrecv_finish,
};
