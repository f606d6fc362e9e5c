/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shiftlib/channel.h"
#include "shiftlib/fd.h"

#define BUCKETS	     64
#define IN_A_ROW_MAX 16

struct sh_channel {
	struct ibv_comp_channel facade; /* fd: the epoll fd; refcnt: guarded by context->mutex */
	struct ibv_comp_channel *real;
	int raise_fd; /* one count for each software event in line */
	pthread_mutex_t lock;
	pthread_cond_t settled; /* a CQ that is being quiesced was acknowledged */
	struct ibv_comp_channel *sources[SH_CHANNEL_SOURCES_MAX];
	uint32_t n_sources, next_source;
	uint32_t in_a_row; /* events of the next source; then it is another's turn */
	struct list_node buckets[BUCKETS]; /* struct sh_cq_events, by CQ */
	struct list_node ready;		   /* software events, oldest first */
	/* Software events taken back whose count the raiser had not yet written. */
	uint32_t owed;
	struct sh_cq_events *_Atomic raised; /* stack; pushed by anyone, emptied under lock */
};

/* What a reader took out of the channel, before the application hears of it. */
struct taken {
	struct sh_cq_events *events; /* NULL: a CQ that SHIFT does not know */
	struct ibv_cq *real;	     /* to be acknowledged to libibverbs; NULL: software */
	struct ibv_cq *cq;	     /* for the application */
	void *context;
};

static const struct shift_real *real;
static struct sh_fdmap facades; /* by the facade's fd */

void sh_channel_setup(const struct shift_real *verbs)
{
	real = verbs;
}

static struct sh_channel *channel_of(const struct ibv_comp_channel *channel)
{
	struct sh_channel *ch = channel ? sh_fdmap_get(&facades, channel->fd) : NULL;

	return ch && &ch->facade == channel ? ch : NULL;
}

bool sh_channel_is_facade(const struct ibv_comp_channel *channel)
{
	return channel_of(channel);
}

struct ibv_comp_channel *sh_channel_real(struct ibv_comp_channel *channel)
{
	struct sh_channel *ch = channel_of(channel);

	return ch ? ch->real : channel;
}

struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel)
{
	return sh_channel_real(channel);
}

/*
 * Held across reads of the sources, which are cancellation points: an application may cancel a
 * thread that waits for events and destroy the channel then.
 */
static int channel_lock(struct sh_channel *ch)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&ch->lock);
	return state;
}

static void channel_unlock(struct sh_channel *ch, int state)
{
	pthread_mutex_unlock(&ch->lock);
	pthread_setcancelstate(state, NULL);
}

