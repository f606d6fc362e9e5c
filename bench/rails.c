// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rails: two processes with queue pairs on each of N NICs to the same NIC of the other. Either
 * streams of WRITEs, some queue pairs to a stream, counted when the runner asks; or all-reduces,
 * as a ring of two: each rail has its slice of the array, and each process sums up one half of it.
 * Every sum is checked.
 */
#include "tests/lib/pair.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	RAILS_MAX = 8,
	CONNS_MAX = 2048,
	PIECE = 4096,
	OUTSTANDING = 2, /* most WRITEs of a queue pair */
	CALM_US = 200,	 /* no completion: the NICs are the bottleneck, not this loop */
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

struct options opt = { .port = 18515, .timeout = 18, .mtu = IBV_MTU_4096 };

static struct rail {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint32_t *mem; /* slice, then the peer's part */
} rails[RAILS_MAX];
static struct conn conns[CONNS_MAX]; /* rail by rail */
static int n_rails = 2, per_rail, streams = 1;
static size_t half = 4 * PIECE; /* bytes of half a slice */
static uint64_t posted[CONNS_MAX], done[CONNS_MAX];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static void rail_open(struct rail *rail, int number)
{
	char dev[16];

	snprintf(dev, sizeof(dev), "mlx5_%d", number);
	nic_open(&rail->nic, dev);
	must_zero(posix_memalign((void **)&rail->mem, 4096, 3 * half), "memory");
	memset(rail->mem, 0, 3 * half);
	rail->mr = ibv_reg_mr(rail->nic.pd, rail->mem, 3 * half, ACCESS);
	must(rail->mr, "ibv_reg_mr");
	rail->cq = ibv_create_cq(rail->nic.ctx, per_rail * OUTSTANDING * 2, NULL, NULL, 0);
	must(rail->cq, "ibv_create_cq");
}

static void conn_open(struct conn *c, struct rail *rail)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .send_cq = rail->cq,
					 .recv_cq = rail->cq,
					 .cap = { .max_send_wr = OUTSTANDING,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	c->nic = &rail->nic;
	c->cq = rail->cq;
	c->mr = rail->mr;
	c->mem = (uint8_t *)rail->mem;
	c->qp = ibv_create_qp(rail->nic.pd, &init);
	must(c->qp, "ibv_create_qp");
}

static int n_conns(void)
{
	return n_rails * per_rail;
}

static void open_all(void)
{
	for (int r = 0; r < n_rails; r++)
		rail_open(&rails[r], r);
	for (int i = 0; i < n_conns(); i++)
		conn_open(&conns[i], &rails[i / per_rail]);
	for (int i = 0; i < n_conns(); i++) {
		conn_swap(&conns[i]);
		conn_to_rts_alone(&conns[i]);
	}
	meet();
}

static void close_all(void)
{
	for (int i = 0; i < n_conns(); i++)
		must_zero(ibv_destroy_qp(conns[i].qp), "ibv_destroy_qp");
	for (int r = 0; r < n_rails; r++) {
		must_zero(ibv_destroy_cq(rails[r].cq), "ibv_destroy_cq");
		must_zero(ibv_dereg_mr(rails[r].mr), "ibv_dereg_mr");
		nic_close(&rails[r].nic);
	}
}

/* ---- WRITEs --------------------------------------------------------------------------------- */

static void post(int i, size_t from, size_t to, size_t length)
{
	struct conn *c = &conns[i];
	struct ibv_sge sge = { (uintptr_t)c->mem + from, (uint32_t)length, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr + to, c->peer.rkey } },
			   *bad;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	posted[i]++;
}

/* Completions of all rails; false: there were none. */
static bool take(void)
{
	struct ibv_wc wc[64];
	bool any = false;

	for (int r = 0; r < n_rails; r++) {
		int n = ibv_poll_cq(rails[r].cq, 64, wc);

		must(n >= 0, "ibv_poll_cq");
		for (int k = 0; k < n; k++) {
			if (wc[k].status)
				say("STATUS %d", wc[k].status);
			must(!wc[k].status, "a completion");
			done[wc[k].wr_id]++;
		}
		any |= n > 0;
	}
	return any;
}

static void take_or_wait(void)
{
	if (!take())
		usleep(CALM_US);
}

