// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection with a shared receive queue: what is asked and set of both, the limit of the queue, and its end. */
#include "abuse.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* ---- asked: while a NIC dies and its connections move, what is asked and set is answered as ever -------- */

static atomic_bool asked_stop;

struct asked {
	struct conn *c;
	struct nic *nic;
	uint64_t rounds;
};

static void asked_qp(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 12 }, now;
	struct ibv_qp_init_attr init;

	must_zero(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER),
		  "ibv_modify_qp from RTS to RTS");
	must_zero(ibv_query_qp(c->qp, &now, IBV_QP_STATE | IBV_QP_DEST_QPN, &init), "ibv_query_qp");
	must(now.qp_state == IBV_QPS_RTS && now.dest_qp_num == c->peer.qpn, "a QP in RTS");
}

static void asked_srq(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr = { .srq_limit = 0 };

	must_zero(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
	must_zero(ibv_query_srq(srq, &attr), "ibv_query_srq");
	must(attr.max_wr >= 2 * DEPTH && !attr.srq_limit, "what the queue has");
}

static void *asked_thread(void *arg)
{
	struct asked *asked = arg;

	for (; !atomic_load(&asked_stop); asked->rounds++) {
		asked_qp(asked->c);
		asked_srq(asked->nic->srq);
		usleep(100);
	}
	return NULL;
}

/* As conn_post_recv() does, into the shared queue. */
static void shared_give(struct conn *c, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)c->mem + AREA + number % DEPTH * PART, PART,
			       c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

	must_zero(ibv_post_srq_recv(c->nic->srq, &wr, &bad), "ibv_post_srq_recv");
}

static void shared_talk(struct conn *c, uint64_t n)
{
	uint64_t last = c->sent + n, expect = c->got + n, done = c->sent, number;
	struct ibv_wc wc;

	while (done < last || c->got < expect) {
		while (c->sent < last && c->sent < done + DEPTH / 2 && c->sent < c->got + DEPTH / 2)
			conn_post_send(c, c->sent++);
		must(!conn_poll(c, &wc), "a good completion");
		if (!(wc.opcode & IBV_WC_RECV)) {
			done++;
			continue;
		}
		memcpy(&number, c->mem + AREA + wc.wr_id % DEPTH * PART, sizeof(number));
		must(number == c->got++, "the next message in order");
		shared_give(c, wc.wr_id);
	}
}

static void shared_begin(struct nic *nic, struct conn *c)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 2 * DEPTH, .max_sge = 1 } };

	nic_open(nic, opt.dev);
	nic->srq = ibv_create_srq(nic->pd, &init);
	must(nic->srq, "ibv_create_srq");
	conn_make(c, nic);
	for (uint64_t i = 0; i < DEPTH; i++)
		shared_give(c, i);
	conn_connect_bare(c);
	say("CONNECTED");
	hear("go");
}

static void shared_end(struct nic *nic, struct conn *c)
{
	meet();
	conn_free(c);
	must_zero(ibv_destroy_srq(nic->srq), "ibv_destroy_srq");
	nic_close(nic);
}

void run_asked(void)
{
	struct nic nic;
	struct conn c;
	struct asked asked = { .c = &c, .nic = &nic };
	pthread_t thread;

	shared_begin(&nic, &c);
	must_zero(pthread_create(&thread, NULL, asked_thread, &asked), "a thread");
	say("ASKING");
	while (!both_told())
		shared_talk(&c, 20);
	atomic_store(&asked_stop, true);
	pthread_join(thread, NULL);
	say("ASKED %llu", (unsigned long long)asked.rounds);
	shared_end(&nic, &c);
}

/* ---- limit: how often a shared receive queue says that it has few left ----------------------- */

enum { LIMIT = 8, QUIET_MS = 60, EVENT_MS = 5000 };

static bool limit_told(struct nic *nic, int ms)
{
	struct pollfd fd = { .fd = nic->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, ms) != 1)
		return false;
	must_zero(ibv_get_async_event(nic->ctx, &event), "ibv_get_async_event");
	must(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == nic->srq,
	     "no other event");
	ibv_ack_async_event(&event);
	return true;
}

