/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shiftlib/facade/async.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/news.h"
#include "tests/unit/libibverbs/facades.h"

/* A context and the thread that reads its asynchronous events. */
struct context {
	struct context *next;
	struct ibv_context *ibv;
	struct sh_async *async;
	pthread_t thread;
	int stop_fd;
};

struct cq {
	struct cq *next;
	struct sh_cq_events events;
};

static const struct shift_real *real;
static bool on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts;
static struct cq *cqs;

/* No CQ has an engine here. */
bool sh_news_cq_event_read(struct sp_cq_ring *ring)
{
	abort();
}

bool sh_news_death_masked(const struct ibv_comp_channel *facade)
{
	(void)facade;
	return false;
}

void facades_init(const struct shift_real *verbs)
{
	real = verbs;
	on = getenv("SHIFT_TEST_FACADE");
	sh_comp_channel_setup(verbs);
	sh_async_setup(verbs);
}

static void *async_thread(void *arg)
{
	struct context *c = arg;
	struct pollfd fds[2] = {
		{ .fd = sh_async_real_fd(c->async), .events = POLLIN },
		{ .fd = c->stop_fd, .events = POLLIN },
	};
	struct ibv_async_event event;

	real->thread_inside();
	while (poll(fds, 2, -1) > 0 && !fds[1].revents)
		if (!sh_async_read_real(c->async, &event))
			sh_async_push(c->async, &event, true);
	return NULL;
}

void facades_context_opened(struct ibv_context *context)
{
	struct context *c = on ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return;
	c->ibv = context;
	c->async = sh_async_init(context);
	c->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (!c->async || c->stop_fd < 0 || pthread_create(&c->thread, NULL, async_thread, c))
		abort();
	pthread_mutex_lock(&lock);
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&lock);
}

static struct context *context_take(struct ibv_context *context)
{
	struct context **slot = &contexts, *c;

	pthread_mutex_lock(&lock);
	while (*slot && (*slot)->ibv != context)
		slot = &(*slot)->next;
	c = *slot;
	if (c)
		*slot = c->next;
	pthread_mutex_unlock(&lock);
	return c;
}

void facades_context_closing(struct ibv_context *context)
{
	struct context *c = context_take(context);
	uint64_t one = 1;

	if (!c)
		return;
	if (write(c->stop_fd, &one, sizeof(one)) != sizeof(one))
		abort();
	pthread_join(c->thread, NULL);
	sh_async_uninit(c->async);
	close(c->stop_fd);
	free(c);
}

struct ibv_comp_channel *facades_create_comp_channel(struct ibv_context *context)
{
	return on ? sh_comp_channel_create(context) : real->create_comp_channel(context);
}

int facades_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return sh_comp_channel_is_facade(channel) ? sh_comp_channel_destroy(channel)
						  : real->destroy_comp_channel(channel);
}

void facades_cq_created(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	struct cq *c = sh_comp_channel_is_facade(channel) ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return;
	if (sh_cq_events_init(&c->events, cq, channel))
		abort();
	pthread_mutex_lock(&lock);
	c->next = cqs;
	cqs = c;
	pthread_mutex_unlock(&lock);
}

static struct cq *cq_take(struct ibv_cq *cq)
{
	struct cq **slot = &cqs, *c;

	pthread_mutex_lock(&lock);
	while (*slot && (*slot)->events.cq != cq)
		slot = &(*slot)->next;
	c = *slot;
	if (c)
		*slot = c->next;
	pthread_mutex_unlock(&lock);
	return c;
}

int facades_destroy_cq(struct ibv_cq *cq)
{
	struct sh_async *async = sh_async_of(cq->context);
	struct cq *c = cq_take(cq);
	int ret;

	if (c)
		sh_cq_events_quiesce(&c->events);
	sh_async_forget_begin(async, cq);
	ret = real->destroy_cq(cq);
	sh_async_forget_end(async, cq, false);
	if (c && ret)
		abort(); /* no test destroys a CQ that is in use */
	if (c)
		sh_cq_events_uninit(&c->events);
	free(c);
	return ret;
}

int facades_destroy_qp(struct ibv_qp *qp)
{
	struct sh_async *async = sh_async_of(qp->context);
	int ret;

	sh_async_forget_begin(async, qp);
	ret = real->destroy_qp(qp);
	sh_async_forget_end(async, qp, false);
	return ret;
}
