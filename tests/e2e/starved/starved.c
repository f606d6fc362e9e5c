// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * starved: two processes talk by polling. The client polls at SCHED_FIFO, and SHIFT's threads may run on the poller's core
 * alone, at a lower priority of the same policy: neither the throttling of real-time threads nor the kernel's fair server
 * lets them run there. The software NIC keeps its own thread, as a real NIC needs no core.
 *
 *   starved -p PORT [-s] WAY
 *
 * WAY: fault   protected first, then the poller takes the core, and the runner fails the NIC
 *      ex      the same, polled by ibv_start_poll()
 *      silent  the poller takes the core before the queue pair is in RTS: nothing can be protected
 *      policy  the process runs at SCHED_FIFO from its start: which policy have SHIFT's threads?
 */
#include "tests/lib/pair.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HIGH = 50, LOW = 1, NO_CORE = 77, LIMIT_S = 8, SILENT_S = 2 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conn;
static bool extended;
static uint64_t done;

/* ---- whom the core belongs to ---------------------------------------------------------------- */

/* The process ends if its poller has had a core for that long without a rest. */
static void watchdog(void)
{
	struct rlimit limit = { LIMIT_S * 1000000ul, (LIMIT_S + 1) * 1000000ul };

	must_zero(setrlimit(RLIMIT_RTTIME, &limit), "setrlimit of RLIMIT_RTTIME");
}

static bool name_of(const char *tid, char *name, size_t size)
{
	char path[300];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", tid);
	f = fopen(path, "r");
	ok = f && fgets(name, (int)size, f);
	if (f)
		fclose(f);
	return ok;
}

/* The software NIC's thread has that name, or the program's own where the NIC is a process of its own. */
static bool is_the_nic(const char *name)
{
	return !strncmp(name, "simnic", 6) || !strncmp(name, "starved", 7);
}

/* Calls act(tid) for each thread of the process but the caller and the NIC. */
static int for_each_thread(void (*act)(pid_t tid))
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	char name[64];
	int n = 0;

	must(dir, "/proc/self/task");
	while ((entry = readdir(dir))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (!tid || tid == gettid() || !name_of(entry->d_name, name, sizeof(name)) ||
		    is_the_nic(name))
			continue;
		act(tid);
		n++;
	}
	closedir(dir);
	return n;
}

static cpu_set_t core;

static void lower(pid_t tid)
{
	struct sched_param param = { .sched_priority = LOW };

	must_zero(sched_setaffinity(tid, sizeof(core), &core), "sched_setaffinity of a thread");
	must_zero(sched_setscheduler(tid, SCHED_FIFO, &param), "sched_setscheduler of a thread");
}

static void take_core(void)
{
	struct sched_param param = { .sched_priority = HIGH };
	int n;

	CPU_ZERO(&core);
	CPU_SET(sched_getcpu(), &core);
	watchdog();
	must_zero(sched_setaffinity(0, sizeof(core), &core), "sched_setaffinity");
	n = for_each_thread(lower);
	must_zero(sched_setscheduler(0, SCHED_FIFO, &param), "sched_setscheduler");
	say("POLLS on core %d, above %d threads", sched_getcpu(), n);
}

static void give_core_back(void)
{
	struct sched_param param = { 0 };

	must_zero(sched_setscheduler(0, SCHED_OTHER, &param), "sched_setscheduler");
}

static bool may_take_core(void)
{
	struct sched_param param = { .sched_priority = HIGH };
	cpu_set_t all;
	bool may = !sched_getaffinity(0, sizeof(all), &all) && CPU_COUNT(&all) > 1 &&
		   !sched_setscheduler(0, SCHED_FIFO, &param);

	give_core_back();
	return may;
}

/* ---- messages --------------------------------------------------------------------------------- */

static int poll_ex(struct ibv_wc *wc)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)conn.cq;
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(ex, &attr))
		return 0;
	wc->wr_id = ex->wr_id;
	wc->status = ex->status;
	wc->opcode = wc->status ? 0 : ibv_wc_read_opcode(ex);
	ibv_end_poll(ex);
	return 1;
}