static void await_done(void)
{
	for (int i = 0; i < n_conns(); i++)
		while (done[i] < posted[i])
			take_or_wait();
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Prints the count of each stream, those of the first rail first. */
static void mark(void)
{
	printf("MARK %" PRIu64, now_ns());
	for (int s = 0; s < n_rails * streams; s++) {
		int first = s * (per_rail / streams);
		uint64_t sum = 0;

		for (int i = first; i < first + per_rail / streams; i++)
			sum += done[i];
		printf(" %" PRIu64, sum);
	}
	printf("\n");
	fflush(stdout);
}

/* False: the runner wants the end. */
static bool obey(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[32];

	if (poll(&in, 1, 0) != 1)
		return true;
	if (!fgets(line, sizeof(line), stdin) || strcmp(line, "mark\n"))
		return false;
	mark();
	return true;
}

static void stream(void)
{
	while (obey()) {
		for (int i = 0; i < n_conns(); i++)
			while (posted[i] - done[i] < OUTSTANDING)
				post(i, 0, half, PIECE);
		take_or_wait();
	}
	await_done();
}

/* ---- all-reduce ----------------------------------------------------------------------------- */

static uint32_t value(uint64_t step, int rank, int rail, size_t at)
{
	return (uint32_t)(step * 2654435761u + (size_t)rail * 40503u + at * (rank ? 7 : 3));
}

/* Bytes from..from+half of the slice, to..; each queue pair has its share of the pieces. */
static void send_half(size_t from, size_t to)
{
	size_t pieces = half / PIECE;

	for (size_t p = 0; p < pieces; p++)
		for (int r = 0; r < n_rails; r++) {
			int i = r * per_rail + (int)(p % (size_t)per_rail);

			while (posted[i] - done[i] >= OUTSTANDING)
				take_or_wait();
			post(i, from + p * PIECE, to + p * PIECE, PIECE);
		}
	await_done();
	meet(); /* the peer's have come too */
}

static void reduce_once(uint64_t step, int rank)
{
	size_t words = half / sizeof(uint32_t), own = rank ? words : 0, other = words - own;

	for (int r = 0; r < n_rails; r++)
		for (size_t at = 0; at < 2 * words; at++)
			rails[r].mem[at] = value(step, rank, r, at);
	meet();
	send_half(other * sizeof(uint32_t), 2 * half);
	for (int r = 0; r < n_rails; r++)
		for (size_t k = 0; k < words; k++)
			rails[r].mem[own + k] += rails[r].mem[2 * words + k];
	send_half(own * sizeof(uint32_t), own * sizeof(uint32_t));
	for (int r = 0; r < n_rails; r++)
		for (size_t at = 0; at < 2 * words; at++)
			must(rails[r].mem[at] == value(step, 0, r, at) + value(step, 1, r, at),
			     "the sum");
}

static void reduce(void)
{
	uint64_t from;

	for (uint64_t step = 0; !both_told(); step++) {
		from = now_ns();
		reduce_once(step, !opt.server);
		say("STEP %" PRIu64 " %" PRIu64, from, now_ns());
	}
}

/* ---- all of it ------------------------------------------------------------------------------ */

static bool reduces;

static int options_read(int argc, char **argv)
{
	int qps = 1;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--reduce"))
			reduces = true;
		else if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--nics") && i + 1 < argc)
			n_rails = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--streams") && i + 1 < argc)
			streams = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--qps") && i + 1 < argc)
			qps = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--timeout") && i + 1 < argc)
			opt.timeout = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--pieces") && i + 1 < argc)
			half = (size_t)atoi(argv[++i]) * PIECE;
		else if (strcmp(argv[i], "--client"))
			return -1;
	}
	per_rail = streams * qps;
	return n_rails < 1 || n_rails > RAILS_MAX || per_rail < 1 || n_conns() > CONNS_MAX || !half
		       ? -1
		       : 0;
}

int main(int argc, char **argv)
{
	if (options_read(argc, argv)) {
		fputs("usage: rails --server|--client [--port N] [--nics N] [--streams OF_A_NIC] "
		      "[--qps OF_A_STREAM] [--reduce] [--pieces OF_HALF_A_SLICE] [--timeout "
		      "OF_QPS]\n",
		      stderr);
		return 2;
	}
	line_open();
	open_all();
	say("READY");
	hear("go");
	if (reduces)
		reduce();
	else if (opt.server)
		hear("end");
	else
		stream();
	meet();
	close_all();
	say("OK");
	return 0;
}
