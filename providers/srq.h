/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shared receive queue's part of an engine (struct sp_srq_ops), and the reclaiming of its
 * receives.
 */
#ifndef SHIFT_SRQ_H
#define SHIFT_SRQ_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"

struct sp_srq_state {
	uint32_t users;	   /* number of carriers that take receives from this ring */
	uint32_t receives; /* number of receives in it: posted, not completed */
	bool spoiled;	   /* true if recovered: no carrier may use it any more */
	uint32_t stale;	   /* number of receives recovered that the NIC still has */
	bool split;	   /* true if the whole queue's receives are spread over rings */
	uint32_t limit;	   /* limit of sp_srq_limit(); 0: none, or it was reached */
};

struct sp_srq_ops {
	/*
	 * A receive is in one ring at a time. Carriers join a ring with sp_qp_lay_receives (the
	 * application's own QP in RTR), and leave it when they are left for another one, destroyed,
	 * or have taken their last.
	 *
	 * drive: after the real create, before the application sees the queue; QPs on it are driven
	 * or on CQs that nobody drives. attr: as the real create returned it. undrive: before the
	 * real destroy; no QP is on it. ring_add [shell]: adds a shadow queue on another NIC, whose
	 * QPs may become carriers; -EINVAL: it is smaller. own: the application's ring.
	 *
	 * recover [shell]: takes the receives of a ring whose QPs are all in ERR, destroyed or
	 * dead; they go to the rings that have users, now or later. The ring has no users but dead
	 * ones that nobody moves, whose completions were collected. Returns how many receives there
	 * were. The ring is spoiled: delete it when its carriers are gone, or let a reclaim take
	 * what is stale there. renew [shell]: then makes it a ring that carriers may join; -EBUSY:
	 * some is stale.
	 *
	 * feed [shell]: after srq_stuck; -ENOENT: a key is still missing. A key that is missing for
	 * as long as patience, seen from the first feed that missed it, names no memory: the
	 * receive is handed out with a key that names nothing, and whoever takes it gets the error
	 * of that.
	 */
	int (*drive)(struct sp_dev *dev, struct ibv_srq *srq, const struct ibv_srq_attr *attr,
		     void *cookie, struct sp_srq **out);
	void (*undrive)(struct sp_srq *srq);
	int (*ring_add)(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
			const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out);
	void (*ring_del)(struct sp_srq_ring *ring);
	struct sp_srq_ring *(*own)(struct sp_srq *srq);
	void (*query)(struct sp_srq_ring *ring, struct sp_srq_state *out);
	uint32_t (*recover)(struct sp_srq_ring *ring);
	int (*renew)(struct sp_srq_ring *ring);
	int (*feed)(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns);
	/*
	 * [shell] Notes that nothing comes through the ring's NIC for now (rests): the ring gets no
	 * receives while another ring has users, and no share.
	 */
	void (*rest)(struct sp_srq_ring *ring, bool rests);
	/*
	 * Before a QP that the engine does not drive comes on the queue: the provider posts from
	 * now on, and has what was posted. -EBUSY: receives were taken already, or driven QPs are
	 * on it.
	 */
	int (*hand_back)(struct sp_srq *srq);
	/*
	 * Notes that the application has armed the limit; a device tells of it while nothing is
	 * split.
	 */
	void (*limit)(struct sp_srq *srq, uint32_t limit);
	/*
	 * [shell] Returns the ring that has too many receives if another has far less than its
	 * share, and how many: a reclaim there should take them. NULL: none.
	 */
	struct sp_srq_ring *(*share)(struct sp_srq *srq, uint32_t *n);
	/*
	 * [shell] Returns the ring from which a reclaim should take one receive, if a ring with
	 * users has none while another has some. NULL: none; srq_stuck tells when that changes.
	 * taken: how many receives the application has got since the first move.
	 */
	struct sp_srq_ring *(*starving)(struct sp_srq *srq, uint32_t *taken);
};

struct sp_reclaim_ops {
	/*
	 * [shell] make: makes a reclaim, a loopback QP of SHIFT's own on the ring's queue, in RTS;
	 * cq is its alone, for both directions. ask: takes up to n receives; returns how many it
	 * can ask for now. collect: hands what it has got so far to the rings in want; returns how
	 * many are still to come, or -EIO: it is broken, free it.
	 */
	int (*make)(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		    struct sp_reclaim **out);
	void (*free)(struct sp_reclaim *reclaim);
	uint32_t (*ask)(struct sp_reclaim *reclaim, uint32_t n);
	int (*collect)(struct sp_reclaim *reclaim);
};

#endif
