// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The calls that are measured: each is made ready, measured once, and cleared away again. */
#include "verbs.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

enum { WARM = 4, TRIES = 1000, SAMPLES_MAX = 4096, WAIT_MAX_US = 8000 };

struct bench {
	struct link *plain, *ex;
	void (*ask_peer)(int link, int n);
	unsigned int wait_us; /* how long a completion may take to lie in the CQ */
	struct ibv_sge sge[SGES];
	struct ibv_send_wr send[BATCH];
	struct ibv_recv_wr recv[BATCH];
	struct ibv_wc wc[BATCH];
};

struct verb {
	const char *name;
	void (*ready)(struct bench *b); /* may be NULL */
	int (*call)(struct bench *b);	/* the call that is measured */
	/* the right return value; with any other the sample does not count */
	int want;
	void (*clear)(struct bench *b); /* may be NULL */
};

/* -- requests --------------------------------------------------------------------------------- */

static void fill(struct bench *b, int n, int sges, enum ibv_wr_opcode opcode, unsigned int flags)
{
	struct link *l = b->plain;
	uint32_t each = SMALL;

	if (flags & IBV_SEND_INLINE)
		each = INLINE_BYTES;
	for (int i = 0; i < SGES; i++)
		b->sge[i] = (struct ibv_sge){ (uintptr_t)l->mem + 128u * (unsigned int)i, each,
					      l->mr->lkey };
	for (int i = 0; i < n; i++)
		b->send[i] = (struct ibv_send_wr){
			.wr_id = 7,
			.next = i + 1 < n ? &b->send[i + 1] : NULL,
			.sg_list = b->sge,
			.num_sge = sges,
			.opcode = opcode,
			.send_flags = flags,
			.wr.rdma = { l->peer.addr, l->peer.rkey },
		};
}

