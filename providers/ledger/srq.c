/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shared receive queue of the ledger. Receives do not belong to a QP: which QP took one is
 * known from its completion, by the wr_id, which is the address of the receive in the ledger.
 *
 * A carrier on another NIC takes from a queue there. While all carriers are on the application's
 * own queue, its posts go straight into that. From the first move on, receives that are not in a
 * queue wait in the pool, and are handed to the queues that carriers take from (srq_pool.c). A
 * receive is in one place only: in the pool, or in one queue.
 *
 * A queue that no carrier takes from any more gives all that it still has back to the pool
 * (led_srq_recover). Its NIC may have read ahead, so it is spoiled: it is never posted to again,
 * and no carrier may join it.
 */
#include <stdlib.h>

#include "providers/ledger/cq.h"
#include "providers/ledger/srq.h"
#include "providers/common/srq_rings.h"

/* -- completions ------------------------------------------------------------------------------- */

static struct led_shared *shared_at(const struct sp_srq *srq, uint64_t wr_id)
{
	uint64_t at = wr_id - (uintptr_t)srq->slots;

	if (at / sizeof(*srq->slots) >= srq->max_wr || at % sizeof(*srq->slots))
		return NULL;
	return &srq->slots[at / sizeof(*srq->slots)];
}

bool led_srq_has(const struct sp_srq_ring *ring, uint64_t wr_id)
{
	return shared_at(ring->srq, wr_id);
}

static void shared_free(struct sp_srq *srq, struct led_shared *r)
{
	led_list_remove(&r->ring->list, r);
	r->ring = NULL;
	r->used = false;
	led_list_add(&srq->free, r, false);
}

/* Counts a completion that brings no receive of the application's: it was recovered before. */
static void shared_spent(struct sp_srq_ring *ring, const struct led_shared *r)
{
	if (r && ring->n_stale)
		ring->n_stale--;
}

bool led_srq_take(struct sp_carrier *c, struct ibv_wc *wc)
{
	struct sp_srq *srq = c->srq->srq;
	struct led_shared *r = shared_at(srq, wc->wr_id);
	bool ours;

	sp_lock(&srq->lock);
	ours = r && r->used && r->ring == c->srq;
	if (ours) {
		srq->taken = true;
		wc->wr_id = r->wr_id;
		shared_free(srq, r);
		led_srq_check_limit(srq);
		led_srq_served(srq, c->srq);
	} else {
		shared_spent(c->srq, r);
	}
	sp_unlock(&srq->lock);
	if (ours && wc->status == IBV_WC_SUCCESS && !c->qp->plain)
		atomic_fetch_add(&c->qp->rq.tail, 1);
	return ours;
}

/* Returns a receive to the pool, for another carrier. */
void led_srq_return(struct sp_srq_ring *ring, uint64_t wr_id)
{
	struct sp_srq *srq = ring->srq;
	struct led_shared *r = shared_at(srq, wr_id);

	sp_lock(&srq->lock);
	if (r && r->used && r->ring == ring) {
		led_list_remove(&ring->list, r);
		r->ring = NULL;
		r->stuck_since = 0;
		srq->split = true;
		led_list_add(&srq->pool, r, true);
		ring->turn = sp_share_end(&srq->turns);
		led_pool_feed_or_tell(srq);
	} else {
		shared_spent(ring, r);
	}
	sp_unlock(&srq->lock);
}

void led_srq_give_back(struct sp_carrier *c, uint64_t wr_id)
{
	led_srq_return(c->srq, wr_id);
}

/* -- posting ----------------------------------------------------------------------------------- */

static struct led_shared *put(struct sp_srq *srq, const struct ibv_recv_wr *wr)
{
	struct led_shared *r = srq->free.first;

	led_list_remove(&srq->free, r);
	r->used = true;
	r->stuck_since = 0;
	r->wr_id = wr->wr_id;
	r->wr.num_sge = wr->num_sge;
	r->wr.next = NULL;
	for (int i = 0; i < wr->num_sge; i++)
		r->wr.sg_list[i] = wr->sg_list[i];
	return r;
}

/*
 * Posts into the application's own queue. Returns an errno; what the provider refuses is taken out
 * again.
 */
static int post_own(struct sp_srq *srq, struct led_shared *first, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *at, *next, *refused = NULL;
	int err = srq->dev->saved.post_srq_recv(srq->ibv, &first->wr, &refused);
	bool out = false;

	for (at = &first->wr; err && at; at = next, wr = wr->next) {
		struct led_shared *r = (struct led_shared *)at;

		next = at->next;
		if (at == refused || !refused)
			*bad = out ? *bad : wr;
		out |= at == refused || !refused;
		if (out)
			shared_free(srq, r);
	}
	return err;
}

static int post_list(struct sp_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct led_shared *first = NULL, *last = NULL, *r;
	struct ibv_recv_wr *all = wr;
	int err = 0, refusal;

	for (; wr; wr = wr->next) {
		if (led_unlikely((uint32_t)wr->num_sge > srq->max_sge))
			err = EINVAL;
		else if (led_unlikely(!srq->free.first))
			err = ENOMEM;
		if (led_unlikely(err)) {
			*bad = wr;
			break;
		}
		r = put(srq, wr);
		if (led_unlikely(srq->split)) {
			led_list_add(&srq->pool, r, false);
			continue;
		}
		r->ring = &srq->own;
		led_list_add(&srq->own.list, r, false);
		if (last)
			last->wr.next = &r->wr;
		first = first ? first : r;
		last = r;
	}
	if (led_unlikely(srq->split))
		led_pool_feed_or_tell(srq);
	if (!first)
		return err;
	refusal = post_own(srq, first, all, bad);
	return refusal ? refusal : err;
}

