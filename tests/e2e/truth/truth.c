// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * truth: two ends that do what the runner says, a line for each word: they talk, wait for work, or
 * err as programs do. The runner makes the faults, and reads what SHIFT tells of them.
 */
#include "tests/lib/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TALKS = 20, LINE = 64 };

struct options opt = { .port = 18515, .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn *conns; /* opt.qps of them */

/* ---- errors of a program --------------------------------------------------------------------- */

static struct ibv_send_wr wr_make(struct conn *c, struct ibv_sge *sge, enum ibv_wr_opcode opcode)
{
	*sge = (struct ibv_sge){ (uintptr_t)c->mem, 64, c->mr->lkey };
	return (struct ibv_send_wr){ .wr_id = 1,
				     .sg_list = sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = { c->peer.addr, c->peer.rkey } };
}

static void post(struct conn *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	must_zero(ibv_post_send(c->qp, wr, &bad), "ibv_post_send");
}

static void err_post(struct conn *c, const char *how)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = wr_make(c, &sge, IBV_WR_RDMA_WRITE);

	if (!strcmp(how, "rkey"))
		wr.wr.rdma.rkey ^= 0x5a00;
	else if (!strcmp(how, "lkey"))
		sge.lkey ^= 0x5a00;
	else if (!strcmp(how, "bounds"))
		wr.wr.rdma.remote_addr += 64ull << 20;
	else if (!strcmp(how, "read")) {
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.rkey ^= 0x5a00;
	} else if (!strcmp(how, "atomic")) { /* its words are at multiples of 8 */
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		sge.length = 8;
		wr.wr.atomic.remote_addr = c->peer.addr + 4;
		wr.wr.atomic.rkey = c->peer.rkey;
	} else if (!strcmp(how, "length")) {
		wr.opcode = IBV_WR_SEND;
		sge.length = 2 * PART;
	} else {
		must(false, how);
	}
	post(c, &wr);
}

/* The first error that comes, of whichever request. */
static void err_await(struct conn *c)
{
	double end = now_s() + 30;
	struct ibv_wc wc = { 0 };
	int n = 0;

	while (!n || !wc.status) {
		n = ibv_poll_cq(c->cq, 1, &wc);
		must(n >= 0 && now_s() < end, "an error completion");
	}
	say("STATUS %d", wc.status);
}

/* ---- a queue that nobody polls --------------------------------------------------------------- */

enum { DEEP = 1800 };

static struct conn deep;

static void deep_recv(uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)deep.mem + AREA, 64, deep.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

	must_zero(ibv_post_recv(deep.qp, &wr, &bad), "ibv_post_recv");
}

