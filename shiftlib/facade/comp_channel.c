/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/base/fd.h"
#include "shiftlib/base/readers.h"

#define IN_A_ROW_MAX 16
#define OWN_SOURCE   0 /* the place of the real channel */

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Where events come from. Guarded by the facade's lock but the fd. */
struct source {
	_Atomic int fd; /* -1: none, or its device is gone */
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	uint32_t users; /* shadow CQs */
};

struct sh_comp_channel {
	struct ibv_comp_channel facade; /* fd: the epoll fd; refcnt: guarded by context->mutex */
	_Atomic uint32_t in_line;	/* counts of raise_fd, also those to be written yet */
	_Atomic uint32_t turn;		/* whose source is looked at first */
	_Atomic uint32_t n_sources;	/* places that were ever in use */
	struct source sources[SH_COMP_CHANNEL_SOURCES_MAX];
	struct sh_readers readers;
	struct sh_fdmap cqs; /* struct sh_cq_events, by handle */
	int raise_fd;	     /* one count for each software event in line */
	int replay_fd;	     /* for libibverbs to read what was read */
	pthread_mutex_t lock;
	struct list_node ready; /* software events, oldest first */
	/* Software events taken back whose count the raiser had not yet written. */
	uint32_t owed;
	struct sh_cq_events *_Atomic raised; /* stack; pushed by anyone, emptied under lock */
};

static const struct shift_real *real;
static struct sh_fdmap facades; /* by the facade's fd */

/* CQs that wait for acknowledgements: no CQ is touched behind the one that settles it. */
static _Atomic uint32_t settling;
static pthread_mutex_t settle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;

void sh_comp_channel_setup(const struct shift_real *verbs)
{
	real = verbs;
}

static inline struct sh_comp_channel *channel_of(const struct ibv_comp_channel *channel)
{
	struct sh_comp_channel *ch = channel ? sh_fdmap_get(&facades, channel->fd) : NULL;

	return ch && &ch->facade == channel ? ch : NULL;
}

bool sh_comp_channel_is_facade(const struct ibv_comp_channel *channel)
{
	return channel_of(channel);
}

static struct ibv_comp_channel *channel_real(const struct sh_comp_channel *ch)
{
	return ch->sources[OWN_SOURCE].channel;
}

struct ibv_comp_channel *sh_comp_channel_real(struct ibv_comp_channel *channel)
{
	struct sh_comp_channel *ch = channel_of(channel);

	return ch ? channel_real(ch) : channel;
}

struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel)
{
	return sh_comp_channel_real(channel);
}

/* -- sources ---------------------------------------------------------------------------------- */

static int epoll_add(struct sh_comp_channel *ch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ch->facade.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static struct source *source_free(struct sh_comp_channel *ch)
{
	for (uint32_t i = 0; i < SH_COMP_CHANNEL_SOURCES_MAX; i++)
		if (!ch->sources[i].channel)
			return &ch->sources[i];
	return NULL;
}

static int source_add(struct sh_comp_channel *ch, struct ibv_comp_channel *channel)
{
	struct source *source = source_free(ch);
	uint32_t n = source - ch->sources + 1;
	int ret;

	if (!source)
		return -ENOSPC;
	ret = sh_fd_set_nonblock(channel->fd, 1);
	if (!ret)
		ret = epoll_add(ch, channel->fd);
	if (ret)
		return ret;
	source->channel = channel;
	source->context = channel->context;
	source->users = 1;
	atomic_store(&source->fd, channel->fd);
	if (n > atomic_load(&ch->n_sources))
		atomic_store(&ch->n_sources, n);
	return 0;
}

/* Nobody looks at it any more behind sh_readers_wait(). */
static void source_silence(struct sh_comp_channel *ch, struct source *source)
{
	int fd = atomic_exchange(&source->fd, -1);

	if (fd >= 0)
		epoll_ctl(ch->facade.fd, EPOLL_CTL_DEL, fd, NULL);
}

static uint32_t sources_live(struct sh_comp_channel *ch)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&ch->n_sources); i++)
		n += atomic_load(&ch->sources[i].fd) >= 0;
	return n;
}

