/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The hold: a send ring in memory, in which sends wait that may not run yet, and the publishing of
 * them, on another carrier or on the same one.
 */
#include <stdlib.h>

#include "providers/mlx5/cq.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/seg.h"
#include "providers/mlx5/wqe.h"

/* -- the hold ---------------------------------------------------------------------------------- */

/*
 * Makes the hold once, in carrier 0's size: it takes whatever the application may post. Also makes
 * the tables that a NOP needs where nobody has posted yet.
 */
int ring_hold_make(struct sp_qp *qp)
{
	struct ring_sq hold = { .mask = qp->tx->sq.mask };
	size_t bytes = ((size_t)hold.mask + 1) * MLX5_SEND_WQE_BB;
	bool made;
	int err;

	sp_lock(&qp->sq_lock);
	made = qp->hold_made;
	err = ring_sq_fill(&sp_carrier_zero(qp)->sq);
	sp_unlock(&qp->sq_lock);
	if (err || made)
		return err;
	hold.buf = calloc(1, bytes);
	if (!hold.buf)
		return -ENOMEM;
	hold.end = hold.buf + bytes;
	if (ring_sq_alloc(&hold, false)) {
		free(hold.buf);
		return -ENOMEM;
	}
	sp_lock(&qp->sq_lock);
	qp->hold = hold;
	qp->hold_made = true;
	sp_unlock(&qp->sq_lock);
	return 0;
}

uint32_t ring_hold_len(const struct sp_qp *qp)
{
	return qp->hold.head - atomic_load_explicit(&qp->hold.tail, memory_order_relaxed);
}

void ring_hold_pop(struct sp_qp *qp)
{
	SP_ASSERT(ring_hold_len(qp));
	qp->hold.tail_post += ring_wqe_bbs(&qp->hold, qp->hold.tail_post);
	atomic_fetch_add_explicit(&qp->hold.tail, 1, memory_order_release);
}

/* Lets requests be written to the hold from here on: it owes the next one the ring's fence bits. */
void ring_hold_enter(struct sp_qp *qp)
{
	if (!ring_tx_direct(qp))
		return;
	qp->hold.fm_cache = qp->tx->sq.fm_cache;
	qp->tx->sq.fm_cache = 0;
}

/* Ends that. Requests may have been written to the ring all the time. */
void ring_hold_exit(struct sp_qp *qp)
{
	if (!qp->hold.fm_cache)
		return;
	qp->tx->sq.fm_cache = qp->hold.fm_cache;
	qp->hold.fm_cache = 0;
}

/* -- publishing -------------------------------------------------------------------------------- */

static bool must_ask(const struct sp_qp *qp, const struct ring_sq *sq, uint32_t slot)
{
	return qp->atomics.barred && ring_wr_kind(sq, slot) == SP_REQ_ATOMIC;
}

/* True if the next one that is held is an atomic that may not run yet. */
bool ring_hold_must_ask(const struct sp_qp *qp)
{
	return ring_hold_len(qp) && must_ask(qp, &qp->hold, qp->hold.tail_post & qp->hold.mask);
}

static bool tells_of_writes(const struct ring_sq *sq, uint32_t slot)
{
	enum sp_request_kind kind = ring_wr_kind(sq, slot);

	return kind != SP_REQ_WRITE && kind != SP_REQ_LOCAL;
}

/*
 * Lays what is held, up to max, into the active carrier, and rings once. sq_lock held. -EAGAIN: a
 * NOP still has the place of a request; -ENOENT: a key is missing; -EACCES: an atomic may not run
 * yet; -EOPNOTSUPP: it can run on its own NIC only (what lies before it runs); -EPROTO: only WRITEs
 * may run, and it is none.
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
		if ((qp->tx_mode & RING_WRITES) && tells_of_writes(&qp->hold, app.slot))
			err = -EPROTO;
		else if (must_ask(qp, &qp->hold, app.slot))
			err = -EACCES;
		else if (ring_sq_full(sq, 0, qp->max_post))
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
 * Publishes as much as is allowed. sq_lock held. LATE lasts as long as a NOP takes a place: the
 * ring alone would refuse one request too early.
 */
