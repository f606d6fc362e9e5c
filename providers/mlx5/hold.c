/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sends that may not run yet: the hold ring that they wait in, the fence behind which they wait in
 * an ordered switch, and publishing them, on another carrier or on the same one.
 */
#include <stdlib.h>

#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/seg.h"

/* -- the hold: a send ring in memory ---------------------------------------------------------- */

/* Made once, of carrier 0's size: it then takes whatever the application may post. */
int ring_hold_make(struct sp_qp *qp)
{
	struct ring_sq hold = { .mask = qp->tx->sq.mask };
	size_t bytes = ((size_t)hold.mask + 1) * MLX5_SEND_WQE_BB;
	bool made;

	ring_lock(&qp->sq_lock);
	made = qp->hold_made;
	ring_unlock(&qp->sq_lock);
	if (made)
		return 0;
	hold.buf = calloc(1, bytes);
	if (!hold.buf)
		return -ENOMEM;
	hold.end = hold.buf + bytes;
	if (ring_sq_alloc(&hold, false)) {
		free(hold.buf);
		return -ENOMEM;
	}
	ring_lock(&qp->sq_lock);
	qp->hold = hold;
	qp->hold_made = true;
	ring_unlock(&qp->sq_lock);
	return 0;
}

uint32_t ring_hold_len(const struct sp_qp *qp)
{
	return qp->hold.head - atomic_load_explicit(&qp->hold.tail, memory_order_relaxed);
}

void ring_hold_pop(struct sp_qp *qp)
{
	qp->hold.tail_post += ring_wqe_bbs(&qp->hold, qp->hold.tail_post);
	atomic_fetch_add_explicit(&qp->hold.tail, 1, memory_order_release);
}

/* From here on requests are written to the hold: it owes the next one the ring's fence. */
void ring_hold_enter(struct sp_qp *qp)
{
	if (!ring_tx_direct(qp))
		return;
	qp->hold.fm_cache = qp->tx->sq.fm_cache;
	qp->tx->sq.fm_cache = 0;
}

/* And back. They may have been written to the ring all the time. */
void ring_hold_exit(struct sp_qp *qp)
{
	if (!qp->hold.fm_cache)
		return;
	qp->tx->sq.fm_cache = qp->hold.fm_cache;
	qp->hold.fm_cache = 0;
}

/* Lay the request into the carrier and count it in the batch that rings later. */
void ring_lay(struct sp_carrier *to, const struct ring_wqe *app, const struct ring_wqe *wire,
	      uint64_t wr_id, uint8_t wr_data, struct ring_batch *batch)
{
	batch->ctrl = ring_wqe_lay(&to->sq, app, wire, wr_id, wr_data);
	batch->ds = wire->ds;
	batch->nreq++;
}

/* -- hidden NOPs ------------------------------------------------------------------------------ */

/* Would a NOP tell when all that was published is complete? Its completion is that of all before. */
enum ring_nop_need ring_nop_need(const struct sp_carrier *c)
{
	uint32_t tail = atomic_load(&c->sq.tail), post, first, last = 0;

	if (tail == c->sq.head)
		return RING_NOP_IDLE;
	if (!ring_sq_find(&c->sq, tail, &post))
		return RING_NOP_NO_ROOM;
	for (first = post; post != c->sq.cur_post; post += ring_wqe_bbs(&c->sq, post))
		last = post;
	if (ring_ctrl_signaled(ring_sq_ctrl(&c->sq, last)))
		return RING_NOP_SIGNALED;
	/* it takes one WQEBB */
	return c->sq.cur_post - first > c->sq.mask ? RING_NOP_NO_ROOM : RING_NOP_NEEDED;
}

void ring_nop_post(struct sp_carrier *c)
{
	struct ring_wqe nop = { .ds = 1, .bbs = 1 };
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)nop.bytes;
	struct ring_batch batch = { 0 };

	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	c->nop_n[1] = c->nop_n[0];
	c->nop_n[0] = c->sq.head;
	c->nops = c->nops ? 2 : 1;
	ring_lay(c, &nop, &nop, 0, RING_OP_HIDDEN, &batch);
	ring_doorbell(c, &batch);
}

