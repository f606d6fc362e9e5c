// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ending: connections that share a completion queue end all at once, by SHIFT. A thread sleeps until their completions come;
 * another one destroys some of them meanwhile. With --rest MS the process exits so long behind the fault.
 */
#include "abuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE = 8, ENDING_S = 40, RECEIVE = 1 << 16 };
#define DESTROY_S 2.0 /* within so long from the fault */

struct ending_qp {
	struct conn c;
	double destroy_at; /* 0: not before all are flushed */
	_Atomic bool gone;
	uint32_t sends, receives; /* completed */
	bool failed;
	int last_receives; /* events */
};

struct ending {
	struct nic nic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ending_qp *qps;
	int n;
};

static void ending_make_qp(struct ending *e, struct ending_qp *q)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->nic.srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = QUEUE,
			 .max_recv_wr = e->nic.srq ? 0 : QUEUE,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	conn_make(&q->c, &e->nic);
	must_zero(ibv_destroy_qp(q->c.qp), "ibv_destroy_qp");
	q->c.qp = ibv_create_qp(e->nic.pd, &init);
	must(q->c.qp, "ibv_create_qp");
	conn_connect_bare(&q->c);
}

static void ending_make(struct ending *e)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = (uint32_t)opt.qps * QUEUE,
						   .max_sge = 1 } };

	nic_open(&e->nic, opt.dev);
	must(fcntl(e->nic.ctx->async_fd, F_SETFL, O_NONBLOCK) != -1, "fcntl");
	if (opt.srq) {
		e->nic.srq = ibv_create_srq(e->nic.pd, &srq);
		must(e->nic.srq, "ibv_create_srq");
	}
	e->n = opt.qps;
	e->qps = calloc((size_t)e->n, sizeof(*e->qps));
	e->channel = ibv_create_comp_channel(e->nic.ctx);
	must(e->qps && e->channel, "ibv_create_comp_channel");
	e->cq = ibv_create_cq(e->nic.ctx, 3 * e->n * QUEUE, NULL, e->channel, 0);
	must(e->cq, "ibv_create_cq");
	for (int i = 0; i < e->n; i++)
		ending_make_qp(e, &e->qps[i]);
}

