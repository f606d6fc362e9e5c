/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues: one hardware ring for each NIC that one of their carriers is on. See
 * srq.c.
 */
#ifndef RING_SRQ_H
#define RING_SRQ_H

#include "providers/mlx5/dev.h"
#include "providers/common/share.h"

#pragma GCC visibility push(hidden)

#define RING_SRQ_MAX_GS 256

struct sp_srq_ring {
	struct sp_srq *srq;
	const struct shift_provider *engine;
	struct sp_dev *dev;
	struct ibv_srq *real;
	uint8_t *buf;
	__be32 *dbrec;
	uint32_t shift;	    /* log2 of a WQE's bytes */
	uint32_t mask, cnt; /* mask of slot numbers; number of slots. One is never used */
	uint32_t max_gs;
	uint32_t start;	     /* first slot when it was made */
	uint32_t head, tail; /* first and last free slot */
	uint32_t counter;    /* number of requests posted */
	uint32_t outstanding;
	uint32_t n_stale; /* number of slots that were recovered, and that the NIC still has */
	uint32_t users;	  /* number of carriers that take receives here */
	uint8_t path;
	bool spoiled, fed;
	bool rests;	  /* true if its NIC brings nothing for now */
	int64_t turn;	  /* see share.h */
	uint64_t *wrid;	  /* these by slot */
	uint32_t *number; /* number of the request in the slot */
	bool *busy;	  /* true if posted, not completed */
	bool *stale;	  /* true if recovered, and the NIC still has it */
	uint32_t *heap;	  /* room to sort them */
	uint32_t *keys;	  /* the application's keys, by segment; only where keys differ */
	struct sp_srq_ring *next;
};

/* A receive that is in no ring, with the application's keys. */
struct ring_pooled {
	uint64_t wr_id;
	uint64_t stuck_since; /* time when a key was missed first; 0: not looked for */
	uint32_t n;
	struct ibv_sge sge[];
};

struct sp_srq {
	struct sp_lock lock; /* for all below; taken behind every other queue's lock */
	bool first;	     /* nobody has posted yet: is the ring still ours to take? */
	bool foreign;	     /* true if somebody else posts to it: hands off */
	bool split;	     /* true if receives go through the pool */
	bool stuck;	     /* true if some of the pool wait for a key, and the shell knows */
	const struct shift_provider *engine;
	struct sp_srq_ring own; /* the application's own; behind it those of other NICs */
	struct ring_pooled *pool;
	uint32_t pool_stride, pool_first, pool_n;
	uint32_t limit; /* armed: an event when fewer receives are left; 0: not armed */
	bool starving;	/* true if a ring with users had no receive, and the shell knows */
	struct sp_share_turns turns;
	uint32_t served; /* receives that the application got since the first move */
	struct sp_dev *dev;
	struct ibv_srq *ibv;
	void *cookie;
};

RING_INLINE struct sp_srq *ring_srq_of(const struct ibv_srq *srq)
{
	struct sp_dev *dev = ring_dev_of(srq->context);

	if (ring_unlikely(srq->handle >= RING_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&dev->srqs[srq->handle], memory_order_acquire);
}

/*
 * Take the receive of a completion (returns its status), give it back to the pool (the completion
 * is not delivered), or drop it with its QP. By the carrier's ring; the CQ's lock is held.
 */
uint8_t ring_srq_take(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint64_t *wr_id);
void ring_srq_give_back(struct sp_carrier *c, const struct mlx5_cqe64 *cqe);
void ring_srq_drop(struct sp_carrier *c, const struct mlx5_cqe64 *cqe);
/* Posts a receive again that the NIC could not use now. */
void ring_srq_repost(struct sp_carrier *c, const struct mlx5_cqe64 *cqe);

struct sp_srq_ring *ring_srq_find(struct sp_srq *srq, const struct ibv_srq *real);
void ring_srq_join(struct sp_carrier *c);
void ring_srq_leave(struct sp_carrier *c);

void ring_qp_last_receive(struct sp_qp *qp, uint32_t epoch);
int ring_srq_drive(struct sp_dev *dev, struct ibv_srq *srq, const struct ibv_srq_attr *attr,
		   void *cookie, struct sp_srq **out);
void ring_srq_undrive(struct sp_srq *srq);
int ring_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
		      const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out);
void ring_srq_ring_del(struct sp_srq_ring *ring);
uint32_t ring_srq_recover(struct sp_srq_ring *ring);
int ring_srq_hand_back(struct sp_srq *srq);

#pragma GCC visibility pop

#endif
