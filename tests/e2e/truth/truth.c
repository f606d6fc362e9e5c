// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * truth: two ends that do what the runner says, a line for each word: talk, rest, wait for work, or err as
 * programs do. The runner makes the faults, and reads what SHIFT tells of them.
 */
#include "tests/lib/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TALKS = 20, LINE = 64, OTHERS = 4 };

struct options opt = { .port = 18515, .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn *conns; /* opt.qps of them */
static struct ibv_cq *small;
static struct conn other[OTHERS];

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

/* More completions than the queue holds, as nobody polls it. */
static void overrun_make(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 512, .max_send_sge = 1 } };

	small = ibv_create_cq(nic.ctx, 15, NULL, NULL, 0);
	must(small, "ibv_create_cq");
	conn_make(&other[0], &nic);
	must_zero(ibv_destroy_qp(other[0].qp), "ibv_destroy_qp");
	init.send_cq = init.recv_cq = small;
	other[0].qp = ibv_create_qp(nic.pd, &init);
	must(other[0].qp, "ibv_create_qp");
	conn_connect_bare(&other[0]);
	say("MADE");
}

static void overrun(void)
{
	for (int i = 0; i < 400; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = wr_make(&other[0], &sge, IBV_WR_RDMA_WRITE);

		post(&other[0], &wr);
	}
	say("OVERRUN");
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
	else if (!strcmp(word, "done"))
		done();
	else if (!strcmp(word, "small"))
		overrun_make();
	else if (!strcmp(word, "overrun"))
		overrun();
	else
		must(false, word);
}

int main(int argc, char **argv)
{
	char line[LINE];
	const char *qps = getenv("TRUTH_QPS");

	options_seeded(argc, argv);
	opt.qps = qps ? atoi(qps) : 1;
	conns = calloc((size_t)opt.qps, sizeof(*conns));
	must(conns, "memory");
	line_open();
	nic_open(&nic, opt.dev);
	for (int i = 0; i < opt.qps; i++) {
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
