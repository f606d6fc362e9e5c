// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * crowd: two processes, many connections, each with a CQ of its own, and all CQs on one completion
 * channel, on which a few threads wait. Each connection has one message under way, back and forth:
 * whoever misses an event stands still. Threads are cancelled while they wait.
 *
 *   crowd [-s] PORT
 */
#include "../abuse/abuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNS = 40, WAITERS = 4, BATCH = 8, PATIENCE_S = 20 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

/* A connection, and what its threads share: the messages under the lock, in order. */
struct member {
	struct conn conn;
	pthread_mutex_t lock;
	_Atomic uint64_t got;
};

static struct member members[CONNS];
static struct ibv_comp_channel *channel;
static pthread_t waiters[WAITERS];
static atomic_bool ending; /* the client asks for nothing more */

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
	for (;;) {
		struct member *m;

		must_zero(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		m = context;
		must(cq == m->conn.cq, "an event of a CQ of ours");
		ibv_ack_cq_events(cq, 1);
		must_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		poll_all(m);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	return NULL;
}

/* ---- from beginning to end ------------------------------------------------------------------ */

static void set_up(struct nic *nic)
{
	channel = ibv_create_comp_channel(nic->ctx);
	must(channel, "ibv_create_comp_channel");
	for (int i = 0; i < CONNS; i++) {
		pthread_mutex_init(&members[i].lock, NULL);
		conn_make_on(&members[i].conn, nic, channel, &members[i]);
		must_zero(ibv_req_notify_cq(members[i].conn.cq, 0), "ibv_req_notify_cq");
		conn_connect(&members[i].conn);
	}
	for (int i = 0; i < WAITERS; i++)
		must_zero(pthread_create(&waiters[i], NULL, wait_for_events, NULL), "a thread");
}

static void tear_down(void)
{
	for (int i = 0; i < WAITERS; i++)
		must_zero(pthread_cancel(waiters[i]), "pthread_cancel");
	for (int i = 0; i < WAITERS; i++)
		must_zero(pthread_join(waiters[i], NULL), "pthread_join");
	for (int i = 0; i < CONNS; i++)
		conn_free(&members[i].conn);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
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
		while (!answered(&members[i]))
			must(now_s() < end, "all answers in time");
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
