// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * within: queue pairs that are connected to one of the same process, as collectives and RPC
 * libraries make them, and loopback QPs, as NCCL has to make data of its NIC visible. Numbered
 * messages go both ways and are checked, until the runner says "end" and something has come on each.
 * With an argument there is only the loopback QP, and it is silent until the runner
 * says "talk".
 */
#include "tests/lib/pair.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNS = 3, SELF = 2, BURST = DEPTH / 2 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

static struct conn conns[CONNS]; /* 0 and 1: each other's; SELF: its own */
static uint64_t done[CONNS], reads;
static int first; /* of those that there are */

static void connect_to(struct conn *c, const struct conn *peer)
{
	conn_to_init(c);
	conn_lay(c);
	c->peer = peer->own;
	conn_to_rts_alone(c);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void take(int i, const struct ibv_wc *wc)
{
	if (wc->status)
		say("FAILED status %d of QP 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "a good completion");
	if (wc->opcode & IBV_WC_RECV)
		conn_arrived(&conns[i], wc);
	else if (wc->opcode == IBV_WC_RDMA_READ)
		reads++;
	else
		must(wc->wr_id == done[i]++, "send completions in order");
}

static void burst(int i, const struct conn *to)
{
	struct conn *c = &conns[i];

	while (c->sent < done[i] + BURST && c->sent < to->got + BURST)
		conn_post_send(c, c->sent++);
}

/* What was sent to itself is read back: the number of the first message under way, or a later one. */
static void read_back(struct conn *c)
{
	static uint64_t asked;
	struct ibv_sge sge = { (uintptr_t)c->mem + AREA - sizeof(uint64_t), sizeof(uint64_t),
			       c->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { c->own.addr + AREA, c->own.rkey } },
			   *bad;

	if (reads < asked)
		return;
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send of a READ");
	asked++;
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static bool poll_all(void)
{
	struct ibv_wc wc;
	bool any = false;
	int i, n;

	for (i = first; i < CONNS; i++) {
		while ((n = ibv_poll_cq(conns[i].cq, 1, &wc)) > 0) {
			take(i, &wc);
			any = true;
		}
		must(!n, "ibv_poll_cq");
	}
	return any;
}

/* However soon the runner says its word. */
static bool all_carried(void)
{
	int i;

	for (i = first; i < CONNS; i++)
		if (!conns[i].got)
			return false;
	return reads;
}

static bool all_arrived(void)
{
	return conns[0].got == conns[1].sent && conns[1].got == conns[0].sent &&
	       conns[SELF].got == conns[SELF].sent && done[0] == conns[0].sent &&
	       done[1] == conns[1].sent && done[SELF] == conns[SELF].sent;
}

int main(int argc, char **argv)
{
	struct nic nic;
	double end;
	int i;

	(void)argv;
	first = argc > 1 ? SELF : 0;
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	nic_open(&nic, opt.dev);
	for (i = first; i < CONNS; i++) {
		conn_make(&conns[i], &nic);
		conn_set_own(&conns[i]);
	}
	if (!first) {
		connect_to(&conns[0], &conns[1]);
		connect_to(&conns[1], &conns[0]);
	}
	connect_to(&conns[SELF], &conns[SELF]);
	say("CONNECTED %d", CONNS - first);
	if (first)
		hear("talk");
	while (!told() || !all_carried()) {
		if (!first) {
			burst(0, &conns[1]);
			burst(1, &conns[0]);
		}
		burst(SELF, &conns[SELF]);
		read_back(&conns[SELF]);
		if (!poll_all())
			usleep(50);
	}
	for (end = now_s() + 20; !all_arrived(); poll_all())
		must(now_s() < end, "all messages within 20 s");
	say("OK %llu %llu %llu, %llu reads", (unsigned long long)conns[0].got,
	    (unsigned long long)conns[1].got, (unsigned long long)conns[SELF].got,
	    (unsigned long long)reads);
	for (i = first; i < CONNS; i++)
		conn_free(&conns[i]);
	nic_close(&nic);
	return 0;
}
