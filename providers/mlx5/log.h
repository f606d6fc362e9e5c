/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log: behind each n-th request that changes the peer's memory, a hidden WRITE of one word
 * there, which says how many ran (shiftlib/core/settle.h), as the carrier's ring numbers them. A
 * log WQE is unsignaled, and completes with an error only. It has no number but its request's,
 * whose WQE is longer by it when the ring is walked through (ring_wqe_bbs).
 */
#ifndef RING_LOG_H
#define RING_LOG_H

#include "providers/mlx5/seg.h"

enum {
	/*
	 * Offsets in the log WQE: behind control and remote address, and the length of what is
	 * inline, lies the number; then the tag.
	 */
	RING_LOG_INDEX_AT = 1,
	RING_LOG_NUMBER_AT =
		16 + sizeof(struct mlx5_wqe_raddr_seg) + sizeof(struct mlx5_wqe_inl_data_seg),
	/* ring_batch.ds behind a log WQE: no copy of it into the register without its request */
	RING_LOG_ALONE = 1,
};

/* The peer counts those that consume a receive. */
RING_INLINE bool ring_log_counts(uint32_t op)
{
	return ring_likely(op == MLX5_OPCODE_RDMA_WRITE) || ring_op_atomic(op);
}

/*
 * Lays a log WQE. head does not count its packet. Of opcode and index only the latter differs each
 * time.
 */
RING_INLINE struct mlx5_wqe_ctrl_seg *ring_log_lay(struct ring_sq *sq, uint32_t n)
{
	uint32_t post = sq->cur_post, slot = post & sq->mask, number = htole32(n + 1);
	struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(sq, post);
	uint16_t index = htobe16((uint16_t)post);

	memcpy(ctrl, sq->log.wqe, sizeof(sq->log.wqe));
	memcpy((uint8_t *)ctrl + RING_LOG_INDEX_AT, &index, sizeof(index));
	memcpy((uint8_t *)ctrl + RING_LOG_NUMBER_AT, &number, sizeof(number));
	sq->wr_data[slot] = RING_OP_LOG;
	sq->wqe_head[slot] = n;
	sq->cur_post = post + 1;
	sq->psn_ahead++;
	return ctrl;
}

/*
 * Called when request number n, of that opcode of mlx5's, was written last. Returns the log WQE
 * that was due, or NULL. sq_lock held. A batch that is not to be written after all:
 * ring_log_take_back().
 */
RING_INLINE struct mlx5_wqe_ctrl_seg *ring_log_behind(struct ring_sq *sq, uint32_t op, uint32_t n)
{
	if (ring_unlikely(!ring_log_counts(op)) || --sq->log.left)
		return NULL;
	sq->log.left = sq->log.every;
	return ring_log_lay(sq, n);
}

RING_INLINE void ring_log_batch(struct ring_sq *sq, struct ring_batch *batch, uint32_t op,
				uint32_t n)
{
	struct mlx5_wqe_ctrl_seg *log = ring_log_behind(sq, op, n);

	if (ring_likely(log)) {
		batch->ctrl = log;
		batch->ds = RING_LOG_ALONE;
	}
}

#pragma GCC visibility push(hidden)

const char *ring_qp_log(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log);
int32_t ring_qp_logged(struct sp_qp *qp, uint32_t number);

#pragma GCC visibility pop

#endif
