/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/pipe_context.h"

struct pipe_channel {
	struct ibv_comp_channel ibv;
	int device_fd;
};

static void check(bool good)
{
	if (!good)
		abort();
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct pipe_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	check(ch && !pipe2(fds, O_CLOEXEC));
	ch->ibv.context = context;
	ch->ibv.fd = fds[0];
	ch->device_fd = fds[1];
	return &ch->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct pipe_channel *ch = (struct pipe_channel *)channel;

	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	if (ch->device_fd >= 0)
		close(ch->device_fd);
	free(ch);
	return 0;
}

static atomic_uint events_read;

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	atomic_fetch_add(&events_read, 1);
	if (read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	*cq_context = (*cq)->cq_context;
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_mutex_unlock(&cq->mutex);
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	((struct pipe_context *)context)->async_fd_seen = context->async_fd;
	return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = event->element.qp->context;

	__atomic_add_fetch(&((struct pipe_context *)context)->asyncs_acked, 1, __ATOMIC_RELAXED);
}

const struct shift_real pipe_verbs = {
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
};

void pipe_context_init(struct pipe_context *context)
{
	int fds[2];

	memset(context, 0, sizeof(*context));
	check(!pipe2(fds, O_CLOEXEC));
	pthread_mutex_init(&context->ibv.mutex, NULL);
	context->ibv.async_fd = fds[0];
	context->device_fd = fds[1];
	context->ibv.cmd_fd = dup(fds[0]); /* any number that is this context's only */
}

void pipe_context_uninit(struct pipe_context *context)
{
	close(context->ibv.async_fd);
	close(context->ibv.cmd_fd);
	close(context->device_fd);
	pthread_mutex_destroy(&context->ibv.mutex);
}

void pipe_complete(struct ibv_comp_channel *real, struct ibv_cq *cq)
{
	struct pipe_channel *ch = (struct pipe_channel *)real;

	check(write(ch->device_fd, &cq, sizeof(cq)) == sizeof(cq));
}

void pipe_device_gone(struct ibv_comp_channel *real)
{
	struct pipe_channel *ch = (struct pipe_channel *)real;

	close(ch->device_fd);
	ch->device_fd = -1;
}

void pipe_async(struct pipe_context *context, const struct ibv_async_event *event)
{
	check(write(context->device_fd, event, sizeof(*event)) == sizeof(*event));
}

void pipe_cq_init(struct ibv_cq *cq, struct ibv_context *context, struct ibv_comp_channel *real,
		  void *cq_context)
{
	static atomic_uint handles;

	memset(cq, 0, sizeof(*cq));
	cq->handle = atomic_fetch_add(&handles, 1);
	cq->context = context;
	cq->channel = real;
	cq->cq_context = cq_context;
	pthread_mutex_init(&cq->mutex, NULL);
	real->refcnt++;
}

void pipe_cq_uninit(struct ibv_cq *cq)
{
	cq->channel->refcnt--;
	pthread_mutex_destroy(&cq->mutex);
}

unsigned int pipe_cq_acked(struct ibv_cq *cq)
{
	unsigned int n;

	pthread_mutex_lock(&cq->mutex);
	n = cq->comp_events_completed;
	pthread_mutex_unlock(&cq->mutex);
	return n;
}

void pipe_cq_wait(struct ibv_cq *cq, unsigned int n)
{
	while (pipe_cq_acked(cq) != n)
		sched_yield();
}

unsigned int pipe_events_read(void)
{
	return atomic_load(&events_read);
}

bool fd_readable(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, 0) == 1 && wait.revents & POLLIN;
}

void fd_nonblock(int fd)
{
	check(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static atomic_uint signals;

static void signal_counted(int sig)
{
	atomic_fetch_add(&signals, 1);
}

void signal_count_install(int flags)
{
	struct sigaction action = { .sa_handler = signal_counted, .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	check(!sigaction(SIGUSR1, &action, NULL));
}

unsigned int signal_count(void)
{
	return atomic_load(&signals);
}
