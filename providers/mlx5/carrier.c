/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Carriers: the real QPs that carry driven ones. */
#include <stdlib.h>

#include "providers/mlx5/bf.h"
#include "providers/mlx5/blank.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/xlat.h"

/* -- making them ------------------------------------------------------------------------------- */

static void rq_free(struct ring_rq *rq)
{
	if (!rq->blank)
		free(rq->wrid);
	free(rq->keys);
}

static uint32_t rq_places(const struct ring_rq *rq)
{
	return rq->cnt ? rq->cnt : 1;
}

int ring_rq_fill(struct ring_rq *rq)
{
	uint64_t *wrid;

	if (!rq->blank)
		return 0;
	wrid = calloc(rq_places(rq), sizeof(*wrid));
	if (!wrid)
		return -ENOMEM;
	rq->wrid = wrid;
	rq->blank = false;
	return 0;
}

static int rq_alloc_blank(struct ring_rq *rq)
{
	rq->blank = true;
	rq->wrid = ring_blank(rq_places(rq));
	return rq->wrid ? 0 : -ENOMEM;
}

static int rq_alloc(struct ring_rq *rq)
{
	rq->blank = true;
	rq->keys = calloc(rq_places(rq), 1ul << rq->shift);
	rq->keys_at = (uintptr_t)rq->keys - (uintptr_t)rq->buf;
	if (!rq->keys || ring_rq_fill(rq)) {
		rq_free(rq);
		return -ENOMEM;
	}
	return 0;
}

static void set_geometry(struct sp_carrier *c, const struct mlx5dv_qp *dv)
{
	c->dbrec = dv->dbrec;
	c->sq.buf = dv->sq.buf;
	c->sq.mask = dv->sq.wqe_cnt - 1;
	c->sq.end = c->sq.buf + (size_t)dv->sq.wqe_cnt * MLX5_SEND_WQE_BB;
	c->sq.qpn_field = c->qpn << 8;
	c->rq.buf = dv->rq.buf;
	c->rq.cnt = dv->rq.wqe_cnt;
	c->rq.mask = dv->rq.wqe_cnt - 1;
	c->rq.shift = dv->rq.stride >= 16 ? __builtin_ctz(dv->rq.stride) : 4;
	c->rq.max_gs = dv->rq.stride / 16;
}

void ring_carrier_free(struct sp_carrier *c)
{
	if (c->bf)
		ring_bf_put(c->dev, c->bf);
	rq_free(&c->rq);
	ring_sq_free(&c->sq);
	free(c);
}

int ring_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		      struct sp_carrier **out)
{
	struct mlx5dv_qp dv = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = real, .out = &dv } };
	struct sp_carrier *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = ring_init_obj(&obj, MLX5DV_OBJ_QP);
	if (!err)
		err = sp_table_reserve(&dev->tables.carriers, real->qp_num);
	if (err)
		goto free_carrier;
	c->engine = dev->engine;
	c->qp = qp;
	c->dev = dev;
	c->real = real;
	c->qpn = real->qp_num;
	c->app_qpn = qp->app_qpn;
	c->xlat = dev != qp->dev;
	if (real->srq)
		c->srq = ring_srq_find(qp->srq, real->srq);
	if (real->srq && !c->srq) {
		err = -EINVAL;
		goto free_carrier;
	}
	atomic_store(&c->attn, c->srq ? RING_ATTN_SRQ : 0);
	set_geometry(c, &dv);
	/* a queue without entries has no ring: its size keeps every post out */
	if (!dv.sq.wqe_cnt)
		c->sq.mask = 0;
	err = c->xlat ? ring_sq_alloc(&c->sq, true) : ring_sq_alloc_blank(&c->sq);
	if (err)
		goto free_carrier;
	err = c->xlat ? rq_alloc(&c->rq) : rq_alloc_blank(&c->rq);
	if (err)
		goto free_sq;
	c->bf = ring_bf_get(dev, &dv);
	if (!c->bf) {
		err = -ENOMEM;
		goto free_rq;
	}
	*out = c;
	return 0;
free_rq:
	rq_free(&c->rq);
free_sq:
	ring_sq_free(&c->sq);
free_carrier:
	free(c);
	return err;
}

/* -- coming and going -------------------------------------------------------------------------- */

/*
 * Publishes a carrier. All locks held. Completions that an earlier owner of the QPN left behind are
 * made nobody's.
 */
void ring_carrier_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	ring_cq_sweep(c->sring, c, RING_SWEEP_NOT_OURS);
	ring_cq_sweep(c->rring, c, RING_SWEEP_NOT_OURS);
	SP_ASSERT(c->sring && c->rring);
	c->next = qp->carriers;
	qp->carriers = c;
	atomic_store_explicit(&c->dev->carriers[c->qpn], c, memory_order_release);
}

/* All locks held. */
void ring_carrier_retract(struct sp_carrier *c, enum ring_sweep receives)
{
	atomic_store(&c->dev->carriers[c->qpn], NULL);
	ring_cq_sweep(c->sring, c, receives);
	ring_cq_sweep(c->rring, c, receives);
	ring_srq_leave(c);
	ring_unlive(c->sring, &c->sring_live);
	ring_unlive(c->rring, &c->rring_live);
}

/*
 * True if everything that fits carrier 0 fits here, WQE by WQE: the rings tell, whatever the caps
 * are.
 */
static bool holds_all(const struct sp_carrier *c, const struct sp_carrier *first)
{
	return c->sq.mask >= first->sq.mask && c->rq.cnt >= first->rq.cnt &&
	       c->rq.max_gs >= first->rq.max_gs;
}

int ring_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		     const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		     struct sp_cq_ring *rring, struct sp_carrier **out)
{
	struct sp_carrier *c;
	int err;

	if (sring->cq != qp->scq || rring->cq != qp->rcq || sring->dev != dev || rring->dev != dev)
		return -EINVAL;
	/*
	 * Carriers but 0 translate (another context has other keys), and translation knows RC only.
	 */
	if (dev == qp->dev || qp->type != IBV_QPT_RC)
		return -EINVAL;
	err = ring_hold_make(qp);
	if (!err)
		err = ring_xlat_make(qp);
	if (err)
		return err;
	err = ring_carrier_make(qp, dev, real, &c);
	if (err)
		return err;
	if (!holds_all(c, sp_carrier_zero(qp))) {
		ring_carrier_free(c);
		return -EINVAL;
	}
	c->epoch = epoch;
	c->sring = sring;
	c->rring = rring;
	atomic_fetch_or(&c->attn, RING_ATTN_PROGRESS);
	ring_qp_lock(qp);
	ring_carrier_publish(qp, c);
	ring_qp_unlock(qp);
	*out = c;
	return 0;
}

void ring_carrier_del(struct sp_carrier *c)
{
	struct sp_qp *qp = c->qp;
	bool husk = !c->next; /* carrier 0 */

	ring_qp_lock(qp);
	atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	c->left = true;
	ring_unlive(c->sring, &c->sring_live);
	ring_unlive(c->rring, &c->rring_live);
	if (!husk) {
		sp_carrier_unlink(qp, c);
		ring_carrier_retract(c, RING_SWEEP_GIVE_BACK);
	}
	ring_qp_unlock(qp);
	if (!husk)
		ring_carrier_free(c);
}
