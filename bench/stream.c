// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * stream: WRITEs as fast as they complete, from the client into the server, until told to end. It
 * prints when no completion came for long, in nanoseconds of CLOCK_MONOTONIC.
 */
#include "tests/lib/pair.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = AREA / 2, GAPS_MAX = 1 << 16, LOOK_EVERY = 1024, DMABUFS_MAX = 1024, PAGE = 4096 };

struct options opt = { .port = 18515, .timeout = 20, .dev = "mlx5_0" };

static struct {
	uint64_t from_ns, to_ns;
} gaps[GAPS_MAX];
static unsigned int n_gaps;
static uint64_t gap_ns = 100000;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void post(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, SIZE, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = c->sent++,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr + AREA, c->peer.rkey } },
			   *bad;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

static void note(uint64_t from, uint64_t to)
{
	if (to - from < gap_ns)
		return;
	must(n_gaps < GAPS_MAX, "room for so many gaps");
	gaps[n_gaps].from_ns = from;
	gaps[n_gaps++].to_ns = to;
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static void take(struct conn *c, const struct ibv_wc *wc)
{
	if (wc->status) {
		say("ERROR %d %" PRIu64, wc->status, now_ns());
		_exit(1);
	}
	must(wc->wr_id == c->got++, "completions in order");
}

static void stream(struct conn *c)
{
	uint64_t last = now_ns();
	struct ibv_wc wc[DEPTH];
	unsigned int looks = 0;
	bool ends = false;

	while (!ends || c->got < c->sent) {
		int n = ibv_poll_cq(c->cq, DEPTH, wc);

		must(n >= 0, "ibv_poll_cq");
		if (n) {
			uint64_t now = now_ns();

			note(last, now);
			last = now;
		}
		for (int i = 0; i < n; i++)
			take(c, &wc[i]);
		while (!ends && c->sent - c->got < DEPTH)
			post(c);
		if (++looks % LOOK_EVERY == 0)
			ends = ends || told();
	}
}

static void print_gaps(const struct conn *c)
{
	for (unsigned int i = 0; i < n_gaps; i++)
		printf("GAP %" PRIu64 " %" PRIu64 "\n", gaps[i].from_ns, gaps[i].to_ns);
	say("COMPLETIONS %" PRIu64, c->got);
}

/* ---- regions in other devices' memory -------------------------------------------------------- */

static struct ibv_mr *dmabufs[DMABUFS_MAX];
static int n_dmabufs;

/* Any file that can be mapped serves as a dma-buf. */
static void dmabufs_make(struct ibv_pd *pd)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	must(n_dmabufs <= DMABUFS_MAX, "so many dma-bufs");
	for (int i = 0; i < n_dmabufs; i++) {
		int fd = memfd_create("stream", MFD_CLOEXEC);

		must_zero(ftruncate(fd, PAGE), "ftruncate");
		dmabufs[i] = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, access);
		must(dmabufs[i], "ibv_reg_dmabuf_mr");
		close(fd);
	}
}

static void dmabufs_free(void)
{
	for (int i = 0; i < n_dmabufs; i++)
		must_zero(ibv_dereg_mr(dmabufs[i]), "ibv_dereg_mr");
}

static int options_read(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--timeout") && i + 1 < argc)
			opt.timeout = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--gap-us") && i + 1 < argc)
			gap_ns = strtoull(argv[++i], NULL, 0) * 1000;
		else if (!strcmp(argv[i], "--dmabufs") && i + 1 < argc)
			n_dmabufs = atoi(argv[++i]);
		else if (strcmp(argv[i], "--client"))
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct nic nic;
	struct conn c;

	if (options_read(argc, argv)) {
		fputs("usage: stream --server|--client [--port N] [--timeout N] [--gap-us N] "
		      "[--dmabufs N]\n",
		      stderr);
		return 2;
	}
	line_open();
	nic_open(&nic, opt.dev);
	dmabufs_make(nic.pd);
	conn_make(&c, &nic);
	conn_connect(&c);
	say("STREAMING");
	if (opt.server)
		hear("end");
	else
		stream(&c);
	meet();
	print_gaps(&c);
	conn_free(&c);
	dmabufs_free();
	nic_close(&nic);
	say("OK");
	return 0;
}
