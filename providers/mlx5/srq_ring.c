/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A hardware ring of a shared receive queue: its slots, and the recovery at its end. */
#include <stdlib.h>

#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/srq_pool.h"
#include "providers/mlx5/srq_ring.h"

/*
 * Walks the list from the first free WQE to the last. Returns their number; 0: the list has no end.
 */
static uint32_t list_walk(const struct sp_srq_ring *ring, uint32_t *highest)
{
	uint32_t idx = ring->head, n = 1;

	*highest = idx;
	for (; idx != ring->tail && n <= UINT16_MAX; n++) {
		idx = be16toh(ring_slot_link(ring, idx)->next_wqe_index);
		*highest = idx > *highest ? idx : *highest;
	}
	return idx == ring->tail ? n : 0;
}

void ring_srq_close(struct sp_srq_ring *ring)
{
	free(ring->wrid);
	free(ring->number);
	free(ring->busy);
	free(ring->stale);
	free(ring->heap);
	free(ring->keys);
}

static int ring_arrays(struct sp_srq_ring *ring, uint32_t slots, bool keys)
{
	ring->mask = 1;
	while (ring->mask < slots)
		ring->mask *= 2;
	slots = ring->mask--;
	ring->wrid = calloc(slots, sizeof(*ring->wrid));
	ring->number = calloc(slots, sizeof(*ring->number));
	ring->busy = calloc(slots, sizeof(*ring->busy));
	ring->stale = calloc(slots, sizeof(*ring->stale));
	ring->heap = calloc(slots, sizeof(*ring->heap));
	if (keys)
		ring->keys = calloc((size_t)slots * ring->max_gs, sizeof(*ring->keys));
	if (ring->wrid && ring->number && ring->busy && ring->stale && ring->heap &&
	    (!keys || ring->keys))
		return 0;
	ring_srq_close(ring);
	return -ENOMEM;
}

int ring_srq_open(struct sp_srq_ring *ring, struct sp_srq *srq, struct sp_dev *dev,
		  struct ibv_srq *real)
{
	struct mlx5dv_srq dv = { 0 };
	struct mlx5dv_obj obj = { .srq = { .in = real, .out = &dv } };
	int err = ring_init_obj(&obj, MLX5DV_OBJ_SRQ);
	uint32_t highest;

	if (err)
		return err;
	ring->engine = dev->engine;
	ring->srq = srq;
	ring->dev = dev;
	ring->real = real;
	ring->buf = dv.buf;
	ring->dbrec = dv.dbrec;
	ring->shift = (uint32_t)__builtin_ctz(dv.stride);
	ring->max_gs = dv.stride / 16 - 1;
	ring->start = ring->head = dv.head;
	ring->tail = dv.tail;
	ring->cnt = list_walk(ring, &highest);
	if (!ring->cnt || ring->max_gs > RING_SRQ_MAX_GS)
		return -EOPNOTSUPP;
	return ring_arrays(ring, highest + 1, dev != srq->dev);
}

/* -- a ring that nobody takes from any more ---------------------------------------------------- */

static bool is_older(const struct sp_srq_ring *ring, uint32_t a, uint32_t b)
{
	return (int32_t)(ring->number[a] - ring->number[b]) < 0;
}

/*
 * Sifts a heap of slots, the newest request on top: finding each of thousands anew takes too long.
 */
static void heap_sift(const struct sp_srq_ring *ring, uint32_t n, uint32_t i)
{
	uint32_t *heap = ring->heap, child, slot;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && is_older(ring, heap[child], heap[child + 1]))
			child++;
		if (!is_older(ring, heap[i], heap[child]))
			return;
		slot = heap[i];
		heap[i] = heap[child];
		heap[child] = slot;
	}
}

/* Makes a heap of all that are posted and not completed. */
static uint32_t heap_make(const struct sp_srq_ring *ring)
{
	uint32_t n = 0, i;

	for (i = 0; i <= ring->mask; i++)
		if (ring->busy[i])
			ring->heap[n++] = i;
	for (i = n / 2; i-- > 0;)
		heap_sift(ring, n, i);
	return n;
}

static uint32_t heap_pop(const struct sp_srq_ring *ring, uint32_t n)
{
	uint32_t top = ring->heap[0];

	ring->heap[0] = ring->heap[n - 1];
	heap_sift(ring, n - 1, 0);
	return top;
}

uint32_t ring_srq_recover(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;
	uint32_t n = 0, left, idx;

	sp_lock(&srq->lock);
	if (srq->pool) {
		n = heap_make(ring);
		ring->spoiled = true;
		srq->split = true;
		for (left = n; left; left--) {
			idx = heap_pop(ring, left);
			ring_pool_load(ring, idx, ring_pool_add(srq, true));
			ring_slot_free(ring, idx);
			ring->stale[idx] = true;
		}
		ring->n_stale += n;
		ring_pool_feed_or_tell(srq);
	}
	sp_unlock(&srq->lock);
	return n;
}
