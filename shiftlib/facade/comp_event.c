/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion events: raised by software, read from all sources, acknowledged. The data path. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "shiftlib/facade/internal.h"
#include "shiftlib/news.h"

#define IN_A_ROW_MAX 16

/* ---- edges ---------------------------------------------------------------------------------- */

/*
 * Gives an edge to what is left unread. On stock a completion queue has told of itself once until
 * that is read, and who waits for edges (EPOLLET) and reads one event at each goes by that. Here
 * another NIC, or software, may have told of the same queue: two events, and one edge if they
 * came together. A descriptor that is added to an epoll when it is readable gives an edge, while
 * one that is changed while it waits to be looked at does not.
 */
static __attribute__((noinline, cold)) void edge_again(struct sh_comp_channel *ch)
{
	struct pollfd fds[SH_COMP_CHANNEL_SOURCES_MAX + 1];
	uint32_t n = atomic_load(&ch->n_sources), i;
	int state, ret, saved = errno;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&ch->lock);
	for (i = 0; i < n; i++) /* poll(2) leaves out those that are none */
		fds[i] = (struct pollfd){ .fd = atomic_load(&ch->sources[i].fd), .events = POLLIN };
	fds[n] = (struct pollfd){ .fd = ch->raise_fd, .events = POLLIN };
	for (i = poll(fds, n + 1, 0) > 0 ? 0 : n + 1; i <= n; i++) {
		if (!(fds[i].revents & POLLIN))
			continue;
		epoll_ctl(ch->facade.fd, EPOLL_CTL_DEL, fds[i].fd, NULL);
		/* another descriptor may have its place for a moment */
		while ((ret = sh_channel_watch(ch, fds[i].fd)) == -ENOMEM || ret == -ENOSPC)
			poll(NULL, 0, 1);
		break;
	}
	pthread_mutex_unlock(&ch->lock);
	pthread_setcancelstate(state, NULL);
	errno = saved;
}

/* ---- software events ------------------------------------------------------------------------ */

/*
 * The count is written behind the push: who reads a count finds an event in line. `queued` is set
 * before, so no second raiser touches the links.
 */
void sh_comp_channel_raise(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;
	struct sh_cq_events *head;
	int saved = errno;

	if (!ch || atomic_exchange_explicit(&events->queued, true, memory_order_acq_rel))
		return;
	atomic_fetch_add(&ch->in_line, 1);
	head = atomic_load_explicit(&ch->raised, memory_order_relaxed);
	do {
		atomic_store_explicit(&events->push_next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&ch->raised, &head, events, memory_order_release, memory_order_relaxed));
	/* Fails only at 2^64 - 2 counts. */
	if (sh_fd_give(ch->raise_fd, 1) < 0)
		abort();
	errno = saved;
}

/* The stack has the newest first; the line, the oldest. */
void sh_raised_collect(struct sh_comp_channel *ch)
{
	struct sh_cq_events *events, *next, *oldest = NULL;

	events = atomic_exchange_explicit(&ch->raised, NULL, memory_order_acquire);
	for (; events; events = next) {
		next = atomic_load_explicit(&events->push_next, memory_order_relaxed);
		atomic_store_explicit(&events->push_next, oldest, memory_order_relaxed);
		oldest = events;
	}
	for (events = oldest; events; events = next) {
		next = atomic_load_explicit(&events->push_next, memory_order_relaxed);
		events->ready = true;
		list_add_tail(&ch->ready, &events->ready_link);
	}
}

/* Release: a raise that finds it false must find the links free. */
void sh_ready_remove(struct sh_cq_events *events)
{
	list_del(&events->ready_link);
	events->ready = false;
	atomic_store_explicit(&events->queued, false, memory_order_release);
}

bool sh_raise_count_take(struct sh_comp_channel *ch)
{
	uint64_t one;

	if (sh_fd_take(ch->raise_fd, &one) != sizeof(one))
		return false;
	atomic_fetch_sub(&ch->in_line, 1);
	return true;
}

static int raised_take_locked(struct sh_comp_channel *ch, struct sh_cq_events **out)
{
	for (;;) {
		if (!sh_raise_count_take(ch))
			return -EAGAIN;
		if (!ch->owed)
			break;
		ch->owed--;
	}
	sh_raised_collect(ch);
	*out = list_entry(ch->ready.next, struct sh_cq_events, ready_link);
	sh_ready_remove(*out);
	(*out)->soft++;
	return 0;
}

