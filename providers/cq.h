/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an engine does for a completion queue. */
#ifndef SHIFT_CQ_H
#define SHIFT_CQ_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"

/* What a CQ has seen while only its provider knew it. */
struct sp_cq_past {
	uint32_t events;     /* that were read: its provider's arm number moved with each */
	bool any, solicited; /* it was armed so, and no event has answered that */
};

/* A QP that completes into a CQ already and that its provider goes on posting, and where its provider polls from then on. */
struct sp_cq_user {
	struct ibv_cq *private_cq;
	uint32_t qpn; /* 0: any number that the engine does not know */
};

struct sp_cq_ops {
	/*
	 * sp_cq_drive: called after the real create, before the application sees the CQ. cq_ex:
	 * made by ibv_create_cq_ex (reader functions are replaced); wc_flags as asked. Final
	 * for this CQ. sp_cq_undrive: before the real destroy. Fails with -EBUSY while QPs are
	 * bound to it.
	 */
	int (*drive)(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
		     void *cookie, struct sp_cq **out);
	int (*undrive)(struct sp_cq *cq);
	/* [shell] drive, of a CQ that these QPs complete into: threads may be polling it. Not made by ibv_create_cq_ex. Nothing
	 * is lost, and nothing comes twice. Each of them is as with foreign_feed then. */
	int (*drive_used)(struct sp_dev *dev, struct ibv_cq *cq, void *cookie,
			  const struct sp_cq_user *users, uint32_t n, struct sp_cq **out);
	/* [shell] Once, behind drive, when its events are told to event_read. */
	void (*take_over)(struct sp_cq *cq, const struct sp_cq_past *past);
	/* [shell] Add a shadow CQ's ring (real CQ on another NIC); armed when a carrier comes on it,
	 * if the application's is. */
	int (*ring_add)(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
			struct sp_cq_ring **out);
	/* [shell] Before the shadow CQ is destroyed. Waits for threads that are arming through it. */
	void (*ring_del)(struct sp_cq *cq, struct sp_cq_ring *ring);
	/* The ring of the application's own CQ. */
	struct sp_cq_ring *(*own_ring)(struct sp_cq *cq);
	/* A completion event of this ring's CQ was read (moves the arm number). On the data path:
	 * takes no lock. Not behind sp_cq_ring_del or sp_cq_undrive. True: other rings, or software, may
	 * have told of the same completion queue, too. */
	bool (*event_read)(struct sp_cq_ring *ring);
	/* [shell] Move all that is in the hardware rings to the backlog, error completions
	 * into the carriers' accounts. A poller between start_poll and end_poll does not
	 * hinder it. -ENOMEM. */
	int (*collect)(struct sp_cq *cq);
	/*
	 * Around a resize of one of its real CQs. reserve: before; -ENOMEM. release: behind all else, whether
	 * the CQ was resized or not: what was reserved and is not used is given back. begin: the kernel has
	 * done it, the provider has not yet let go of the old ring: what is left there is taken into
	 * the backlog, and pollers wait until end: the provider has, the engine goes on in the new one.
	 */
	int (*resize_reserve)(struct sp_cq *cq, struct ibv_cq *real);
	void (*resize_release)(struct sp_cq *cq);
	/*
	 * Before that, of its own CQ, where the application has not asked for it: -EBUSY while a thread of its own is between
	 * start_poll and end_poll, else none gets there until resize_let_poll, which is called in any case but this.
	 */
	int (*resize_keep_out)(struct sp_cq *cq);
	void (*resize_let_poll)(struct sp_cq *cq);
	int (*resize_begin)(struct sp_cq *cq, struct ibv_cq *real);
	int (*resize_end)(struct sp_cq *cq, struct ibv_cq *real);
	/* Merge a foreign CQ (a QP that the engine cannot drive), made by ibv_create_cq_ex with the same flags if cq
	 * was: polls of cq hand out its completions, and it is armed with the others. events: whose event_read is told of its events; not behind
	 * foreign_del. */
	int (*foreign_add)(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events);
	/* The same for a QP that completes into the driven rings already (direct verbs made it
	 * there): what the rings have of it is handed to the provider, to be polled from a CQ that
	 * no NIC writes to. */
	int (*foreign_feed)(struct sp_cq *cq, const struct sp_cq_user *user);
	/*
	 * Before the provider RESETs or destroys such a QP: nothing of it is polled from now on. After a RESET: it completes anew,
	 * and all from before is nobody's; not reset: the provider has not done it, and all goes on as if nobody had asked.
	 */
	void (*foreign_mute)(struct sp_cq *cq, const struct ibv_cq *private_cq);
	void (*foreign_unmute)(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset);
	int (*foreign_del)(struct sp_cq *cq, struct ibv_cq *private_cq);
	/* Has the application taken a completion out of its own CQ by the verbs? False while it is at it. */
	bool (*polled)(struct sp_cq *cq);
	/* Read-only look, by the shell's timer: is there an error completion waiting at the
	 * head of a ring that nobody polls? Takes the CQ lock by trylock; true: the shell
	 * should collect. */
	bool (*error_waiting)(struct sp_cq *cq);
	/* [shell] Polls that find nothing ask sp_callbacks.owed from now on, until that says no. */
	void (*watch)(struct sp_cq *cq);
};

#endif
