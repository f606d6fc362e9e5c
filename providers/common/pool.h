/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The choice of a ring for each receive of a shared queue's pool. Compiled into each engine's
 * srq_pool.c, over the engine's own struct sp_srq and struct sp_srq_ring: the engine's headers come
 * first, and have sp_ring_receives(), sp_ring_full(), sp_pool_length() and sp_srq_total(). The
 * queue's lock is held for all but sp_pool_share() and sp_pool_starving().
 */
#ifndef SHIFT_POOL_H
#define SHIFT_POOL_H

#include "providers/common/share.h"

/* -- which ring gets the next receive ---------------------------------------------------------- */

/*
 * True if receives in this ring can be taken. resting: nothing comes through any NIC, so each ring
 * waits for its own.
 */
static inline bool sp_ring_serves(const struct sp_srq_ring *ring, bool resting)
{
	return ring->users && !ring->spoiled && (resting || !ring->rests);
}

static inline bool sp_pool_all_rest(const struct sp_srq *srq)
{
	for (const struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next)
		if (sp_ring_serves(ring, false))
			return false;
	return true;
}

static inline bool sp_ring_takes_more(const struct sp_srq_ring *ring, bool resting)
{
	return sp_ring_serves(ring, resting) && !sp_ring_full(ring);
}

static inline bool sp_ring_comes_before(const struct sp_srq_ring *a, const struct sp_srq_ring *b)
{
	if (sp_share_fewer(sp_ring_receives(a), a->users, sp_ring_receives(b), b->users))
		return true;
	if (sp_share_fewer(sp_ring_receives(b), b->users, sp_ring_receives(a), a->users))
		return false;
	return a->turn < b->turn;
}

/* Chooses the ring with the fewest receives for each of its carriers. */
static inline struct sp_srq_ring *sp_pool_choose(struct sp_srq *srq)
{
	struct sp_srq_ring *best = NULL, *ring;
	bool resting = sp_pool_all_rest(srq);

	for (ring = &srq->own; ring; ring = ring->next)
		if (sp_ring_takes_more(ring, resting) &&
		    (!best || sp_ring_comes_before(ring, best)))
			best = ring;
	return best;
}

/* since: when it got stuck, by the shell's clock; without one, none is stuck too long. */
static inline bool sp_stuck_for_good(uint64_t *since, uint64_t now, uint64_t patience)
{
	if (now && !*since)
		*since = now;
	return now && now - *since >= patience;
}

/* -- what the shell is told -------------------------------------------------------------------- */

/* True if the pool waits for a ring with room, not for a key. */
static inline bool sp_pool_waits(const struct sp_srq *srq)
{
	return sp_pool_length(srq) && !srq->stuck;
}

/* True if a ring with users has no receive while another one has some. */
static inline bool sp_pool_any_starves(const struct sp_srq *srq)
{
	bool none = false, some = false;

	for (const struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next) {
		if (!sp_ring_serves(ring, false))
			continue;
		none |= !sp_ring_receives(ring);
		some |= sp_ring_receives(ring) != 0;
	}
	return none && some && !sp_pool_waits(srq);
}

static inline void sp_pool_tell_if_starving(struct sp_srq *srq)
{
	if (srq->starving || !sp_pool_any_starves(srq))
		return;
	srq->starving = true;
	srq->dev->cb->srq_stuck(srq->cookie);
}

/* The pool was fed; err: some receive is stuck. */
static inline void sp_pool_tell(struct sp_srq *srq, int err)
{
	if (err && !srq->stuck) {
		srq->stuck = true;
		srq->dev->cb->srq_stuck(srq->cookie);
	}
	sp_pool_tell_if_starving(srq);
}

/* After a move each device counts a part only; the limit is one of all that there is. */
static inline void sp_pool_check_limit(struct sp_srq *srq)
{
	if (!srq->limit || !srq->split || sp_srq_total(srq) >= srq->limit)
		return;
	srq->limit = 0;
	srq->dev->cb->srq_limit(srq->cookie);
}

/* -- shares ------------------------------------------------------------------------------------ */

static inline uint32_t sp_pool_users(const struct sp_srq *srq)
{
	uint32_t n = 0;

	for (const struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next)
		n += sp_ring_serves(ring, false) ? ring->users : 0;
	return n;
}

static inline bool sp_ring_in_want(const struct sp_srq_ring *ring, uint32_t receives,
				   uint32_t users)
{
	return sp_ring_serves(ring, false) &&
	       sp_share_in_want(sp_ring_receives(ring),
				sp_share_part(receives, ring->users, users));
}

static inline bool sp_pool_any_in_want(const struct sp_srq *srq, uint32_t receives, uint32_t users)
{
	for (const struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next)
		if (sp_ring_in_want(ring, receives, users))
			return true;
	return false;
}

static inline void sp_pool_tell_if_in_want(struct sp_srq *srq, const struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	if (!sp_pool_waits(srq) && sp_ring_in_want(ring, sp_srq_total(srq), sp_pool_users(srq)))
		srq->dev->cb->srq_stuck(srq->cookie);
	sp_pool_tell_if_starving(srq);
}

/* Notes that the application got a receive of that ring: traffic is there. */
static inline void sp_pool_served(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	srq->served++;
	ring->turn = sp_share_front(&srq->turns);
	sp_pool_tell_if_in_want(srq, ring);
}

static inline uint32_t sp_ring_surplus(const struct sp_srq_ring *ring, uint32_t receives,
				       uint32_t users)
{
	if (!sp_ring_serves(ring, false))
		return 0;
	return sp_share_surplus(sp_ring_receives(ring),
				sp_share_part(receives, ring->users, users));
}

/* sp_srq_share(). */
static inline struct sp_srq_ring *sp_pool_share(struct sp_srq *srq, uint32_t *n)
{
	struct sp_srq_ring *ring, *most = NULL;
	uint32_t receives, users, more;

	*n = 0;
	sp_lock(&srq->lock);
	receives = sp_srq_total(srq);
	users = sp_pool_users(srq);
	if (srq->split && !sp_pool_waits(srq) && sp_pool_any_in_want(srq, receives, users))
		for (ring = &srq->own; ring; ring = ring->next) {
			more = sp_ring_surplus(ring, receives, users);
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
static inline bool sp_ring_gives_before(const struct sp_srq_ring *a, const struct sp_srq_ring *b)
{
	uint32_t has_a = sp_ring_receives(a), has_b = sp_ring_receives(b);

	return has_a != has_b ? has_a > has_b : a->turn > b->turn;
}

/* sp_srq_starving(). */
static inline struct sp_srq_ring *sp_pool_starving(struct sp_srq *srq, uint32_t *taken)
{
	struct sp_srq_ring *ring, *from = NULL;

	sp_lock(&srq->lock);
	*taken = srq->served;
	srq->starving = srq->split && sp_pool_any_starves(srq);
	for (ring = srq->starving ? &srq->own : NULL; ring; ring = ring->next)
		if (sp_ring_serves(ring, false) && (!from || sp_ring_gives_before(ring, from)))
			from = ring;
	sp_unlock(&srq->lock);
	return from;
}

#endif
