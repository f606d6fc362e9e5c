/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fence of an ordered switch: later sends wait in the hold until all before it is complete. */
#include "providers/mlx5/fence.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"

/*
 * True if something out may not run again, whether it ran or not: an atomic, or a READ before a
 * fenced request.
 */
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

/*
 * All locks held. Only one hidden NOP is out at a time: each takes a place that is not ours. While
 * a completion is awaited, its request is the fence so far, and fence_follow() lays the NOP behind
 * it.
 */
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
	if (!ring_nop_early(c))
		ring_nop_post(c);
	return 0;
}

/*
 * Lays a NOP if what was awaited is complete, and requests behind it have no completion. All locks
 * held.
 */
static void fence_follow(struct sp_carrier *c)
{
	if (!ring_nops(c, atomic_load(&c->sq.tail)) && ring_nop_need(c) == RING_NOP_NEEDED &&
	    !ring_nop_early(c))
		ring_nop_post(c);
}

/* Takes all locks, and makes the hold if there is none. */
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
	bool on, fenced;

	if (!ring_qp_lock_soon(qp))
		return false;
	c = qp->tx;
	on = (qp->tx_mode & RING_FENCE) &&
	     !(qp->tx_mode & (RING_HOLD | RING_FAILED | RING_FOREIGN)) &&
	     atomic_load(&c->err_mode) == RING_ERR_NONE;
	fenced = on && atomic_load(&c->sq.tail) == c->sq.head;
	if (on && !fenced)
		fence_follow(c);
	ring_qp_unlock(qp);
	return fenced;
}
