/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Data inside the CQE (PRM: scatter to CQE), copied to its buffers. */
#include "providers/mlx5/rq.h"
#include "providers/mlx5/scatter.h"
#include "providers/mlx5/sq.h"

/* Copies to the segments' buffers. Returns how many bytes are left over. */
uint32_t ring_scatter_list(const struct mlx5_wqe_data_seg *seg, uint32_t n, const uint8_t **data,
			   uint32_t size)
{
	for (; n && size; n--, seg++) {
		uint32_t len = be32toh(seg->byte_count);

		/* behind the end of a receive's list lie leavings */
		if (seg->lkey == htobe32(MLX5_INVALID_LKEY))
			break;
		len = len < size ? len : size;
		memcpy((void *)(uintptr_t)be64toh(seg->addr), *data, len);
		*data += len;
		size -= len;
	}
	return size;
}

uint8_t ring_scatter_recv(struct ring_rq *rq, uint32_t idx, const void *data, uint32_t size)
{
	const void *seg = rq->buf + ((size_t)idx << rq->shift);
	const uint8_t *src = data;

	return ring_scatter_list(seg, rq->max_gs, &src, size) ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

uint8_t ring_scatter_send(struct ring_sq *sq, uint32_t idx, const void *data, uint32_t size)
{
	struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(sq, idx);
	uint32_t units = be32toh(ctrl->qpn_ds) & 0x3f;
	uint8_t op = ring_ctrl_opcode(ctrl);
	uint32_t skip = op == MLX5_OPCODE_RDMA_READ ? 2 : 3, n, fit;
	const uint8_t *seg = (uint8_t *)ctrl + skip * 16;
	const uint8_t *src = data;

	if (op != MLX5_OPCODE_RDMA_READ && op != MLX5_OPCODE_ATOMIC_CS &&
	    op != MLX5_OPCODE_ATOMIC_FA)
		return IBV_WC_REM_INV_REQ_ERR;
	n = units > skip ? units - skip : 0;
	fit = (sq->end - seg) / 16;
	fit = n < fit ? n : fit;
	size = ring_scatter_list((const void *)seg, fit, &src, size);
	size = ring_scatter_list((const void *)sq->buf, n - fit, &src, size);
	return size ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}