static void ending_post(struct ending *e, uint64_t i, uint64_t number)
{
	struct conn *c = &e->qps[i].c;
	struct ibv_sge to = { (uintptr_t)c->mem + AREA, PART, c->mr->lkey };
	struct ibv_sge from = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_recv_wr recv = { i << 32 | RECEIVE | number, NULL, &to, 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = i << 32 | number,
				    .sg_list = &from,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (e->nic.srq)
		must_zero(ibv_post_srq_recv(e->nic.srq, &recv, &bad_recv), "ibv_post_srq_recv");
	else
		must_zero(ibv_post_recv(c->qp, &recv, &bad_recv), "ibv_post_recv");
	must_zero(ibv_post_send(c->qp, &send, &bad), "ibv_post_send");
}

/* In order, each once; nothing good behind an error of a queue. */
static void ending_take(struct ending *e, const struct ibv_wc *wc)
{
	struct ending_qp *q = &e->qps[wc->wr_id >> 32];
	uint32_t number = (uint32_t)wc->wr_id;

	if (number & RECEIVE) {
		must(wc->status == IBV_WC_WR_FLUSH_ERR, "a receive that is flushed");
		must((number & ~RECEIVE) == q->receives++, "receives in order");
		return;
	}
	must(number == q->sends++, "sends in order");
	must(wc->status, "no good completion over paths that are down");
	must(!q->failed || wc->status == IBV_WC_WR_FLUSH_ERR, "one cause of a flush");
	q->failed = true;
}

static bool ending_done(const struct ending *e)
{
	for (int i = 0; i < e->n; i++) {
		const struct ending_qp *q = &e->qps[i];

		if (!q->destroy_at && (q->sends < QUEUE || (!e->nic.srq && q->receives < QUEUE)))
			return false;
	}
	return true;
}

static int ending_poll(struct ending *e)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	while ((n = ibv_poll_cq(e->cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			ending_take(e, &wc[i]);
		all += n;
	}
	must(!n, "ibv_poll_cq");
	return all;
}

/* Asleep in ibv_get_cq_event(): without an event it is killed. */
static void ending_wait(struct ending *e)
{
	struct ibv_cq *cq;
	void *context;

	alarm(ENDING_S);
	for (;;) {
		must_zero(ibv_req_notify_cq(e->cq, 0), "ibv_req_notify_cq");
		ending_poll(e);
		if (ending_done(e))
			break;
		must_zero(ibv_get_cq_event(e->channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	alarm(0);
}

/* On a shared receive queue each one that was not destroyed tells once that it takes no more. */
static bool ending_event(struct ending *e)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(e->nic.ctx, &event))
		return false;
	for (int i = 0; i < e->n; i++)
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
		    event.element.qp == e->qps[i].c.qp && !e->qps[i].destroy_at)
			must(!e->qps[i].last_receives++, "one event of a last receive");
	ibv_ack_async_event(&event);
	return true;
}

static bool ending_told(const struct ending *e)
{
	for (int i = 0; e->nic.srq && i < e->n; i++)
		if (!e->qps[i].destroy_at && !e->qps[i].last_receives)
			return false;
	return true;
}

static void *ending_destroyer(void *arg)
{
	struct ending *e = arg;
	double begun = now_s();

	for (; now_s() < begun + DESTROY_S || !ending_told(e); usleep(200)) {
		must(now_s() < begun + 2 * ENDING_S, "the event of a last receive of each");
		while (ending_event(e))
			;
		if (opt.rest_ms && now_s() > begun + opt.rest_ms / 1e3) {
			say("OK");
			exit(0);
		}
		for (int i = 0; i < e->n; i++) {
			struct ending_qp *q = &e->qps[i];

			if (!q->destroy_at || q->gone || now_s() < begun + q->destroy_at)
				continue;
			must_zero(ibv_destroy_qp(q->c.qp), "ibv_destroy_qp");
			q->gone = true;
		}
	}
	return NULL;
}

static void ending_free(struct ending *e)
{
	for (int i = 0; i < e->n; i++) {
		struct ending_qp *q = &e->qps[i];

		if (!q->gone)
			must_zero(ibv_destroy_qp(q->c.qp), "ibv_destroy_qp");
		must_zero(ibv_destroy_cq(q->c.cq), "ibv_destroy_cq");
		must_zero(ibv_dereg_mr(q->c.mr), "ibv_dereg_mr");
		free(q->c.mem);
	}
	must_zero(ibv_destroy_cq(e->cq), "ibv_destroy_cq");
	must_zero(ibv_destroy_comp_channel(e->channel), "ibv_destroy_comp_channel");
	if (e->nic.srq)
		must_zero(ibv_destroy_srq(e->nic.srq), "ibv_destroy_srq");
	e->nic.srq = NULL;
	free(e->qps);
	nic_close(&e->nic);
}

void run_ending(void)
{
	struct ending e = { 0 };
	pthread_t destroyer;

	ending_make(&e);
	say("CONNECTED");
	hear("go");
	srand((unsigned)opt.seed + opt.server);
	for (int i = 0; i < e.n; i++)
		if (rand() % 4 == 0)
			e.qps[i].destroy_at = 0.001 + DESTROY_S * 0.8 * rand() / RAND_MAX;
	for (uint64_t number = 0; number < QUEUE; number++)
		for (int i = 0; i < e.n; i++)
			ending_post(&e, (uint64_t)i, number);
	must_zero(pthread_create(&destroyer, NULL, ending_destroyer, &e), "pthread_create");
	ending_wait(&e);
	say("FLUSHED");
	hear("free"); /* a NIC that hung obeys again */
	must_zero(pthread_join(destroyer, NULL), "pthread_join");
	ending_poll(&e); /* of those that were destroyed, just before */
	usleep(300000);
	must(!ending_poll(&e), "nothing behind the last flush");
	ending_free(&e);
}
