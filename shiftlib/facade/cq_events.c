/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The account of a CQ's completion events, until it is destroyed. */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/facade/internal.h"

/* CQs that wait for acknowledgements: no CQ is touched behind the one that settles it. */
_Atomic uint32_t sh_settling;
static pthread_mutex_t settle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;

/* Nobody waits in the child. */
void sh_comp_channel_after_fork(void)
{
	pthread_mutex_init(&settle_lock, NULL);
	pthread_cond_init(&settled, NULL);
	atomic_store(&sh_settling, 0);
}

/* -- CQs of a channel ------------------------------------------------------------------------- */

static void refcnt_add(struct sh_comp_channel *ch, int n)
{
	pthread_mutex_lock(&ch->facade.context->mutex);
	ch->facade.refcnt += n;
	pthread_mutex_unlock(&ch->facade.context->mutex);
}

void sh_cq_feed_init(struct sh_cq_feed *feed, struct sh_cq_events *events)
{
	*feed = (struct sh_cq_feed){ .events = events };
	list_init(&feed->link);
}

int sh_cq_events_init(struct sh_cq_events *events, struct ibv_cq *cq,
		      struct ibv_comp_channel *channel)
{
	struct sh_comp_channel *ch = channel_of(channel);
	int ret;

	*events = (struct sh_cq_events){
		.cq = cq, .channel = ch, .handle = (int)cq->handle, .shown = true
	};
	sh_cq_feed_init(&events->own, events);
	events->own.real = cq;
	list_init(&events->shadows);
	list_init(&events->ready_link);
	if (!ch)
		return 0;
	ret = sh_fdmap_set(&ch->cqs, events->handle, events);
	if (ret)
		return ret;
	refcnt_add(ch, 1);
	cq->channel = &ch->facade;
	return 0;
}

/*
 * The real CQ is no more, so no reader has an event of it; but that of a device that is gone, for
 * whose readers libibverbs did not wait, may.
 */
void sh_cq_events_uninit(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	/* another CQ may have its handle by now */
	sh_fdmap_drop(&ch->cqs, events->handle, events);
	sh_readers_wait(&ch->readers);
	refcnt_add(ch, -1);
}

void sh_cq_feed_add(struct sh_cq_feed *feed, struct ibv_cq *shadow)
{
	struct sh_comp_channel *ch = feed->events->channel;

	feed->real = shadow;
	if (!ch)
		return;
	pthread_mutex_lock(&ch->lock);
	list_add_tail(&feed->events->shadows, &feed->link);
	pthread_mutex_unlock(&ch->lock);
}

void sh_cq_feed_drive(struct sh_cq_feed *feed, struct sp_cq_ring *ring)
{
	bool provider_arms = ring && sp_has(ring, SP_PROVIDER_ARMS);

	atomic_store(&feed->ring, provider_arms ? NULL : ring);
	atomic_store(&feed->also, provider_arms ? ring : NULL);
	if (!ring && feed->events->channel)
		sh_readers_wait(&feed->events->channel->readers);
}

void sh_cq_events_armed(const struct ibv_cq *cq, bool solicited)
{
	struct sh_comp_channel *ch = channel_of(cq->channel);
	struct sh_cq_events *events = ch ? events_find(ch, cq) : NULL;

	if (events)
		atomic_fetch_or(&events->armed,
				solicited ? SH_CQ_ARMED_SOLICITED : SH_CQ_ARMED_ANY);
}

/*
 * Returns what was before the engine. The barrier is between the engine's CQ, which is shown by
 * now, and what is read here: see cq_armed.
 */
struct sp_cq_past sh_cq_events_past(struct sh_cq_events *events)
{
	uint32_t armed;

	if (events->channel)
		sh_readers_wait(&events->channel->readers);
	__sync_synchronize();
	armed = atomic_load(&events->armed);
	return (struct sp_cq_past){ .events = atomic_load(&events->told),
				    .any = armed & SH_CQ_ARMED_ANY,
				    .solicited = armed & SH_CQ_ARMED_SOLICITED };
}

void sh_cq_feed_close(struct sh_cq_feed *feed)
{
	atomic_store(&feed->closed, true);
	sh_cq_feed_drive(feed, NULL);
}

/* libibverbs is told of what was handed out. Nothing more is, until it is opened again. */
static uint32_t feed_settle(struct sh_cq_feed *feed)
{
	uint32_t delivered = atomic_exchange(&feed->delivered, 0);

	if (delivered)
		sh_channel_verbs->ack_cq_events(feed->real, delivered);
	return delivered;
}

