/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions that need a closer look: errors, and those of carriers that were left. */
#include "providers/mlx5/cq.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/errors.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/wqe.h"

static enum ibv_wc_status error_status(uint8_t syndrome)
{
	switch (syndrome) {
	case MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR: return IBV_WC_LOC_LEN_ERR;
	case MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR: return IBV_WC_LOC_QP_OP_ERR;
	case MLX5_CQE_SYNDROME_LOCAL_PROT_ERR: return IBV_WC_LOC_PROT_ERR;
	case MLX5_CQE_SYNDROME_WR_FLUSH_ERR: return IBV_WC_WR_FLUSH_ERR;
	case MLX5_CQE_SYNDROME_MW_BIND_ERR: return IBV_WC_MW_BIND_ERR;
	case MLX5_CQE_SYNDROME_BAD_RESP_ERR: return IBV_WC_BAD_RESP_ERR;
	case MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR: return IBV_WC_LOC_ACCESS_ERR;
	case MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR: return IBV_WC_REM_INV_REQ_ERR;
	case MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR: return IBV_WC_REM_ACCESS_ERR;
	case MLX5_CQE_SYNDROME_REMOTE_OP_ERR: return IBV_WC_REM_OP_ERR;
	case MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR: return IBV_WC_RETRY_EXC_ERR;
	case MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR: return IBV_WC_RNR_RETRY_EXC_ERR;
	case MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR: return IBV_WC_REM_ABORT_ERR;
	default: return IBV_WC_GENERAL_ERR;
	}
}

/* Looks closer at a carrier's completion. False: drop it. */
bool ring_take_attn(struct sp_carrier *c, uint32_t attn, const struct mlx5_cqe64 *cqe)
{
	uint8_t opcode = cqe->op_own >> 4;
	bool send = opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR;

	if (attn & (send ? RING_ATTN_SQ_SEALED : RING_ATTN_RQ_SEALED)) {
		if (!send && c->srq)
			ring_srq_give_back(c, cqe);
		return false;
	}
	if ((attn & RING_ATTN_PROGRESS) && opcode == MLX5_CQE_REQ &&
	    atomic_fetch_and(&c->attn, ~RING_ATTN_PROGRESS) & RING_ATTN_PROGRESS)
		c->qp->dev->cb->qp_progress(c->qp->cookie, c->epoch);
	return true;
}

/*
 * Decides, by a carrier's first error, for all of them: pass on or withhold. A flush may be seen
 * before its cause, when the cause is on the other CQ: an application's own cause is reported even
 * then. Guarded, an error of a send is withheld, whatever its status: a sick NIC may have made it.
 */
static uint32_t error_mode(struct sp_carrier *c, enum ibv_wc_status status, uint32_t vendor,
			   bool send)
{
	struct sp_qp *qp = c->qp;
	enum sp_error_class cls = sp_error_class_of(status);
	uint32_t none = RING_ERR_NONE, mode = RING_ERR_PASS, no_status = 0;
	bool first;

	if (atomic_load(&qp->withheld) ||
	    ((send || cls == SP_ERROR_TRANSPORT) && atomic_load(&qp->guard)))
		mode = RING_ERR_WITHHOLD;
	first = atomic_compare_exchange_strong(&c->err_mode, &none, mode);
	if (!first)
		mode = none;
	if (status != IBV_WC_WR_FLUSH_ERR &&
	    atomic_compare_exchange_strong(&c->app_status, &no_status, status)) {
		atomic_store(&c->app_vendor, vendor);
		first |= cls == SP_ERROR_APPLICATION;
	}
	if (first)
		qp->dev->cb->qp_error(qp->cookie, c->epoch, cls, mode == RING_ERR_WITHHOLD, status,
				      vendor);
	return mode;
}

/* True if the completion of a signaled request before number n was lost. */
static bool completion_missing(const struct ring_sq *sq, uint32_t n)
{
	uint32_t i = atomic_load(&sq->tail), post;

	if (!ring_sq_find(sq, i, &post))
		return true;
	for (; i != n; i++) {
		if (i == sq->head || ring_ctrl_signaled(ring_sq_ctrl(sq, post)))
			return true;
		post += ring_wqe_bbs(sq, post);
	}
	return false;
}

/*
 * Moves the tail to the first withheld error: all before it is acknowledged. But if a CQ overran,
 * the first one that is seen is not the first: then nothing is known, and the last completion is
 * the position (settling asks the peer anyway). The request before a log WQE is acknowledged too.
 */
static void withhold_send(struct sp_carrier *c, uint32_t idx)
{
	uint32_t n = c->sq.wqe_head[idx] + ring_wqe_is_log(&c->sq, idx);

	if (!c->sq_err && !completion_missing(&c->sq, n))
		atomic_store_explicit(&c->sq.tail, n, memory_order_release);
	c->sq_err = true;
}

/*
 * True if a page of a shared queue's receive was not there (PRM, on-demand paging). No error of the
 * QP: the sender tries again, and the receive is to be posted again.
 */
static bool page_fault(const struct sp_carrier *c, const struct mlx5_err_cqe *err, bool send)
{
	return c->srq && !send && err->syndrome == MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR &&
	       err->vendor_err_synd == MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT;
}

/*
 * Passes a send's error on. The place is read first: once the tail has moved, it may be another
 * request's.
 */
static bool pass_send(struct ring_sq *sq, uint32_t idx, struct ring_comp *comp)
{
	bool hidden = sq->wr_data[idx] == RING_OP_HIDDEN || ring_wqe_is_log(sq, idx);

	comp->wr_id = sq->wrid[idx];
	atomic_store_explicit(&sq->tail, sq->wqe_head[idx] + 1, memory_order_release);
	return !hidden;
}

/* Takes an error completion. False: withheld. */
bool ring_take_error(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, struct ring_comp *comp)
{
	const struct mlx5_err_cqe *err = ring_cqe_error(cqe);
	enum ibv_wc_status status = error_status(err->syndrome);
	bool send = cqe->op_own >> 4 == MLX5_CQE_REQ_ERR;
	uint32_t idx, mode;

	if (ring_unlikely(page_fault(c, err, send))) {
		ring_srq_repost(c, cqe);
		return false;
	}
	mode = error_mode(c, status, err->vendor_err_synd, send);
	comp->status = status;
	comp->op = be32toh(cqe->sop_drop_qpn) >> 24;
	if (mode == RING_ERR_WITHHOLD) {
		ring_cq_watch_locked(send ? c->qp->scq : c->qp->rcq);
		if (send)
			withhold_send(c, be16toh(cqe->wqe_counter) & c->sq.mask);
		else if (c->srq)
			ring_srq_give_back(c, cqe);
		else
			c->rq_err = true;
		return false;
	}
	if (send)
		return pass_send(&c->sq, be16toh(cqe->wqe_counter) & c->sq.mask, comp);
	if (c->srq) {
		(void)ring_srq_take(c, cqe, &comp->wr_id);
		return true;
	}
	idx = atomic_load_explicit(&c->rq.tail, memory_order_relaxed);
	comp->wr_id = c->rq.wrid[idx & c->rq.mask];
	atomic_store_explicit(&c->rq.tail, idx + 1, memory_order_release);
	return true;
}