/* -- publishing ------------------------------------------------------------------------------- */

/*
 * Lay what is held, up to max, into the active carrier and ring once. sq_lock held. -EAGAIN: a NOP has the place
 * of a request still; -ENOENT: a key is missing; -EOPNOTSUPP: it can run on its own NIC only (what
 * lies before it runs).
 */
static int hold_publish(struct sp_qp *qp, uint32_t max)
{
	struct ring_sq *sq = &qp->tx->sq;
	struct ring_batch batch = { 0 };
	struct ring_wqe app, wire;
	uint32_t slot;
	int err = 0;

	while (!err && ring_hold_len(qp) && batch.nreq < max) {
		ring_wqe_load(&qp->hold, qp->hold.tail_post, qp->type, &app);
		if (ring_sq_full(sq, 0, qp->max_post))
			err = -EAGAIN;
		else
			err = ring_wqe_translate(qp->tx, &app, &wire);
		if (err)
			break;
		slot = app.slot;
		ring_lay(qp->tx, &app, &wire, qp->hold.wrid[slot], qp->hold.wr_data[slot], &batch);
		ring_hold_pop(qp);
	}
	if (batch.nreq)
		ring_doorbell(qp->tx, &batch);
	return err;
}

/*
 * Publish as far as that may be. sq_lock held. LATE lasts as long as a NOP takes a place: the ring
 * alone would refuse one request too early.
 */
static int hold_go(struct sp_qp *qp, uint32_t max)
{
	uint32_t tail = atomic_load_explicit(&qp->tx->sq.tail, memory_order_acquire);
	int err;

	if (qp->tx_mode & (RING_HOLD | RING_FENCE | RING_FAILED | RING_FOREIGN))
		return 0;
	err = hold_publish(qp, max);
	qp->tx_mode &= ~(RING_KEYS | RING_LATE);
	if (err && err != -EAGAIN)
		qp->tx_mode |= RING_KEYS;
	if (err == -EAGAIN || ring_nops(qp->tx, tail))
		qp->tx_mode |= RING_LATE;
	if (ring_tx_direct(qp))
		ring_hold_exit(qp);
	return err;
}

int ring_hold_go(struct sp_qp *qp)
{
	return qp->tx_mode & RING_GATE ? 0 : hold_go(qp, UINT32_MAX);
}

/* A place may have become free: publish into it. sq_lock held. */
static void late_try(struct sp_qp *qp)
{
	int err;

	if (!(qp->tx_mode & RING_LATE) || (qp->tx_mode & RING_KEYS))
		return;
	err = ring_hold_go(qp);
	if (err && err != -EAGAIN)
		qp->dev->cb->key_missing(qp->cookie);
}

/* sq_lock and the send CQ's lock held. */
static void late_link(struct sp_qp *qp)
{
	struct sp_qp *at = qp->scq->late;

	while (at && at != qp)
		at = at->late_next;
	if (at)
		return;
	qp->late_next = qp->scq->late;
	qp->scq->late = qp;
	ring_cq_refresh_slow(qp->scq);
}

/* The send CQ's lock is held. */
void ring_late_unlink(struct sp_qp *qp)
{
	struct sp_qp **at = &qp->scq->late;

	while (*at && *at != qp)
		at = &(*at)->late_next;
	if (*at)
		*at = qp->late_next;
}

/*
 * Still to be looked at? A poster that has the lock looks again when it drops it: all four accesses
 * to lock and flag, here and in ring_tx_unlock, are in one total order.
 */
static bool late_poll_one(struct sp_qp *qp)
{
	bool late;

	if (!ring_trylock(&qp->sq_lock)) {
		atomic_store(&qp->late_missed, true);
		if (atomic_exchange(&qp->sq_lock.held, 1))
			return true;
	}
	late_try(qp);
	late = qp->tx_mode & RING_LATE;
	ring_unlock(&qp->sq_lock);
	return late;
}