int ring_hold_go_some(struct sp_qp *qp, uint32_t max)
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
	return qp->tx_mode & RING_GATE ? 0 : ring_hold_go_some(qp, UINT32_MAX);
}

/* -- requests whose place a hidden NOP has ----------------------------------------------------- */

/* Publishes into a place that may have become free. sq_lock held. */
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
void ring_late_link(struct sp_qp *qp)
{
	struct sp_qp *at = qp->scq->late;

	while (at && at != qp)
		at = at->late.next;
	if (at)
		return;
	qp->late.next = qp->scq->late;
	qp->scq->late = qp;
	ring_cq_refresh_slow(qp->scq);
}

/* The send CQ's lock is held. */
void ring_late_unlink(struct sp_qp *qp)
{
	struct sp_qp **at = &qp->scq->late;

	while (*at && *at != qp)
		at = &(*at)->late.next;
	if (*at)
		*at = qp->late.next;
}

/*
 * True: still to be looked at. A poster that has the lock looks again when it drops it: all four
 * accesses to lock and flag, here and in ring_tx_unlock, are in one total order.
 */
static bool late_poll_one(struct sp_qp *qp)
{
	bool late;

	if (!sp_trylock(&qp->sq_lock)) {
		atomic_store(&qp->late.missed, true);
		if (atomic_exchange(&qp->sq_lock.held, 1))
			return true;
	}
	late_try(qp);
	late = qp->tx_mode & RING_LATE;
	sp_unlock(&qp->sq_lock);
	return late;
}

/* Completions were taken off this CQ, whose lock is held: there may be room. */
void ring_late_poll(struct sp_cq *cq)
{
	struct sp_qp **at = &cq->late;

	while (*at) {
		if (late_poll_one(*at))
			at = &(*at)->late.next;
		else
			*at = (*at)->late.next;
	}
	ring_cq_refresh_slow(cq);
}

/*
 * Ends a post that went the slow way. A thread that took a completion meanwhile found the lock
 * held.
 */
void ring_tx_unlock(struct sp_qp *qp)
{
	bool late = qp->tx_mode & RING_LATE;

	for (;;) {
		atomic_store(&qp->sq_lock.held, 0);
		if (!late)
			return;
		if (!atomic_exchange(&qp->late.missed, false) || !sp_trylock(&qp->sq_lock))
			return;
		late_try(qp);
		late = qp->tx_mode & RING_LATE;
	}
}

static bool is_late(struct sp_qp *qp)
{
	bool late;

	sp_lock(&qp->sq_lock);
	late = qp->tx_mode & RING_LATE;
	sp_unlock(&qp->sq_lock);
	return late;
}

/*
 * Publishes all. All locks held. -EAGAIN even if nothing waits yet: what is posted next may have
 * to.
 */
int ring_hold_publish_all(struct sp_qp *qp)
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
	err = ring_hold_publish_all(qp);
	if ((qp->rx_mode & RING_KEYS) && !(qp->rx_mode & (RING_HOLD | RING_FAILED)))
		recv_err = ring_rq_publish(qp, true);
	ring_qp_unlock(qp);
	return recv_err ? recv_err : err;
}

int ring_qp_resume(struct sp_qp *qp)
{
	int err = 0, recv_err = 0;

	ring_qp_lock(qp);
	atomic_store(&qp->withheld, false);
	qp->tx_mode &= ~(RING_HOLD | RING_FENCE);
	err = ring_hold_publish_all(qp);
	if (qp->tx_mode & RING_LATE)
		ring_late_link(qp);
	if (qp->rx_mode & RING_HOLD) {
		qp->rx_mode &= ~RING_HOLD;
		recv_err = ring_rq_publish(qp, true);
	}
	ring_qp_unlock(qp);
	return recv_err ? recv_err : err;
}
