// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What few programs do, and none is forbidden: queues that are full to the last place, completions that are held, forks. */
#include "abuse.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- tight: a completion queue as large as it must be, which is not polled for a while ------------ */

enum { TIGHT = 15, TIGHT_S = 20 };

struct tight {
	struct ibv_cq *cq;
	struct conn c[TIGHT];
};

static void tight_make(struct tight *t, struct nic *nic)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };

	t->cq = ibv_create_cq(nic->ctx, TIGHT, NULL, NULL, 0);
	must(t->cq && t->cq->cqe == TIGHT, "a completion queue that is no larger");
	for (int i = 0; i < TIGHT; i++) {
		conn_make(&t->c[i], nic);
		must_zero(ibv_destroy_qp(t->c[i].qp), "ibv_destroy_qp");
		init.send_cq = init.recv_cq = t->cq;
		t->c[i].qp = ibv_create_qp(nic->pd, &init);
		must(t->c[i].qp, "ibv_create_qp");
		conn_connect_bare(&t->c[i]);
	}
}

/* A WRITE that is told of, and an atomic behind it that is not; both to the first word of the receive half. */
static void tight_post(struct conn *c, uint64_t id)
{
	struct ibv_sge sge[2] = { { (uintptr_t)c->mem, 8, c->mr->lkey },
				  { (uintptr_t)c->mem + 8, 8, c->mr->lkey } };
	struct ibv_send_wr wr[2] = {
		{ .wr_id = id,
		  .next = &wr[1],
		  .sg_list = &sge[0],
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE,
		  .send_flags = IBV_SEND_SIGNALED,
		  .wr.rdma = { c->peer.addr + AREA, c->peer.rkey } },
		{ .wr_id = 1000,
		  .sg_list = &sge[1],
		  .num_sge = 1,
		  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		  .wr.atomic = { .remote_addr = c->peer.addr + AREA + 8,
				 .rkey = c->peer.rkey,
				 .compare_add = 1 } },
	}, *bad;

	memcpy(c->mem, &id, sizeof(id));
	memset(c->mem + 8, 0xff, 8);
	must_zero(ibv_post_send(c->qp, wr, &bad), "ibv_post_send");
}

/* One of each, in whichever order. */
static void tight_poll(struct tight *t, uint64_t first)
{
	double end = now_s() + TIGHT_S;
	bool seen[TIGHT] = { false };
	struct ibv_wc wc;
	int n = 0, got;

	while (n < TIGHT) {
		got = ibv_poll_cq(t->cq, 1, &wc);
		must(got >= 0 && now_s() < end, "a completion of each in time");
		if (!got)
			continue;
		if (wc.status)
			say("FAILED status %d", wc.status);
		must(!wc.status && wc.wr_id >= first && wc.wr_id < first + TIGHT &&
			     !seen[wc.wr_id - first],
		     "one good completion of each");
		seen[wc.wr_id - first] = true;
		n++;
	}
}

static void tight_client(struct tight *t)
{
	uint64_t old;

	for (uint64_t round = 0; round < 2; round++) {
		for (int i = 0; i < TIGHT; i++)
			tight_post(&t->c[i], 1 + round * TIGHT + (uint64_t)i);
		say("POSTED %d", (int)round);
		hear("poll");
		tight_poll(t, 1 + round * TIGHT);
	}
	for (int i = 0; i < TIGHT; i++) { /* in order behind the first round's atomic */
		memcpy(&old, t->c[i].mem + 8, sizeof(old));
		must(old == 1 || old == UINT64_MAX, "the second atomic's answer, or none yet");
	}
}

