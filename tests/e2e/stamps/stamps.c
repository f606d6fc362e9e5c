// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * stamps: one process with two queue pairs that are connected to each other, on extended completion
 * queues with timestamps (with "wall", of the wall clock). Each completion's time must lie between
 * two readings of the device's clock: one before the request was posted, one behind the completion.
 * "plain" gives the first queue pair's sends timestamps only, and the second one a completion queue
 * without them.
 */
#include "tests/lib/pair.h"

#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { A, B, CONNS };

struct options opt = { .timeout = 16, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conns[CONNS];
static struct ibv_cq_ex *cqs[CONNS];
static bool wall;
static uint64_t last, stamps;

/* ---- clocks --------------------------------------------------------------------------------- */

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The device's raw clock is a timespec whose nanoseconds are cycles. */
static uint64_t clock_now(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	if (wall)
		return wall_ns();
	must_zero(ibv_query_rt_values_ex(nic.ctx, &values), "ibv_query_rt_values_ex");
	must(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK, "a raw clock");
	return (uint64_t)values.raw_clock.tv_nsec;
}

/*
 * The wall clock is told in whole cycles, and each conversion rounds: a microsecond is far more
 * than that.
 */
static void check(uint64_t stamp, uint64_t before)
{
	uint64_t after = clock_now(), slack = wall ? 1000 : 0;

	if (stamp + slack < before || stamp > after + slack || stamp + slack < last)
		say("FAILED stamp %llu, not from %llu to %llu; the last one %llu",
		    (unsigned long long)stamp, (unsigned long long)before,
		    (unsigned long long)after, (unsigned long long)last);
	must(stamp + slack >= before && stamp <= after + slack, "a time of the default NIC");
	must(stamp + slack >= last, "times that rise");
	last = stamp;
	stamps++;
}

/*
 * What the driver says of its clock leads to the wall clock, whose present time nobody knows
 * exactly.
 */
static void check_info(void)
{
	struct ibv_device_attr_ex attr;
	struct mlx5dv_clock_info info;
	uint64_t before = wall_ns(), ns;

	must_zero(ibv_query_device_ex(nic.ctx, NULL, &attr), "ibv_query_device_ex");
	must(attr.hca_core_clock && attr.completion_timestamp_mask, "a core clock");
	must_zero(mlx5dv_get_clock_info(nic.ctx, &info), "mlx5dv_get_clock_info");
	ns = mlx5dv_ts_to_ns(&info, info.last_cycles + attr.hca_core_clock * 1000);
	must(ns - info.nsec > 999000000 && ns - info.nsec < 1001000000, "a second of the clock");
	must(info.nsec <= wall_ns() && info.nsec + 60000000000ull > before, "the time of day");
}

/* ---- messages ------------------------------------------------------------------------------- */

static void take_one(int i, uint64_t before)
{
	struct ibv_poll_cq_attr attr = { 0 };
	double end = now_s() + 30;
	struct ibv_wc wc;

	if (!cqs[i]) {
		must(!conn_poll(&conns[i], &wc), "a good completion");
		return;
	}
	while (ibv_start_poll(cqs[i], &attr)) {
		must(now_s() < end, "a completion in time");
		usleep(20);
	}
	must(!cqs[i]->status, "a good completion");
	check(wall ? ibv_wc_read_completion_wallclock_ns(cqs[i])
		   : ibv_wc_read_completion_ts(cqs[i]),
	      before);
	ibv_end_poll(cqs[i]);
}

static void message(void)
{
	uint64_t before = clock_now();

	conn_post_send(&conns[A], conns[A].sent++);
	take_one(B, before);
	take_one(A, before);
	conn_post_recv(&conns[B], conns[B].got++);
}

/* ---- setting up ----------------------------------------------------------------------------- */

static struct ibv_cq *cq_make(int i, bool stamped)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4 * DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS |
			    (wall ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
				  : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP),
	};

	if (!stamped)
		return ibv_create_cq(nic.ctx, 4 * DEPTH, NULL, NULL, 0);
	cqs[i] = ibv_create_cq_ex(nic.ctx, &attr);
	must(cqs[i], "ibv_create_cq_ex with timestamps");
	return ibv_cq_ex_to_cq(cqs[i]);
}

static void conn_build(int i, bool stamped)
{
	struct conn *c = &conns[i];
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .srq = i == B ? nic.srq : NULL,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	c->nic = &nic;
	must_zero(posix_memalign((void **)&c->mem, 4096, 2 * AREA), "memory");
	memset(c->mem, 0, 2 * AREA);
	c->mr = ibv_reg_mr(nic.pd, c->mem, 2 * AREA, IBV_ACCESS_LOCAL_WRITE);
	must(c->mr, "ibv_reg_mr");
	c->cq = cq_make(i, stamped);
	must(c->cq, "a completion queue");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(nic.pd, &init);
	must(c->qp, "ibv_create_qp");
	conn_set_own(c);
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

int main(int argc, char **argv)
{
	bool plain = argc > 1 && !strcmp(argv[1], "plain");
	int i;

	wall = argc > 1 && !strcmp(argv[1], "wall");
	setvbuf(stdin, NULL, _IONBF, 0);
	nic_open(&nic, opt.dev);
	check_info();
	for (i = 0; i < CONNS; i++)
		conn_build(i, i == A || !plain);
	for (i = 0; i < CONNS; i++) {
		conns[i].peer = conns[!i].own;
		conn_to_init(&conns[i]);
		conn_to_rtr(&conns[i]);
		conn_to_rts(&conns[i]);
	}
	conn_lay(&conns[B]);
	conns[B].got = DEPTH;
	say("CONNECTED");
	while (!told()) {
		message();
		usleep(1000);
	}
	hear("end");
	check_info();
	say("OK %llu", (unsigned long long)stamps);
	return 0;
}