/* Completions were taken off this CQ, whose lock is held: there may be room. */
void ring_late_poll(struct sp_cq *cq)
{
	struct sp_qp **at = &cq->late;

	while (*at) {
		if (late_poll_one(*at))
			at = &(*at)->late_next;
		else
			*at = (*at)->late_next;
	}
	ring_cq_refresh_slow(cq);
}

/* End of a post that went the slow way. Who took a completion meanwhile found the lock held. */
void ring_tx_unlock(struct sp_qp *qp)
{
	bool late = qp->tx_mode & RING_LATE;

	for (;;) {
		atomic_store(&qp->sq_lock.held, 0);
		if (!late)
			return;
		if (!atomic_exchange(&qp->late_missed, false) || !ring_trylock(&qp->sq_lock))
			return;
		late_try(qp);
		late = qp->tx_mode & RING_LATE;
	}
}

static bool is_late(struct sp_qp *qp)
{
	bool late;

	ring_lock(&qp->sq_lock);
	late = qp->tx_mode & RING_LATE;
	ring_unlock(&qp->sq_lock);
	return late;
}

/* All locks held. -EAGAIN even if nothing waits yet: what is posted next may have to. */
static int publish(struct sp_qp *qp)
{
	int err = ring_hold_go(qp);

	if (err || (qp->tx_mode & (RING_HOLD | RING_FENCE | RING_FAILED)))
		return err;
	return qp->tx_mode & RING_LATE ? -EAGAIN : 0;
}

int ring_qp_publish(struct sp_qp *qp)
{
	int err, recv_err = 0;

	if (is_late(qp)) {
		err = ring_cq_collect(qp->scq); /* the NOP may be complete, and nobody polls */
		if (err)
			return err;
	}
	ring_qp_lock(qp);
	err = publish(qp);
	if ((qp->rx_mode & RING_KEYS) && !(qp->rx_mode & (RING_HOLD | RING_FAILED)))
		recv_err = ring_rq_publish(qp);
	ring_qp_unlock(qp);
	return recv_err ? recv_err : err;
}

int ring_qp_resume(struct sp_qp *qp)
{
	int err = 0, recv_err = 0;

	ring_qp_lock(qp);
	atomic_store(&qp->withheld, false);
	qp->tx_mode &= ~(RING_HOLD | RING_FENCE);
	err = publish(qp);
	if (qp->tx_mode & RING_LATE)
		late_link(qp);
	if (qp->rx_mode & RING_HOLD) {
		qp->rx_mode &= ~RING_HOLD;
		recv_err = ring_rq_publish(qp);
	}
	ring_qp_unlock(qp);
	return recv_err ? recv_err : err;
}

/* -- the gate --------------------------------------------------------------------------------- */

int ring_qp_gate(struct sp_qp *qp, bool on)
{
	int err = on ? ring_hold_make(qp) : 0;

	if (err)
		return err;
	ring_qp_lock(qp);
	if (on) {
		ring_hold_enter(qp);
		qp->tx_mode |= RING_GATE;
	} else {
		qp->tx_mode &= ~RING_GATE;
		err = publish(qp);
		if (qp->tx_mode & RING_LATE)
			late_link(qp);
	}
	ring_qp_unlock(qp);
	return err;
}

/* The slot is of a READ: where it reads. */
static void read_describe(const struct sp_qp *qp, uint32_t slot, struct sp_read *read)
{
	const struct mlx5_wqe_raddr_seg *remote;
	struct ring_wqe app;

	*read = (struct sp_read){ 0 };
	if (ring_wr_kind(&qp->hold, slot) != SP_REQ_READ)
		return;
	ring_wqe_load(&qp->hold, slot, qp->type, &app);
	remote = (const void *)(app.bytes + sizeof(struct mlx5_wqe_ctrl_seg));
	*read = (struct sp_read){ be64toh(remote->raddr), be32toh(remote->rkey) };
}

uint32_t ring_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max)
{
	struct ring_walk w;
	uint32_t n = 0;
	int64_t slot;

	ring_qp_lock(qp);
	if (qp->hold.buf && ring_walk_start(&w, &qp->hold))
		for (; n < max && (slot = ring_walk_next(&w)) >= 0; n++)
			read_describe(qp, (uint32_t)slot, &reads[n]);
	ring_qp_unlock(qp);
	return n;
}

