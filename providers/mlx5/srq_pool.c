/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue: receives in no ring, and the choice of a ring. */
#include <stdlib.h>

#include "providers/mlx5/srq_pool.h"
#include "providers/mlx5/srq_ring.h"

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

	if (front)
		srq->pool_first = (srq->pool_first + srq->own.cnt - 1) % srq->own.cnt;
	srq->pool_n++;
	place = pool_at(srq, front ? 0 : srq->pool_n - 1);
	place->stuck_since = 0;
	return place;
}

static void pool_pop(struct sp_srq *srq)
{
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

/* -- which ring gets the next receive ---------------------------------------------------------- */

/*
 * True if receives in this ring can be taken. resting: nothing comes through any NIC, so each ring
 * waits for its own.
 */
static bool serves(const struct sp_srq_ring *ring, bool resting)
{
	return ring->users && !ring->spoiled && (resting || !ring->rests);
}

static bool all_rest(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;

	for (ring = &srq->own; ring; ring = ring->next)
		if (serves(ring, false))
			return false;
	return true;
}

static bool takes_more(const struct sp_srq_ring *ring, bool resting)
{
	return serves(ring, resting) && !ring_srq_full(ring);
}

static bool comes_before(const struct sp_srq_ring *a, const struct sp_srq_ring *b)
{
	if (sp_share_fewer(a->outstanding, a->users, b->outstanding, b->users))
		return true;
	if (sp_share_fewer(b->outstanding, b->users, a->outstanding, a->users))
		return false;
	return a->turn < b->turn;
}

/* Chooses the ring with the fewest receives for each of its carriers. */
static struct sp_srq_ring *feed_choose(struct sp_srq *srq)
{
	struct sp_srq_ring *best = NULL, *ring;
	bool resting = all_rest(srq);

	for (ring = &srq->own; ring; ring = ring->next)
		if (takes_more(ring, resting) && (!best || comes_before(ring, best)))
			best = ring;
	return best;
}

/* Measured by the shell's clock; without one, none is too long. */
static bool stuck_for_good(struct ring_pooled *r, uint64_t now, uint64_t patience)
{
	if (now && !r->stuck_since)
		r->stuck_since = now;
	return now && now - r->stuck_since >= patience;
}

static void feed_ring_all(struct sp_srq *srq)
{
	for (struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next) {
		if (ring->fed)
			ring_srq_doorbell(ring);
		ring->fed = false;
	}
}

/* Hands the pool's receives to the rings. Each is looked at once. srq->lock held. */
static int ring_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	uint32_t n = srq->pool_n, stuck = 0;
	struct sp_srq_ring *ring;

	for (; n && (ring = feed_choose(srq)); n--) {
		struct ring_pooled *first = pool_at(srq, 0);

		if (pool_lay(ring, first, false) &&
		    (!stuck_for_good(first, now, patience) || pool_lay(ring, first, true))) {
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

/* True if the pool waits for a ring with room, not for a key. */
static bool pool_waits(const struct sp_srq *srq)
{
	return srq->pool_n && !srq->stuck;
}

/* True if a ring with users has no receive while another one has some. */
static bool any_starves(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	bool none = false, some = false;

	for (ring = &srq->own; ring; ring = ring->next) {
		if (!serves(ring, false))
			continue;
		none |= !ring->outstanding;
		some |= ring->outstanding != 0;
	}
	return none && some && !pool_waits(srq);
}

static void tell_if_starving(struct sp_srq *srq)
{
	if (srq->starving || !any_starves(srq))
		return;
	srq->starving = true;
	srq->dev->cb->srq_stuck(srq->cookie);
}

void ring_pool_feed_or_tell(struct sp_srq *srq)
{
	if (ring_pool_feed(srq, 0, 0) && !srq->stuck) {
		srq->stuck = true;
		srq->dev->cb->srq_stuck(srq->cookie);
	}
	tell_if_starving(srq);
}

/* Returns how many receives the application has posted that are not completed. */
uint32_t ring_srq_total(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	uint32_t n = srq->pool_n;

	for (ring = &srq->own; ring; ring = ring->next)
		n += ring->outstanding;
	return n;
}

/* After a move each device counts a part only; the limit is one of all that there is. */
void ring_srq_check_limit(struct sp_srq *srq)
{
	if (!srq->limit || !srq->split || ring_srq_total(srq) >= srq->limit)
		return;
	srq->limit = 0;
	srq->dev->cb->srq_limit(srq->cookie);
}

int ring_srq_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	int err;

	sp_lock(&srq->lock);
	err = srq->split ? ring_pool_feed(srq, now_ns, patience_ns) : 0;
	if (srq->split)
		tell_if_starving(srq);
	sp_unlock(&srq->lock);
	return err;
}

void ring_srq_rest(struct sp_srq_ring *ring, bool rests)
{
	struct sp_srq *srq = ring->srq;

	sp_lock(&srq->lock);
	ring->rests = rests;
	if (srq->split)
		ring_pool_feed_or_tell(srq);
	sp_unlock(&srq->lock);
}

/* -- shares ------------------------------------------------------------------------------------ */

static uint32_t all_users(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	uint32_t n = 0;

	for (ring = &srq->own; ring; ring = ring->next)
		n += serves(ring, false) ? ring->users : 0;
	return n;
}

static uint32_t part_of(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	return sp_share_part(receives, ring->users, users);
}

static bool in_want(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	return serves(ring, false) &&
	       sp_share_in_want(ring->outstanding, part_of(ring, receives, users));
}

static bool any_in_want(const struct sp_srq *srq)
{
	uint32_t receives = ring_srq_total(srq), users = all_users(srq);
	const struct sp_srq_ring *ring;

	for (ring = &srq->own; ring; ring = ring->next)
		if (in_want(ring, receives, users))
			return true;
	return false;
}

void ring_srq_tell_if_in_want(struct sp_srq *srq, const struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	if (!pool_waits(srq) && in_want(ring, ring_srq_total(srq), all_users(srq)))
		srq->dev->cb->srq_stuck(srq->cookie);
	tell_if_starving(srq);
}

/* Notes that the application got a receive of that ring: traffic is there. */
void ring_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	srq->served++;
	ring->turn = sp_share_front(&srq->turns);
	ring_srq_tell_if_in_want(srq, ring);
}

static uint32_t surplus(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	if (!serves(ring, false))
		return 0;
	return sp_share_surplus(ring->outstanding, part_of(ring, receives, users));
}

struct sp_srq_ring *ring_srq_share(struct sp_srq *srq, uint32_t *n)
{
	struct sp_srq_ring *ring, *most = NULL;
	uint32_t receives, users, more;

	*n = 0;
	sp_lock(&srq->lock);
	receives = ring_srq_total(srq);
	users = all_users(srq);
	if (srq->split && !pool_waits(srq) && any_in_want(srq))
		for (ring = &srq->own; ring; ring = ring->next) {
			more = surplus(ring, receives, users);
			if (more > *n) {
				most = ring;
				*n = more;
			}
		}
	sp_unlock(&srq->lock);
	return most;
}

/*
 * The ring that has most gives first; of several, the one where the program took none for the
 * longest time.
 */
static bool gives_before(const struct sp_srq_ring *a, const struct sp_srq_ring *b)
{
	return a->outstanding != b->outstanding ? a->outstanding > b->outstanding
						: a->turn > b->turn;
}

struct sp_srq_ring *ring_srq_starving(struct sp_srq *srq, uint32_t *taken)
{
	struct sp_srq_ring *ring, *from = NULL;

	sp_lock(&srq->lock);
	*taken = srq->served;
	srq->starving = srq->split && any_starves(srq);
	for (ring = srq->starving ? &srq->own : NULL; ring; ring = ring->next)
		if (serves(ring, false) && (!from || gives_before(ring, from)))
			from = ring;
	sp_unlock(&srq->lock);
	return from;
}