/* Until the runner has said its word and all is complete. Nothing here lets another thread have the core. */
static void talk(double patience)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	double last = now_s();
	struct ibv_wc wc;
	bool told = false;

	while (!told || done != conn.sent) {
		told = told || poll(&in, 1, 0) == 1;
		while (!told && conn.sent < done + DEPTH / 2)
			conn_post_send(&conn, conn.sent++);
		if ((extended ? poll_ex(&wc) : ibv_poll_cq(conn.cq, 1, &wc)) == 1) {
			if (wc.status)
				say("FAILED status %d", wc.status);
			must(!wc.status, "a good completion");
			must(wc.wr_id == done++, "send completions in order");
			last = now_s();
		} else if (now_s() > last + patience) {
			give_core_back();
			must(false, "a completion or an error in time");
		}
	}
	give_core_back();
	say("DONE %llu", (unsigned long long)done);
}

static void listen_on(void)
{
	struct pollfd line = { .fd = sock, .events = POLLIN };
	struct ibv_wc wc;

	while (!poll(&line, 1, 0)) {
		while (ibv_poll_cq(conn.cq, 1, &wc) == 1) {
			must(!wc.status, "a good completion");
			conn_arrived(&conn, &wc);
		}
		usleep(20);
	}
}

/* Messages for some time, whoever says what. */
static void talk_for(double seconds)
{
	double end = now_s() + seconds;
	struct ibv_wc wc;

	while (now_s() < end) {
		while (conn.sent < done + DEPTH / 2)
			conn_post_send(&conn, conn.sent++);
		if (ibv_poll_cq(conn.cq, 1, &wc) == 1) {
			must(!wc.status, "a good completion");
			done++;
		}
	}
	give_core_back();
}

/* ---- ways ------------------------------------------------------------------------------------- */

static void make_extended(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_cq_init_attr_ex attr = { .cqe = 4 * DEPTH };

	must_zero(ibv_destroy_qp(conn.qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(conn.cq), "ibv_destroy_cq");
	conn.cq = (struct ibv_cq *)ibv_create_cq_ex(nic.ctx, &attr);
	must(conn.cq, "ibv_create_cq_ex");
	init.send_cq = init.recv_cq = conn.cq;
	conn.qp = ibv_create_qp(nic.pd, &init);
	must(conn.qp, "ibv_create_qp");
}

static void run_fault(void)
{
	conn_connect(&conn);
	say("CONNECTED");
	if (opt.server) {
		listen_on();
		return;
	}
	hear("begin");
	take_core();
	talk(LIMIT_S / 2);
}

static void run_silent(void)
{
	conn_swap(&conn);
	conn_lay(&conn);
	conn_to_rtr(&conn);
	if (opt.server)
		conn_to_rts(&conn);
	meet();
	if (opt.server) {
		listen_on();
		return;
	}
	take_core();
	conn_to_rts(&conn);
	talk_for(SILENT_S);
}

static int real_time;

static void count_real_time(pid_t tid)
{
	int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;

	real_time += policy == SCHED_FIFO || policy == SCHED_RR;
}

static void run_policy(void)
{
	struct sched_param param = { .sched_priority = HIGH };
	int n;

	watchdog();
	must_zero(sched_setscheduler(0, SCHED_FIFO, &param), "sched_setscheduler");
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	n = for_each_thread(count_real_time);
	give_core_back();
	say("THREADS %d, real-time %d", n, real_time);
}

int main(int argc, char **argv)
{
	const char *way;

	options_seeded(argc, argv);
	way = argv[optind];
	must(way, "a way");
	if (!opt.server && !may_take_core()) {
		say("SKIPPED: no second core, or no right to a real-time policy");
		return NO_CORE;
	}
	if (!strcmp(way, "policy")) {
		run_policy();
		return 0;
	}
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	extended = !strcmp(way, "ex");
	if (extended)
		make_extended();
	if (!strcmp(way, "silent"))
		run_silent();
	else
		run_fault();
	meet();
	conn_free(&conn);
	nic_close(&nic);
	return 0;
}
