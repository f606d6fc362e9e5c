/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion channels as the application sees them.
 *
 * A facade is a struct ibv_comp_channel of SHIFT's own. Its fd is an epoll fd over the fds of the
 * sources (the real channel; one channel for all shadow CQs on each other NIC) and over an
 * eventfd that counts software events, so poll, epoll and O_NONBLOCK on it work as on a stock
 * channel.
 *
 * Acknowledgements of the application are counted in comp_events_completed, a public field of the
 * CQ, as on stock, but by an atomic operation in place of libibverbs' lock.
 * sh_cq_events_quiesce() waits for what the application owes, as ibv_destroy_cq does. Before
 * libibverbs destroys the CQ, the field gets the count of the CQ's real events alone, which
 * libibverbs waits for, whatever mixture of real, shadow and software events was handed out.
 * Events of CQs that the engine drives are read here, of others through libibverbs, which tells
 * the provider. CQs that SHIFT never saw made (by direct verbs) work too: unknown, so their
 * events are handed out and acknowledged as on stock.
 *
 * Thread rules: all functions from any thread but where one says otherwise. Who reads events
 * takes no lock; what it looks at is taken away behind sh_readers_wait(). Of two locks, the
 * facade's comes first, ibv_context.mutex (which guards ibv_comp_channel.refcnt) second; both are
 * leaves for everybody else.
 */
#ifndef SHIFTLIB_CHANNEL_H
#define SHIFTLIB_CHANNEL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "providers/cq.h"
#include "shiftlib/base/list.h"
#include "shiftlib/shift.h"

#define SH_COMP_CHANNEL_SOURCES_MAX 32 /* the real channel and those on other NICs, dead ones too */

struct sh_comp_channel;
struct sp_cq_ring;

/*
 * A real CQ whose events are the application's CQ's: that CQ itself, a shadow of it, or a private
 * one (object/qp.h).
 */
struct sh_cq_feed {
	struct sh_cq_events *events;
	struct ibv_cq *real;
	struct sp_cq_ring *_Atomic ring; /* NULL: its provider is told of its events */
	/* The ring whose engine is told behind that; NULL: none is. */
	struct sp_cq_ring *_Atomic also;
	_Atomic bool closed;	    /* nobody shall hear of its events */
	_Atomic uint32_t delivered; /* handed out; libibverbs has not heard of them yet */
	struct list_node link;	    /* sh_cq_events.shadows; under the facade's lock */
};

enum sh_cq_armed {
	SH_CQ_ARMED_ANY = 1,
	SH_CQ_ARMED_SOLICITED = 2,
};

/*
 * The account of a CQ's events; embedded by its owner. Guarded by the facade's lock but the
 * atomics.
 */
struct sh_cq_events {
	struct sh_cq_feed own;
	struct ibv_cq *cq;		 /* the application's; gone when it is destroyed */
	int handle;			 /* handle that the CQ has, or had */
	struct sh_comp_channel *channel; /* NULL: the CQ has no channel, all calls are no-ops */
	bool shown; /* cq->comp_events_completed is the application's count; else libibverbs' */
	uint32_t hidden; /* the other count of these two */
	uint32_t base; /* so many of the application's acknowledgements are in libibverbs' count */
	/*
	 * The state while no engine drives it: how it was armed, of which no event was read yet,
	 * and events read.
	 */
	_Atomic uint32_t armed; /* bits: enum sh_cq_armed */
	_Atomic uint32_t told;
	uint32_t soft, gone; /* handed out: software events, events of shadows that are no more */
	struct list_node shadows;    /* struct sh_cq_feed: all but its own */
	struct list_node ready_link; /* software event in line */
	bool ready;		     /* true while in the line */
	_Atomic bool queued;	     /* raised and not yet handed out: raise is idempotent */
	struct sh_cq_events *_Atomic push_next; /* stack of raised ones; owned by who set queued */
};

/* Once, before any other call. real must outlive the process' use of channels. */
void sh_comp_channel_setup(const struct shift_real *real);
void sh_comp_channel_after_fork(void); /* in the child */

