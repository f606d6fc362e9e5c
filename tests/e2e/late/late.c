/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions come and go while connections move. The server has them, and puts a pattern into the memory of one as soon as it is
 * deregistered, as a program that frees it may; the client writes where it is told to. Nothing may change that memory any more.
 *
 *   late -p PORT [-s] [-q QPS] [-S SEED] [-r ROUNDS] [-n NICS] random|gone
 *
 * random: ROUNDS at random, whatever befalls the NICs meanwhile. gone: all regions go at the runner's word, when so many NICs
 * (-n) have them; it moves the connections at once, and names the NICs that they moved to.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum {
	MOST = 16,
	SLOTS = 48,
	GONE = 0xc5,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
};
enum what { WRITE, STALE, END };

struct slot {
	uint8_t *mem;
	struct ibv_mr *mr;
};

/* What the client is to do, and what came of it. */
struct order {
	uint32_t what, conn, rkey, status;
	uint64_t addr, value;
};

struct options opt = { .timeout = 18, .dev = "mlx5_0", .qps = 6, .rounds = 400 };
static struct nic nic;
static struct conn conns[MOST];
static struct slot slots[SLOTS];
static uint64_t seed = 1;

static uint32_t any(uint32_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % n;
}

/* ---- the client ----------------------------------------------------------------------------- */

static void client_write(struct order *order)
{
	struct conn *c = &conns[order->conn];
	struct ibv_sge sge = { (uintptr_t)c->mem, sizeof(order->value), c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { order->addr, order->rkey } },
			   *bad;
	struct ibv_wc wc;

	memcpy(c->mem, &order->value, sizeof(order->value));
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	if (order->what == STALE)
		say("STALE");
	order->status = (uint32_t)conn_poll(c, &wc);
}

static void client(void)
{
	struct order order = { 0 }, told;

	for (;;) {
		swap(&order, &told, sizeof(order));
		order = told;
		if (order.what == END)
			break;
		client_write(&order);
		swap(&order, &told, sizeof(order));
	}
}

/* ---- the server ----------------------------------------------------------------------------- */

static void slot_register(struct slot *slot)
{
	slot->mr = ibv_reg_mr(nic.pd, slot->mem, PART, ACCESS);
	must(slot->mr, "ibv_reg_mr");
}

/* The key that it had. */
static uint32_t slot_free(struct slot *slot)
{
	uint32_t rkey = slot->mr->rkey;

	must_zero(ibv_dereg_mr(slot->mr), "ibv_dereg_mr");
	slot->mr = NULL;
	memset(slot->mem, GONE, PART);
	return rkey;
}

static void slots_check(void)
{
	for (int i = 0; i < SLOTS; i++)
		for (int k = 0; !slots[i].mr && k < PART; k++)
			must(slots[i].mem[k] == GONE, "memory that was deregistered, as it was");
}

static uint32_t ask(uint32_t what, const struct slot *slot, uint32_t rkey, uint64_t value)
{
	struct order order = { .what = what,
			       .conn = any((uint32_t)opt.qps),
			       .rkey = rkey,
			       .addr = (uintptr_t)slot->mem,
			       .value = value },
		     told;

	swap(&order, &told, sizeof(order));
	if (what == END)
		return 0;
	swap(&order, &told, sizeof(order));
	return told.status;
}

static void slot_write(struct slot *slot)
{
	uint64_t value = seed, got;
	uint32_t status = ask(WRITE, slot, slot->mr->rkey, value);

	must(!status, ibv_wc_status_str((enum ibv_wc_status)status));
	memcpy(&got, slot->mem, sizeof(got));
	must(got == value, "what was written to a region");
}

static void random_round(void)
{
	struct slot *slot = &slots[any(SLOTS)];

	if (!slot->mr)
		slot_register(slot);
	if (any(4))
		slot_write(slot);
	if (any(2))
		slot_free(slot);
	if (!any(8))
		usleep(any(20000)); /* some live long */
	slots_check();
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static void random_rounds(void)
{
	for (int i = 0; i < opt.rounds || !told(); i++) {
		random_round();
		if (i % 50 == 0)
			say("ROUND %d", i);
	}
}

/* On stock that is harmless as long as no message comes, and none does. */
static void receive_into(const struct slot *slot)
{
	struct ibv_sge sge = { (uintptr_t)slot->mem, PART, slot->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < opt.qps; i++)
		must_zero(ibv_post_recv(conns[i].qp, &wr, &bad), "ibv_post_recv");
}

/* Who asks for a region that is gone is refused, and on no NIC that connections are on is any left. */
static void all_gone(void)
{
	char line[128] = "", *to;
	uint32_t rkey = 0, status;

	for (int i = 0; i < SLOTS; i++)
		slot_register(&slots[i]);
	for (int i = 0; i < SLOTS; i++) /* the runner's patience is the limit */
		while (reachable(slots[i].mem, PART) < (unsigned int)opt.regions)
			usleep(1000);
	slot_write(&slots[0]);
	receive_into(&slots[0]);
	say("THERE");
	hear("go");
	for (int i = 0; i < SLOTS; i++)
		rkey = slot_free(&slots[i]);
	say("GONE");
	must(fgets(line, sizeof(line), stdin), "a word of the runner");
	for (to = strtok(line, " \n"); to; to = strtok(NULL, " \n"))
		for (int i = 0; i < SLOTS; i++)
			must(!reachable_by(to, slots[i].mem, PART),
			     "no region that is gone on the NIC of a connection");
	status = ask(STALE, &slots[SLOTS - 1], rkey, 1);
	must(status == IBV_WC_REM_ACCESS_ERR, ibv_wc_status_str((enum ibv_wc_status)status));
	slots_check();
}

/* ---- both ----------------------------------------------------------------------------------- */

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:q:S:r:n:")) != -1) {
		must(c != '?', "an option");
		switch (c) {
		case 's': opt.server = true; break;
		case 'p': opt.port = atoi(optarg); break;
		case 'q': opt.qps = atoi(optarg); break;
		case 'S': seed = strtoull(optarg, NULL, 0); break;
		case 'r': opt.rounds = atoi(optarg); break;
		default: opt.regions = atoi(optarg);
		}
	}
	must(optind + 1 == argc && opt.qps <= MOST, "random or gone");
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	line_open();
	nic_open(&nic, opt.dev);
	for (int i = 0; i < opt.qps; i++) {
		conn_make(&conns[i], &nic);
		conn_connect_bare(&conns[i]);
	}
	for (int i = 0; i < SLOTS; i++) {
		must_zero(posix_memalign((void **)&slots[i].mem, PART, PART), "memory");
		memset(slots[i].mem, GONE, PART);
	}
	say("CONNECTED");
	hear("begin");
	if (!opt.server) {
		client();
	} else {
		if (!strcmp(argv[optind], "random"))
			random_rounds();
		else
			all_gone();
		ask(END, &slots[0], 0, 0);
	}
	say("OK");
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].mr)
			must_zero(ibv_dereg_mr(slots[i].mr), "ibv_dereg_mr");
	for (int i = 0; i < opt.qps; i++)
		conn_free(&conns[i]);
	nic_close(&nic);
	return 0;
}
