/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The builders of ibv_wr_* on a carrier that is logged. A request is whole when its last setter was called, and nobody knows
 * which one that is: so its log WQE is laid when the next request begins, or with wr_complete. Else each is what it
 * would be without a log: qp->b.under.
 */
#include "providers/mlx5/log.h"
#include "providers/mlx5/wr.h"
#include "providers/mlx5/wr_build.h"

/* The application's pointers may still be these where there is no log any more. */
RING_INLINE void log_last(struct sp_qp *qp)
{
	struct ring_builder *b = &qp->b;
	struct sp_carrier *c = qp->tx;
	struct mlx5_wqe_ctrl_seg *log;

	if (!b->nreq || b->err || !c->log.on || b->sq != &c->sq)
		return;
	log = ring_log_behind(c, ring_ctrl_opcode(b->ctrl), c->sq.head + b->nreq - 1);
	if (log) {
		b->ctrl = log;
		b->ds = RING_LOG_ALONE;
	}
}

RING_INLINE const struct ibv_qp_ex *under(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = qp_of(ex);

	log_last(qp);
	return qp->b.under;
}

void ring_log_wr_send(struct ibv_qp_ex *ex)
{
	under(ex)->wr_send(ex);
}

void ring_log_wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	under(ex)->wr_send_imm(ex, imm);
}

void ring_log_wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	under(ex)->wr_send_inv(ex, rkey);
}

void ring_log_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	under(ex)->wr_rdma_write(ex, rkey, addr);
}

void ring_log_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	under(ex)->wr_rdma_write_imm(ex, rkey, addr, imm);
}

void ring_log_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	under(ex)->wr_rdma_read(ex, rkey, addr);
}

void ring_log_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				uint64_t compare, uint64_t swap)
{
	under(ex)->wr_atomic_cmp_swp(ex, rkey, addr, compare, swap);
}

void ring_log_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	under(ex)->wr_atomic_fetch_add(ex, rkey, addr, add);
}

void ring_log_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
			 const struct ibv_mw_bind_info *info)
{
	under(ex)->wr_bind_mw(ex, mw, rkey, info);
}

void ring_log_wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	under(ex)->wr_local_inv(ex, rkey);
}

/* Pointers are these only for what goes straight into the ring, whichever keys it has there. */
int ring_log_wr_complete(struct ibv_qp_ex *ex)
{
	log_last(qp_of(ex));
	return ring_xlat_wr_complete(ex);
}
