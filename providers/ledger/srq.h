/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues: one real queue for each NIC that one of their carriers is on. See srq.c.
 */
#ifndef LED_SRQ_H
#define LED_SRQ_H

#include "providers/ledger/carrier.h"
#include "providers/common/share.h"

#pragma GCC visibility push(hidden)

/* A receive. The provider's wr_id is its address. */
struct led_shared {
	struct ibv_recv_wr wr;
	uint64_t wr_id;		  /* the application's wr_id */
	struct sp_srq_ring *ring; /* the ring that has it; NULL: in the pool, or free */
	uint64_t stuck_since;	  /* time when a key was missed first; 0: not looked for */
	bool used;
	struct led_shared *prev, *next; /* neighbors in the list that it is in */
};

struct led_list {
	struct led_shared *first, *last;
	uint32_t n;
};

struct sp_srq_ring {
	struct sp_srq *srq;
	const struct shift_provider *engine;
	struct sp_dev *dev;
	struct ibv_srq *real;
	struct led_list list; /* receives that it has, oldest first */
	uint32_t users;	      /* number of carriers that take receives here */
	/* number of receives that were recovered, and that the NIC still has */
	uint32_t n_stale;
	uint8_t path;
	bool spoiled, xlat;
	bool rests;   /* true if its NIC brings nothing for now */
	int64_t turn; /* see share.h */
	struct sp_srq_ring *next;
};

struct sp_srq {
	struct sp_lock lock; /* for all below; taken behind every other queue's lock */
	bool foreign;	     /* true if the provider posts to it: hands off */
	const struct shift_provider *engine;
	bool split; /* true if receives go through the pool */
	bool stuck; /* true if some of the pool wait for a key, and the shell knows */
	bool taken; /* true if a receive has completed */
	struct led_shared *slots;
	struct ibv_sge *sges;
	uint32_t max_wr, max_sge;
	struct led_list free, pool;
	struct sp_srq_ring own; /* the application's own; behind it those of other NICs */
	uint32_t limit;		/* armed: an event when fewer receives are left; 0: not armed */
	bool starving;		/* true if a ring with users had no receive, and the shell knows */
	struct sp_share_turns turns;
	uint32_t served; /* receives that the application got since the first move */
	struct sp_dev *dev;
	struct ibv_srq *ibv;
	void *cookie;
};

int led_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * Take or return a receive that completed on that carrier. The CQ's lock is held. led_srq_take:
 * false if the receive counts no more.
 */
bool led_srq_take(struct sp_carrier *c, struct ibv_wc *wc);
void led_srq_give_back(struct sp_carrier *c, uint64_t wr_id);
/* True if wr_id is the address of one of the ring's receives. */
bool led_srq_has(const struct sp_srq_ring *ring, uint64_t wr_id);
void led_srq_return(struct sp_srq_ring *ring, uint64_t wr_id);

struct sp_srq_ring *led_srq_find(struct sp_srq *srq, const struct ibv_srq *real);
void led_srq_join(struct sp_carrier *c);
void led_srq_leave(struct sp_carrier *c);

int led_srq_drive(struct sp_dev *dev, struct ibv_srq *srq, const struct ibv_srq_attr *attr,
		  void *cookie, struct sp_srq **out);
void led_srq_undrive(struct sp_srq *srq);
int led_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
		     const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out);
void led_srq_ring_del(struct sp_srq_ring *ring);
uint32_t led_srq_recover(struct sp_srq_ring *ring);
int led_srq_hand_back(struct sp_srq *srq);

/* The pool: srq_pool.c. The queue's lock is held. */
void led_list_add(struct led_list *list, struct led_shared *r, bool front);
void led_list_remove(struct led_list *list, struct led_shared *r);
int led_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience);
void led_pool_feed_or_tell(struct sp_srq *srq);
void led_srq_check_limit(struct sp_srq *srq);
void led_srq_served(struct sp_srq *srq, struct sp_srq_ring *ring);

int led_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		     struct sp_reclaim **out);
void led_reclaim_free(struct sp_reclaim *reclaim);
uint32_t led_reclaim_ask(struct sp_reclaim *reclaim, uint32_t n);
int led_reclaim_collect(struct sp_reclaim *reclaim);

/* -- for providers/common/pool.h and srq_rings.h ----------------------------------------------- */

LED_INLINE uint32_t sp_ring_receives(const struct sp_srq_ring *ring)
{
	return ring->list.n;
}

LED_INLINE bool sp_ring_full(const struct sp_srq_ring *ring)
{
	return ring->list.n >= ring->srq->max_wr;
}

LED_INLINE uint32_t sp_pool_length(const struct sp_srq *srq)
{
	return srq->pool.n;
}

/* Returns how many receives the application has posted that are not completed. */
LED_INLINE uint32_t sp_srq_total(const struct sp_srq *srq)
{
	return srq->max_wr - srq->free.n;
}

LED_INLINE int sp_pool_feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	return led_pool_feed(srq, now, patience);
}

LED_INLINE void sp_pool_feed_or_tell(struct sp_srq *srq)
{
	led_pool_feed_or_tell(srq);
}

#pragma GCC visibility pop

#endif