static void limit_set(struct nic *nic, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	must_zero(ibv_modify_srq(nic->srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

static uint32_t limit_of(struct nic *nic)
{
	struct ibv_srq_attr attr;

	must_zero(ibv_query_srq(nic->srq, &attr), "ibv_query_srq");
	return attr.srq_limit;
}

/* The server takes n, and gives none back until it has them all. */
static void limit_take(struct conn *c, struct nic *nic, int n, const char *what, int told)
{
	uint64_t taken[DEPTH];
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		if (!opt.server)
			conn_post_send(c, c->sent++);
		must(!conn_poll(c, &wc), "a good completion");
		taken[i] = wc.wr_id;
	}
	if (opt.server) {
		bool first = limit_told(nic, told ? EVENT_MS : QUIET_MS);

		say("LIMIT %s: told %d", what, first + limit_told(nic, QUIET_MS));
		say("LIMIT %s: limit %u", what, limit_of(nic));
		for (int i = 0; i < n; i++)
			shared_give(c, taken[i]);
	}
	meet();
}

/* The server arms the limit and waits for the event, before it polls anything. */
static void limit_wait(struct conn *c, struct nic *nic, int n)
{
	limit_set(nic, LIMIT);
	meet();
	if (!opt.server)
		for (int i = 0; i < n; i++)
			conn_post_send(c, c->sent++);
	if (opt.server)
		say("LIMIT not polled: told %d", limit_told(nic, EVENT_MS));
	for (int i = 0; i < n; i++) {
		struct ibv_wc wc;

		must(!conn_poll(c, &wc), "a good completion");
		if (opt.server)
			shared_give(c, wc.wr_id);
	}
	limit_set(nic, 0);
	meet();
}

/* Each round begins where the receives are, and the runner moves them in its middle. */
static void limit_round(struct conn *c, struct nic *nic, int round)
{
	const int few = DEPTH - LIMIT, many = few + 2;

	limit_take(c, nic, many, "not armed", 0);
	limit_set(nic, LIMIT);
	limit_take(c, nic, few, "armed, not reached", 0);
	limit_take(c, nic, many, "armed", 1);
	limit_take(c, nic, many, "told already", 0);
	if (round % 2)
		limit_set(nic, LIMIT);
	say("ROUND %d", round);
	hear("go");
	limit_take(c, nic, many, "behind the middle", round % 2);
	limit_take(c, nic, many, "told already, behind the middle", 0);
	limit_set(nic, 2 * DEPTH - 1);
	if (opt.server)
		say("LIMIT armed above what there is: told %d", limit_told(nic, EVENT_MS));
	limit_set(nic, 0);
	meet();
	limit_wait(c, nic, many);
}

void run_limit(void)
{
	struct nic nic;
	struct conn c;

	shared_begin(&nic, &c);
	for (int round = 0; round < opt.rounds; round++) {
		if (round)
			hear("go");
		limit_round(&c, &nic, round);
	}
	shared_end(&nic, &c);
}

/* ---- last: how often a QP says that it takes no more of its queue, however it came to ERR ----- */

enum last_end { BY_ACCESS = 1, BY_ITSELF, BY_LOSS };

/* Both ends of the QP go to ERR, as the peer has no such memory. */
static void last_by_access(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr + 2 * AREA, c->peer.rkey } },
			   *bad;
	struct ibv_wc wc;

	if (opt.server)
		return;
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	usleep((useconds_t)opt.rest_ms * 1000); /* the event comes first, or nearly with it */
	must(conn_poll(c, &wc) == IBV_WC_REM_ACCESS_ERR, "the error of an address out of bounds");
}

static void last_by_loss(struct conn *c)
{
	struct ibv_wc wc;

	conn_post_send(c, c->sent++);
	must(conn_poll(c, &wc), "an error, as no path is left");
}

static void last_to_error(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must_zero(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to ERR");
}

static int last_told(struct conn *c, int ms)
{
	struct pollfd fd = { .fd = c->nic->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int told = 0;

	while (poll(&fd, 1, told ? QUIET_MS : ms) == 1) {
		must_zero(ibv_get_async_event(c->nic->ctx, &event), "ibv_get_async_event");
		told += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
			event.element.qp == c->qp;
		ibv_ack_async_event(&event);
	}
	return told;
}

void run_last(void)
{
	struct nic nic;
	struct conn c;

	shared_begin(&nic, &c);
	if (opt.rounds != BY_LOSS)
		shared_talk(&c, 20);
	meet();
	switch ((enum last_end)opt.rounds) {
	case BY_ACCESS: last_by_access(&c); break;
	case BY_ITSELF: last_to_error(&c); break;
	case BY_LOSS: last_by_loss(&c); break;
	}
	say("LAST told %d", last_told(&c, EVENT_MS));
	last_to_error(&c); /* if it was not */
	say("LAST again %d", last_told(&c, 2 * QUIET_MS));
	shared_end(&nic, &c);
}