static void ready_write(struct bench *b)
{
	fill(b, 1, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
}

static void ready_chain(struct bench *b)
{
	fill(b, BATCH, 1, IBV_WR_RDMA_WRITE, 0);
}

static void ready_inline(struct bench *b)
{
	fill(b, 1, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

static void ready_sges(struct bench *b)
{
	fill(b, 1, SGES, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
}

static void ready_send(struct bench *b)
{
	fill(b, 1, 1, IBV_WR_SEND, IBV_SEND_SIGNALED);
}

static void fill_recv(struct bench *b, int n)
{
	fill(b, 1, 1, IBV_WR_SEND, 0);
	b->sge[0].length = MESSAGE;
	for (int i = 0; i < n; i++)
		b->recv[i] = (struct ibv_recv_wr){
			.wr_id = 9,
			.next = i + 1 < n ? &b->recv[i + 1] : NULL,
			.sg_list = b->sge,
			.num_sge = 1,
		};
}

static void ready_recv(struct bench *b)
{
	fill_recv(b, 1);
}

static void ready_recvs(struct bench *b)
{
	fill_recv(b, BATCH);
}

static int call_post_send(struct bench *b)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(b->plain->qp, b->send, &bad);
}

static int call_post_recv(struct bench *b)
{
	struct ibv_recv_wr *bad;

	return ibv_post_recv(b->plain->qp, b->recv, &bad);
}

static void clear_one(struct bench *b)
{
	must(link_reap(b->plain, 1) == 1, "a completion");
}

/* Unsignaled requests give their places back with the next signaled one. */
static void clear_chain(struct bench *b)
{
	struct ibv_send_wr *bad;

	ready_write(b);
	must_zero(ibv_post_send(b->plain->qp, b->send, &bad), "ibv_post_send");
	clear_one(b);
}

static void take_received(struct bench *b, int link, int n)
{
	b->ask_peer(link, n);
	must(link_reap(link ? b->ex : b->plain, n) == n, "completions of receives");
}

static void clear_recv(struct bench *b)
{
	take_received(b, 0, 1);
}

static void clear_recvs(struct bench *b)
{
	take_received(b, 0, BATCH);
}

/* -- polling ---------------------------------------------------------------------------------- */

static void settle(struct bench *b)
{
	usleep(b->wait_us);
}

static void sends_done(struct bench *b, struct link *l, int n)
{
	link_post_sends(l, n);
	settle(b);
}

static void receives_done(struct bench *b, struct link *l)
{
	link_post_receives(l, BATCH);
	b->ask_peer(l == b->ex, BATCH);
	settle(b);
}

static void ready_poll_one(struct bench *b)
{
	sends_done(b, b->plain, 1);
}

static void ready_poll_sends(struct bench *b)
{
	sends_done(b, b->plain, BATCH);
}

static void ready_poll_recvs(struct bench *b)
{
	receives_done(b, b->plain);
}

static int call_poll_one(struct bench *b)
{
	return ibv_poll_cq(b->plain->cq, 1, b->wc);
}

static int call_poll(struct bench *b)
{
	return ibv_poll_cq(b->plain->cq, BATCH, b->wc);
}

/* -- arming ----------------------------------------------------------------------------------- */

static int call_arm(struct bench *b)
{
	return ibv_req_notify_cq(b->plain->cq, 0);
}

/* Armed behind a completion that nobody polled, the event comes, but not at once: not counted. */
static void await_event(struct bench *b)
{
	struct pollfd wait = { .fd = b->plain->channel->fd, .events = POLLIN };

	CALLGRIND_TOGGLE_COLLECT;
	must(poll(&wait, 1, PATIENCE_S * 1000) == 1, "an event");
	CALLGRIND_TOGGLE_COLLECT;
}

static int call_event(struct bench *b)
{
	struct ibv_cq *cq;
	void *context;
	int ret = ibv_req_notify_cq(b->plain->cq, 0);

	if (ret)
		return ret;
	await_event(b);
	ret = ibv_get_cq_event(b->plain->channel, &cq, &context);
	if (!ret)
		ibv_ack_cq_events(cq, 1);
	return ret;
}

static void clear_event(struct bench *b)
{
	link_post_sends(b->plain, 1);
	must(call_event(b) == 0, "an event");
	clear_one(b);
}

/* -- ibv_wr_* --------------------------------------------------------------------------------- */

/* Posts like a program that has its queue and keys at hand. */
static inline __attribute__((always_inline)) int wr_writes(const struct link *l, int n,
							   unsigned int flags)
{
	uint64_t from = (uintptr_t)l->mem, to = l->peer.addr;
	uint32_t lkey = l->mr->lkey, rkey = l->peer.rkey;
	struct ibv_qp_ex *qp = l->qp_ex;

	ibv_wr_start(qp);
	qp->wr_flags = flags;
	for (int i = 0; i < n; i++) {
		qp->wr_id = 7;
		ibv_wr_rdma_write(qp, rkey, to);
		ibv_wr_set_sge(qp, lkey, from, SMALL);
	}
	return ibv_wr_complete(qp);
}

static int call_wr_write(struct bench *b)
{
	return wr_writes(b->ex, 1, IBV_SEND_SIGNALED);
}

static int call_wr_chain(struct bench *b)
{
	return wr_writes(b->ex, BATCH, 0);
}

static int call_wr_inline(struct bench *b)
{
	struct link *l = b->ex;
	struct ibv_qp_ex *qp = l->qp_ex;

	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, l->peer.rkey, l->peer.addr);
	ibv_wr_set_inline_data(qp, l->mem, INLINE_BYTES);
	return ibv_wr_complete(qp);
}

static int call_wr_sges(struct bench *b)
{
	struct link *l = b->ex;
	struct ibv_qp_ex *qp = l->qp_ex;

	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, l->peer.rkey, l->peer.addr);
	ibv_wr_set_sge_list(qp, SGES, b->sge);
	return ibv_wr_complete(qp);
}

static int call_wr_send(struct bench *b)
{
	struct link *l = b->ex;
	struct ibv_qp_ex *qp = l->qp_ex;

	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->mem, SMALL);
	return ibv_wr_complete(qp);
}

static void ready_wr_sges(struct bench *b)
{
	fill(b, 1, SGES, IBV_WR_RDMA_WRITE, 0);
	for (int i = 0; i < SGES; i++) {
		b->sge[i].addr = (uintptr_t)b->ex->mem + 128u * (unsigned int)i;
		b->sge[i].lkey = b->ex->mr->lkey;
	}
}

static void clear_ex(struct bench *b)
{
	must(link_reap(b->ex, 1) == 1, "a completion");
}

static void clear_wr_chain(struct bench *b)
{
	must_zero(call_wr_write(b), "ibv_wr_complete");
	clear_ex(b);
}

/* -- cq_ex ------------------------------------------------------------------------------------ */

static void ready_ex_one(struct bench *b)
{
	sends_done(b, b->ex, 1);
}

static void ready_ex_sends(struct bench *b)
{
	sends_done(b, b->ex, BATCH);
}

static void ready_ex_recvs(struct bench *b)
{
	receives_done(b, b->ex);
}

/*
 * Polls like a program that uses cq_ex: opcode, length and QP of each. Returns the number of
 * completions.
 */
static int call_ex(struct bench *b)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = b->ex->cq_ex;
	volatile uint32_t seen;
	int n = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		seen = (uint32_t)ibv_wc_read_opcode(cq);
		seen = ibv_wc_read_byte_len(cq);
		seen = ibv_wc_read_qp_num(cq);
		n++;
	} while (n < BATCH && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	(void)seen;
	return n;
}

/* As UCX polls what it has made by ibv_create_cq_ex. */
static int call_poll_ex(struct bench *b)
{
	return ibv_poll_cq(b->ex->cq, BATCH, b->wc);
}

