/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion channels as the application sees them.
 *
 * A facade is a struct ibv_comp_channel of SHIFT's own. Its fd is an epoll fd over the fds of the
 * sources (the real channel; channels of shadow CQs on other NICs) and over an eventfd that counts
 * software events, so poll, epoll and O_NONBLOCK on it work as on a stock channel.
 *
 * Events of a facade's CQs are acknowledged to libibverbs as soon as they are read; what the
 * application owes is counted here, and sh_cq_events_quiesce() waits for it as ibv_destroy_cq does.
 * So libibverbs' own count is always settled, whatever mixture of real, shadow and software events
 * was handed out. CQs that SHIFT never saw made (mlx5dv_create_cq) work too: unknown, so their
 * events are handed out and acknowledged as on stock.
 *
 * Thread rules: all functions from any thread but where one says otherwise. Of two locks, the
 * facade's comes first, ibv_context.mutex (which guards ibv_comp_channel.refcnt) second; both are
 * leaves for everybody else.
 */
#ifndef SHIFTLIB_CHANNEL_H
#define SHIFTLIB_CHANNEL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "shiftlib/list.h"
#include "shiftlib/shift.h"

#define SH_CHANNEL_SOURCES_MAX 8 /* the real channel and shadows on other NICs */

struct sh_channel;

/* What a CQ owes and is owed; embedded by its owner. Guarded by the facade's lock but `queued`. */
struct sh_cq_events {
	struct ibv_cq *cq;	     /* the application's */
	struct sh_channel *channel;  /* NULL: the CQ has no channel, all calls are no-ops */
	struct list_node link;	     /* bucket of the facade */
	struct list_node ready_link; /* software event in line */
	uint32_t real_delivered, other_delivered, acked;
	bool quiesced;
	bool ready;	     /* in the line */
	_Atomic bool queued; /* raised and not yet handed out: raise is idempotent */
	struct sh_cq_events *_Atomic push_next; /* stack of raised ones; owned by who set queued */
};

/* Once, before any other call. real must outlive the process' use of channels. */
void sh_channel_setup(const struct shift_real *real);

/* Facade, or NULL with errno. destroy: EBUSY while CQs use it (verbs convention). */
struct ibv_comp_channel *sh_channel_create(struct ibv_context *context);
int sh_channel_destroy(struct ibv_comp_channel *facade);
bool sh_channel_is_facade(const struct ibv_comp_channel *channel);
/* What creation calls must get: the real channel of a facade; anything else as it is. */
struct ibv_comp_channel *sh_channel_real(struct ibv_comp_channel *channel);

/*
 * A channel of shadow CQs on another NIC (a real one, made by the shell; each shadow CQ's
 * cq_context is the struct sh_cq_events * of the CQ that it stands for). Its fd becomes
 * non-blocking. -ENOSPC: too many. del before the shadow channel is destroyed.
 */
int sh_channel_add_shadow(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow);
void sh_channel_del_shadow(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow);

/*
 * init: after the real create with sh_channel_real(channel); channel: as the application passed it
 * (NULL or foreign: nothing to do). Sets cq->channel to the facade.
 *
 * Destroying, in this order: no more raise() (the engine let go of the CQ); quiesce() waits for the
 * acknowledgements that the application owes, hands out nothing more of this CQ and puts the real
 * channel back; shadow CQs and the real CQ are destroyed; uninit(). If the real destroy failed:
 * resume() instead. Check for EBUSY before quiesce(), which may wait for ever, as stock does.
 */
void sh_cq_events_init(struct sh_cq_events *events, struct ibv_cq *cq,
		       struct ibv_comp_channel *channel);
void sh_cq_events_quiesce(struct sh_cq_events *events);
void sh_cq_events_resume(struct sh_cq_events *events);
void sh_cq_events_uninit(struct sh_cq_events *events);

/* A completion event made by software, on the data path with engine locks held: no lock, no
 * allocation, at most one write to an eventfd. Raised again before it was read: one event. */
void sh_channel_raise(struct sh_cq_events *events);

/*
 * Implemented by the shell: an event of `real` (the CQ itself or a shadow of it) was read, before
 * the application hears of it. Called with no lock of the facade held; real stays valid meanwhile.
 */
void sh_cq_event_read(struct sh_cq_events *events, struct ibv_cq *real);

#endif
