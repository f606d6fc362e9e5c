/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue: receives in no NIC's queue, and the choice of a queue. */
#include "providers/ledger/srq.h"

/* -- lists ------------------------------------------------------------------------------------- */

void led_list_add(struct led_list *list, struct led_shared *r, bool front)
{
	r->prev = front ? NULL : list->last;
	r->next = front ? list->first : NULL;
	*(r->prev ? &r->prev->next : &list->first) = r;
	*(r->next ? &r->next->prev : &list->last) = r;
	list->n++;
}

void led_list_remove(struct led_list *list, struct led_shared *r)
{
	*(r->prev ? &r->prev->next : &list->first) = r->next;
	*(r->next ? &r->next->prev : &list->last) = r->prev;
	list->n--;
}

/* -- feeding ----------------------------------------------------------------------------------- */

/*
 * -ENOENT: the NIC has no key yet for some memory of it; nothing was done. anyway: a key that names
 * nothing is used then. An errno: the provider refuses it.
 */
static int pool_lay(struct sp_srq_ring *ring, struct led_shared *r, bool anyway)
{
	const struct sp_callbacks *cb = ring->srq->dev->cb;
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_recv_wr wr = { .wr_id = r->wr.wr_id, .sg_list = sges, .num_sge = r->wr.num_sge };
	struct ibv_recv_wr *bad;

	for (int i = 0; i < wr.num_sge; i++) {
		sges[i] = r->wr.sg_list[i];
		if (!ring->xlat || !sges[i].length ||
		    !cb->srq_lkey(ring->srq->cookie, ring->path, sges[i].lkey, &sges[i].lkey))
			continue;
		if (!anyway)
			return -ENOENT;
		sges[i].lkey = SP_NO_KEY;
	}
	return ring->dev->saved.post_srq_recv(ring->real, &wr, &bad);
}

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
	return serves(ring, resting) && ring->list.n < ring->srq->max_wr;
}

static bool comes_before(const struct sp_srq_ring *a, const struct sp_srq_ring *b)
{
	if (sp_share_fewer(a->list.n, a->users, b->list.n, b->users))
		return true;
	if (sp_share_fewer(b->list.n, b->users, a->list.n, a->users))
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
static bool stuck_for_good(struct led_shared *r, uint64_t now, uint64_t patience)
{
	if (now && !r->stuck_since)
		r->stuck_since = now;
	return now && now - r->stuck_since >= patience;
}

/*
 * Hands the pool's receives to the rings. Each is looked at once; one that cannot go must not keep
 * the others from the queues.
 */
static int pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	uint32_t n = srq->pool.n, stuck = 0;
	struct sp_srq_ring *ring;
	struct led_shared *r;
	int err;

	for (; n && (ring = feed_choose(srq)); n--) {
		r = srq->pool.first;
		led_list_remove(&srq->pool, r);
		err = pool_lay(ring, r, false);
		if (err == -ENOENT && stuck_for_good(r, now, patience))
			err = pool_lay(ring, r, true);
		r->ring = err ? NULL : ring;
		led_list_add(err ? &srq->pool : &ring->list, r, false);
		stuck += err != 0;
	}
	srq->stuck &= stuck != 0;
	return stuck ? -ENOENT : 0;
}

/* True if the pool waits for a queue with room, not for a key. */
static bool pool_waits(const struct sp_srq *srq)
{
	return srq->pool.n && !srq->stuck;
}

/* True if a ring with users has no receive while another one has some. */
static bool any_starves(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	bool none = false, some = false;

	for (ring = &srq->own; ring; ring = ring->next) {
		if (!serves(ring, false))
			continue;
		none |= !ring->list.n;
		some |= ring->list.n != 0;
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

void led_pool_feed_or_tell(struct sp_srq *srq)
{
	if (pool_feed(srq, 0, 0) && !srq->stuck) {
		srq->stuck = true;
		srq->dev->cb->srq_stuck(srq->cookie);
	}
	tell_if_starving(srq);
}

/* Returns how many receives the application has posted that are not completed. */
uint32_t led_srq_total(const struct sp_srq *srq)
{
	return srq->max_wr - srq->free.n;
}

/* After a move each device counts a part only; the limit is one of all that there is. */
void led_srq_check_limit(struct sp_srq *srq)
{
	if (!srq->limit || !srq->split || led_srq_total(srq) >= srq->limit)
		return;
	srq->limit = 0;
	srq->dev->cb->srq_limit(srq->cookie);
}

int led_srq_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	int err;

	sp_lock(&srq->lock);
	err = srq->split ? pool_feed(srq, now_ns, patience_ns) : 0;
	if (srq->split)
		tell_if_starving(srq);
	sp_unlock(&srq->lock);
	return err;
}

void led_srq_rest(struct sp_srq_ring *ring, bool rests)
{
	struct sp_srq *srq = ring->srq;

	sp_lock(&srq->lock);
	ring->rests = rests;
	if (srq->split)
		led_pool_feed_or_tell(srq);
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

static uint32_t part_of(const struct sp_srq_ring *ring)
{
	return sp_share_part(led_srq_total(ring->srq), ring->users, all_users(ring->srq));
}

static bool in_want(const struct sp_srq_ring *ring)
{
	return serves(ring, false) && sp_share_in_want(ring->list.n, part_of(ring));
}

static bool any_in_want(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;

	for (ring = &srq->own; ring; ring = ring->next)
		if (in_want(ring))
			return true;
	return false;
}

void led_srq_tell_if_in_want(struct sp_srq *srq, const struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	if (!pool_waits(srq) && in_want(ring))
		srq->dev->cb->srq_stuck(srq->cookie);
	tell_if_starving(srq);
}

/* Notes that the application got a receive of that ring: traffic is there. */
void led_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	if (!srq->split)
		return;
	srq->served++;
	ring->turn = sp_share_front(&srq->turns);
	led_srq_tell_if_in_want(srq, ring);
}

static uint32_t surplus(const struct sp_srq_ring *ring)
{
	return serves(ring, false) ? sp_share_surplus(ring->list.n, part_of(ring)) : 0;
}

struct sp_srq_ring *led_srq_share(struct sp_srq *srq, uint32_t *n)
{
	struct sp_srq_ring *ring, *most = NULL;
	uint32_t more;

	*n = 0;
	sp_lock(&srq->lock);
	if (srq->split && !pool_waits(srq) && any_in_want(srq))
		for (ring = &srq->own; ring; ring = ring->next) {
			more = surplus(ring);
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
	return a->list.n != b->list.n ? a->list.n > b->list.n : a->turn > b->turn;
}

struct sp_srq_ring *led_srq_starving(struct sp_srq *srq, uint32_t *taken)
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