void run_tight(void)
{
	static struct tight t;
	uint64_t count;
	struct nic nic;

	nic_open(&nic, opt.dev);
	tight_make(&t, &nic);
	say("CONNECTED");
	hear("go");
	if (!opt.server)
		tight_client(&t);
	meet();
	for (double end = now_s() + TIGHT_S; opt.server && now_s() < end; usleep(1000)) {
		int done = 0;

		for (int i = 0; i < TIGHT; i++) {
			memcpy(&count, t.c[i].mem + AREA + 8, sizeof(count));
			must(count <= 2, "an atomic that runs once");
			done += count == 2;
		}
		if (done == TIGHT)
			break;
		must(now_s() + 1 < end, "all atomics");
	}
	meet();
	for (int i = 0; i < TIGHT; i++) {
		must_zero(ibv_destroy_qp(t.c[i].qp), "ibv_destroy_qp");
		must_zero(ibv_destroy_cq(t.c[i].cq), "ibv_destroy_cq");
		must_zero(ibv_dereg_mr(t.c[i].mr), "ibv_dereg_mr");
		free(t.c[i].mem);
	}
	must_zero(ibv_destroy_cq(t.cq), "ibv_destroy_cq");
	nic_close(&nic);
}

/* ---- held: for some time between ibv_start_poll and ibv_end_poll, ibv_wr_start and ibv_wr_complete ---- */

struct held {
	struct conn c;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	uint64_t done;
};

static void held_make(struct held *h, struct nic *nic)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 4 * DEPTH, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = nic->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	conn_make(&h->c, nic);
	must_zero(ibv_destroy_qp(h->c.qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(h->c.cq), "ibv_destroy_cq");
	h->cq = ibv_create_cq_ex(nic->ctx, &cq);
	must(h->cq, "ibv_create_cq_ex");
	h->c.cq = init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(h->cq);
	h->c.qp = ibv_create_qp_ex(nic->ctx, &init);
	must(h->c.qp, "ibv_create_qp_ex");
	h->qp = ibv_qp_to_qp_ex(h->c.qp);
	h->done = 0;
	conn_connect(&h->c);
}

