// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * cancelled: threads that pthread_cancel() has reached already call verbs, and must come out of them: one that ended in there
 * would take a lock with it, for which all others wait for ever. Where stock waits for events, it ends, as it does there.
 */
#include "abuse.h"

#include <stdlib.h>

enum { CONNS = 4 };

static struct nic nic;

/* Completions of receives that are flushed, the first of which is told to SHIFT's thread. */
static void *doomed_poll(void *arg)
{
	struct conn *c = arg;
	struct ibv_wc wc[DEPTH];
	int flushed = 0, got, i;

	pthread_cancel(pthread_self());
	while (flushed < DEPTH) {
		got = ibv_poll_cq(c->cq, DEPTH, wc);
		must(got >= 0, "ibv_poll_cq");
		for (i = 0; i < got; i++, flushed++)
			must(wc[i].status == IBV_WC_WR_FLUSH_ERR, "a receive that is flushed");
	}
	return NULL;
}

/* Of the connection, jobs may be under way; for it, and for another one, lines are logged. */
static void *doomed_control(void *arg)
{
	struct conn another;

	pthread_cancel(pthread_self());
	conn_make(&another, &nic);
	conn_to_init(&another);
	conn_free(&another);
	conn_free(arg);
	return NULL;
}

static void *waiting_completion(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(channel, &cq, &context);
	return NULL;
}

static void *waiting_async(void *arg)
{
	struct ibv_async_event event;

	(void)arg;
	ibv_get_async_event(nic.ctx, &event);
	return NULL;
}

static void *outcome(pthread_t thread)
{
	void *result;

	must_zero(pthread_join(thread, &result), "pthread_join");
	return result;
}

static void comes_out(void *(*run)(void *), struct conn *c, const char *what)
{
	pthread_t thread;

	must_zero(pthread_create(&thread, NULL, run, c), "a thread");
	must(outcome(thread) != PTHREAD_CANCELED, what);
}

static void ends_in_there(void *(*run)(void *), void *arg, const char *what)
{
	pthread_t thread;

	must_zero(pthread_create(&thread, NULL, run, arg), "a thread");
	must_zero(pthread_cancel(thread), "pthread_cancel");
	must(outcome(thread) == PTHREAD_CANCELED, what);
}

static void error_poll(struct conn *c)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	must_zero(ibv_modify_qp(c->qp, &error, IBV_QP_STATE), "ibv_modify_qp to ERR");
	comes_out(doomed_poll, c, "a thread that comes out of ibv_poll_cq");
	must(!ibv_poll_cq(c->cq, 1, &wc), "no more completions");
}

void run_cancelled(void)
{
	struct ibv_comp_channel *channel;
	struct conn c[CONNS];

	nic_open(&nic, opt.dev);
	channel = ibv_create_comp_channel(nic.ctx);
	must(channel, "ibv_create_comp_channel");
	for (int i = 0; i < CONNS; i++) {
		conn_make_on(&c[i], &nic, channel, NULL);
		conn_connect(&c[i]);
	}
	say("CONNECTED");
	hear("go");
	ends_in_there(waiting_completion, channel, "a thread that ends in ibv_get_cq_event");
	ends_in_there(waiting_async, NULL, "a thread that ends in ibv_get_async_event");
	for (int i = 0; i < CONNS; i++)
		error_poll(&c[i]);
	for (int i = 0; i < CONNS; i++)
		comes_out(doomed_control, &c[i], "a thread that comes out of control verbs");
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	nic_close(&nic);
}
