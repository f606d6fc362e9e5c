// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* READs of what never changes, and of what the same QP wrote just before. */
#include "bytes.h"
#include "complete.h"
#include "oob.h"
#include "pattern.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

enum { BURST = 4 };

static uint32_t read_len(const struct vqp *q, uint64_t seq)
{
	uint64_t h = hash_of(q, dir_tx(), seq, SALT_SPEC);
	uint32_t max = verify_instance->opt.max_size;

	return (uint32_t)(mix64(h) % (h % 4 ? 256 : max) + 1);
}

static bool reads_back(const struct vqp *q, uint64_t seq)
{
	return hash_of(q, dir_tx(), seq, SALT_SPEC) & 0x100;
}

static size_t static_offset(const struct vqp *q, uint64_t seq)
{
	return hash_of(q, dir_tx(), seq, SALT_STATIC) %
	       (STATIC_LEN - verify_instance->opt.max_size);
}

static int landing(const struct vqp *q, uint64_t seq, struct ibv_sge *sge)
{
	return sge_layout(q, hash_of(q, dir_tx(), seq, SALT_LAYOUT),
			  slot_at(q, area_read(q), seq, SLOTS), read_len(q, seq), sge);
}

static void reader_build_write(struct vqp *q, uint64_t seq)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = seq };
	uint8_t *from = slot_at(q, area_send(q), seq, SLOTS);
	struct request *r = batch_add(q);

	bytes_fill(q, from, read_len(q, seq), id);
	r->opcode = IBV_WR_RDMA_WRITE;
	r->raddr = q->remote.addr + area_write(q) + seq % SLOTS * q->slot_len;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)from, read_len(q, seq), q->mr->lkey };
	r->expect.kind = KIND_PART;
	r->expect.seq = seq;
}

static void reader_build(struct vqp *q)
{
	uint64_t seq = q->tx_next++;
	struct request *r;

	poison_check(q, "landing of a READ", slot_at(q, area_read(q), seq, SLOTS), q->slot_len);
	if (reads_back(q, seq))
		reader_build_write(q, seq);
	r = batch_add(q);
	r->opcode = IBV_WR_RDMA_READ;
	r->nsge = landing(q, seq, r->sge);
	r->raddr = q->remote.addr + (reads_back(q, seq) ? area_write(q) + seq % SLOTS * q->slot_len
							: area_static(q) + static_offset(q, seq));
	r->expect.kind = KIND_DATA;
	r->expect.seq = seq;
}

static bool reader_step(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	while (q->initiator && burst-- && vqp_may_post(q) && sq_room(q, 2) &&
	       q->tx_next - q->tx_done < SLOTS)
		reader_build(q);
	return post_step(q);
}

static void reader_sent(struct vqp *q, const struct expect *e)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = e->seq };
	struct ibv_sge sge[MAX_SGE];
	int n;

	if (e->kind != KIND_DATA)
		return;
	if (!reads_back(q, e->seq))
		id = (struct bytes_id){ .dir = dir_rx(),
					.salt = SALT_STATIC,
					.offset = static_offset(q, e->seq) };
	n = landing(q, e->seq, sge);
	sges_check(q, reads_back(q, e->seq) ? "READ of what was written" : "READ", sge, n, e->len,
		   id);
	q->tx_done = e->seq + 1;
}

static void reader_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	if (!vqp_take_last(q, c))
		verify_fail(q, FAIL_INVENTED, "a message on a QP that only reads");
}

static void reader_start(struct vqp *q)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_STATIC };

	bytes_fill(q, q->mem + area_static(q), STATIC_LEN, id);
	poison_fill(q->mem + area_read(q), SLOTS * q->slot_len);
	recv_post(q, 0, NULL, 0);
}

static void reader_finish(struct vqp *q, const struct final_info *peer)
{
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_STATIC };

	bytes_check(q, "memory that nobody writes", q->mem + area_static(q), STATIC_LEN, id);
	if (!q->failed)
		poison_check(q, "landing of READs", q->mem + area_read(q), SLOTS * q->slot_len);
}

const struct pattern_ops pattern_read = {
	.name = "read",
	.start = reader_start,
	.step = reader_step,
	.sent = reader_sent,
	.received = reader_received,
	.finish = reader_finish,
};
