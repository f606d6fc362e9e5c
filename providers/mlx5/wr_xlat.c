/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The builders of ibv_wr_* with translated keys. wr_start lets the application's function pointers
 * be these while requests are written straight into the ring of a carrier that is not its own. Only
 * RC has such carriers. A request that cannot run there is written all the same, and wr_complete
 * puts it aside.
 */
#include "providers/mlx5/wr.h"
#include "providers/mlx5/wr_build.h"

static RING_NOINLINE bool xlat_rdma_slow(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
					 enum ibv_wr_opcode opcode, uint32_t header)
{
	struct sp_qp *qp = qp_of(ex);
	uint8_t *at = begin(qp, ex, opcode, header);

	if (at)
		ring_xlat_raddr(qp, qp->b.sq, at, addr, rkey);
	return at;
}

/* A key that has to be looked up is a call at the end, as above. */
RING_INLINE bool xlat_rdma(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			   enum ibv_wr_opcode opcode, uint32_t header)
{
	struct sp_qp *qp = qp_of(ex);
	const struct ring_key *key = &qp->tx_xlat.last[RING_RKEY];
	struct ring_sq *sq;
	uint8_t *at;

	if (!ring_xlat_hit(&qp->tx_xlat, RING_RKEY, rkey))
		return xlat_rdma_slow(ex, rkey, addr, opcode, header);
	sq = qp->b.sq;
	at = begin_in(qp, sq, ex, opcode, header);
	if (ring_unlikely(!at))
		return false;
	ring_xlat_aside(sq, at, (uint32_t)key->tag);
	ring_seg_raddr_wire(at, addr, key->wire);
	return true;
}

void ring_xlat_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	xlat_rdma(ex, rkey, addr, IBV_WR_RDMA_WRITE, 1);
}

void ring_xlat_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	if (xlat_rdma(ex, rkey, addr, IBV_WR_RDMA_WRITE_WITH_IMM, 1))
		qp_of(ex)->b.ctrl->imm = imm;
}

void ring_xlat_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	xlat_rdma(ex, rkey, addr, IBV_WR_RDMA_READ, 1);
}

RING_INLINE bool xlat_atomic(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			     enum ibv_wr_opcode opcode)
{
	struct sp_qp *qp = qp_of(ex);

	if (!xlat_rdma(ex, rkey, addr, opcode, 2))
		return false;
	qp->atomics.use = RING_ATOMICS_USED;
	qp->tx_xlat.missing |= qp->atomics.barred;
	return true;
}

void ring_xlat_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				 uint64_t compare, uint64_t swap)
{
	if (xlat_atomic(ex, rkey, addr, IBV_WR_ATOMIC_CMP_AND_SWP))
		ring_seg_atomic((uint8_t *)(qp_of(ex)->b.ctrl + 1) + 16, true, swap, compare);
}

void ring_xlat_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	if (xlat_atomic(ex, rkey, addr, IBV_WR_ATOMIC_FETCH_AND_ADD))
		ring_seg_atomic((uint8_t *)(qp_of(ex)->b.ctrl + 1) + 16, false, 0, add);
}

RING_INLINE void xlat_end(struct sp_qp *qp, struct ring_sq *sq, bool log)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = finish_in(&qp->b, sq, qp->b.ds);

	if (log)
		ring_log_last(&qp->b, sq, ctrl);
}

static RING_NOINLINE void xlat_sge_slow(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
					uint32_t length, bool log)
{
	struct sp_qp *qp = qp_of(ex);
	struct ring_builder *b = &qp->b;

	if (b->err)
		return;
	if (length) {
		ring_xlat_data(qp, b->sq, b->data, addr, lkey, length);
		b->ds++;
	}
	ring_count_data(b, b->sq, length);
	xlat_end(qp, b->sq, log);
}

RING_INLINE void xlat_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length,
			  bool log)
{
	struct sp_qp *qp = qp_of(ex);
	struct ring_builder *b = &qp->b;
	struct ring_sq *sq;
	uint8_t *seg;

	if (ring_unlikely(b->err || !length) || !ring_xlat_hit(&qp->tx_xlat, RING_LKEY, lkey)) {
		xlat_sge_slow(ex, lkey, addr, length, log);
		return;
	}
	sq = b->sq;
	seg = b->data;
	ring_xlat_aside(sq, seg, lkey);
	ring_seg_data_wire(seg, addr, qp->tx_xlat.last[RING_LKEY].wire, length);
	ring_count_data(b, sq, length);
	b->ds++;
	xlat_end(qp, sq, log);
}

void ring_xlat_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	xlat_sge(ex, lkey, addr, length, false);
}

void ring_log_xlat_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	xlat_sge(ex, lkey, addr, length, true);
}

RING_INLINE void xlat_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge, bool log)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_build_list(qp, n, sge, true))
		xlat_end(qp, qp->b.sq, log);
}

void ring_xlat_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	xlat_sge_list(ex, n, sge, false);
}

void ring_log_xlat_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	xlat_sge_list(ex, n, sge, true);
}
