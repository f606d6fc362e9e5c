/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reclaim: takes receives back from a shared queue that others still take from. What a NIC was
 * given cannot be unposted. But a loopback QP of SHIFT's own on that queue can take receives as any
 * other QP does, with messages that carry nothing, and its completions say which it got.
 */
#include <stdlib.h>

#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/reclaim.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/wqe.h"

struct sp_reclaim {
	struct sp_qp qp; /* first: it knows the engine. Nobody posts to it or polls it */
	struct sp_carrier *carrier;
	struct sp_cq *cq;
	uint32_t out; /* number of messages whose receive has not completed */
	bool broken;
};

int ring_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		      struct sp_reclaim **out)
{
	struct sp_reclaim *r = aligned_alloc(64, (sizeof(*r) + 63) & ~63ul);
	int err;

	if (!r)
		return -ENOMEM;
	memset(r, 0, sizeof(*r));
	r->qp.engine = ring->engine;
	r->qp.dev = ring->dev;
	r->qp.srq = ring->srq;
	r->qp.app_qpn = real->qp_num;
	err = ring_cq_drive(ring->dev, cq, false, 0, NULL, &r->cq);
	if (err)
		goto free_reclaim;
	err = ring_carrier_make(&r->qp, ring->dev, real, &r->carrier);
	if (err)
		goto undrive;
	/* no application's first post will ask for its tables */
	err = r->carrier->srq == ring ? ring_sq_fill(&r->carrier->sq) : -EINVAL;
	if (!err) {
		*out = r;
		return 0;
	}
	ring_carrier_free(r->carrier);
undrive:
	ring_cq_undrive(r->cq);
free_reclaim:
	free(r);
	return err;
}

void ring_reclaim_free(struct sp_reclaim *r)
{
	ring_carrier_free(r->carrier);
	ring_cq_undrive(r->cq);
	free(r);
}

uint32_t ring_reclaim_ask(struct sp_reclaim *r, uint32_t n)
{
	struct sp_carrier *c = r->carrier;
	uint32_t room = c->sq.mask + 1 - (c->sq.head - atomic_load(&c->sq.tail)), i;
	struct ring_wqe wqe = { .ds = 1, .bbs = 1 };
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)wqe.bytes;
	struct ring_batch batch = { 0 };

	n = n < room ? n : room;
	ctrl->opmod_idx_opcode = htobe32(MLX5_OPCODE_SEND);
	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	for (i = 0; i < n; i++)
		ring_lay(c, &wqe, &wqe, 0, 0, &batch);
	if (n)
		ring_doorbell(c, &batch);
	r->out += n;
	return n;
}

static void collect_one(struct sp_reclaim *r, const struct mlx5_cqe64 *cqe)
{
	struct sp_carrier *c = r->carrier;
	uint8_t opcode = cqe->op_own >> 4;

	switch (opcode) {
	case MLX5_CQE_REQ:
		atomic_store(&c->sq.tail,
			     c->sq.wqe_head[be16toh(cqe->wqe_counter) & c->sq.mask] + 1);
		break;
	case MLX5_CQE_REQ_ERR: r->broken = true; break;
	case MLX5_CQE_RESP_ERR: r->broken = true; /* fall through */
	default:
		r->out--;
		ring_srq_give_back(c, cqe);
		break;
	}
}

int ring_reclaim_collect(struct sp_reclaim *r)
{
	struct sp_cq_ring *ring = &r->cq->ring;
	struct mlx5_cqe64 *cqe;

	while ((cqe = ring_cqe_at(ring, ring->ci))) {
		collect_one(r, cqe);
		ring->ci++;
	}
	ring_cq_update_ci(r->cq);
	return r->broken ? -EIO : (int)r->out;
}