static void deep_make(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = DEEP,
						  .max_recv_wr = DEEP,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	conn_make(&deep, &nic);
	must_zero(ibv_destroy_qp(deep.qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(deep.cq), "ibv_destroy_cq");
	deep.cq = ibv_create_cq(nic.ctx, 2 * DEEP + 8, NULL, NULL, 0);
	must(deep.cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = deep.cq;
	deep.qp = ibv_create_qp(nic.pd, &init);
	must(deep.qp, "ibv_create_qp");
	conn_swap(&deep);
	for (uint64_t i = 0; opt.server && i < DEEP; i++)
		deep_recv(i);
	conn_to_rts_alone(&deep);
	meet();
	say("MADE");
}

/* The client sends; the server lets its completions lie. */
static void deep_send(int n)
{
	struct ibv_wc wc = { 0 };
	struct ibv_sge sge;

	for (int i = 0; i < n && !wc.status; i++) {
		struct ibv_send_wr wr = wr_make(&deep, &sge, IBV_WR_SEND);

		post(&deep, &wr);
		conn_poll(&deep, &wc);
	}
	say("SENT %d", wc.status);
}

/* ---- queues of the program's own, too small ------------------------------------------------- */

enum { NARROW = 15 };

static void narrow_make(void)
{
	struct conn *c = &conns[opt.qps];
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = 4 * NARROW,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	conn_make(c, &nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = ibv_create_cq(nic.ctx, NARROW, NULL, NULL, 0);
	must(c->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(nic.pd, &init);
	must(c->qp, "ibv_create_qp");
	conn_swap(c);
	conn_to_rts_alone(c);
	meet();
	say("MADE");
}

/* Signaled requests that nobody polls for: more of them than their queue holds. */
static void narrow_post(int n)
{
	struct conn *c = &conns[opt.qps];

	for (int i = 0; i < n; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = wr_make(c, &sge, IBV_WR_RDMA_WRITE);

		post(c, &wr);
	}
	say("POSTED");
}

/* Reads asynchronous events until one tells that a completion queue overran. */
static void narrow_event(void)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_COMM_EST };

	while (event.event_type != IBV_EVENT_CQ_ERR) {
		must_zero(ibv_get_async_event(nic.ctx, &event), "ibv_get_async_event");
		ibv_ack_async_event(&event);
	}
	say("OVERRAN");
}

/* ---- a queue pair of a type that is not protected ------------------------------------------- */

static void uc_make(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UC,
		.send_cq = conns[0].cq,
		.recv_cq = conns[0].cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp *qp = ibv_create_qp(nic.pd, &init);

	must(qp, "ibv_create_qp");
	must_zero(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp");
	say("MADE");
}

/* ---- words ---------------------------------------------------------------------------------- */

static void talk(void)
{
	for (int i = 0; i < opt.qps; i++)
		conn_talk(&conns[i], TALKS);
	say("TALKED");
}

/* A request on each connection, whose answers nobody waits for yet. */
static void work(void)
{
	for (int i = 0; i < opt.qps; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = wr_make(&conns[i], &sge, IBV_WR_RDMA_WRITE);

		sge.addr += AREA;
		wr.wr.rdma.remote_addr += AREA;
		post(&conns[i], &wr);
	}
	say("POSTED");
}

/* More SENDs than the peer, which posts none, has receives. */
static void rnr(void)
{
	for (int i = 0; i <= DEPTH; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = wr_make(&conns[0], &sge, IBV_WR_SEND);
		struct ibv_wc wc;

		post(&conns[0], &wr);
		if (i < DEPTH)
			conn_poll(&conns[0], &wc);
	}
	say("POSTED");
}

/* An addition to a word of the peer, whose answer nobody waits for yet. */
static void add(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = wr_make(&conns[0], &sge, IBV_WR_ATOMIC_FETCH_AND_ADD);

	sge.length = 8;
	wr.wr.atomic.remote_addr = conns[0].peer.addr + AREA;
	wr.wr.atomic.rkey = conns[0].peer.rkey;
	wr.wr.atomic.compare_add = 1;
	post(&conns[0], &wr);
	say("POSTED");
}

static void close_all(void)
{
	for (int i = 0; i < opt.qps; i++)
		must_zero(ibv_destroy_qp(conns[i].qp), "ibv_destroy_qp");
	say("CLOSED");
}

static void done(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < opt.qps; i++)
		conn_poll(&conns[i], &wc);
	say("DONE %d", wc.status);
}

static void obey(char *word)
{
	char *argument = strchr(word, ' ');

	if (argument)
		*argument++ = 0;
	if (!strcmp(word, "talk"))
		talk();
	else if (!strcmp(word, "err"))
		err_post(&conns[0], argument);
	else if (!strcmp(word, "status"))
		err_await(&conns[0]);
	else if (!strcmp(word, "work"))
		work();
	else if (!strcmp(word, "rnr"))
		rnr();
	else if (!strcmp(word, "done"))
		done();
	else if (!strcmp(word, "add"))
		add();
	else if (!strcmp(word, "close"))
		close_all();
	else if (!strcmp(word, "narrow"))
		narrow_make();
	else if (!strcmp(word, "overrun"))
		narrow_post(atoi(argument));
	else if (!strcmp(word, "event"))
		narrow_event();
	else if (!strcmp(word, "uc"))
		uc_make();
	else if (!strcmp(word, "deep"))
		deep_make();
	else if (!strcmp(word, "send"))
		deep_send(atoi(argument));
	else
		must(false, word);
}

static int number_of(const char *variable, int otherwise)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : otherwise;
}

int main(int argc, char **argv)
{
	char line[LINE];
	int peers = number_of("TRUTH_PEERS", 1), qps = number_of("TRUTH_QPS", 1);

	options_seeded(argc, argv);
	opt.rnr_retry = (uint8_t)number_of("TRUTH_RNR", 7);
	opt.timeout = number_of("TRUTH_TIMEOUT", opt.timeout);
	opt.mtu = (enum ibv_mtu)number_of("TRUTH_MTU", IBV_MTU_1024);
	if (getenv("TRUTH_NIC"))
		opt.dev = getenv("TRUTH_NIC");
	opt.qps = peers * qps;
	conns = calloc((size_t)opt.qps + 1, sizeof(*conns)); /* the last one: of narrow */
	must(conns, "memory");
	nic_open(&nic, opt.dev);
	for (int i = 0; i < opt.qps; i++) {
		if (i % qps == 0)
			line_open(); /* to the next peer */
		conn_make(&conns[i], &nic);
		conn_connect(&conns[i]);
	}
	talk();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "end"))
			break;
		obey(line);
	}
	say("ENDED");
	return 0;
}
