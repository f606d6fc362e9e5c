/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The completion queue's part of an engine (struct sp_cq_ops), called by the shell. */
#ifndef SHIFT_CQ_H
#define SHIFT_CQ_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"

/* The history of a CQ that only its provider knew so far. */
struct sp_cq_past {
	uint32_t events;     /* events read so far: each moved the provider's arm number */
	bool any, solicited; /* kinds of arming that no event has answered */
};

/*
 * A QP that completes into a CQ already and stays with its provider, which polls private_cq from
 * then on.
 */
struct sp_cq_user {
	struct ibv_cq *private_cq;
	uint32_t qpn; /* the QP's number; 0: any that the engine does not know */
};

struct sp_cq_ops {
	/*
	 * drive: called after the real create, before the application sees the CQ; final for this
	 * CQ. cq_ex: made by ibv_create_cq_ex (reader functions are replaced); wc_flags as asked.
	 *
	 * undrive: called before the real destroy. -EBUSY while QPs are bound to the CQ.
	 */
	int (*drive)(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
		     void *cookie, struct sp_cq **out);
	int (*undrive)(struct sp_cq *cq);
	/*
	 * [shell] Drives a CQ that these QPs complete into already: threads may be polling it. The
	 * CQ was not made by ibv_create_cq_ex. No completion is lost, and none comes twice. Each of
	 * the QPs is as with foreign_feed then.
	 */
	int (*drive_used)(struct sp_dev *dev, struct ibv_cq *cq, void *cookie,
			  const struct sp_cq_user *users, uint32_t n, struct sp_cq **out);
	/* [shell] Called once, behind drive, when the CQ's events are told to event_read. */
	void (*take_over)(struct sp_cq *cq, const struct sp_cq_past *past);
	/*
	 * [shell] Adds a shadow CQ's ring (a real CQ on another NIC). The ring is armed when a
	 * carrier comes on it, if the application's CQ is.
	 */
	int (*ring_add)(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
			struct sp_cq_ring **out);
	/*
	 * [shell] Called before the shadow CQ is destroyed. Waits for threads that are arming
	 * through it.
	 */
	void (*ring_del)(struct sp_cq *cq, struct sp_cq_ring *ring);
	/* Returns the ring of the application's own CQ. */
	struct sp_cq_ring *(*own_ring)(struct sp_cq *cq);
	/*
	 * Called when a completion event of this ring's CQ was read (moves the arm number). On the
	 * data path: takes no lock. Not called behind sp_cq_ring_del or sp_cq_undrive. True: other
	 * rings, or software, may have told of the same completion queue, too.
	 */
	bool (*event_read)(struct sp_cq_ring *ring);
	/*
	 * [shell] Moves all that is in the hardware rings to the backlog, and error completions
	 * into the carriers' accounts. A poller between start_poll and end_poll does not hinder it.
	 * -ENOMEM.
	 */
	int (*collect)(struct sp_cq *cq);
	/*
	 * Called around the resize of a real CQ.
	 *
	 * reserve: before the resize; -ENOMEM. begin: the kernel has resized, and the provider has
	 * not yet let go of the old ring. What is left there is taken into the backlog, and pollers
	 * wait until end. end: the provider has let go, and the engine goes on in the new ring.
	 * release: behind all else, whether the CQ was resized or not; gives back what was reserved
	 * and not used.
	 */
	int (*resize_reserve)(struct sp_cq *cq, struct ibv_cq *real);
	void (*resize_release)(struct sp_cq *cq);
	/*
	 * keep_out is called before reserve, for a resize of the engine's own CQ that the
	 * application has not asked for. -EBUSY while a thread of the application is between
	 * start_poll and end_poll; else no thread gets there until let_poll, which is called unless
	 * keep_out failed.
	 */
	int (*resize_keep_out)(struct sp_cq *cq);
	void (*resize_let_poll)(struct sp_cq *cq);
	int (*resize_begin)(struct sp_cq *cq, struct ibv_cq *real);
	int (*resize_end)(struct sp_cq *cq, struct ibv_cq *real);
	/*
	 * Merges a foreign CQ (of a QP that the engine cannot drive), made by ibv_create_cq_ex with
	 * the same flags if cq was. Polls of cq hand out the foreign CQ's completions, and it is
	 * armed with the other rings. events: the ring whose event_read is told of the foreign CQ's
	 * events; not behind foreign_del.
	 */
	int (*foreign_add)(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events);
	/*
	 * Does the same for a QP that completes into the driven rings already (direct verbs made it
	 * there). What the rings have of the QP is handed to the provider, to be polled from a CQ
	 * that no NIC writes to.
	 */
	int (*foreign_feed)(struct sp_cq *cq, const struct sp_cq_user *user);
	/*
	 * mute is called before the provider RESETs or destroys such a QP: nothing of it is polled
	 * from now on.
	 *
	 * unmute: after a RESET the QP completes anew, and all from before is nobody's. Not reset:
	 * the provider has not done it, and all goes on as if nobody had asked.
	 */
	void (*foreign_mute)(struct sp_cq *cq, const struct ibv_cq *private_cq);
	void (*foreign_unmute)(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset);
	int (*foreign_del)(struct sp_cq *cq, struct ibv_cq *private_cq);
	/*
	 * True if the application has taken a completion out of its own CQ by the verbs; false
	 * while it is at it.
	 */
	bool (*polled)(struct sp_cq *cq);
	/*
	 * True if an error completion waits at the head of a ring that nobody polls: the shell
	 * should collect. A read-only look by the shell's timer, which only tries the CQ lock.
	 */
	bool (*error_waiting)(struct sp_cq *cq);
	/*
	 * [shell] Makes polls that find nothing ask sp_callbacks.owed from now on, until that says
	 * no.
	 */
	void (*watch)(struct sp_cq *cq);
};

#endif
