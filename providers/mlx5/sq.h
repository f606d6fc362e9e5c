/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Send rings. */
#ifndef RING_SQ_H
#define RING_SQ_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

enum {
	RING_LOG_DS = 3
}; /* control, remote address, and the word inline: one WQEBB, so it never wraps */

/* The log of a ring, under the QP's sq_lock: log.h. All zeros: not logged. */
struct ring_log {
	uint8_t wqe[RING_LOG_DS * 16] __attribute__((aligned(16))); /* all but index and number */
	/*
	 * Counted requests up to the next log WQE. So wide that without a log, where it begins at
	 * 0, it never comes to 0 again, and nobody has to ask.
	 */
	uint64_t left;
	uint32_t every;
};

/*
 * The memory under a hidden NOP: the oldest WQEBB of a full ring, and its entries in the tables.
 * That request is complete, but the application may not have seen it complete yet, and a recall
 * then needs it.
 */
struct ring_covered {
	uint64_t wrid;
	uint32_t post, number;
	uint8_t wr_data;
	uint8_t wqe[MLX5_SEND_WQE_BB], keys[MLX5_SEND_WQE_BB];
};

/* A send queue: WQEs in 64-byte units (WQEBB). Also used for withheld WQEs in memory. */
struct ring_sq {
	uint8_t *buf, *end;
	uint32_t mask;	       /* WQEBBs - 1 */
	uint32_t cur_post;     /* next WQEBB */
	uint32_t head;	       /* number of requests posted */
	uint32_t qpn_field;    /* qpn << 8, as it stands in a WQE beside the length */
	_Atomic uint32_t tail; /* number of requests known complete; under the send CQ's lock */
	uint8_t fm_cache;      /* fence bits that the next request owes to a UMR */
	uint8_t mtu_shift;
	bool blank;	    /* true if the tables are those of ring_blank(): nobody has posted */
	bool numbered;	    /* true if the QP has told its first PSN: ring_sq_number() */
	uint32_t mtu;	    /* MTU of the path; a request of no more is one packet */
	uint32_t psn_ahead; /* PSN of the next request's first packet minus head, mod 2^24 */
	uint64_t *wrid;	    /* these three by WQEBB */
	uint32_t *wqe_head;
	uint8_t *wr_data;   /* opcode that a NOP or a UMR stands for */
	uint8_t *keys;	    /* the application's keys, each where it lies in buf; may be NULL */
	uintptr_t keys_at;  /* distance from buf to keys */
	uint32_t tail_post; /* WQEBB of the oldest request; kept for hold and failed queues only */
	struct ring_log log;
};

struct ring_batch {
	struct mlx5_wqe_ctrl_seg *ctrl; /* control segment of the last request */
	uint32_t nreq, ds;
	bool inl;
	uint32_t from; /* WQEBB of the first; set for requests with missing keys only */
};

RING_INLINE struct mlx5_wqe_ctrl_seg *ring_sq_ctrl(const struct ring_sq *sq, uint32_t post)
{
	return (struct mlx5_wqe_ctrl_seg *)(sq->buf +
					    ((size_t)(post & sq->mask) << MLX5_SEND_WQE_SHIFT));
}

RING_INLINE uint8_t ring_ctrl_opcode(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return ((const uint8_t *)&ctrl->opmod_idx_opcode)[3];
}

/* The place at which the request was laid, modulo 65,536. */
RING_INLINE uint32_t ring_ctrl_index(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return be32toh(ctrl->opmod_idx_opcode) >> 8 & 0xffff;
}

RING_INLINE bool ring_op_atomic(uint32_t op)
{
	return op == MLX5_OPCODE_ATOMIC_CS || op == MLX5_OPCODE_ATOMIC_FA;
}

RING_INLINE bool ring_ctrl_send_fence(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return (ctrl->fm_ce_se & 0xe0) == MLX5_WQE_CTRL_FENCE;
}

RING_INLINE bool ring_ctrl_signaled(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return (ctrl->fm_ce_se & 0x0c) == MLX5_WQE_CTRL_CQ_UPDATE;
}

/*
 * Every request takes packet numbers of its QP: as many as its data fills packets, of a READ those
 * of the answer; one if it has none. Only NOPs and UMRs take none.
 */
RING_INLINE uint32_t ring_packets(const struct ring_sq *sq, uint32_t bytes)
{
	return bytes <= sq->mtu ? 1 : ((bytes - 1) >> sq->mtu_shift) + 1;
}

/* Counts the packets of a request that head will count too: most have nothing to add. */
RING_INLINE void ring_count_packets(struct ring_sq *sq, uint32_t bytes)
{
	if (ring_unlikely(bytes > sq->mtu))
		sq->psn_ahead += (bytes - 1) >> sq->mtu_shift;
}

/* Stops counting a queue's packets: its requests cost as little as those of one packet. */
RING_INLINE void ring_sq_unnumber(struct ring_sq *sq)
{
	sq->mtu = UINT32_MAX;
	sq->numbered = false;
}

RING_INLINE void ring_sq_number(struct ring_sq *sq, uint32_t psn, uint32_t mtu)
{
	sq->psn_ahead = psn - sq->head;
	sq->mtu = mtu;
	sq->mtu_shift = (uint8_t)__builtin_ctz(mtu);
	sq->numbered = true;
}

int ring_sq_alloc(struct ring_sq *sq, bool keys);
int ring_sq_alloc_blank(struct ring_sq *sq); /* without keys */
/* Returns two covered WQEBBs, by the NOPs of sp_carrier.nop_n; of a ring that is not blank. */
struct ring_covered *ring_sq_covered(const struct ring_sq *sq);
int ring_sq_fill(struct ring_sq *sq);	 /* before it is written to; under its lock */
void ring_sq_forget(struct ring_sq *sq); /* no number of a request is found any more */
void ring_sq_free(struct ring_sq *sq);
bool ring_sq_find(const struct ring_sq *sq, uint32_t n, uint32_t *post);
void ring_sq_unwrite(struct ring_sq *sq, uint32_t from, uint32_t nreq);
uint32_t ring_wqe_bbs(const struct ring_sq *sq, uint32_t post); /* with its log WQE */
bool ring_wqe_is_log(const struct ring_sq *sq, uint32_t post);
bool ring_wqe_logged(const struct ring_sq *sq, uint32_t post, uint32_t bbs);
void ring_log_take_back(struct ring_sq *sq, uint32_t from);

#pragma GCC visibility pop

#endif
