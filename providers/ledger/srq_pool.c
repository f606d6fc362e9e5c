/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pool of a shared queue: receives in no NIC's queue, and the choice of a queue. */
#include "providers/ledger/srq.h"
#include "providers/common/pool.h"

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
	SP_ASSERT(list->n);
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
 * Hands the pool's receives to the rings. Each is looked at once; one that cannot go must not keep
 * the others from the queues.
 */
int led_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	uint32_t n = srq->pool.n, stuck = 0;
	struct sp_srq_ring *ring;
	struct led_shared *r;
	int err;

	for (; n && (ring = sp_pool_choose(srq)); n--) {
		r = srq->pool.first;
		led_list_remove(&srq->pool, r);
		err = pool_lay(ring, r, false);
		if (err == -ENOENT && sp_stuck_for_good(&r->stuck_since, now, patience))
			err = pool_lay(ring, r, true);
		r->ring = err ? NULL : ring;
		led_list_add(err ? &srq->pool : &ring->list, r, false);
		stuck += err != 0;
	}
	srq->stuck &= stuck != 0;
	return stuck ? -ENOENT : 0;
}

void led_pool_feed_or_tell(struct sp_srq *srq)
{
	sp_pool_tell(srq, led_pool_feed(srq, 0, 0));
}

/* -- providers/common/pool.h, as calls --------------------------------------------------------- */

void led_srq_check_limit(struct sp_srq *srq)
{
	sp_pool_check_limit(srq);
}

void led_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring)
{
	sp_pool_served(srq, ring);
}
