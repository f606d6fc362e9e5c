/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two threads play ping-pong over two queue pairs that are connected to each other, and wait for
 * their completion channels in a way of their own: who waits for an edge must be given one for each
 * event, or sleeps for ever.
 *
 *   edges WAY MESSAGES
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum { ENDS = 2, PATIENCE_MS = 20000 };

enum way { POLL, SELECT, LEVEL, EDGE, ONESHOT, SIGNAL, UNREAD, WAYS };
static const char *const ways[WAYS] = { "poll",	   "select", "level", "edge",
					"oneshot", "signal", "unread" };

struct options opt = { .timeout = 18, .dev = "mlx5_0" };
static enum way way;
static uint64_t messages;
static struct nic nic;
static struct conn ends[ENDS];
static int epolls[ENDS];

static void watch_begin(int i)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = ends[i].channel->fd;

	must_zero(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "O_NONBLOCK");
	if (way == EDGE || way == UNREAD)
		event.events |= EPOLLET;
	if (way == ONESHOT)
		event.events |= EPOLLONESHOT;
	epolls[i] = epoll_create1(0);
	must(epolls[i] >= 0 && !epoll_ctl(epolls[i], EPOLL_CTL_ADD, fd, &event), "epoll");
	if (way == SIGNAL) {
		struct f_owner_ex owner = { F_OWNER_TID, gettid() };

		must(fcntl(fd, F_SETOWN_EX, &owner) != -1 && fcntl(fd, F_SETSIG, SIGIO) != -1 &&
			     fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) != -1,
		     "signals of a descriptor");
	}
}

static bool epoll_wait_once(int i)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	int got = epoll_wait(epolls[i], &(struct epoll_event){ 0 }, 1, PATIENCE_MS);

	if (way == ONESHOT)
		must_zero(epoll_ctl(epolls[i], EPOLL_CTL_MOD, ends[i].channel->fd, &event),
			  "EPOLL_CTL_MOD");
	return got == 1;
}

static bool select_once(int fd)
{
	struct timeval limit = { .tv_sec = PATIENCE_MS / 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &limit) == 1;
}

static bool signal_once(void)
{
	struct timespec limit = { .tv_sec = PATIENCE_MS / 1000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	return sigtimedwait(&set, NULL, &limit) == SIGIO;
}

static bool told(int i)
{
	int fd = ends[i].channel->fd;

	if (way == POLL)
		return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, PATIENCE_MS) == 1;
	if (way == SELECT)
		return select_once(fd);
	return way == SIGNAL ? signal_once() : epoll_wait_once(i);
}

/* One event, as a library reads it that arms one completion queue on the channel. */
static void event_await(int i)
{
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		if (!told(i)) {
			say("ASLEEP end %d, %llu of %llu", i, (unsigned long long)ends[i].got,
			    (unsigned long long)messages);
			must(false, "a wake-up for each event");
		}
		if (!ibv_get_cq_event(ends[i].channel, &cq, &context))
			break;
		must(errno == EAGAIN, "ibv_get_cq_event");
	}
	ibv_ack_cq_events(cq, 1);
}

/* How many receives completed. */
static int reap(struct conn *c)
{
	struct ibv_wc wc[8];
	int got = 0, n;

	while ((n = ibv_poll_cq(c->cq, 8, wc)) > 0)
		for (int i = 0; i < n; i++) {
			must(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			conn_post_recv(c, wc[i].wr_id);
			got++;
		}
	return got;
}

static void *play(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct conn *c = &ends[i];

	watch_begin(i);
	if (i == 0)
		conn_post_send(c, c->sent++);
	while (c->got < messages) {
		int got = reap(c);

		if (!got) {
			must_zero(ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq");
			got = reap(c);
		}
		if (!got) {
			event_await(i);
			continue;
		}
		c->got += (uint64_t)got;
		for (; got; got--)
			conn_post_send(c, c->sent++);
	}
	return NULL;
}

static void read_event(void)
{
	struct ibv_cq *cq;
	void *context;

	must_zero(ibv_get_cq_event(ends[0].channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

/* An edge for each event, also while older ones are unread: two completion queues, one channel. */
static void play_unread(void)
{
	watch_begin(0);
	for (uint64_t i = 0; i < messages; i++) {
		must_zero(ibv_req_notify_cq(ends[1].cq, 0), "ibv_req_notify_cq");
		conn_post_send(&ends[0], i);
		must(epoll_wait_once(0), "an edge for the first event");
		must_zero(ibv_req_notify_cq(ends[0].cq, 0), "ibv_req_notify_cq");
		conn_post_send(&ends[1], i);
		must(epoll_wait_once(0), "an edge for the second event, the first one is unread");
		read_event();
		read_event();
		for (int end = 0; end < ENDS; end++)
			for (int n = 0; n < 2;)
				n += reap(&ends[end]) ? 2 : 0;
		for (int end = 0; end < ENDS; end++)
			(void)reap(&ends[end]);
	}
	say("OK");
}

int main(int argc, char **argv)
{
	struct ibv_comp_channel *channel = NULL;
	pthread_t threads[ENDS];
	sigset_t set;
	int i;

	must(argc == 3, "usage: edges WAY MESSAGES");
	while (way < WAYS && strcmp(argv[1], ways[way]))
		way++;
	must(way < WAYS, "a way to wait");
	messages = strtoull(argv[2], NULL, 10);
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	nic_open(&nic, opt.dev);
	for (i = 0; i < ENDS; i++) {
		if (way != UNREAD || !channel)
			channel = ibv_create_comp_channel(nic.ctx);
		must(channel, "ibv_create_comp_channel");
		conn_make_on(&ends[i], &nic, channel, NULL);
		ends[i].channel = channel;
		conn_set_own(&ends[i]);
	}
	for (i = 0; i < ENDS; i++) {
		ends[i].peer = ends[1 - i].own;
		conn_to_init(&ends[i]);
		conn_lay(&ends[i]);
	}
	for (i = 0; i < ENDS; i++)
		conn_to_rts_alone(&ends[i]);
	if (way == UNREAD) {
		play_unread();
		return 0;
	}
	for (i = 0; i < ENDS; i++)
		must_zero(pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i), "thread");
	for (i = 0; i < ENDS; i++)
		pthread_join(threads[i], NULL);
	say("OK %llu %llu", (unsigned long long)ends[0].got, (unsigned long long)ends[1].got);
	return 0;
}
