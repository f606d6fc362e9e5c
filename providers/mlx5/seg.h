/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The segments of a send WQE, as ibv_post_send and ibv_wr_* both write them. */
#ifndef RING_SEG_H
#define RING_SEG_H

#include <assert.h>

#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/sq.h"

enum ring_shape {
	RING_SHAPE_SEND,
	RING_SHAPE_RDMA,
	RING_SHAPE_ATOMIC,
	RING_SHAPE_UMR,
	RING_SHAPE_NONE, /* none that this engine can build */
};

struct ring_opcode {
	uint8_t mlx5, shape;
	uint8_t two_sided; /* 1: consumes a receive */
	uint8_t imm;	   /* 1: immediate, 2: key to invalidate */
};

#define RING_OPCODES (IBV_WR_DRIVER1 + 1)

/* The opcodes of mlx5, by enum ibv_wr_opcode. */
static const struct ring_opcode ring_opcodes[RING_OPCODES] = {
	[IBV_WR_RDMA_WRITE] = { MLX5_OPCODE_RDMA_WRITE, RING_SHAPE_RDMA, 0, 0 },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { MLX5_OPCODE_RDMA_WRITE_IMM, RING_SHAPE_RDMA, 1, 1 },
	[IBV_WR_SEND] = { MLX5_OPCODE_SEND, RING_SHAPE_SEND, 1, 0 },
	[IBV_WR_SEND_WITH_IMM] = { MLX5_OPCODE_SEND_IMM, RING_SHAPE_SEND, 1, 1 },
	[IBV_WR_RDMA_READ] = { MLX5_OPCODE_RDMA_READ, RING_SHAPE_RDMA, 0, 0 },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { MLX5_OPCODE_ATOMIC_CS, RING_SHAPE_ATOMIC, 0, 0 },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { MLX5_OPCODE_ATOMIC_FA, RING_SHAPE_ATOMIC, 0, 0 },
	[IBV_WR_LOCAL_INV] = { MLX5_OPCODE_UMR, RING_SHAPE_UMR, 0, 0 },
	[IBV_WR_BIND_MW] = { MLX5_OPCODE_UMR, RING_SHAPE_UMR, 0, 0 },
	[IBV_WR_SEND_WITH_INV] = { MLX5_OPCODE_SEND_INVAL, RING_SHAPE_SEND, 1, 2 },
	[IBV_WR_TSO] = { MLX5_OPCODE_TSO, RING_SHAPE_NONE, 0, 0 },
	[IBV_WR_DRIVER1] = { MLX5_OPCODE_UMR, RING_SHAPE_NONE, 0, 0 },
};

/* True if request number n has no room. */
RING_INLINE bool ring_sq_full_at(const struct ring_sq *sq, uint32_t n, uint32_t limit)
{
	return n - atomic_load_explicit(&sq->tail, memory_order_acquire) >= limit;
}

RING_INLINE bool ring_sq_full(const struct ring_sq *sq, uint32_t nreq, uint32_t limit)
{
	return ring_sq_full_at(sq, sq->head + nreq, limit);
}

/*
 * The control flags, by IBV_SEND_FENCE, IBV_SEND_SIGNALED and IBV_SEND_SOLICITED, the three lowest
 * bits.
 */
static const uint8_t ring_flag_bits[8] = {
	0,
	MLX5_WQE_CTRL_FENCE,
	MLX5_WQE_CTRL_CQ_UPDATE,
	MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_FENCE,
	MLX5_WQE_CTRL_SOLICITED,
	MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_FENCE,
	MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_CQ_UPDATE,
	MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_FENCE,
};
static_assert(IBV_SEND_FENCE == 1 && IBV_SEND_SIGNALED == 2 && IBV_SEND_SOLICITED == 4,
	      "index of ring_flag_bits");

