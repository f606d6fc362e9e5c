/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The recall: the peer's NIC died, and may have lost what it had acknowledged, so what the
 * application has not seen complete is outstanding again. The data path keeps no record of what the
 * application has seen. But each signaled request has one completion, in order: those in the
 * backlog are of the last requests before the tail.
 */
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/recall.h"
#include "providers/mlx5/wqe.h"

enum {
	HEADERS_DS = 2, /* READ or WRITE without data: control and remote address */
	MAX_BBS = (RING_MAX_DS + 3) / 4 + 1, /* largest request, with its log WQE */
};

/* A walk backwards through a send ring, from behind request n - 1. */
struct back {
	const struct ring_sq *sq;
	uint32_t n, post;
	bool over; /* true if the request before n was written over */
};

/*
 * Is there a request, or nothing yet in a ring that has not come round? Requests count up to 2^32,
 * and then from 0 on: before number 0 there may be one. It has its place's number in itself.
 */
static bool is_laid(const struct back *b, uint32_t at)
{
	return b->n || ring_ctrl_index(ring_sq_ctrl(b->sq, at & b->sq->mask)) == (at & 0xffff);
}

/* Returns the slot of the request before; -1: there is none, or it was written over (b->over). */
static int64_t back_step(struct back *b)
{
	for (uint32_t bbs = 1; bbs <= MAX_BBS; bbs++) {
		uint32_t at = b->post - bbs, slot = at & b->sq->mask;
		bool over = b->sq->cur_post - at > b->sq->mask + 1;

		b->over = over && (b->n || b->post);
		if (over)
			break;
		if (b->sq->wqe_head[slot] != b->n - 1 || ring_wqe_is_log(b->sq, at) ||
		    ring_wqe_bbs(b->sq, at) != bbs || !is_laid(b, at))
			continue;
		b->n--;
		b->post = at;
		return slot;
	}
	return -1;
}

static bool is_hidden(const struct ring_sq *sq, uint32_t slot)
{
	return sq->wr_data[slot] == RING_OP_HIDDEN;
}

/* Returns how many more requests than are outstanding the next carrier has room for. */
static uint32_t room_for_more(const struct sp_qp *qp)
{
	uint32_t room = qp->max_post, used = ring_hold_len(qp);
	struct ring_walk w;

	if (!ring_walk_start(&w, &qp->tx->sq))
		return 0;
	while (ring_walk_next(&w) >= 0)
		used++;
	return used < room ? room - used : 0;
}

/*
 * Goes to behind the last request whose completion the application has; *unseen completions are
 * still here. The oldest requests may be out of reach: a hidden NOP takes a place in a ring that
 * the application may fill; and where the shell has collected completions, a post is taken although
 * the application has not polled. Such requests cannot run again, so they count as seen, and their
 * completions stay: *unseen is then how many. False: the ring contradicts the completions.
 */
static bool back_to_seen(struct back *b, uint32_t room, uint32_t *unseen)
{
	struct back before = *b;
	bool own, signaled;
	int64_t slot;

	while ((slot = back_step(&before)) >= 0) {
		own = !is_hidden(b->sq, (uint32_t)slot);
		signaled = own && ring_ctrl_signaled(ring_sq_ctrl(b->sq, (uint32_t)slot));
		if (signaled && !*unseen)
			return true;
		if (own && !room)
			return true;
		room -= own;
		*unseen -= signaled;
		*b = before;
	}
	return !*unseen || before.over;
}

static uint32_t ds_of(const struct ring_sq *sq, uint32_t slot)
{
	return be32toh(ring_sq_ctrl(sq, slot)->qpn_ds) & 0x3f;
}

/* Requests that moved no data prove nothing and lose nothing. */
static enum sp_last_seen last_seen(struct back b)
{
	int64_t slot;

	while ((slot = back_step(&b)) >= 0) {
		enum sp_request_kind kind = ring_wr_kind(b.sq, slot);
		bool data = ds_of(b.sq, slot) > HEADERS_DS;

		if (kind == SP_REQ_TWO_SIDED || (kind == SP_REQ_READ && data))
			return SP_SEEN_SAFE;
		if (kind == SP_REQ_ATOMIC || (kind == SP_REQ_WRITE && data))
			return SP_SEEN_UNPLACED;
	}
	return b.n || b.over ? SP_SEEN_UNPLACED : SP_SEEN_SAFE;
}

static bool of_carrier(const struct ring_entry *e, const struct sp_carrier *c)
{
	return e->qp == c->qp && e->epoch == c->epoch && e->cqe.op_own >> 4 == MLX5_CQE_REQ;
}

static uint32_t backlog_count(const struct sp_carrier *c)
{
	uint32_t n = 0;

	for (const struct ring_entry *e = c->qp->scq->first; e; e = e->next)
		n += of_carrier(e, c);
	return n;
}

/* Takes completions back, except for the first `seen` ones, which the application gets. */
static void backlog_take(const struct sp_carrier *c, uint32_t seen)
{
	struct sp_cq *cq = c->qp->scq;
	struct ring_entry **at = &cq->first, *e;

	while ((e = *at)) {
		if (!of_carrier(e, c) || (seen && seen--)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = cq->free;
		cq->free = e;
	}
	cq->last = at;
	ring_cq_refresh_slow(cq);
}

/*
 * Counts the NOPs older than the two newest: complete before the recall, they take places again
 * that are not the application's.
 */
static void count_older_nops(struct sp_carrier *c)
{
	uint32_t tail = atomic_load(&c->sq.tail), requests = 0;
	struct ring_walk w;

	c->nops_again = 0;
	if (!ring_walk_start(&w, &c->sq))
		return;
	while (ring_walk_next(&w) >= 0)
		requests++;
	c->nops_again = c->sq.head - tail - requests - ring_nops(c, tail);
}

/* All locks held. */
static int recall(struct sp_carrier *c, enum sp_last_seen *seen)
{
	struct back b = { .sq = &c->sq };
	uint32_t unseen = backlog_count(c);

	ring_nops_withdraw(c);
	b.n = atomic_load(&c->sq.tail);
	if (!ring_sq_find(&c->sq, b.n, &b.post))
		return -EIO;
	if (!c->recalled)
		c->acked = b.n;
	if (!back_to_seen(&b, room_for_more(c->qp), &unseen))
		return -EIO;
	c->recalled = true;
	backlog_take(c, unseen);
	atomic_store(&c->sq.tail, b.n);
	c->sq_counted = b.n;
	count_older_nops(c);
	*seen = last_seen(b);
	return 0;
}

int ring_qp_recall(struct sp_qp *qp, enum sp_last_seen *seen)
{
	int err;

	ring_qp_lock(qp);
	err = recall(qp->tx, seen);
	ring_qp_unlock(qp);
	return err;
}

void ring_qp_writes_only(struct sp_qp *qp)
{
	ring_qp_lock(qp);
	qp->tx_mode |= RING_WRITES;
	ring_qp_unlock(qp);
}

bool ring_recalled_answer(const struct sp_carrier *c, uint32_t n, uint32_t slot)
{
	enum sp_request_kind kind = ring_wr_kind(&c->sq, slot);

	return c->recalled && (int32_t)(n - c->acked) < 0 && ds_of(&c->sq, slot) > HEADERS_DS &&
	       (kind == SP_REQ_READ || kind == SP_REQ_ATOMIC);
}
