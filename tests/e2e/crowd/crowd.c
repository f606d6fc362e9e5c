// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * crowd: two processes, many connections, each with a CQ of its own, and all CQs on one completion
 * channel, on which a few threads wait. Each connection has one message under way, back and forth:
 * whoever misses an event stands still. Their waiters end by a signal; others, on a channel without
 * events, are cancelled while they wait (one that is cancelled just when read() returns loses an event
 * that nobody can acknowledge any more: glibc bug 12683).
 *
 *   crowd [-s] PORT
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNS = 40, WAITERS = 4, BATCH = 8, PATIENCE_S = 20, NUDGE_MS = 20 };

struct options opt = { .timeout = 18, .dev = "mlx5_0" };

/* A connection, and what its threads share: the messages under the lock, in order. */
struct member {
	struct conn conn;
	pthread_mutex_t lock;
	_Atomic uint64_t got;
};

static struct member members[CONNS];
static struct ibv_comp_channel *channel, *silent;
static pthread_t waiters[WAITERS], sitters[WAITERS];
static atomic_bool ending;   /* the client asks for nothing more */
static atomic_bool quitting; /* whose wait is interrupted comes home */

static void take(struct member *m, const struct ibv_wc *wc)
{
	if (wc->status)
		say("FAILED status %d of QP 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "a good completion");
	if (!(wc->opcode & IBV_WC_RECV))
		return;
	conn_arrived(&m->conn, wc);
	if (opt.server || !atomic_load(&ending))
		conn_post_send(&m->conn, m->conn.sent++);
	atomic_store(&m->got, m->conn.got);
}

static void poll_all(struct member *m)
{
	struct ibv_wc wc[BATCH];
	int n;

	pthread_mutex_lock(&m->lock);
	while ((n = ibv_poll_cq(m->conn.cq, BATCH, wc)) > 0)
		for (int i = 0; i < n; i++)
			take(m, &wc[i]);
	pthread_mutex_unlock(&m->lock);
	must(!n, "ibv_poll_cq");
}

static void *wait_for_events(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	(void)arg;
	while (!atomic_load(&quitting)) {
		struct member *m;

		if (ibv_get_cq_event(channel, &cq, &context)) {
			must(errno == EINTR, "ibv_get_cq_event");
			continue;
		}
		m = context;
		must(cq == m->conn.cq, "an event of a CQ of ours");
		ibv_ack_cq_events(cq, 1);
		must_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		poll_all(m);
	}
	return NULL;
}

static void *sit(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	(void)arg;
	ibv_get_cq_event(silent, &cq, &context);
	must(false, "no event of a channel without CQs");
	return NULL;
}

static void nudge(int sig)
{
	(void)sig;
}

/* A signal that comes just before the wait is lost: again, until it is home. */
static void call_home(pthread_t waiter)
{
	struct timespec by;

	do {
		must_zero(pthread_kill(waiter, SIGUSR1), "pthread_kill");
		clock_gettime(CLOCK_REALTIME, &by);
		by.tv_nsec += NUDGE_MS * 1000000L;
		by.tv_sec += by.tv_nsec / 1000000000L;
		by.tv_nsec %= 1000000000L;
	} while (pthread_timedjoin_np(waiter, NULL, &by));
}

/* ---- from beginning to end ------------------------------------------------------------------ */

static void set_up(struct nic *nic)
{
	struct sigaction interrupt = { .sa_handler = nudge }; /* no SA_RESTART */

	must_zero(sigaction(SIGUSR1, &interrupt, NULL), "sigaction");
	channel = ibv_create_comp_channel(nic->ctx);
	silent = ibv_create_comp_channel(nic->ctx);
	must(channel && silent, "ibv_create_comp_channel");
	for (int i = 0; i < CONNS; i++) {
		pthread_mutex_init(&members[i].lock, NULL);
		conn_make_on(&members[i].conn, nic, channel, &members[i]);
		must_zero(ibv_req_notify_cq(members[i].conn.cq, 0), "ibv_req_notify_cq");
		conn_connect(&members[i].conn);
	}
	for (int i = 0; i < WAITERS; i++) {
		must_zero(pthread_create(&waiters[i], NULL, wait_for_events, NULL), "a thread");
		must_zero(pthread_create(&sitters[i], NULL, sit, NULL), "a thread");
	}
}

static void tear_down(void)
{
	for (int i = 0; i < WAITERS; i++)
		must_zero(pthread_cancel(sitters[i]), "pthread_cancel");
	for (int i = 0; i < WAITERS; i++)
		must_zero(pthread_join(sitters[i], NULL), "pthread_join");
	atomic_store(&quitting, true);
	for (int i = 0; i < WAITERS; i++)
		call_home(waiters[i]);
	for (int i = 0; i < CONNS; i++)
		conn_free(&members[i].conn);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	must_zero(ibv_destroy_comp_channel(silent), "ibv_destroy_comp_channel");
}

static void begin(void)
{
	for (int i = 0; i < CONNS; i++) {
		pthread_mutex_lock(&members[i].lock);
		conn_post_send(&members[i].conn, members[i].conn.sent++);
		pthread_mutex_unlock(&members[i].lock);
	}
}

static void count(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < CONNS; i++) {
		uint64_t got = atomic_load(&members[i].got);

		least = got < least ? got : least;
	}
	say("LEAST %llu", (unsigned long long)least);
}

static bool answered(struct member *m)
{
	bool all;

	pthread_mutex_lock(&m->lock);
	all = m->conn.got == m->conn.sent;
	pthread_mutex_unlock(&m->lock);
	return all;
}

static void await_answers(void)
{
	double end = now_s() + PATIENCE_S;

	atomic_store(&ending, true);
	for (int i = 0; i < CONNS; i++)
		while (!answered(&members[i])) {
			must(now_s() < end, "all answers in time");
			usleep(1000); /* who has the lock all the time keeps it from the others */
		}
}

int main(int argc, char **argv)
{
	char word[16] = "";
	struct nic nic;

	opt.server = argc > 1 && !strcmp(argv[1], "-s");
	opt.port = atoi(argv[argc - 1]);
	setvbuf(stdin, NULL, _IONBF, 0);
	line_open();
	nic_open(&nic, opt.dev);
	set_up(&nic);
	say("CONNECTED %d", CONNS);
	hear("go");
	if (!opt.server)
		begin();
	while (strcmp(word, "end\n")) {
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (!strcmp(word, "count\n"))
			count();
	}
	if (!opt.server)
		await_answers();
	meet();
	tear_down();
	nic_close(&nic);
	say("OK");
	return 0;
}