/* What a program may want at such a moment. */
static void held_verbs(struct held *h)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_mr *mr = ibv_reg_mr(h->c.nic->pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);

	must(mr, "ibv_reg_mr");
	must_zero(ibv_query_qp(h->c.qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	must(attr.qp_state == IBV_QPS_RTS, "a QP in RTS");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void held_send(struct held *h, bool hold)
{
	uint64_t number = h->c.sent++;
	uint8_t *at = h->c.mem + number % DEPTH * PART;

	memcpy(at, &number, sizeof(number));
	ibv_wr_start(h->qp);
	h->qp->wr_id = number;
	h->qp->wr_flags = 0;
	ibv_wr_send(h->qp);
	ibv_wr_set_sge(h->qp, h->c.mr->lkey, (uintptr_t)at, PART);
	if (hold)
		usleep(2000);
	must_zero(ibv_wr_complete(h->qp), "ibv_wr_complete");
}

static void held_take(struct held *h)
{
	struct ibv_wc wc = { .wr_id = h->cq->wr_id };

	if (h->cq->status)
		say("FAILED status %d", h->cq->status);
	must(!h->cq->status, "a good completion");
	if (ibv_wc_read_opcode(h->cq) & IBV_WC_RECV) {
		must(ibv_wc_read_byte_len(h->cq) == PART, "its length");
		conn_arrived(&h->c, &wc);
	} else {
		must(wc.wr_id == h->done++, "send completions in order");
	}
}

/* Some completions, each of which may be held for a while. */
static void held_poll(struct held *h, bool hold)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t id;
	int rc = ibv_start_poll(h->cq, &attr);

	if (rc == ENOENT) {
		usleep(20);
		return;
	}
	must_zero(rc, "ibv_start_poll");
	do {
		id = h->cq->wr_id;
		if (hold) {
			held_verbs(h);
			usleep(3000);
		}
		must(h->cq->wr_id == id, "a completion that stays while it is held");
		held_take(h);
		hold = false;
	} while (!(rc = ibv_next_poll(h->cq)));
	must(rc == ENOENT, "ibv_next_poll");
	ibv_end_poll(h->cq);
}

static bool held_may_send(const struct held *h)
{
	return h->c.sent < h->done + DEPTH / 2 && h->c.sent < h->c.got + DEPTH / 2;
}

void run_held(void)
{
	static struct held h;
	uint64_t theirs, turn = 0;
	struct nic nic;
	double end;

	nic_open(&nic, opt.dev);
	held_make(&h, &nic);
	say("CONNECTED");
	hear("go");
	for (; !both_told(); turn++)
		for (int i = 0; i < 50; i++) {
			while (held_may_send(&h))
				held_send(&h, h.c.sent % 32 == 0);
			held_poll(&h, i == 0);
		}
	swap(&h.c.sent, &theirs, sizeof(theirs));
	for (end = now_s() + 20; h.c.got < theirs || h.done < h.c.sent; held_poll(&h, false))
		must(now_s() < end, "all messages within 20 s");
	meet();
	conn_free(&h.c);
	nic_close(&nic);
}

/* ---- tuned: one thread modifies, from RTS to RTS, the queue pair that another one posts to -------- */

enum { TUNES = 3000 };

static atomic_bool tuned_enough;

static void *tune(void *arg)
{
	static const int more[] = { IBV_QP_MIN_RNR_TIMER, IBV_QP_ACCESS_FLAGS, 0,
				    IBV_QP_MIN_RNR_TIMER | IBV_QP_CUR_STATE };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .cur_qp_state = IBV_QPS_RTS,
				    .qp_access_flags =
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct held *h = arg;

	for (int i = 0; i < TUNES; i++) {
		attr.min_rnr_timer = (uint8_t)(12 + i % 2);
		must_zero(ibv_modify_qp(h->c.qp, &attr, IBV_QP_STATE | more[i % 4]),
			  "ibv_modify_qp from RTS to RTS");
		must(h->c.qp->state == IBV_QPS_RTS, "a QP in RTS");
	}
	atomic_store(&tuned_enough, true);
	return NULL;
}

/* Batches that stay open for a while are those that are modified under. */
void run_tuned(void)
{
	static struct held h;
	pthread_t thread;
	uint64_t theirs;
	struct nic nic;
	double end;

	nic_open(&nic, opt.dev);
	held_make(&h, &nic);
	say("CONNECTED");
	hear("go");
	must_zero(pthread_create(&thread, NULL, tune, &h), "a thread");
	while (!atomic_load(&tuned_enough)) {
		while (held_may_send(&h))
			held_send(&h, h.c.sent % 32 == 0);
		held_poll(&h, false);
	}
	must_zero(pthread_join(thread, NULL), "pthread_join");
	swap(&h.c.sent, &theirs, sizeof(theirs));
	for (end = now_s() + 20; h.c.got < theirs || h.done < h.c.sent; held_poll(&h, false))
		must(now_s() < end, "all messages within 20 s");
	meet();
	conn_free(&h.c);
	nic_close(&nic);
}

/* ---- forks: children that use nothing of it, as those of system() ------------------------------ */

enum { CONNS = 2, CHILDREN = 5 };

static void child_work(void)
{
	void *at[256];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 256; i++) {
			at[i] = malloc((size_t)(16 + 24 * i));
			if (at[i])
				memset(at[i], i, (size_t)(16 + 24 * i));
		}
		for (int i = 0; i < 256; i++)
			free(at[i]);
	}
}

static void child(int kind)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the runner knows the parent only */
	switch (kind) {
	case 0: _exit(0);
	case 1: exit(0);
	case 2: execl("/bin/true", "true", (char *)NULL); _exit(2);
	case 3: usleep(300000); exit(0);
	default: child_work(); _exit(0);
	}
}

static int forks_begin(int *n)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid)
		child(*n % CHILDREN);
	(*n)++;
	return 1;
}

static int forks_end(int under_way, bool wait)
{
	int status;

	while (under_way && waitpid(-1, &status, wait ? 0 : WNOHANG) > 0) {
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			say("FAILED child's status 0x%x", status);
		must(WIFEXITED(status) && !WEXITSTATUS(status), "the child's end");
		under_way--;
	}
	return under_way;
}

