/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The building of a request of ibv_wr_*. */
#ifndef RING_WR_BUILD_H
#define RING_WR_BUILD_H

#include "providers/mlx5/log.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/xlat.h"

#pragma GCC visibility push(hidden)

RING_INLINE struct sp_qp *qp_of(const struct ibv_qp_ex *ex)
{
	return ring_qp_known(&ex->qp_base);
}

/*
 * Begins the next request: its control segment, and room for its header of so many 16-byte units;
 * the immediate is the caller's. Returns the place of the header, or NULL: there is an error.
 */
RING_INLINE uint8_t *begin_in(struct sp_qp *qp, struct ring_sq *sq, const struct ibv_qp_ex *ex,
			      enum ibv_wr_opcode opcode, uint32_t header)
{
	const struct ring_opcode *op = &ring_opcodes[opcode];
	struct ring_builder *b = &qp->b;
	uint32_t post = sq->cur_post, idx = post & sq->mask;
	uint32_t nreq = b->nreq, number = sq->head + nreq;
	struct mlx5_wqe_ctrl_seg *ctrl;

	if (ring_unlikely(b->err))
		return NULL;
	if (ring_unlikely(ring_sq_full_at(sq, number, b->limit))) {
		b->err = ENOMEM;
		return NULL;
	}
	b->nreq = nreq + 1;
	sq->wqe_head[idx] = number;
	sq->wrid[idx] = ex->wr_id;
	sq->wr_data[idx] = 0;
	ctrl = ring_sq_ctrl(sq, post);
	ring_ctrl_begin(ctrl, ring_ctrl_flags(sq, qp->sig_bits, ex->wr_flags));
	ring_ctrl_opcode_set(ctrl, post, op->mlx5);
	b->ctrl = ctrl;
	b->data = (uint8_t *)(ctrl + 1) + header * 16;
	b->ds = 1 + header;
	if (op->two_sided)
		qp->two_sided++;
	return (uint8_t *)(ctrl + 1);
}

RING_INLINE uint8_t *begin(struct sp_qp *qp, const struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
			   uint32_t header)
{
	return begin_in(qp, qp->b.sq, ex, opcode, header);
}

RING_INLINE struct mlx5_wqe_ctrl_seg *finish_in(struct ring_builder *b, struct ring_sq *sq,
						uint32_t ds)
{
	struct mlx5_wqe_ctrl_seg *ctrl = b->ctrl;

	ctrl->qpn_ds = htobe32(ds | sq->qpn_field);
	sq->cur_post += (ds + 3) / 4;
	return ctrl;
}

RING_INLINE void finish(struct sp_qp *qp)
{
	finish_in(&qp->b, qp->b.sq, qp->b.ds);
}

/* Counts the packets of a request's data. An atomic has one, whatever its buffer holds. */
RING_INLINE void ring_count_data(const struct ring_builder *b, struct ring_sq *sq, uint32_t bytes)
{
	if (ring_unlikely(bytes > sq->mtu) && !ring_op_atomic(ring_ctrl_opcode(b->ctrl)))
		ring_count_packets(sq, bytes);
}

/* Writes the data segments of a list, with the carrier's keys if xlat. False: they do not fit. */
RING_INLINE bool ring_build_list(struct sp_qp *qp, size_t n, const struct ibv_sge *sge, bool xlat)
{
	struct ring_builder *b = &qp->b;
	struct ring_sq *sq = b->sq;
	uint8_t *seg = b->data;
	uint32_t ds = b->ds, total = 0;

	if (ring_unlikely(b->err))
		return false;
	if (ring_unlikely(n > (size_t)qp->max_gs)) {
		b->err = ENOMEM;
		return false;
	}
	for (; n; n--, sge++) {
		if (ring_unlikely(seg == sq->end))
			seg = sq->buf;
		if (ring_unlikely(!sge->length))
			continue;
		if (xlat)
			ring_xlat_data(qp, sq, seg, sge->addr, sge->lkey, sge->length);
		else
			ring_seg_data(seg, sge->addr, sge->lkey, sge->length);
		total += sge->length;
		seg += sizeof(struct mlx5_wqe_data_seg);
		ds++;
	}
	b->ds = ds;
	ring_count_data(b, sq, total);
	return true;
}

/*
 * Lays the log WQE that is due behind the request that was just finished. An application that has
 * kept pointers to setters may call these when there is no log any more.
 */
RING_INLINE void ring_log_last(struct ring_builder *b, struct ring_sq *sq,
			       const struct mlx5_wqe_ctrl_seg *last)
{
	struct mlx5_wqe_ctrl_seg *log =
		ring_log_behind(sq, ring_ctrl_opcode(last), sq->head + b->nreq - 1);

	if (log) {
		b->ctrl = log;
		b->ds = RING_LOG_ALONE;
	}
}

#pragma GCC visibility pop

#endif