static int call_nothing(struct bench *b)
{
	__asm__ volatile("" ::"r"(b) : "memory");
	return 0;
}

static const struct verb verbs[] = {
	{ "nothing", NULL, call_nothing, 0, NULL },
	{ "post_send write 8 B", ready_write, call_post_send, 0, clear_one },
	{ "post_send write x16 unsignaled", ready_chain, call_post_send, 0, clear_chain },
	{ "post_send write inline 64 B", ready_inline, call_post_send, 0, clear_one },
	{ "post_send write 4 SGEs", ready_sges, call_post_send, 0, clear_one },
	{ "post_send send 8 B", ready_send, call_post_send, 0, clear_one },
	{ "post_recv", ready_recv, call_post_recv, 0, clear_recv },
	{ "post_recv x16", ready_recvs, call_post_recv, 0, clear_recvs },
	{ "wr write 8 B", NULL, call_wr_write, 0, clear_ex },
	{ "wr write x16 unsignaled", NULL, call_wr_chain, 0, clear_wr_chain },
	{ "wr write inline 64 B", NULL, call_wr_inline, 0, clear_ex },
	{ "wr write 4 SGEs", ready_wr_sges, call_wr_sges, 0, clear_ex },
	{ "wr send 8 B", NULL, call_wr_send, 0, clear_ex },
	{ "poll_cq empty", NULL, call_poll, 0, NULL },
	{ "poll_cq 1 send", ready_poll_one, call_poll_one, 1, NULL },
	{ "poll_cq 16 sends", ready_poll_sends, call_poll, BATCH, NULL },
	{ "poll_cq 16 receives", ready_poll_recvs, call_poll, BATCH, NULL },
	{ "poll_cq of cq_ex, empty", NULL, call_poll_ex, 0, NULL },
	{ "poll_cq of cq_ex, 16 sends", ready_ex_sends, call_poll_ex, BATCH, NULL },
	{ "cq_ex empty", NULL, call_ex, 0, NULL },
	{ "cq_ex 1 send", ready_ex_one, call_ex, 1, NULL },
	{ "cq_ex 16 sends", ready_ex_sends, call_ex, BATCH, NULL },
	{ "cq_ex 16 receives", ready_ex_recvs, call_ex, BATCH, NULL },
	{ "arm", NULL, call_arm, 0, clear_event },
	{ "arm and get event", ready_poll_one, call_event, 0, clear_one },
};

/* -- measuring -------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Takes off what a call that came too early has left behind; the next one waits for longer. */
static void sweep(struct bench *b, const struct verb *v, int got)
{
	bool extended = v->call == call_ex || v->call == call_poll_ex;
	int left = v->want - got;

	must(got >= 0 && left > 0, v->name);
	must(link_reap(extended ? b->ex : b->plain, left) == left, "completions");
	b->wait_us = b->wait_us < WAIT_MAX_US ? b->wait_us * 2 : WAIT_MAX_US;
}

/* Counts one call alone; true if the sample is good. A bad one leaves no dump. */
static bool once(struct bench *b, const struct verb *v, const char *label, int64_t *ns)
{
	int64_t start;
	int got;

	if (v->ready)
		v->ready(b);
	CALLGRIND_ZERO_STATS;
	start = now_ns();
	CALLGRIND_TOGGLE_COLLECT;
	got = v->call(b);
	CALLGRIND_TOGGLE_COLLECT;
	*ns = now_ns() - start;
	if (got != v->want) {
		sweep(b, v, got);
		return false;
	}
	if (label)
		CALLGRIND_DUMP_STATS_AT(label);
	if (v->clear)
		v->clear(b);
	return true;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void measure(struct bench *b, const struct verb *v, const char *phase, int samples)
{
	static int64_t ns[SAMPLES_MAX];
	int done = -WARM, tries = TRIES + samples;
	char label[128];

	snprintf(label, sizeof(label), "%s|%s", phase, v->name);
	for (; done < samples && tries; tries--)
		done += once(b, v, done < 0 ? NULL : label, &ns[done < 0 ? 0 : done]);
	must(done == samples, v->name);
	qsort(ns, (size_t)samples, sizeof(*ns), compare_ns);
	say("CASE|%s|%d|%lld", label, samples, (long long)ns[samples / 2]);
}

void cases_run(struct link *plain, struct link *ex, const char *phase, int samples,
	       void (*ask_peer)(int link, int n))
{
	struct bench b = { .plain = plain,
			   .ex = ex,
			   .ask_peer = ask_peer,
			   .wait_us = RUNNING_ON_VALGRIND ? 2000 : 200 };

	must(samples > 0 && samples <= SAMPLES_MAX, "a number of samples");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		measure(&b, &verbs[i], phase, samples);
}
