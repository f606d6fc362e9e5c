/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gate: sends run when the shell lets them pass, one by one. */
#include "providers/mlx5/gate.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"

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
		err = ring_hold_publish_all(qp);
		if (qp->tx_mode & RING_LATE)
			ring_late_link(qp);
	}
	ring_qp_unlock(qp);
	return err;
}

/*
 * Bars atomics. A carrier that needs no translation gets all requests straight into its ring, or
 * none: then all go by way of the hold. On other carriers an atomic that may not run is like one
 * with a key that is missing.
 */
static int atomics_barred(struct sp_qp *qp)
{
	if (!qp->tx->xlat) {
		ring_hold_enter(qp);
		qp->tx_mode |= RING_HOME;
	}
	return 0;
}

static int atomics_free(struct sp_qp *qp)
{
	int err;

	qp->tx_mode &= ~RING_HOME;
	err = ring_hold_publish_all(qp);
	if (qp->tx_mode & RING_LATE)
		ring_late_link(qp);
	return err;
}

int ring_qp_atomics(struct sp_qp *qp, bool may, bool *used)
{
	int err = may ? 0 : ring_hold_make(qp);

	if (err)
		return err;
	ring_qp_lock(qp);
	*used = qp->atomics.use == RING_ATOMICS_USED;
	qp->atomics.barred = !may;
	err = may ? atomics_free(qp) : atomics_barred(qp);
	ring_qp_unlock(qp);
	return err;
}

/* Returns what a READ in that slot reads. */
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
		err = ring_hold_go_some(qp, n);
	left = ring_hold_len(qp);
	ring_qp_unlock(qp);
	return left == before ? err : (int)(before - left);
}