/* Facade, or NULL with errno. destroy: EBUSY while CQs use it (verbs convention). */
struct ibv_comp_channel *sh_comp_channel_create(struct ibv_context *context);
int sh_comp_channel_destroy(struct ibv_comp_channel *facade);
bool sh_comp_channel_is_facade(const struct ibv_comp_channel *channel);
/* Returns what creation calls must get: the real channel of a facade; anything else as it is. */
struct ibv_comp_channel *sh_comp_channel_real(struct ibv_comp_channel *channel);

/*
 * The real channel of shadow CQs in a context of SHIFT's own, or of private CQs (object/qp.h) in
 * the application's: made for the first of them, and destroyed when each get() had its put().
 * NULL with errno; ENOSPC: too many. put: the CQ is destroyed. May wait for readers.
 */
struct ibv_comp_channel *sh_comp_channel_shadow_get(struct ibv_comp_channel *facade,
						    struct ibv_context *context);
void sh_comp_channel_shadow_put(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow);

/*
 * Takes a real CQ whose destruction failed off its channel. libibverbs counts the CQs of a
 * channel, and takes one off only if the kernel has destroyed it: a dead NIC's kernel does not,
 * and the channel could never be destroyed.
 */
static inline void sh_comp_channel_remove(struct ibv_cq *real)
{
	if (!real->channel)
		return;
	pthread_mutex_lock(&real->channel->context->mutex);
	real->channel->refcnt--;
	pthread_mutex_unlock(&real->channel->context->mutex);
}

/*
 * init: after the real create with sh_comp_channel_real(channel); channel: as the application
 * passed it (NULL or foreign: nothing to do). Sets cq->channel to the facade. 0 or -errno.
 *
 * Destroying, in this order: no more raise() (the engine let go of the CQ); quiesce() waits for
 * the acknowledgements that the application owes, hands out nothing more of this CQ and puts the
 * real channel back; shadow CQs and the real CQ are destroyed; uninit(). If the real destroy
 * failed: resume() instead. Check for EBUSY before quiesce(), which may wait for ever, as stock
 * does.
 */
int sh_cq_events_init(struct sh_cq_events *events, struct ibv_cq *cq,
		      struct ibv_comp_channel *channel);
void sh_cq_events_quiesce(struct sh_cq_events *events);
/* The first part of quiesce, which may be done before. */
void sh_cq_events_shut(struct sh_cq_events *events);
void sh_cq_events_resume(struct sh_cq_events *events);
void sh_cq_events_uninit(struct sh_cq_events *events);

/*
 * A shadow CQ: init before it is made, with the feed as its cq_context; add when it is, before it
 * is armed. close: nothing of it is handed out any more, and the engine hears of none of its
 * events behind the call; settle: right before it is destroyed; uninit: when it is.
 */
void sh_cq_feed_init(struct sh_cq_feed *feed, struct sh_cq_events *events);
void sh_cq_feed_add(struct sh_cq_feed *feed, struct ibv_cq *shadow);
void sh_cq_feed_close(struct sh_cq_feed *feed);
void sh_cq_feed_settle(struct sh_cq_feed *feed);
void sh_cq_feed_uninit(struct sh_cq_feed *feed);

/*
 * Says that the engine drives it from now on; with NULL, that it does not, and hears of none of
 * its events behind the call.
 */
void sh_cq_feed_drive(struct sh_cq_feed *feed, struct sp_cq_ring *ring);
/*
 * Notes that the provider has armed this CQ, as far as the caller knows. On the data path: takes
 * no lock.
 */
void sh_cq_events_armed(const struct ibv_cq *cq, bool solicited);
/*
 * Returns, behind sh_cq_feed_drive(), what was before. Nothing is added to that any more but by
 * who arms right now.
 */
struct sp_cq_past sh_cq_events_past(struct sh_cq_events *events);

/*
 * Raises a completion event made by software, on the data path with engine locks held: no lock,
 * no allocation, at most one write to an eventfd. Raised again before it was read: one event.
 */
void sh_comp_channel_raise(struct sh_cq_events *events);

#endif