/* Takes the fence bits that the queue owes to a UMR; IBV_SEND_FENCE replaces them. */
RING_INLINE uint8_t ring_ctrl_flags(struct ring_sq *sq, uint8_t sig_bits, unsigned flags)
{
	uint8_t bits = sig_bits | ring_flag_bits[flags & 7];

	if (ring_unlikely(sq->fm_cache)) {
		if (!(flags & IBV_SEND_FENCE))
			bits |= sq->fm_cache;
		sq->fm_cache = 0;
	}
	return bits;
}

/* Writes bytes 8 to 11: signature, stream, flags. */
RING_INLINE void ring_ctrl_begin(struct mlx5_wqe_ctrl_seg *ctrl, uint8_t flags)
{
	uint32_t zero = 0;

	memcpy((uint8_t *)ctrl + 8, &zero, 4);
	ctrl->fm_ce_se = flags;
}

RING_INLINE void ring_ctrl_opcode_set(struct mlx5_wqe_ctrl_seg *ctrl, uint32_t post, uint8_t op)
{
	ctrl->opmod_idx_opcode = htobe32((post & 0xffff) << 8 | op);
}

RING_INLINE void ring_seg_raddr_wire(uint8_t *at, uint64_t addr, __be32 rkey)
{
	struct mlx5_wqe_raddr_seg *seg = (struct mlx5_wqe_raddr_seg *)at;

	seg->raddr = htobe64(addr);
	seg->rkey = rkey;
	seg->reserved = 0;
}

RING_INLINE void ring_seg_raddr(uint8_t *at, uint64_t addr, uint32_t rkey)
{
	ring_seg_raddr_wire(at, addr, htobe32(rkey));
}

RING_INLINE void ring_seg_atomic(uint8_t *at, bool cas, uint64_t swap, uint64_t compare_add)
{
	struct mlx5_wqe_atomic_seg *seg = (struct mlx5_wqe_atomic_seg *)at;

	seg->swap_add = htobe64(cas ? swap : compare_add);
	if (cas)
		seg->compare = htobe64(compare_add);
}

/* The key has a store of its own: gathering both words in a vector register takes longer. */
RING_INLINE void ring_seg_data_wire(uint8_t *at, uint64_t addr, __be32 lkey, uint32_t length)
{
	struct mlx5_wqe_data_seg *seg = (struct mlx5_wqe_data_seg *)at;

	seg->byte_count = htobe32(length);
	__atomic_store_n(&seg->lkey, lkey, __ATOMIC_RELAXED);
	seg->addr = htobe64(addr);
}

RING_INLINE void ring_seg_data(uint8_t *at, uint64_t addr, uint32_t lkey, uint32_t length)
{
	ring_seg_data_wire(at, addr, htobe32(lkey), length);
}

RING_INLINE void ring_seg_ud(uint8_t *at, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct mlx5_wqe_av *av = (struct mlx5_wqe_av *)at;

	memcpy(av, ring_ah_av(ah), sizeof(*av));
	av->dqp_dct = htobe32(qpn | MLX5_EXTENDED_UD_AV);
	av->key.qkey.qkey = htobe32(qkey);
}

/* Copies with wrap, as the ring's end may fall inside. Returns the place of the next byte. */
RING_INLINE uint8_t *ring_seg_copy(const struct ring_sq *sq, uint8_t *at, const void *from,
				   size_t n)
{
	const uint8_t *src = from;

	if (ring_unlikely(at + n > sq->end)) {
		size_t fit = sq->end - at;

		memcpy(at, src, fit);
		src += fit;
		n -= fit;
		at = sq->buf;
	}
	memcpy(at, src, n);
	return at + n;
}

/* Writes the header of inline data of n bytes; returns its size in 16-byte units. */
RING_INLINE uint32_t ring_seg_inline(uint8_t *at, uint32_t n)
{
	struct mlx5_wqe_inl_data_seg *seg = (struct mlx5_wqe_inl_data_seg *)at;

	if (ring_unlikely(!n))
		return 0;
	seg->byte_count = htobe32(n | MLX5_INLINE_SEG);
	return (n + sizeof(*seg) + 15) / 16;
}

#endif
