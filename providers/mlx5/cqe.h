/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef RING_CQE_H
#define RING_CQE_H

#include "providers/mlx5/cq.h"

/* Words of a CQ's doorbell record (PRM: CQ doorbell record). */
enum {
	RING_CQ_SET_CI = 0,
	RING_CQ_ARM = 1,
};

/*
 * An opcode that no NIC writes: a completion of libmlx5's (foreign_ex.c), whose wc_flags are in
 * wqe_counter.
 */
#define RING_CQE_FOREIGN 0x9

/* A number that no QP has. */
#define RING_NO_QPN UINT32_MAX

RING_INLINE struct mlx5_cqe64 *ring_cqe_slot(const struct sp_cq_ring *ring, uint32_t ci)
{
	return (struct mlx5_cqe64 *)(ring->buf + ((size_t)(ci & ring->mask) << ring->shift));
}

/*
 * The acquire orders a CQE's other bytes behind this one, which the NIC stores last, as far as CPUs
 * see memory; ring_from_device_barrier(), as devices do.
 */
RING_INLINE uint32_t ring_cqe_own(const struct mlx5_cqe64 *cqe)
{
	return __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
}

/*
 * What the NIC stored before the CQE, which was read, is read behind it. Arm: an acquire is for
 * the domain of the memory's own attributes (inner shareable on Linux), while nothing says that a
 * NIC is in there; oshld as in libmlx5.
 */
RING_INLINE void ring_from_device_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshld" ::: "memory");
#endif
}

/*
 * True if the NIC has written the CQE in this round: its other bytes may be read then. Opcode 15 is
 * what the library fills in.
 */
RING_INLINE bool ring_cqe_valid(const struct sp_cq_ring *ring, uint32_t ci, uint32_t op_own)
{
	if (op_own >= MLX5_CQE_INVALID << 4 || (op_own & 1) != !!(ci & ring->cnt))
		return false;
	ring_from_device_barrier();
	return true;
}

/* Returns the CQE at this index if the NIC has written it, else NULL. */
RING_INLINE struct mlx5_cqe64 *ring_cqe_at(const struct sp_cq_ring *ring, uint32_t ci)
{
	struct mlx5_cqe64 *cqe = ring_cqe_slot(ring, ci);

	return ring_cqe_valid(ring, ci, ring_cqe_own(cqe)) ? cqe : NULL;
}

RING_INLINE const struct mlx5_err_cqe *ring_cqe_error(const struct mlx5_cqe64 *cqe)
{
	return (const struct mlx5_err_cqe *)cqe;
}

#endif