int led_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_srq *srq = led_srq_of(ibv);
	int err;

	if (led_unlikely(!srq))
		return led_dev_of(ibv->context)->saved.post_srq_recv(ibv, wr, bad);
	sp_lock(&srq->lock);
	if (led_unlikely(srq->foreign))
		err = srq->dev->saved.post_srq_recv(ibv, wr, bad);
	else
		err = post_list(srq, wr, bad);
	sp_unlock(&srq->lock);
	return err;
}

/* -- carriers ---------------------------------------------------------------------------------- */

struct sp_srq_ring *led_srq_find(struct sp_srq *srq, const struct ibv_srq *real)
{
	return sp_rings_find(srq, real);
}

void led_srq_join(struct sp_carrier *c)
{
	sp_ring_join(c);
}

void led_srq_leave(struct sp_carrier *c)
{
	sp_ring_leave(c);
}

/* -- as the shell sees them -------------------------------------------------------------------- */

static void ring_setup(struct sp_srq_ring *ring, struct sp_srq *srq, struct sp_dev *dev,
		       struct ibv_srq *real, uint8_t path)
{
	ring->engine = dev->engine;
	ring->srq = srq;
	ring->dev = dev;
	ring->real = real;
	ring->path = path;
	ring->xlat = dev != srq->dev;
}

static int slots_alloc(struct sp_srq *srq, const struct ibv_srq_attr *attr)
{
	srq->max_wr = attr->max_wr;
	srq->max_sge = attr->max_sge;
	srq->slots = calloc(srq->max_wr, sizeof(*srq->slots));
	srq->sges = calloc((size_t)srq->max_wr * srq->max_sge + 1, sizeof(*srq->sges));
	if (!srq->slots || !srq->sges)
		return -ENOMEM;
	for (uint32_t i = 0; i < srq->max_wr; i++) {
		srq->slots[i].wr.wr_id = (uintptr_t)&srq->slots[i];
		srq->slots[i].wr.sg_list = srq->sges + (size_t)i * srq->max_sge;
		led_list_add(&srq->free, &srq->slots[i], false);
	}
	return 0;
}

static void srq_free(struct sp_srq *srq)
{
	free(srq->slots);
	free(srq->sges);
	free(srq);
}

int led_srq_drive(struct sp_dev *dev, struct ibv_srq *ibv, const struct ibv_srq_attr *attr,
		  void *cookie, struct sp_srq **out)
{
	struct sp_srq *srq;
	int err;

	if (ibv->handle >= LED_MAX_HANDLE || !attr->max_wr || attr->max_wr > LED_MAX_WR ||
	    attr->max_sge > LED_MAX_SGE)
		return -EOPNOTSUPP;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->engine = dev->engine;
	srq->dev = dev;
	srq->ibv = ibv;
	srq->cookie = cookie;
	err = slots_alloc(srq, attr);
	if (!err)
		err = sp_table_reserve(&dev->tables.srqs, ibv->handle);
	if (err) {
		srq_free(srq);
		return err;
	}
	ring_setup(&srq->own, srq, dev, ibv, 0);
	*out = srq;
	atomic_store_explicit(&dev->srqs[ibv->handle], srq, memory_order_release);
	return 0;
}

void led_srq_undrive(struct sp_srq *srq)
{
	atomic_store(&srq->dev->srqs[srq->ibv->handle], NULL);
	while (srq->own.next)
		led_srq_ring_del(srq->own.next);
	srq_free(srq);
}

int led_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
		     const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out)
{
	/* a stand-in for the application's own queue: QPs find it there */
	bool stands_in = dev == srq->dev && shadow->handle < LED_MAX_HANDLE;
	struct sp_srq_ring *ring;

	if (attr->max_wr < srq->max_wr || attr->max_sge < srq->max_sge)
		return -EINVAL;
	if (stands_in && sp_table_reserve(&dev->tables.srqs, shadow->handle))
		return -ENOMEM;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring_setup(ring, srq, dev, shadow, path);
	if (stands_in)
		atomic_store(&dev->srqs[shadow->handle], srq);
	sp_rings_link(srq, ring);
	*out = ring;
	return 0;
}

void led_srq_ring_del(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;

	sp_rings_unlink(srq, ring);
	if (ring->dev == srq->dev && ring->real->handle < LED_MAX_HANDLE)
		atomic_store(&ring->dev->srqs[ring->real->handle], NULL);
	free(ring);
}

uint32_t led_srq_recover(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;
	struct led_shared *r;
	uint32_t n;

	sp_lock(&srq->lock);
	n = ring->list.n;
	ring->n_stale += n;
	ring->spoiled = true;
	srq->split = true;
	while ((r = ring->list.last)) { /* the oldest come to the front, in their order */
		led_list_remove(&ring->list, r);
		r->ring = NULL;
		r->stuck_since = 0;
		led_list_add(&srq->pool, r, true);
	}
	led_pool_feed_or_tell(srq);
	sp_unlock(&srq->lock);
	return n;
}

/*
 * Hands the queue back to the provider. Posted receives have wr_ids of the ledger's, and nobody
 * could put the application's back: only an empty queue can go.
 */
int led_srq_hand_back(struct sp_srq *srq)
{
	int err = 0;

	sp_lock(&srq->lock);
	if (srq->split || srq->own.users || srq->own.list.n || srq->taken)
		err = -EBUSY;
	else
		srq->foreign = true;
	sp_unlock(&srq->lock);
	return err;
}