void run_forks(void)
{
	struct conn c[CONNS];
	int under_way = 0, n = 0;
	struct nic nic;

	must_zero(ibv_fork_init(), "ibv_fork_init");
	nic_open(&nic, opt.dev);
	for (int i = 0; i < CONNS; i++) {
		conn_make(&c[i], &nic);
		conn_connect(&c[i]);
	}
	say("CONNECTED");
	hear("go");
	while (!both_told()) {
		under_way += forks_begin(&n);
		for (int i = 0; i < CONNS; i++)
			conn_talk(&c[i], 20);
		under_way = forks_end(under_way, false);
	}
	forks_end(under_way, true);
	say("CHILDREN %d", n);
	meet();
	for (int i = 0; i < CONNS; i++)
		conn_free(&c[i]);
	nic_close(&nic);
}

/* ---- bound: a window, what is written through it, and a message that invalidates it --------------- */

enum { WRITES = 20, BOUND_S = 40, FIRST_ID = 1000 };

struct bound {
	struct conn c;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint64_t addr;
	uint32_t rkey;
};

/* The path may go before it: SHIFT itself sends, too. 0: the connection has ended with an error. */
static uint32_t bound_bind(struct bound *b)
{
	struct ibv_wc wc;
	struct ibv_send_wr wr = { .wr_id = FIRST_ID,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED,
				  .bind_mw = { .mw = b->mw,
					       .rkey = ibv_inc_rkey(b->mw->rkey),
					       .bind_info = { .mr = b->mr,
							      .addr = (uintptr_t)b->mem,
							      .length = AREA,
							      .mw_access_flags =
								      IBV_ACCESS_REMOTE_WRITE } } },
			   *bad;

	must_zero(ibv_post_send(b->c.qp, &wr, &bad), "ibv_post_send of a bind");
	do
		conn_poll(&b->c, &wc);
	while (wc.wr_id < FIRST_ID); /* a receive that is flushed */
	must(wc.status || wc.opcode == IBV_WC_BIND_MW, "a window");
	say("SERVER %d", wc.status);
	return wc.status ? 0 : wr.bind_mw.rkey;
}

static void bound_make(struct bound *b, struct nic *nic)
{
	conn_make(&b->c, nic);
	must_zero(posix_memalign((void **)&b->mem, 4096, AREA), "memory");
	memset(b->mem, 0, AREA);
	b->mr = ibv_reg_mr(nic->pd, b->mem, AREA,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	must(b->mr, "ibv_reg_mr");
	b->mw = ibv_alloc_mw(nic->pd, IBV_MW_TYPE_2);
	must(b->mw, "ibv_alloc_mw");
	conn_connect(&b->c);
}

static void bound_write(struct bound *b)
{
	struct ibv_sge sge = { 0, PART, b->c.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .rkey = b->rkey } },
			   *bad;

	for (uint64_t i = 0; i < WRITES; i++) {
		memset(b->c.mem + i * PART, (int)i + 1, PART);
		sge.addr = (uintptr_t)b->c.mem + i * PART;
		wr.wr_id = FIRST_ID + i;
		wr.wr.rdma.remote_addr = b->addr + i * PART;
		must_zero(ibv_post_send(b->c.qp, &wr, &bad), "ibv_post_send of a WRITE");
	}
	wr.wr_id = FIRST_ID + WRITES;
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = b->rkey;
	must_zero(ibv_post_send(b->c.qp, &wr, &bad), "ibv_post_send of a SEND with invalidate");
}

/* 0, or the first error; behind it all the others. */
static int bound_client(struct bound *b)
{
	struct ibv_wc wc;
	int first = 0;

	bound_write(b);
	for (uint64_t i = 0; i <= WRITES; i++) {
		do
			conn_poll(&b->c, &wc);
		while (wc.wr_id < FIRST_ID); /* a receive that is flushed */
		must(wc.wr_id == FIRST_ID + i, "completions in order");
		must(!first || wc.status == IBV_WC_WR_FLUSH_ERR, "flushes behind an error");
		first = first ? first : (int)wc.status;
	}
	return first;
}