static int epoll_add(struct sh_channel *ch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ch->facade.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int source_add(struct sh_channel *ch, struct ibv_comp_channel *channel)
{
	int ret;

	if (ch->n_sources == SH_CHANNEL_SOURCES_MAX)
		return -ENOSPC;
	ret = sh_fd_set_nonblock(channel->fd, 1);
	if (!ret)
		ret = epoll_add(ch, channel->fd);
	if (!ret)
		ch->sources[ch->n_sources++] = channel;
	return ret;
}

static void source_del(struct sh_channel *ch, struct ibv_comp_channel *channel)
{
	for (uint32_t i = 0; i < ch->n_sources; i++) {
		if (ch->sources[i] != channel)
			continue;
		epoll_ctl(ch->facade.fd, EPOLL_CTL_DEL, channel->fd, NULL);
		ch->sources[i] = ch->sources[--ch->n_sources];
		return;
	}
}

/* -- making and unmaking ---------------------------------------------------------------------- */

static void channel_init(struct sh_channel *ch, struct ibv_context *context)
{
	ch->facade.context = context;
	pthread_mutex_init(&ch->lock, NULL);
	pthread_cond_init(&ch->settled, NULL);
	list_init(&ch->ready);
	for (uint32_t i = 0; i < BUCKETS; i++)
		list_init(&ch->buckets[i]);
}

static void channel_uninit(struct sh_channel *ch)
{
	pthread_cond_destroy(&ch->settled);
	pthread_mutex_destroy(&ch->lock);
}

static int fds_open(struct sh_channel *ch)
{
	int ret;

	ch->facade.fd = epoll_create1(EPOLL_CLOEXEC);
	if (ch->facade.fd < 0)
		return -errno;
	ch->raise_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (ch->raise_fd < 0) {
		ret = -errno;
		goto close_facade;
	}
	ret = epoll_add(ch, ch->raise_fd);
	if (!ret)
		return 0;
	close(ch->raise_fd);
close_facade:
	close(ch->facade.fd);
	return ret;
}

static void fds_close(struct sh_channel *ch)
{
	close(ch->raise_fd);
	close(ch->facade.fd);
}

static int channel_open(struct sh_channel *ch)
{
	int ret;

	ch->real = real->create_comp_channel(ch->facade.context);
	if (!ch->real)
		return -errno;
	ret = fds_open(ch);
	if (ret)
		goto destroy_real;
	ret = source_add(ch, ch->real);
	if (!ret)
		ret = sh_fdmap_set(&facades, ch->facade.fd, ch);
	if (!ret)
		return 0;
	fds_close(ch);
destroy_real:
	real->destroy_comp_channel(ch->real);
	return ret;
}

struct ibv_comp_channel *sh_channel_create(struct ibv_context *context)
{
	struct sh_channel *ch = calloc(1, sizeof(*ch));
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

static bool channel_busy(struct sh_channel *ch)
{
	bool busy;

	pthread_mutex_lock(&ch->facade.context->mutex);
	busy = ch->facade.refcnt;
	pthread_mutex_unlock(&ch->facade.context->mutex);
	return busy;
}

int sh_channel_destroy(struct ibv_comp_channel *facade)
{
	struct sh_channel *ch = channel_of(facade);
	int ret;

	if (!ch)
		return EINVAL;
	if (channel_busy(ch))
		return EBUSY;
	/* No longer found before its fd number can be another's. */
	sh_fdmap_set(&facades, facade->fd, NULL);
	ret = real->destroy_comp_channel(ch->real);
	if (ret) {
		sh_fdmap_set(&facades, facade->fd, ch);
		return ret;
	}
	fds_close(ch);
	channel_uninit(ch);
	free(ch);
	return 0;
}

int sh_channel_add_shadow(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow)
{
	struct sh_channel *ch = channel_of(facade);
	int ret, state;

	if (!ch)
		return -EINVAL;
	state = channel_lock(ch);
	ret = source_add(ch, shadow);
	channel_unlock(ch, state);
	return ret;
}

void sh_channel_del_shadow(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow)
{
	struct sh_channel *ch = channel_of(facade);
	int state;

	if (!ch)
		return;
	state = channel_lock(ch);
	source_del(ch, shadow);
	channel_unlock(ch, state);
}

/* -- CQs of a channel ------------------------------------------------------------------------- */

static struct list_node *bucket_of(struct sh_channel *ch, const struct ibv_cq *cq)
{
	uintptr_t key = (uintptr_t)cq;

	return &ch->buckets[(key >> 6 ^ key >> 12) % BUCKETS];
}

static struct sh_cq_events *events_find(struct sh_channel *ch, const struct ibv_cq *cq)
{
	struct sh_cq_events *events;

	list_for_each (bucket_of(ch, cq), events, struct sh_cq_events, link)
		if (events->cq == cq)
			return events;
	return NULL;
}

static void refcnt_add(struct sh_channel *ch, int n)
{
	pthread_mutex_lock(&ch->facade.context->mutex);
	ch->facade.refcnt += n;
	pthread_mutex_unlock(&ch->facade.context->mutex);
}

void sh_cq_events_init(struct sh_cq_events *events, struct ibv_cq *cq,
		       struct ibv_comp_channel *channel)
{
	struct sh_channel *ch = channel_of(channel);
	int state;

	*events = (struct sh_cq_events){ .cq = cq, .channel = ch };
	list_init(&events->link);
	list_init(&events->ready_link);
	if (!ch)
		return;
	refcnt_add(ch, 1);
	state = channel_lock(ch);
	cq->channel = &ch->facade;
	list_add_tail(bucket_of(ch, cq), &events->link);
	channel_unlock(ch, state);
}

void sh_cq_events_uninit(struct sh_cq_events *events)
{
	struct sh_channel *ch = events->channel;
	int state;

	if (!ch)
		return;
	state = channel_lock(ch);
	list_del(&events->link);
	channel_unlock(ch, state);
	refcnt_add(ch, -1);
}

/* The stack has the newest first; the line, the oldest. */
static void raised_collect(struct sh_channel *ch)
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

static bool raise_count_take(struct sh_channel *ch)
{
	uint64_t one;

	return read(ch->raise_fd, &one, sizeof(one)) == sizeof(one);
}

static void events_take_back(struct sh_channel *ch, struct sh_cq_events *events)
{
	raised_collect(ch);
	if (!events->ready)
		return;
	ready_remove(events);
	if (!raise_count_take(ch))
		ch->owed++;
}

static bool events_settled(const struct sh_cq_events *events)
{
	return events->acked == events->real_delivered + events->other_delivered;
}

void sh_cq_events_quiesce(struct sh_cq_events *events)
{
	struct sh_channel *ch = events->channel;
	int state;

	if (!ch)
		return;
	state = channel_lock(ch);
	events->quiesced = true;
	events_take_back(ch, events);
	while (!events_settled(events))
		pthread_cond_wait(&ch->settled, &ch->lock);
	events->cq->channel = ch->real;
	channel_unlock(ch, state);
}

void sh_cq_events_resume(struct sh_cq_events *events)
{
	struct sh_channel *ch = events->channel;
	int state;

	if (!ch)
		return;
	state = channel_lock(ch);
	events->quiesced = false;
	events->cq->channel = &ch->facade;
	channel_unlock(ch, state);
}

/* -- events ----------------------------------------------------------------------------------- */

/*
 * The count is written behind the push: who reads a count finds an event in line. `queued` is set
 * before, so no second raiser touches the links.
 */
void sh_channel_raise(struct sh_cq_events *events)
{
	struct sh_channel *ch = events->channel;
	struct sh_cq_events *head;
	const uint64_t one = 1;
	int saved = errno;

	if (!ch || atomic_exchange_explicit(&events->queued, true, memory_order_acq_rel))
		return;
	head = atomic_load_explicit(&ch->raised, memory_order_relaxed);
	do {
		atomic_store_explicit(&events->push_next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&ch->raised, &head, events, memory_order_release, memory_order_relaxed));
	/* Fails only at 2^64 - 2 counts. */
	if (write(ch->raise_fd, &one, sizeof(one)) < 0)
		abort();
	errno = saved;
}

/* Fills *out from what was read of a source; false: nobody shall hear of it. */
static bool taken_from_source(struct sh_channel *ch, struct ibv_cq *cq, void *context, bool shadow,
			      struct taken *out)
{
	struct sh_cq_events *events = shadow ? context : events_find(ch, cq);

	*out = (struct taken){ .events = events, .real = cq, .cq = cq, .context = context };
	if (!events)
		return true;
	if (events->quiesced) {
		real->ack_cq_events(cq, 1);
		return false;
	}
	if (shadow)
		events->other_delivered++;
	else
		events->real_delivered++;
	out->cq = events->cq;
	out->context = events->cq->cq_context;
	return true;
}

/* 0, -EAGAIN, or the error of the read. */
static int source_take(struct sh_channel *ch, struct ibv_comp_channel *source, struct taken *out)
{
	struct ibv_cq *cq;
	void *context;

	do {
		errno = 0;
		if (real->get_cq_event(source, &cq, &context))
			return errno ? -errno : -EIO; /* a short read sets none */
	} while (!taken_from_source(ch, cq, context, source != ch->real, out));
	return 0;
}

/*
 * A source that fails belongs to a device that is gone. While another NIC stands by, that is a
 * fault to be masked, and the source must not keep the fd readable; with none, it is the
 * application's to know, as on stock.
 */
static void source_next(struct sh_channel *ch)
{
	ch->next_source = (ch->next_source + 1) % ch->n_sources;
	ch->in_a_row = 0;
}

/* Events usually come from one NIC: a look at another's source first would be a call for nothing. */
static int sources_take(struct sh_channel *ch, struct taken *out)
{
	uint32_t empty = 0;

	while (empty < ch->n_sources) {
		struct ibv_comp_channel *source = ch->sources[ch->next_source % ch->n_sources];
		int ret = source_take(ch, source, out);

		if (!ret && ++ch->in_a_row == IN_A_ROW_MAX)
			source_next(ch);
		if (!ret || (ret != -EAGAIN && ch->n_sources == 1))
			return ret;
		if (ret == -EAGAIN) {
			empty++;
			source_next(ch);
		} else {
			source_del(ch, source);
		}
	}
	return -EAGAIN;
}

static int raised_take(struct sh_channel *ch, struct taken *out)
{
	struct sh_cq_events *events;

	if (list_empty(&ch->ready) && !ch->owed &&
	    !atomic_load_explicit(&ch->raised, memory_order_relaxed))
		return -EAGAIN;
	for (;;) {
		if (!raise_count_take(ch))
			return -EAGAIN;
		if (!ch->owed)
			break;
		ch->owed--;
	}
	raised_collect(ch);
	events = list_entry(ch->ready.next, struct sh_cq_events, ready_link);
	ready_remove(events);
	events->other_delivered++;
	*out = (struct taken){ events, NULL, events->cq, events->cq->cq_context };
	return 0;
}

/* With no lock held: the engine's locks are taken in here. */
static void taken_finish(const struct taken *taken)
{
	if (!taken->events || !taken->real)
		return;
	sh_cq_event_read(taken->events, taken->real);
	real->ack_cq_events(taken->real, 1);
}

static int channel_take(struct sh_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	struct taken taken;
	int ret, state;

	state = channel_lock(ch);
	ret = raised_take(ch, &taken);
	if (ret == -EAGAIN)
		ret = sources_take(ch, &taken);
	pthread_mutex_unlock(&ch->lock);
	if (!ret) {
		taken_finish(&taken);
		*cq = taken.cq;
		*cq_context = taken.context;
	}
	pthread_setcancelstate(state, NULL);
	return ret;
}

int shift_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct sh_channel *ch = channel_of(channel);
	int ret;

	if (!ch)
		return real->get_cq_event(channel, cq, cq_context);
	do {
		ret = channel_take(ch, cq, cq_context);
		if (!ret)
			return 0;
		if (ret == -EAGAIN)
			ret = sh_fd_wait(channel->fd);
	} while (!ret);
	errno = -ret;
	return -1;
}

void shift_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	struct sh_channel *ch = channel_of(cq->channel);
	struct sh_cq_events *events = NULL;

	if (ch) {
		/* no cancellation point in here, unlike where sources are read */
		pthread_mutex_lock(&ch->lock);
		events = events_find(ch, cq);
		if (events) {
			events->acked += nevents;
			if (events->quiesced)
				pthread_cond_broadcast(&ch->settled);
		}
		pthread_mutex_unlock(&ch->lock);
	}
	if (!events)
		real->ack_cq_events(cq, nevents);
}