static int raised_take(struct sh_comp_channel *ch, struct ibv_cq **cq)
{
	struct sh_cq_events *events;
	int ret;

	pthread_mutex_lock(&ch->lock);
	ret = raised_take_locked(ch, &events);
	if (!ret)
		*cq = events->cq;
	pthread_mutex_unlock(&ch->lock);
	if (!ret)
		edge_again(ch);
	return ret;
}

/*
 * Tells the provider of an event of a CQ that it arms itself; only libibverbs can do that, as it
 * reads the event. So libibverbs reads it again, from an eventfd of our own.
 */
static __attribute__((noinline, cold)) void event_replay(struct sh_comp_channel *ch,
							 struct ibv_cq *cq)
{
	struct ibv_comp_channel replay = { .context = ch->facade.context, .fd = ch->replay_fd };
	struct ibv_cq *again;
	void *context;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&ch->lock);
	if (sh_fd_give(ch->replay_fd, (uintptr_t)cq) < 0 ||
	    sh_channel_verbs->get_cq_event(&replay, &again, &context))
		abort(); /* an eventfd of our own, which was empty */
	pthread_mutex_unlock(&ch->lock);
	pthread_setcancelstate(state, NULL);
}

/*
 * Handles the event of a CQ that its provider arms. An arming is noted when the provider has done
 * it: an arming that is forgotten here was done before the provider hears of this event, so the
 * event answers it.
 */
static __attribute__((noinline, cold)) void
event_provider(struct sh_comp_channel *ch, struct sh_cq_feed *feed, struct ibv_cq *cq)
{
	struct sp_cq_ring *also;

	atomic_store(&feed->events->armed, 0);
	event_replay(ch, cq);
	also = atomic_load(&feed->also);
	if (!also) {
		atomic_fetch_add(&feed->events->told, 1);
		return;
	}
	sh_news_cq_event_read(also);
	edge_again(ch);
}

/*
 * Drops an event of a CQ that is being destroyed: nobody shall hear of it. libibverbs waits for
 * this one.
 */
static __attribute__((noinline, cold)) int event_drop(struct sh_cq_feed *feed)
{
	sh_event_drop(feed);
	return -EINTR;
}

static __attribute__((noinline, cold)) int read_error(ssize_t got)
{
	if (got >= 0)
		return -EIO;
	return errno == EBADF ? -EAGAIN : -errno; /* silenced meanwhile */
}

/*
 * Takes one event of a source. The kernel gives struct ib_uverbs_comp_event_desc: libibverbs'
 * struct ibv_cq. 0: *cq is for the application; -EINTR: an event that nobody shall hear of;
 * -EAGAIN or the error of the read.
 */
static inline __attribute__((always_inline)) int event_take(struct sh_comp_channel *ch,
							    uint32_t source, struct ibv_cq **cq)
{
	struct sh_cq_events *events;
	struct sp_cq_ring *ring;
	struct sh_cq_feed *feed;
	uint64_t desc;
	ssize_t got = sh_fd_take(atomic_load(&ch->sources[source].fd), &desc);

	if (unlikely(got != sizeof(desc)))
		return read_error(got);
	*cq = (struct ibv_cq *)(uintptr_t)desc;
	if (source == OWN_SOURCE) {
		events = events_find(ch, *cq);
		if (unlikely(!events)) {
			event_replay(ch, *cq);
			return 0;
		}
		feed = &events->own;
	} else {
		feed = (*cq)->cq_context;
	}
	if (unlikely(atomic_load(&feed->closed)))
		return event_drop(feed);
	atomic_fetch_add(&feed->delivered, 1);
	ring = atomic_load(&feed->ring);
	if (unlikely(!ring))
		event_provider(ch, feed, *cq);
	else if (unlikely(sh_news_cq_event_read(ring)))
		edge_again(ch);
	*cq = feed->events->cq;
	return 0;
}

/* Passes the turn to the next source that has a device. */
static __attribute__((noinline)) void turn_pass(struct sh_comp_channel *ch, uint32_t source)
{
	uint32_t n = atomic_load(&ch->n_sources), next = source;

	do {
		next = next + 1 < n ? next + 1 : 0;
	} while (next != source && atomic_load(&ch->sources[next].fd) < 0);
	atomic_store_explicit(&ch->turn, next, memory_order_relaxed);
}

