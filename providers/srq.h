/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an engine does for a shared receive queue, and the reclaiming of its receives. */
#ifndef SHIFT_SRQ_H
#define SHIFT_SRQ_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"

struct sp_srq_state {
	uint32_t users;	   /* carriers that take receives from this ring */
	uint32_t receives; /* in it: posted, not completed */
	bool spoiled;	   /* recovered: no carrier may use it any more */
	uint32_t stale;	   /* recovered, but the NIC still has them */
	bool split;	   /* the whole queue's receives are spread over rings */
	uint32_t limit;	   /* as sp_srq_limit() set it; 0: none, or it was reached */
};

struct sp_srq_ops {
	/*
	 * Shared receive queues. sp_srq_drive: after the real create, before the application sees it;
	 * QPs on it are driven or on CQs that nobody drives. attr: as the real create returned it. sp_srq_undrive: before the real destroy;
	 * no QP is on it. sp_srq_ring_add [shell]: a shadow queue on another NIC, whose QPs may become
	 * carriers; -EINVAL: it is smaller. sp_srq_own: the application's.
	 * A receive is in one ring at a time. Carriers join a ring with sp_qp_lay_receives (the
	 * application's own QP in RTR), and leave it when they are left for another one, destroyed,
	 * or have taken their last. sp_srq_recover [shell]: a ring whose QPs are all in
	 * ERR, destroyed or dead: its receives go to the rings that have users, now or later. It has no
	 * users but dead ones that nobody moves, whose completions were collected.
	 * Returns how many there were. The ring is spoiled: delete it when its carriers are gone. Or a reclaim takes what is
	 * stale there, and sp_srq_renew [shell] makes the ring one that carriers may join; -EBUSY: some is stale.
	 * sp_srq_feed [shell]: after srq_stuck; -ENOENT: a key is still missing. One that is missing for
	 * as long as patience, seen from the first feed that missed it, names no memory: the receive
	 * is handed out with a key that is none, and whoever takes it gets the error of that.
	 */
	int (*drive)(struct sp_dev *dev, struct ibv_srq *srq, const struct ibv_srq_attr *attr,
		     void *cookie, struct sp_srq **out);
	void (*undrive)(struct sp_srq *srq);
	int (*ring_add)(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
			const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out);
	void (*ring_del)(struct sp_srq_ring *ring);
	struct sp_srq_ring *(*own)(struct sp_srq *srq);
	void (*look)(struct sp_srq_ring *ring, struct sp_srq_state *out);
	uint32_t (*recover)(struct sp_srq_ring *ring);
	int (*renew)(struct sp_srq_ring *ring);
	int (*feed)(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns);
	/* [shell] Nothing comes through the ring's NIC for now: it gets no receives while another ring has users, and no share. */
	void (*rest)(struct sp_srq_ring *ring, bool rests);
	/* Before a QP that the engine does not drive comes on it: the provider posts from now on,
	 * and has what was posted. -EBUSY: receives were taken already, or driven QPs are on it. */
	int (*hand_back)(struct sp_srq *srq);
	/* The application has armed the limit; a device tells of it while nothing is split. */
	void (*limit)(struct sp_srq *srq, uint32_t limit);
	/* [shell] Has a ring far less than its share of the receives? Then which one has too many,
	 * and how many: a reclaim there should take them. NULL: no. */
	struct sp_srq_ring *(*share)(struct sp_srq *srq, uint32_t *n);
	/*
	 * [shell] Has a ring with users no receive at all, while another one has some? Then from which one a reclaim should take
	 * one. NULL: no; srq_stuck tells when that changes. taken: how many receives the application has got since the first move.
	 */
	struct sp_srq_ring *(*starving)(struct sp_srq *srq, uint32_t *taken);
};

struct sp_reclaim_ops {
	/*
	 * [shell] A reclaim: a loopback QP of SHIFT's own on the ring's queue, in RTS; cq
	 * is its alone, for both directions. ask: it takes up to n receives; returns how many it
	 * can ask for now. collect: what it has got so far goes to the rings in want; returns how
	 * many are still to come, or -EIO: it is broken, free it.
	 */
	int (*make)(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
		    struct sp_reclaim **out);
	void (*free)(struct sp_reclaim *reclaim);
	uint32_t (*ask)(struct sp_reclaim *reclaim, uint32_t n);
	int (*collect)(struct sp_reclaim *reclaim);
};

#endif