static void bound_server(struct bound *b)
{
	struct ibv_wc wc;

	must(!conn_poll(&b->c, &wc), "the message");
	must(wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_WITH_INV &&
		     wc.invalidated_rkey == b->rkey,
	     "what it invalidated");
	for (uint64_t i = 0; i < WRITES; i++)
		must(b->mem[i * PART] == i + 1 && b->mem[i * PART + PART - 1] == i + 1,
		     "what was written through the window");
}

static void bound_round(struct bound *b)
{
	struct {
		uint64_t addr;
		uint32_t rkey;
	} mine, theirs;
	int status = 0, other;

	if (opt.server)
		b->rkey = bound_bind(b);
	mine.addr = (uintptr_t)b->mem;
	mine.rkey = b->rkey;
	swap(&mine, &theirs, sizeof(mine));
	if (!opt.server) {
		b->addr = theirs.addr;
		b->rkey = theirs.rkey;
		status = b->rkey ? bound_client(b) : 0;
		say("CLIENT %d", status);
	}
	if (!b->rkey)
		return;
	swap(&status, &other, sizeof(status));
	if (opt.server && !other)
		bound_server(b);
}

void run_bound(void)
{
	static struct bound b;
	struct nic nic;

	opt.wait_s = BOUND_S;
	nic_open(&nic, opt.dev);
	bound_make(&b, &nic);
	say("CONNECTED");
	hear("go");
	bound_round(&b);
	meet();
	must_zero(ibv_dealloc_mw(b.mw), "ibv_dealloc_mw");
	conn_free(&b.c);
	must_zero(ibv_dereg_mr(b.mr), "ibv_dereg_mr");
	free(b.mem);
	nic_close(&nic);
}

/* ---- solicited: woken for the last message of four only, and never too late --------------------- */

enum { GROUP = 4 };

static void solicited_send(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_send_wr wr[GROUP], *bad;
	struct ibv_wc wc;

	for (int i = 0; i < GROUP; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = c->sent++,
					      .next = i + 1 < GROUP ? &wr[i + 1] : NULL,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_SEND };
	wr[GROUP - 1].send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED;
	must_zero(ibv_post_send(c->qp, wr, &bad), "ibv_post_send");
	must(!conn_poll(c, &wc) && wc.wr_id == c->sent - 1, "a good completion");
}

static int solicited_reap(struct conn *c)
{
	struct ibv_wc wc[GROUP];
	int got = 0, n;

	while ((n = ibv_poll_cq(c->cq, GROUP, wc)) > 0)
		for (int i = 0; i < n; i++) {
			must(!wc[i].status && wc[i].wr_id == c->got++, "messages in order");
			conn_post_recv(c, wc[i].wr_id + DEPTH);
			got++;
		}
	return got;
}

/* A message that asks for it lies there, or comes: whoever sleeps is told. */
static void solicited_receive(struct conn *c)
{
	struct pollfd in = { .fd = c->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	int got = 0;

	while (got < GROUP) {
		must_zero(ibv_req_notify_cq(c->cq, 1), "ibv_req_notify_cq");
		got += solicited_reap(c);
		if (got >= GROUP)
			break;
		must(poll(&in, 1, 20000) == 1, "an event of the message that asks for it");
		must_zero(ibv_get_cq_event(c->channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		got += solicited_reap(c);
	}
}

void run_solicited(void)
{
	struct ibv_comp_channel *channel;
	bool told = false;
	struct nic nic;
	struct conn c;

	opt.unsignaled = true;
	nic_open(&nic, opt.dev);
	channel = ibv_create_comp_channel(nic.ctx);
	must(channel, "ibv_create_comp_channel");
	conn_make_on(&c, &nic, channel, NULL);
	c.channel = channel;
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	while (!told) {
		for (int i = 0; i < 20; i++) {
			opt.server ? solicited_receive(&c) : solicited_send(&c);
			meet();
		}
		told = both_told();
	}
	conn_free(&c);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	nic_close(&nic);
}