static inline __attribute__((always_inline)) int source_take(struct sh_comp_channel *ch,
							     uint32_t source, struct ibv_cq **cq)
{
	struct sh_reader me = sh_reader_enter(&ch->readers);
	int ret = event_take(ch, source, cq);

	sh_reader_leave(&ch->readers, me);
	/* Most events come from one NIC: a look at another's source first is a wasted call. */
	if (unlikely(me.number % IN_A_ROW_MAX == IN_A_ROW_MAX - 1))
		turn_pass(ch, source);
	return ret;
}

/*
 * True if a failed source is masked. Such a source belongs to a device that is gone. While
 * another NIC stands by for a connection of the channel, or the connection waits for one, that is
 * a fault to be masked, and the source must not keep the fd readable; else it is the
 * application's to know, as on stock.
 */
static __attribute__((noinline, cold)) bool source_masked(struct sh_comp_channel *ch,
							  uint32_t source)
{
	bool masked = sh_news_death_masked(&ch->facade);

	pthread_mutex_lock(&ch->lock);
	masked |= sh_sources_live(ch) > 1;
	if (masked)
		sh_source_silence(ch, &ch->sources[source]);
	pthread_mutex_unlock(&ch->lock);
	return masked;
}

/* Each of them: who reads until there is nothing must have looked everywhere. */
static int sources_take(struct sh_comp_channel *ch, struct ibv_cq **cq)
{
	uint32_t n = atomic_load(&ch->n_sources), i = 0;
	uint32_t first = atomic_load_explicit(&ch->turn, memory_order_relaxed);

	while (i < n) {
		uint32_t source = (first + i) % n;
		int ret = -EAGAIN;

		if (atomic_load(&ch->sources[source].fd) >= 0)
			ret = source_take(ch, source, cq);
		if (!ret && i)
			atomic_store_explicit(&ch->turn, source, memory_order_relaxed);
		if (!ret)
			return 0;
		if (ret == -EINTR)
			continue;
		if (ret != -EAGAIN && !source_masked(ch, source))
			return ret;
		i++;
	}
	return -EAGAIN;
}

/* Software events, and those of all sources. */
static int channel_take(struct sh_comp_channel *ch, struct ibv_cq **cq)
{
	int ret = -EAGAIN;

	if (unlikely(atomic_load(&ch->in_line)))
		ret = raised_take(ch, cq);
	return ret == -EAGAIN ? sources_take(ch, cq) : ret;
}

static inline __attribute__((always_inline)) bool turn_take(struct sh_comp_channel *ch,
							    struct ibv_cq **cq)
{
	if (unlikely(atomic_load(&ch->in_line)))
		return false;
	return !source_take(ch, atomic_load_explicit(&ch->turn, memory_order_relaxed), cq);
}

/*
 * The source whose turn it is had nothing: the fd knows of the others. Who may not wait has to be
 * told of what they have before it is told to.
 */
static __attribute__((noinline)) int channel_wait(struct sh_comp_channel *ch, struct ibv_cq **cq)
{
	int ret;

	do {
		ret = sh_fd_wait(ch->facade.fd);
		if (!ret && turn_take(ch, cq))
			return 0;
		if (ret == -EAGAIN)
			return channel_take(ch, cq);
		if (!ret)
			ret = channel_take(ch, cq);
	} while (ret == -EAGAIN);
	return ret;
}

int shift_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct sh_comp_channel *ch = channel_of(channel);
	int ret;

	if (unlikely(!ch))
		return sh_channel_verbs->get_cq_event(channel, cq, cq_context);
	if (unlikely(!turn_take(ch, cq))) {
		ret = channel_wait(ch, cq);
		if (ret) {
			errno = -ret;
			return -1;
		}
	}
	*cq_context = (*cq)->cq_context;
	return 0;
}

/* The CQ may be destroyed as soon as all of its events are acknowledged. */
void shift_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	struct sh_comp_channel *ch = channel_of(cq->channel);
	struct sh_cq_events *events = ch ? events_find(ch, cq) : NULL;

	if (unlikely(!events)) {
		sh_channel_verbs->ack_cq_events(cq, nevents);
		return;
	}
	__atomic_fetch_add(&cq->comp_events_completed, nevents, __ATOMIC_SEQ_CST);
	if (unlikely(atomic_load(&sh_settling)))
		sh_settle_wake();
}