int ring_qp_pass(struct sp_qp *qp, uint32_t n)
{
	uint32_t before, left;
	int err = -EAGAIN;

	ring_qp_lock(qp);
	before = ring_hold_len(qp);
	if (!(qp->tx_mode & (RING_HOLD | RING_FENCE)))
		err = hold_go(qp, n);
	left = ring_hold_len(qp);
	ring_qp_unlock(qp);
	return left == before ? err : (int)(before - left);
}

/* -- the fence of an ordered switch ----------------------------------------------------------- */

/* Whether it ran or not, it may not run again: an atomic, or a READ before a fenced request. */
static bool unrepeatable(const struct ring_sq *sq)
{
	bool read = false;
	struct ring_walk w;
	int64_t slot;

	if (!ring_walk_start(&w, sq))
		return true; /* nobody knows */
	while ((slot = ring_walk_next(&w)) >= 0) {
		enum sp_request_kind kind = ring_wr_kind(sq, (uint32_t)slot);

		if (kind == SP_REQ_ATOMIC || (read && ring_ctrl_send_fence(ring_sq_ctrl(sq, slot))))
			return true;
		read |= kind == SP_REQ_READ;
	}
	return false;
}

/* All locks held. One hidden NOP at a time: each takes a place that is not ours. */
static int fence_lay(struct sp_carrier *c)
{
	switch (ring_nop_need(c)) {
	case RING_NOP_IDLE:
	case RING_NOP_SIGNALED: return 0;
	case RING_NOP_NO_ROOM: return -EAGAIN;
	case RING_NOP_NEEDED: break;
	}
	if (ring_nops(c, atomic_load(&c->sq.tail)))
		return -EAGAIN;
	ring_nop_post(c);
	return 0;
}

/* All locks taken, and there is a hold. */
static int fence_lock(struct sp_qp *qp)
{
	bool made = false;
	int err;

	while (!made) {
		if (!ring_qp_lock_soon(qp))
			return -EAGAIN;
		made = qp->hold_made;
		if (!made) {
			ring_qp_unlock(qp);
			err = ring_hold_make(qp);
			if (err)
				return err;
		}
	}
	return 0;
}

int ring_qp_fence(struct sp_qp *qp, bool *unrepeatable_before)
{
	int err;

	*unrepeatable_before = false;
	err = fence_lock(qp);
	if (err)
		return err;
	if (qp->tx_mode & (RING_HOLD | RING_FAILED | RING_FOREIGN)) {
		err = -EINVAL;
	} else {
		ring_hold_enter(qp);
		qp->tx_mode |= RING_FENCE;
		*unrepeatable_before = unrepeatable(&qp->tx->sq);
		err = fence_lay(qp->tx);
	}
	ring_qp_unlock(qp);
	return err;
}

bool ring_qp_fenced(struct sp_qp *qp)
{
	struct sp_carrier *c;
	bool fenced;

	if (!ring_qp_lock_soon(qp))
		return false;
	c = qp->tx;
	fenced = (qp->tx_mode & RING_FENCE) && !(qp->tx_mode & (RING_HOLD | RING_FAILED)) &&
		 atomic_load(&c->err_mode) == RING_ERR_NONE &&
		 atomic_load(&c->sq.tail) == c->sq.head;
	ring_qp_unlock(qp);
	return fenced;
}

/* Only the shell adds carriers, takes them away or changes what is counted of them: no lock. */
uint64_t ring_qp_progressed(struct sp_qp *qp)
{
	uint32_t sends, receives;

	for (struct sp_carrier *c = qp->carriers; c; c = c->next) {
		sends = atomic_load_explicit(&c->sq.tail, memory_order_relaxed);
		receives = atomic_load_explicit(&c->rq.tail, memory_order_relaxed);
		qp->progressed += (uint32_t)(sends - c->sq_counted);
		qp->progressed += (uint32_t)(receives - c->rq_counted);
		c->sq_counted = sends;
		c->rq_counted = receives;
	}
	return qp->progressed;
}
