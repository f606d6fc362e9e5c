/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The setters of ibv_wr_*: a request's data. An RC request is whole with its data, so on a carrier
 * that is logged its log WQE is laid there: wr_start lets the application's function pointers lead
 * to those setters.
 */
#include "providers/mlx5/log.h"
#include "providers/mlx5/wr.h"
#include "providers/mlx5/wr_build.h"

/* Ends a setter. RC requests are complete with their data, UD requests with data and address. */
RING_INLINE void setter_end_in(struct sp_qp *qp, struct ring_sq *sq, bool log)
{
	if (log)
		ring_log_last(&qp->b, sq, finish_in(&qp->b, sq, qp->b.ds));
	else if (ring_likely(qp->type == IBV_QPT_RC) || qp->b.setters++)
		finish_in(&qp->b, sq, qp->b.ds);
}

RING_INLINE void setter_done(struct sp_qp *qp, uint32_t bytes, bool log)
{
	struct ring_sq *sq = qp->b.sq;

	ring_count_data(&qp->b, sq, bytes);
	setter_end_in(qp, sq, log);
}

void ring_wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_unlikely(qp->b.err))
		return;
	ring_seg_ud((uint8_t *)(qp->b.ctrl + 1), ah, qpn, qkey);
	setter_end_in(qp, qp->b.sq, false);
}

static RING_NOINLINE void set_no_or_many_packets(struct sp_qp *qp, uint32_t lkey, uint64_t addr,
						 uint32_t length, bool log)
{
	if (length) {
		ring_seg_data(qp->b.data, addr, lkey, length);
		qp->b.ds++;
	}
	setter_done(qp, length, log);
}

RING_INLINE void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length,
			 bool log)
{
	struct sp_qp *qp = qp_of(ex);
	struct ring_sq *sq = qp->b.sq;

	if (ring_unlikely(qp->b.err))
		return;
	if (ring_unlikely(length - 1 >= sq->mtu)) {
		set_no_or_many_packets(qp, lkey, addr, length, log);
		return;
	}
	ring_seg_data(qp->b.data, addr, lkey, length);
	qp->b.ds++;
	setter_end_in(qp, sq, log);
}

RING_INLINE void set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge, bool log)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_build_list(qp, n, sge, false))
		setter_end_in(qp, qp->b.sq, log);
}

RING_INLINE uint8_t *inline_start(struct ring_builder *b)
{
	return b->data + sizeof(struct mlx5_wqe_inl_data_seg);
}

RING_INLINE void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length, bool log)
{
	struct sp_qp *qp = qp_of(ex);
	struct ring_builder *b = &qp->b;

	if (ring_unlikely(b->err))
		return;
	if (ring_unlikely(length > qp->max_inline)) {
		b->err = ENOMEM;
		return;
	}
	b->inl = true;
	ring_seg_copy(b->sq, inline_start(b), addr, length);
	b->ds += ring_seg_inline(b->data, length);
	setter_done(qp, length, log);
}

RING_INLINE void set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				      const struct ibv_data_buf *buf, bool log)
{
	struct sp_qp *qp = qp_of(ex);
	struct ring_builder *b = &qp->b;
	uint8_t *at = inline_start(b);
	size_t total = 0;

	if (ring_unlikely(b->err))
		return;
	for (; n; n--, buf++) {
		total += buf->length;
		if (ring_unlikely(total > qp->max_inline || buf->length > qp->max_inline)) {
			b->err = ENOMEM;
			return;
		}
		at = ring_seg_copy(b->sq, at, buf->addr, buf->length);
	}
	b->inl = true;
	b->ds += ring_seg_inline(b->data, total);
	setter_done(qp, total, log);
}

/* ---- as the application calls them ---------------------------------------------------------- */

void ring_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	set_sge(ex, lkey, addr, length, false);
}

void ring_log_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	set_sge(ex, lkey, addr, length, true);
}

void ring_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	set_sge_list(ex, n, sge, false);
}

void ring_log_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	set_sge_list(ex, n, sge, true);
}

void ring_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	set_inline_data(ex, addr, length, false);
}

void ring_log_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	set_inline_data(ex, addr, length, true);
}

void ring_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *buf)
{
	set_inline_data_list(ex, n, buf, false);
}

void ring_log_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				      const struct ibv_data_buf *buf)
{
	set_inline_data_list(ex, n, buf, true);
}