static struct ibv_comp_channel *shadow_find(struct sh_comp_channel *ch, struct ibv_context *context)
{
	struct ibv_comp_channel *found = NULL;

	pthread_mutex_lock(&ch->lock);
	for (struct source *s = &ch->sources[OWN_SOURCE + 1];
	     !found && s < &ch->sources[SH_COMP_CHANNEL_SOURCES_MAX]; s++) {
		if (!s->channel || s->context != context)
			continue;
		s->users++;
		found = s->channel;
	}
	pthread_mutex_unlock(&ch->lock);
	return found;
}

static struct ibv_comp_channel *shadow_make(struct sh_comp_channel *ch, struct ibv_context *context)
{
	struct ibv_comp_channel *made = real->create_comp_channel(context);
	int ret;

	if (!made)
		return NULL;
	pthread_mutex_lock(&ch->lock);
	ret = source_add(ch, made);
	pthread_mutex_unlock(&ch->lock);
	if (!ret)
		return made;
	real->destroy_comp_channel(made);
	errno = -ret;
	return NULL;
}

struct ibv_comp_channel *sh_comp_channel_shadow_get(struct ibv_comp_channel *facade,
						    struct ibv_context *context)
{
	struct sh_comp_channel *ch = channel_of(facade);
	struct ibv_comp_channel *channel;

	if (!ch) {
		errno = EINVAL;
		return NULL;
	}
	channel = shadow_find(ch, context);
	return channel ? channel : shadow_make(ch, context);
}

static struct source *source_of(struct sh_comp_channel *ch, const struct ibv_comp_channel *channel)
{
	struct source *source = &ch->sources[OWN_SOURCE + 1];

	while (source->channel != channel)
		source++;
	return source;
}

void sh_comp_channel_shadow_put(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow)
{
	struct sh_comp_channel *ch = channel_of(facade);
	struct source *source;
	bool last;

	pthread_mutex_lock(&ch->lock);
	source = source_of(ch, shadow);
	last = !--source->users;
	if (last) {
		source_silence(ch, source);
		source->channel = NULL;
	}
	pthread_mutex_unlock(&ch->lock);
	if (!last)
		return;
	sh_readers_wait(&ch->readers);
	real->destroy_comp_channel(shadow);
}

/* -- making and unmaking ---------------------------------------------------------------------- */

static void channel_init(struct sh_comp_channel *ch, struct ibv_context *context)
{
	ch->facade.context = context;
	pthread_mutex_init(&ch->lock, NULL);
	sh_readers_init(&ch->readers);
	list_init(&ch->ready);
	for (uint32_t i = 0; i < SH_COMP_CHANNEL_SOURCES_MAX; i++)
		atomic_init(&ch->sources[i].fd, -1);
}

static void channel_uninit(struct sh_comp_channel *ch)
{
	sh_fdmap_uninit(&ch->cqs);
	sh_readers_uninit(&ch->readers);
	pthread_mutex_destroy(&ch->lock);
}

static int fds_open(struct sh_comp_channel *ch)
{
	int ret;

	ch->facade.fd = epoll_create1(EPOLL_CLOEXEC);
	if (ch->facade.fd < 0)
		return -errno;
	ch->replay_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ch->replay_fd < 0) {
		ret = -errno;
		goto close_facade;
	}
	ch->raise_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (ch->raise_fd < 0) {
		ret = -errno;
		goto close_replay;
	}
	ret = epoll_add(ch, ch->raise_fd);
	if (!ret)
		return 0;
	close(ch->raise_fd);
close_replay:
	close(ch->replay_fd);
close_facade:
	close(ch->facade.fd);
	return ret;
}

static void fds_close(struct sh_comp_channel *ch)
{
	close(ch->raise_fd);
	close(ch->replay_fd);
	close(ch->facade.fd);
}

