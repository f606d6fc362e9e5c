/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue: receives in no ring, and the choice of a ring. */
#include <stdlib.h>

#include "providers/mlx5/srq_pool.h"
#include "providers/mlx5/srq_ring.h"
#include "providers/common/pool.h"

/* -- the pool ---------------------------------------------------------------------------------- */

static struct ring_pooled *pool_at(const struct sp_srq *srq, uint32_t i)
{
	uint32_t at = (srq->pool_first + i) % srq->own.cnt;

	return (struct ring_pooled *)((uint8_t *)srq->pool + (size_t)at * srq->pool_stride);
}

/*
 * Makes the pool before the first move. It never holds more than the application may have posted.
 */
int ring_pool_make(struct sp_srq *srq)
{
	size_t stride = sizeof(struct ring_pooled) + srq->own.max_gs * sizeof(struct ibv_sge);
	void *pool = calloc(srq->own.cnt, stride);
	bool had;

	if (!pool)
		return -ENOMEM;
	sp_lock(&srq->lock);
	had = srq->pool != NULL;
	if (!had) {
		srq->pool = pool;
		srq->pool_stride = (uint32_t)stride;
	}
	sp_unlock(&srq->lock);
	if (had)
		free(pool);
	return 0;
}

struct ring_pooled *ring_pool_add(struct sp_srq *srq, bool front)
{
	struct ring_pooled *place;

	SP_ASSERT(srq->pool_n < srq->own.cnt);
	if (front)
		srq->pool_first = (srq->pool_first + srq->own.cnt - 1) % srq->own.cnt;
	srq->pool_n++;
	place = pool_at(srq, front ? 0 : srq->pool_n - 1);
	place->stuck_since = 0;
	return place;
}

static void pool_pop(struct sp_srq *srq)
{
	SP_ASSERT(srq->pool_n);
	srq->pool_first = (srq->pool_first + 1) % srq->own.cnt;
	srq->pool_n--;
}

/* Moves the first receive to the end: it must not keep the others from the rings. */
static void pool_rotate(struct sp_srq *srq)
{
	const struct ring_pooled *first = pool_at(srq, 0);

	memmove(pool_at(srq, srq->pool_n), first, srq->pool_stride);
	srq->pool_first = (srq->pool_first + 1) % srq->own.cnt;
}

void ring_pool_load(const struct sp_srq_ring *ring, uint32_t idx, struct ring_pooled *out)
{
	const struct mlx5_wqe_data_seg *seg = ring_slot_segs(ring, idx);

	out->wr_id = ring->wrid[idx];
	for (out->n = 0; out->n < ring->max_gs; out->n++, seg++) {
		if (be32toh(seg->lkey) == MLX5_INVALID_LKEY)
			break;
		out->sge[out->n] = (struct ibv_sge){
			.addr = be64toh(seg->addr),
			.length = be32toh(seg->byte_count),
			.lkey = ring->keys ? ring_slot_keys(ring, idx)[out->n] : be32toh(seg->lkey),
		};
	}
}

/*
 * -ENOENT: the ring's NIC has no key yet for some memory of it; nothing was done. anyway: a key
 * that names nothing is used then.
 */
static int pool_lay(struct sp_srq_ring *ring, const struct ring_pooled *from, bool anyway)
{
	const struct sp_callbacks *cb = ring->srq->dev->cb;
	struct mlx5_wqe_data_seg *seg = ring_slot_segs(ring, ring->head);
	uint32_t wire[RING_SRQ_MAX_GS], i;

	for (i = 0; i < from->n; i++) {
		wire[i] = from->sge[i].lkey;
		if (!ring->keys || !cb->srq_lkey(ring->srq->cookie, ring->path, wire[i], &wire[i]))
			continue;
		if (!anyway)
			return -ENOENT;
		wire[i] = SP_NO_KEY;
	}
	for (i = 0; i < from->n; i++, seg++) {
		ring_seg_data((uint8_t *)seg, from->sge[i].addr, wire[i], from->sge[i].length);
		if (ring->keys)
			ring_slot_keys(ring, ring->head)[i] = from->sge[i].lkey;
	}
	if (i < ring->max_gs)
		ring_seg_data((uint8_t *)seg, 0, MLX5_INVALID_LKEY, 0);
	ring_slot_use(ring, ring->head, from->wr_id);
	return 0;
}

/* Returns how many receives the application has posted that are not completed. */
uint32_t ring_srq_total(const struct sp_srq *srq)
{
	uint32_t n = srq->pool_n;

	for (const struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next)
		n += ring->outstanding;
	return n;
}

/* -- feeding ----------------------------------------------------------------------------------- */

static void feed_ring_all(struct sp_srq *srq)
{
	for (struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next) {
		if (ring->fed)
			ring_srq_doorbell(ring);
		ring->fed = false;
	}
}

/* Hands the pool's receives to the rings. Each is looked at once. srq->lock held. */
int ring_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	uint32_t n = srq->pool_n, stuck = 0;
	struct sp_srq_ring *ring;

	for (; n && (ring = sp_pool_choose(srq)); n--) {
		struct ring_pooled *first = pool_at(srq, 0);

		if (pool_lay(ring, first, false) &&
		    (!sp_stuck_for_good(&first->stuck_since, now, patience) ||
		     pool_lay(ring, first, true))) {
			pool_rotate(srq);
			stuck++;
			continue;
		}
		ring->fed = true;
		pool_pop(srq);
	}
	feed_ring_all(srq);
	srq->stuck &= stuck != 0;
	return stuck ? -ENOENT : 0;
}

void ring_pool_feed_or_tell(struct sp_srq *srq)
{
	sp_pool_tell(srq, ring_pool_feed(srq, 0, 0));
}

/* -- providers/common/pool.h, as calls --------------------------------------------------------- */

void ring_srq_check_limit(struct sp_srq *srq)
{
	sp_pool_check_limit(srq);
}

void ring_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	sp_pool_served(srq, ring);
}