/*
 * Settles a shadow's events. Those handed out and not acknowledged yet are the application's debt
 * all the same.
 */
void sh_cq_feed_settle(struct sh_cq_feed *feed)
{
	struct sh_comp_channel *ch = feed->events->channel;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->lock);
	list_del(&feed->link);
	feed->events->gone += feed_settle(feed);
	pthread_mutex_unlock(&ch->lock);
}

void sh_cq_feed_uninit(struct sh_cq_feed *feed)
{
	if (feed->events->channel)
		sh_readers_wait(&feed->events->channel->readers); /* as sh_cq_events_uninit */
}

static void events_take_back(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	pthread_mutex_lock(&ch->lock);
	sh_raised_collect(ch);
	if (events->ready) {
		sh_ready_remove(events);
		if (!sh_raise_count_take(ch))
			ch->owed++;
	}
	pthread_mutex_unlock(&ch->lock);
}

/* The count of the application, which may be just about to acknowledge. Facade's lock held. */
static uint32_t cq_completed(const struct sh_cq_events *events)
{
	if (!events->shown)
		return events->hidden;
	return __atomic_load_n(&events->cq->comp_events_completed, __ATOMIC_SEQ_CST);
}

static bool events_settled(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	struct sh_cq_feed *feed;
	uint32_t delivered;
	bool settled;

	pthread_mutex_lock(&ch->lock);
	delivered = events->soft + events->gone + atomic_load(&events->own.delivered);
	list_for_each (&events->shadows, feed, struct sh_cq_feed, link)
		delivered += atomic_load(&feed->delivered);
	settled = cq_completed(events) - events->base == delivered;
	pthread_mutex_unlock(&ch->lock);
	return settled;
}

/*
 * Waits until all is acknowledged. Who acknowledges counts, and then looks whether anybody waits;
 * here it is the other way round.
 */
static void settle_wait(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	atomic_fetch_add(&sh_settling, 1);
	pthread_mutex_lock(&settle_lock);
	while (!events_settled(ch, events))
		pthread_cond_wait(&settled, &settle_lock);
	pthread_mutex_unlock(&settle_lock);
	atomic_fetch_sub(&sh_settling, 1);
	pthread_setcancelstate(state, NULL);
}

static void events_close(struct sh_comp_channel *ch, struct sh_cq_events *events, bool closed)
{
	struct sh_cq_feed *feed;

	pthread_mutex_lock(&ch->lock);
	atomic_store(&events->own.closed, closed);
	list_for_each (&events->shadows, feed, struct sh_cq_feed, link)
		atomic_store(&feed->closed, closed);
	pthread_mutex_unlock(&ch->lock);
}

/*
 * Closes a CQ's events. A reader that found it open has counted what it hands out when the
 * readers were waited for.
 */
void sh_cq_events_shut(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	events_close(ch, events, true);
	sh_readers_wait(&ch->readers);
	events_take_back(ch, events);
	settle_wait(ch, events);
}

/*
 * Nobody acknowledges meanwhile, as nothing is owed. The real events that were handed out since the
 * last time are libibverbs' from now on.
 */
static void events_show(struct sh_comp_channel *ch, struct sh_cq_events *events, bool shown)
{
	uint32_t other, told;

	pthread_mutex_lock(&ch->lock);
	if (events->shown != shown) {
		told = atomic_exchange(&events->own.delivered, 0);
		events->base += told;
		events->hidden += told;
		other = events->hidden;
		events->hidden = events->cq->comp_events_completed;
		events->cq->comp_events_completed = other;
		events->shown = shown;
	}
	pthread_mutex_unlock(&ch->lock);
}

void sh_event_drop(struct sh_cq_feed *feed)
{
	struct sh_cq_events *events = feed->events;

	pthread_mutex_lock(&events->channel->lock);
	if (feed == &events->own && events->shown)
		events->hidden++;
	else
		sh_channel_verbs->ack_cq_events(feed->real, 1);
	pthread_mutex_unlock(&events->channel->lock);
}

void sh_cq_events_quiesce(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	sh_cq_events_shut(events);
	events_show(ch, events, false);
	events->cq->channel = channel_real(ch);
}

void sh_cq_events_resume(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	events->cq->channel = &ch->facade;
	events_show(ch, events, true);
	events_close(ch, events, false);
}

__attribute__((noinline, cold)) void sh_settle_wake(void)
{
	pthread_mutex_lock(&settle_lock);
	pthread_cond_broadcast(&settled);
	pthread_mutex_unlock(&settle_lock);
}
