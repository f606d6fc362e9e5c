/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A hardware ring of a shared receive queue: a linked list of slots. */
#ifndef RING_SRQ_RING_H
#define RING_SRQ_RING_H

#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/seg.h"
#include "providers/mlx5/srq.h"

#pragma GCC visibility push(hidden)

RING_INLINE struct mlx5_wqe_srq_next_seg *ring_slot_link(const struct sp_srq_ring *ring,
							 uint32_t idx)
{
	return (struct mlx5_wqe_srq_next_seg *)(ring->buf + ((size_t)idx << ring->shift));
}

RING_INLINE struct mlx5_wqe_data_seg *ring_slot_segs(const struct sp_srq_ring *ring, uint32_t idx)
{
	return (struct mlx5_wqe_data_seg *)(ring_slot_link(ring, idx) + 1);
}

RING_INLINE uint32_t *ring_slot_keys(const struct sp_srq_ring *ring, uint32_t idx)
{
	return ring->keys + (size_t)idx * ring->max_gs;
}

/* Makes the next free WQE the newest request. */
RING_INLINE void ring_slot_use(struct sp_srq_ring *ring, uint32_t idx, uint64_t wr_id)
{
	SP_ASSERT(idx == ring->head && !ring->busy[idx] && idx != ring->tail);
	ring->wrid[idx] = wr_id;
	ring->number[idx] = ring->counter;
	ring->busy[idx] = true;
	ring->head = be16toh(ring_slot_link(ring, idx)->next_wqe_index) & ring->mask;
	ring->counter++;
	ring->outstanding++;
}

RING_INLINE void ring_slot_append(struct sp_srq_ring *ring, uint32_t idx)
{
	ring_slot_link(ring, ring->tail)->next_wqe_index = htobe16((uint16_t)idx);
	ring->tail = idx;
}

/* Frees a slot. A recovered one can be posted to again when the NIC has taken it. */
RING_INLINE void ring_slot_free(struct sp_srq_ring *ring, uint32_t idx)
{
	SP_ASSERT(ring->busy[idx] && ring->outstanding);
	ring->busy[idx] = false;
	ring->outstanding--;
	if (!ring->spoiled)
		ring_slot_append(ring, idx);
}

/*
 * Frees the slot of a completion that brings no receive of the application's: it was recovered
 * before.
 */
RING_INLINE void ring_slot_spent(struct sp_srq_ring *ring, uint32_t idx)
{
	if (!ring->stale[idx])
		return;
	ring->stale[idx] = false;
	ring->n_stale--;
	ring_slot_append(ring, idx);
}

RING_INLINE void ring_srq_doorbell(const struct sp_srq_ring *ring)
{
	ring_to_device_barrier();
	ring_store_record(ring->dbrec,
			  ring->counter & 0xffff); /* as libmlx5: the rest is reserved */
}

int ring_srq_open(struct sp_srq_ring *ring, struct sp_srq *srq, struct sp_dev *dev,
		  struct ibv_srq *real);
void ring_srq_close(struct sp_srq_ring *ring);

#pragma GCC visibility pop

#endif
