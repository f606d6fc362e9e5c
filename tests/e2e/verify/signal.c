// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What NCCL's GIN does by its proxy: WRITEs into a window of the peer, and behind them on the same
 * queue pair a FETCH_ADD to a counter that the receiver polls. When the counter says n, the bytes
 * of the first n messages are in memory. Nobody writes them again after that: either the FETCH_ADD
 * has completed, or the connection ends.
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

enum { WINDOW = 8, MAX_PUTS = 3, BURST = 3, CREDIT_EVERY = 4 };

struct puts {
	unsigned int n;
	uint32_t len[MAX_PUTS];
	uint32_t total;
};

static struct puts puts_of(const struct vqp *q, int dir, uint64_t seq)
{
	uint64_t h = hash_of(q, dir, seq, SALT_SPEC);
	uint32_t share = verify_instance->opt.max_size / MAX_PUTS;
	struct puts p = { .n = 1 + (unsigned int)(h % MAX_PUTS) };

	for (unsigned int i = 0; i < p.n; i++) {
		h = mix64(h);
		p.len[i] = 1 + (uint32_t)(h % ((h >> 60) < 8 ? 64 : share));
		p.total += p.len[i];
	}
	return p;
}

static uint8_t *window_of(const struct vqp *q, uint64_t seq)
{
	return slot_at(q, area_write(q), seq, WINDOW);
}

static void build_signal(struct vqp *q, uint64_t seq)
{
	uint8_t *to = slot_at(q, area_read(q), seq, SLOTS);
	struct request *r = batch_add(q);

	poison_check(q, "landing of an atomic", to, q->slot_len);
	r->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	r->raddr = q->remote.addr + area_ctrl(q) + CTRL_COUNTERS;
	r->compare_add = 1;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)to, 8, q->mr->lkey };
	r->expect.result = seq;
	r->expect.kind = KIND_DATA;
	r->expect.seq = seq;
	r->expect.signaled = true;
}

static void signal_build(struct vqp *q)
{
	uint64_t seq = q->tx_next++;
	struct puts p = puts_of(q, dir_tx(), seq);
	struct bytes_id id = { .dir = dir_tx(), .salt = SALT_DATA, .seq = seq };
	uint8_t *from = slot_at(q, area_send(q), seq, SLOTS);
	uint64_t to = q->remote.addr + area_write(q) + seq % WINDOW * q->slot_len;

	bytes_fill(q, from, p.total, id);
	for (unsigned int i = 0; i < p.n; i++) {
		struct request *r = batch_add(q);

		r->opcode = IBV_WR_RDMA_WRITE;
		r->raddr = to;
		r->nsge = 1;
		r->sge[0] = (struct ibv_sge){ (uintptr_t)from, p.len[i], q->mr->lkey };
		r->expect.kind = KIND_PART;
		r->expect.seq = seq;
		from += p.len[i];
		to += p.len[i];
	}
	build_signal(q, seq);
}

static void signal_step_sender(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	while (burst-- && vqp_may_post(q) && sq_room(q, MAX_PUTS + 1) &&
	       q->tx_next - q->tx_done < SLOTS && q->tx_next - credit_read(q) < WINDOW)
		signal_build(q);
}

static void signal_take(struct vqp *q)
{
	struct bytes_id id = { .dir = dir_rx(), .salt = SALT_DATA, .seq = q->rx_next };
	struct puts p = puts_of(q, dir_rx(), q->rx_next);
	uint8_t *at = window_of(q, q->rx_next);

	bytes_check(q, "window that was signaled", at, p.total, id);
	poison_fill(at, p.total);
	q->rx_next++;
}

/* All messages that the counter tells of. */
static bool signals_take(struct vqp *q)
{
	uint64_t told = __atomic_load_n((const uint64_t *)(q->mem + area_ctrl(q) + CTRL_COUNTERS),
					__ATOMIC_ACQUIRE);
	uint64_t before = q->rx_next;

	if (told < before || told > q->granted + WINDOW)
		verify_fail(q, FAIL_WRONG_ATOMIC,
			    "the signals count %" PRIu64 ", taken %" PRIu64 ", granted %" PRIu64,
			    told, before, q->granted);
	while (q->rx_next < told)
		signal_take(q);
	return told != before;
}

/* What was taken has stayed poison until its window is given back. */
static void signal_credit(struct vqp *q)
{
	for (uint64_t n = q->granted; n < q->rx_next; n++)
		poison_check(q, "window that was taken", window_of(q, n), q->slot_len);
	credit_give(q);
}

static bool signal_step_receiver(struct vqp *q)
{
	bool moved = signals_take(q);

	if (!q->last_seen && q->rx_next - q->granted >= CREDIT_EVERY && sq_room(q, 1) &&
	    !atomic_load(&verify_instance->paused))
		signal_credit(q);
	return moved;
}

static bool signal_step(struct vqp *q)
{
	bool moved = false;

	if (q->initiator)
		signal_step_sender(q);
	else
		moved = signal_step_receiver(q);
	return post_step(q) || moved;
}

static void signal_sent(struct vqp *q, const struct expect *e)
{
	if (e->kind != KIND_DATA)
		return;
	atomic_check(q, e);
	q->tx_done = e->seq + 1;
}

static void signal_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	signals_take(q);
	if (!vqp_take_last(q, c))
		verify_fail(q, FAIL_INVENTED, "a message on a QP with WRITEs and signals only");
}

static void signal_start(struct vqp *q)
{
	poison_fill(q->mem + area_write(q), (SLOTS + SLOTS) * q->slot_len);
	recv_post(q, 0, NULL, 0);
}

/* The counter of a connection that failed may have what was posted and has no completion. */
static void signal_finish(struct vqp *q, const struct final_info *peer)
{
	uint64_t told = peer->counters[0];

	if (!q->initiator && !q->failed)
		poison_check(q, "windows after the end", q->mem + area_write(q),
			     WINDOW * q->slot_len);
	if (q->initiator &&
	    (told < q->tx_done || told > q->tx_next || (!q->failed && told != q->tx_next)))
		verify_fail(q, FAIL_WRONG_ATOMIC,
			    "the signals count %" PRIu64 ", completed %" PRIu64 ", posted %" PRIu64,
			    told, q->tx_done, q->tx_next);
}

const struct pattern_ops pattern_signal = {
	.name = "signal",
	.polls_memory = true,
	.may_fail = true,
	.start = signal_start,
	.step = signal_step,
	.sent = signal_sent,
	.received = signal_received,
	.finish = signal_finish,
};