static int channel_open(struct sh_comp_channel *ch)
{
	struct ibv_comp_channel *own = real->create_comp_channel(ch->facade.context);
	int ret;

	if (!own)
		return -errno;
	ret = fds_open(ch);
	if (ret)
		goto destroy_own;
	ret = source_add(ch, own);
	if (!ret)
		ret = sh_fdmap_set(&facades, ch->facade.fd, ch);
	if (!ret)
		return 0;
	fds_close(ch);
destroy_own:
	real->destroy_comp_channel(own);
	return ret;
}

struct ibv_comp_channel *sh_comp_channel_create(struct ibv_context *context)
{
	struct sh_comp_channel *ch = calloc(1, sizeof(*ch));
	int ret;

	if (!ch) {
		errno = ENOMEM;
		return NULL;
	}
	channel_init(ch, context);
	ret = channel_open(ch);
	if (!ret)
		return &ch->facade;
	channel_uninit(ch);
	free(ch);
	errno = -ret;
	return NULL;
}

static bool channel_busy(struct sh_comp_channel *ch)
{
	bool busy;

	pthread_mutex_lock(&ch->facade.context->mutex);
	busy = ch->facade.refcnt;
	pthread_mutex_unlock(&ch->facade.context->mutex);
	return busy;
}

int sh_comp_channel_destroy(struct ibv_comp_channel *facade)
{
	struct sh_comp_channel *ch = channel_of(facade);
	int ret;

	if (!ch)
		return EINVAL;
	if (channel_busy(ch))
		return EBUSY;
	/* No longer found before its fd number can be another's. */
	sh_fdmap_set(&facades, facade->fd, NULL);
	ret = real->destroy_comp_channel(channel_real(ch));
	if (ret) {
		sh_fdmap_set(&facades, facade->fd, ch);
		return ret;
	}
	fds_close(ch);
	channel_uninit(ch);
	free(ch);
	return 0;
}

/* -- CQs of a channel ------------------------------------------------------------------------- */

/* Of a CQ with this facade: NULL if SHIFT never saw it made. */
static struct sh_cq_events *events_find(struct sh_comp_channel *ch, const struct ibv_cq *cq)
{
	return sh_fdmap_get(&ch->cqs, (int)cq->handle);
}

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

	*events = (struct sh_cq_events){ .cq = cq, .channel = ch, .handle = (int)cq->handle };
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
	/* its handle may be another CQ's by now */
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
	atomic_store(&feed->ring, ring);
	if (!ring && feed->events->channel)
		sh_readers_wait(&feed->events->channel->readers);
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
		real->ack_cq_events(feed->real, delivered);
	return delivered;
}

/* What was handed out and not acknowledged yet is the application's debt all the same. */
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

/* The stack has the newest first; the line, the oldest. */
static void raised_collect(struct sh_comp_channel *ch)
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
static void ready_remove(struct sh_cq_events *events)
{
	list_del(&events->ready_link);
	events->ready = false;
	atomic_store_explicit(&events->queued, false, memory_order_release);
}

static bool raise_count_take(struct sh_comp_channel *ch)
{
	uint64_t one;

	if (sh_fd_take(ch->raise_fd, &one) != sizeof(one))
		return false;
	atomic_fetch_sub(&ch->in_line, 1);
	return true;
}

static void events_take_back(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	pthread_mutex_lock(&ch->lock);
	raised_collect(ch);
	if (events->ready) {
		ready_remove(events);
		if (!raise_count_take(ch))
			ch->owed++;
	}
	pthread_mutex_unlock(&ch->lock);
}

static bool events_settled(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	struct sh_cq_feed *feed;
	uint32_t delivered;

	pthread_mutex_lock(&ch->lock);
	delivered = events->soft + events->gone + atomic_load(&events->own.delivered);
	list_for_each (&events->shadows, feed, struct sh_cq_feed, link)
		delivered += atomic_load(&feed->delivered);
	pthread_mutex_unlock(&ch->lock);
	return atomic_load(&events->acked) == delivered;
}

