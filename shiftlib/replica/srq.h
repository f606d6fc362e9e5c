/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues of the application, their shadows, and the reclaim QPs on both. */
#ifndef SHIFTLIB_REPLICA_SRQ_H
#define SHIFTLIB_REPLICA_SRQ_H

#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

/* SHIFT's own QP on a shared receive queue, which takes receives back: see srq_reclaim.c. */
struct sh_reclaim {
	/* BROKEN: what it took is still being collected. BUSY: made or unmade, on the worker. */
	enum { SH_RECLAIM_NONE, SH_RECLAIM_BUSY, SH_RECLAIM_READY, SH_RECLAIM_BROKEN } state;
	uint64_t not_before; /* NONE: to be made; BROKEN: to be unmade */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct sp_reclaim *sp;
	uint64_t asked_at; /* receives are on their way; 0: none */
};

/* The state of the NIC that a queue is on. */
struct sh_srq_nic {
	bool rests;	     /* nothing comes there; as the engine was told */
	uint64_t dead_since; /* 0: it is not */
};

/* While a ring with users has no receive: see conn/parts/srq_few.c. */
struct sh_srq_few {
	uint64_t since;	  /* time of the last receive's move, or of the engine's word */
	uint64_t visit;	  /* length of the receive's visit to one ring */
	uint64_t look_at; /* time of the next look; 0: none */
	uint32_t taken;	  /* receives that the application had got by the last move */
};

/*
 * A shadow on a NIC of the paths. Its carriers hold on to it; so does its place, while it can be
 * used.
 */
struct sh_shadow_srq {
	struct list_node link; /* sh_srq.shadows */
	uint32_t refs;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_srq *srq;
	struct ibv_srq_attr attr; /* returned by the verb */
	struct sp_srq_ring *ring;
	struct sh_srq_nic state;
	struct sh_reclaim reclaim;
};

/* A shared receive queue. Its receives are where its QPs are: see conn/parts/srq.c. */
struct sh_srq {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.srqs */
	struct ibv_srq *srq;
	struct sh_ctx *ctx;
	struct sh_pd *pd;
	struct ibv_srq_attr attr; /* returned by the verb */
	struct sp_srq *sp;
	uint32_t qps;
	bool left; /* true if left to the provider, for a QP that the engine does not drive */
	/* QPs of it that are being made, connected or destroyed: their NIC may take receives though
	 * the engine does not count them. */
	uint32_t pinned;
	_Atomic uint32_t pending;	 /* enum sh_srq_pending, from the data path */
	uint64_t look_at;		 /* again; 0: no need */
	uint64_t limit_at;		 /* time at which its limit is checked again; 0: no need */
	uint64_t feed_at, feed_interval; /* some wait for a key; interval 0: none does */
	struct list_node shadows;
	struct sh_shadow_srq *shadow[SC_MAX_PATHS]; /* the present ones */
	/* Stands in for the application's own, which was emptied, under QPs made since. */
	struct sh_shadow_srq *own;
	struct sh_srq_nic own_nic;
	uint64_t own_idle_since; /* the application's own has had no taker for so long; 0: it has */
	struct sh_reclaim reclaim; /* the reclaim QP on the application's own */
	struct sh_srq_few few;
};

struct sh_srq *sh_srq_of(const struct ibv_srq *srq);
struct sh_srq *sh_srq_driven(const struct ibv_srq *srq); /* NULL also if it was left */
/*
 * Returns what a new QP of it is made with: the application's own, or what stands in for it.
 * NULL: errno.
 */
struct ibv_srq *sh_srq_for_qp(struct sh_srq *srq, struct sh_shadow_srq **hold) SH_DROPS;
struct sp_srq_state sh_srq_ring_state(struct sp_srq_ring *ring);
int sh_srq_shadow_make(struct sh_srq *srq, uint8_t path); /* like sh_cq_shadow_make */
struct sh_shadow_srq *sh_srq_shadow_get(struct sh_srq *srq, uint8_t path) SH_LOCKED;
/* Like a CQ's. */
void sh_srq_shadow_put(struct sh_srq *srq, struct sh_shadow_srq *shadow) SH_DROPS;
bool sh_srq_shadow_usable(const struct sh_shadow_srq *shadow);
void sh_srq_keys_came(struct sh_ctx *ctx) SH_LOCKED; /* receives may wait for them */

/* srq_reclaim.c */
void sh_reclaim_run(struct sh_srq *srq, uint64_t now) SH_LOCKED;
/* Asks n receives of that ring back. False: not now. */
bool sh_reclaim_from(struct sh_srq *srq, struct sp_srq_ring *ring, uint32_t n,
		     uint64_t now) SH_LOCKED;
void sh_reclaim_forget(struct sh_reclaim *reclaim);  /* the engine lets go of it */
void sh_reclaim_destroy(struct sh_reclaim *reclaim); /* then; lock not held */
/* The context of its QPs, as asynchronous events show it. */
extern const char sh_reclaim_mark;

#endif
