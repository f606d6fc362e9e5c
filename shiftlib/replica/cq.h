/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues of the application, and their shadows. */
#ifndef SHIFTLIB_REPLICA_CQ_H
#define SHIFTLIB_REPLICA_CQ_H

#include "shiftlib/core/state.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq_room.h"

/*
 * A shadow of a completion queue. Carriers hold on to it: it outlives its place in the CQ when
 * its NIC has died.
 */
struct sh_shadow_cq {
	uint32_t refs;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_cq *cq;
	/* The channel of all shadow CQs of the facade there. */
	struct ibv_comp_channel *channel;
	struct sh_cq_feed feed;
	struct sp_cq_ring *ring; /* NULL: the engine has let go of it */
	bool holds;		 /* the incarnation */
	/* True if it shows nothing any more; made anew for the next carrier. */
	bool overrun;
	bool refused;	/* true if it could not be made larger */
	bool displaced; /* true if another one has its place, and carriers hold it still */
};

/* How the application had an extended CQ made. */
struct sh_cq_extended {
	struct ibv_cq_ex *(*create)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	uint64_t wc_flags;
	uint32_t flags; /* 0: none */
};

struct sh_cq {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.cqs */
	struct ibv_cq *cq;
	struct sh_ctx *ctx;
	struct ibv_comp_channel *facade; /* NULL: none */
	struct ibv_comp_channel *real_channel;
	struct sh_cq_events events;
	/* single: only one thread at a time uses it, so that its provider takes no lock. */
	bool ex, single;
	struct sh_cq_extended how; /* if ex */
	int comp_vector;
	struct sp_cq *sp;  /* NULL: not driven */
	bool overrun;	   /* true if it shows nothing any more */
	bool overrun_told; /* the application has heard of it, or of an overrun of a private one */
	int cqe;	   /* size that the application has asked for since the NIC is dead; or 0 */
	uint32_t qps, foreign_qps;
	uint32_t foreign_receives; /* queues of XRC, ... that have named it; they never go */
	uint32_t guarded;	   /* connections on it that may move */
	struct sh_busy resizing;
	struct sh_busy dropping; /* carriers being destroyed, and shadows that end late */
	uint32_t displaced;	 /* number of shadows that are displaced */
	bool ended; /* true if the application has destroyed it: freed with the last of dropping */
	struct sh_cq_room room;
	struct sh_shadow_cq *shadow[SC_MAX_PATHS]; /* the present ones */
};

/*
 * Makes the shadow, on the worker of the path's NIC, lock NOT held. The QP that it serves keeps
 * the CQ alive.
 */
int sh_cq_shadow_make(struct sh_cq *cq, uint8_t path);
/* Takes the present shadow for a carrier. */
struct sh_shadow_cq *sh_cq_shadow_get(struct sh_cq *cq, uint8_t path) SH_LOCKED;
/* Gives a shadow back. */
void sh_cq_shadow_put(struct sh_cq *cq, struct sh_shadow_cq *shadow) SH_DROPS;
/* Returns the present shadow that is this real CQ; NULL: none is. */
struct sh_shadow_cq *sh_cq_shadow_find(const struct sh_cq *cq, const struct ibv_cq *real) SH_LOCKED;
/*
 * cut: readers of events and the engine let go of a shadow that nobody holds any more; lock held.
 * destroy: behind that, lock not held.
 */
void sh_cq_shadow_cut(struct sh_cq *cq, struct sh_shadow_cq *shadow);
void sh_cq_shadow_destroy(struct sh_cq *cq, struct sh_shadow_cq *shadow);
/* Gives back cut shadows, which have no place any more. */
void sh_cq_shadows_put(struct sh_cq *cq, struct sh_shadow_cq *const shadow[SC_MAX_PATHS]) SH_DROPS;
/* Hold the CQ for something that is being destroyed on a NIC of SHIFT's. */
void sh_cq_hold(struct sh_cq *cq) SH_LOCKED;
void sh_cq_let_go(struct sh_cq *cq) SH_LOCKED;
/*
 * True if the application need not wait for the shadows of a CQ that it destroys: nothing of its
 * own is behind them. A channel's readers may have events of them.
 */
bool sh_cq_may_end_late(const struct sh_cq *cq) SH_LOCKED;
/* Ends a CQ whose real one is gone, and the cut shadows given, on the workers of their NICs. */
void sh_cq_end_late(struct sh_cq *cq, struct sh_shadow_cq *const shadow[SC_MAX_PATHS]) SH_DROPS;

/* cq_resize.c */
/*
 * Returns how many completions the CQ's ring on that NIC must hold: more than its own, if that is
 * dead and cannot grow; no more than the NIC can.
 */
int sh_cq_size(const struct sh_cq *cq, const struct sh_nic *nic) SH_LOCKED;
/*
 * Resizes the application's CQ, or a shadow of it; lock not held. Positive errno, as of the verb.
 * told: places that the application knows of, behind a success; 0: as before.
 */
int sh_cq_resize_ring(struct sh_cq *cq, struct ibv_cq *real, int cqe, int told);
/*
 * Resizes the CQ itself where the application has not asked for that: EBUSY while it holds a
 * completion of start_poll.
 */
int sh_cq_resize_quietly(struct sh_cq *cq, int cqe);
/* True if all queue pairs are known whose completions come there. */
bool sh_cq_known(const struct sh_cq *cq) SH_LOCKED;
/* True if it has too little room for the connections on it that may move. */
bool sh_cq_short(const struct sh_cq *cq) SH_LOCKED;
/* Resizes the shadows that are too small. */
void sh_cq_resize_shadows(struct sh_cq *cq) SH_DROPS;
/* Repeats a resize that came while the shadow was made. Lock not held. */
void sh_cq_resize_shadow_late(struct sh_cq *cq, uint8_t path);

#endif