/* Who acknowledges counts, and then looks whether anybody waits; here it is the other way round. */
static void settle_wait(struct sh_comp_channel *ch, struct sh_cq_events *events)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	atomic_fetch_add(&settling, 1);
	pthread_mutex_lock(&settle_lock);
	while (!events_settled(ch, events))
		pthread_cond_wait(&settled, &settle_lock);
	pthread_mutex_unlock(&settle_lock);
	atomic_fetch_sub(&settling, 1);
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

/* Who found it open has counted what it hands out when the readers were waited for. */
void sh_cq_events_quiesce(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	events_close(ch, events, true);
	sh_readers_wait(&ch->readers);
	events_take_back(ch, events);
	settle_wait(ch, events);
	atomic_fetch_sub(&events->acked, feed_settle(&events->own));
	events->cq->channel = channel_real(ch);
}

void sh_cq_events_resume(struct sh_cq_events *events)
{
	struct sh_comp_channel *ch = events->channel;

	if (!ch)
		return;
	events->cq->channel = &ch->facade;
	events_close(ch, events, false);
}

/* -- events ----------------------------------------------------------------------------------- */

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

static int raised_take_locked(struct sh_comp_channel *ch, struct sh_cq_events **out)
{
	for (;;) {
		if (!raise_count_take(ch))
			return -EAGAIN;
		if (!ch->owed)
			break;
		ch->owed--;
	}
	raised_collect(ch);
	*out = list_entry(ch->ready.next, struct sh_cq_events, ready_link);
	ready_remove(*out);
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
	return ret;
}

/*
 * The provider must hear of an event of a CQ that it arms itself; only libibverbs can tell it, as it
 * reads it. It is one, behind the other's back.
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
	    real->get_cq_event(&replay, &again, &context))
		abort(); /* an eventfd of our own, which was empty */
	pthread_mutex_unlock(&ch->lock);
	pthread_setcancelstate(state, NULL);
}

/* Of a CQ that is being destroyed: nobody shall hear of it. libibverbs waits for this one. */
static __attribute__((noinline, cold)) int event_drop(struct sh_cq_feed *feed)
{
	real->ack_cq_events(feed->real, 1);
	return -EINTR;
}

static __attribute__((noinline, cold)) int read_error(ssize_t got)
{
	if (got >= 0)
		return -EIO;
	return errno == EBADF ? -EAGAIN : -errno; /* silenced meanwhile */
}

/*
 * What the kernel gives is struct ib_uverbs_comp_event_desc: libibverbs' struct ibv_cq. 0: *cq is
 * for the application; -EINTR: an event that nobody shall hear of; -EAGAIN or the error of the read.
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
		event_replay(ch, *cq);
	else
		sh_cq_event_read(ring);
	*cq = feed->events->cq;
	return 0;
}

/* It is another source's turn: the next one that has a device. */
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
	/* events usually come from one NIC: a look at another's source first is a call for nothing */
	if (unlikely(me.number % IN_A_ROW_MAX == IN_A_ROW_MAX - 1))
		turn_pass(ch, source);
	return ret;
}

/*
 * A source that fails belongs to a device that is gone. While another NIC stands by, that is a
 * fault to be masked, and the source must not keep the fd readable; with none, it is the
 * application's to know, as on stock.
 */
static bool source_masked(struct sh_comp_channel *ch, uint32_t source)
{
	bool masked;

	pthread_mutex_lock(&ch->lock);
	masked = sources_live(ch) > 1;
	if (masked)
		source_silence(ch, &ch->sources[source]);
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
		return real->get_cq_event(channel, cq, cq_context);
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

static __attribute__((noinline, cold)) void settle_wake(void)
{
	pthread_mutex_lock(&settle_lock);
	pthread_cond_broadcast(&settled);
	pthread_mutex_unlock(&settle_lock);
}

/* The CQ may be destroyed as soon as all of its events are acknowledged. */
void shift_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	struct sh_comp_channel *ch = channel_of(cq->channel);
	struct sh_cq_events *events = ch ? events_find(ch, cq) : NULL;

	if (unlikely(!events)) {
		real->ack_cq_events(cq, nevents);
		return;
	}
	atomic_fetch_add(&events->acked, nevents);
	if (unlikely(atomic_load(&settling)))
		settle_wake();
}
