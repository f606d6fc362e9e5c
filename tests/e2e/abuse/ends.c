// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What happens at the wrong moment: late memory, exits, forks, dead peers, NICs that hang. */
#include "abuse.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- late memory: registered after the move, written by the peer at once -------------------- */

struct late {
	uint32_t rkey;
	uint64_t addr;
};

static void late_write(struct conn *c, const struct ibv_mr *mr, const struct late *to, int round)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, PART, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)round,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { to->addr, to->rkey } },
			   *bad;
	struct ibv_wc wc;

	memset(mr->addr, round % 255 + 1, PART);
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send of new memory");
	if (conn_poll(c, &wc))
		say("FAILED status %d", wc.status);
	must(!wc.status && wc.wr_id == (uint64_t)round, "a WRITE to new memory");
}

static void late_round(struct conn *c, int round)
{
	uint8_t *mem = aligned_alloc(4096, 2 * PART);
	struct late mine, theirs;
	struct ibv_mr *mr;

	must(mem, "memory");
	memset(mem, 0, 2 * PART);
	mr = ibv_reg_mr(c->nic->pd, mem, 2 * PART,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(mr, "ibv_reg_mr of new memory");
	mine = (struct late){ mr->rkey, (uintptr_t)mem + PART };
	swap(&mine, &theirs, sizeof(mine));
	late_write(c, mr, &theirs, round);
	meet();
	must(mem[PART] == round % 255 + 1 && mem[2 * PART - 1] == mem[PART], "the peer's bytes");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	free(mem);
}

void run_late_mr(void)
{
	struct nic nic;
	struct conn c;
	int round;

	abuse_begin(&nic, &c);
	for (round = 0; round < opt.rounds; round++) {
		late_round(&c, round);
		conn_talk(&c, 5);
	}
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- bad key: of no memory, posted after the move -------------------------------------------- */

void run_bad_key(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct nic nic;
	struct conn c;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE },
			   *bad;
	struct ibv_wc wc;

	abuse_begin(&nic, &c);
	conn_talk(&c, 5);
	meet();
	sge = (struct ibv_sge){ (uintptr_t)c.mem, 8, c.mr->lkey };
	wr.wr.rdma.remote_addr = c.peer.addr;
	wr.wr.rdma.rkey = c.peer.rkey ^ 0x5a5a00;
	if (!opt.server) {
		must_zero(ibv_post_send(c.qp, &wr, &bad), "ibv_post_send");
		must(conn_poll(&c, &wc) == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 7,
		     "the error of a key that names no memory");
		must_zero(ibv_query_qp(c.qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
		must(attr.qp_state == IBV_QPS_ERR, "a queue pair in ERR behind its error");
	}
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- ended: by SHIFT, where the connection has moved to, while the peer sends on ------------- */

enum { ENDED_S = 20, ENDED_POISON = 0xa5 };
#define ENDED_BAD (1ull << 40)

static void ended_server(struct conn *c)
{
	uint64_t done = c->sent;
	struct ibv_wc wc;
	int n;

	for (double end = now_s() + ENDED_S;; usleep(200)) {
		must(now_s() < end, "an error in time");
		while (c->sent < done + DEPTH / 2)
			conn_post_send(c, c->sent++);
		while ((n = ibv_poll_cq(c->cq, 1, &wc)) > 0) {
			if (wc.status)
				return;
			done++;
		}
		must(!n, "ibv_poll_cq");
	}
}

/* What was flushed is its own again: it is filled at once. */
static void ended_flush(struct conn *c)
{
	double end = now_s() + ENDED_S;
	uint64_t flushed = 0;
	struct ibv_wc wc;
	int n;

	while (flushed < DEPTH) {
		n = ibv_poll_cq(c->cq, 1, &wc);
		must(n >= 0 && now_s() < end, "all that is outstanding in time");
		if (!n) {
			usleep(50);
		} else if (wc.wr_id == ENDED_BAD) {
			must(wc.status == IBV_WC_REM_ACCESS_ERR, "the error of its key");
		} else if (!wc.status) {
			must(!flushed, "nothing behind a flush");
			conn_arrived(c, &wc);
		} else {
			must(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == c->got + flushed,
			     "flushed receives in order");
			memset(c->mem + AREA + wc.wr_id % DEPTH * PART, ENDED_POISON, PART);
			flushed++;
		}
	}
}

static void ended_client(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, 8, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = ENDED_BAD,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr, c->peer.rkey ^ 0x5a5a00 } },
			   *bad;
	uint64_t at;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	ended_flush(c);
	for (double end = now_s() + 0.2; now_s() < end; usleep(1000))
		for (at = AREA; at < 2 * AREA; at++)
			must(c->mem[at] == ENDED_POISON, "nothing written behind a flush");
}

void run_ended(void)
{
	struct nic nic;
	struct conn c;

	abuse_begin(&nic, &c);
	conn_talk(&c, 5);
	say("TALKED");
	hear("end");
	meet();
	if (opt.server)
		ended_server(&c);
	else
		ended_client(&c);
	meet();
	say("KEPT");
	hear("close");
	conn_free(&c);
	nic_close(&nic);
}

/* ---- exit: while threads post and the connection moves -------------------------------------- */

static void *exit_poster(void *arg)
{
	struct conn *c = arg;
	struct ibv_wc wc;
	uint64_t done = 0, n = 0;

	for (;;) {
		while (n < done + DEPTH / 2)
			conn_post_send(c, n++);
		while (ibv_poll_cq(c->cq, 1, &wc) > 0)
			done += !(wc.opcode & IBV_WC_RECV);
		usleep(100);
	}
	return NULL;
}

void run_exit(void)
{
	pthread_t thread;
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	must_zero(pthread_create(&thread, NULL, exit_poster, &c), "a thread");
	say("CONNECTED");
	hear("go");
	say("OK");
	exit(0);
}

/* ---- fork: the child opens the device anew -------------------------------------------------- */

static int fork_child(void)
{
	struct nic nic;
	struct conn c;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the runner knows the parent only */
	abuse_begin(&nic, &c);
	conn_talk(&c, 200);
	meet();
	conn_free(&c);
	nic_close(&nic);
	return 0;
}

void run_fork(void)
{
	struct nic nic;
	struct conn c;
	int status = -1;
	pid_t pid;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, 20);
	meet();
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid)
		exit(fork_child());
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	must(WIFEXITED(status) && !WEXITSTATUS(status), "the child's end");
	conn_talk(&c, 20);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- kill: the peer dies with work outstanding ---------------------------------------------- */

static void kill_wait(struct conn *c, int posted)
{
	struct ibv_wc wc;
	double begun = now_s(), first = 0;
	int sends = 0, status;

	while (sends < posted) {
		status = conn_poll(c, &wc);
		if (!status || (wc.wr_id >= 1000))
			continue;
		must(status == (sends ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR),
		     "retry exceeded first, flushes behind");
		first = first ? first : now_s() - begun;
		sends++;
	}
	say("ERRORS after %.3f s", first);
}

void run_kill(void)
{
	struct nic nic;
	struct conn c;
	int n;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, 50);
	say("CONNECTED");
	hear("go"); /* the server never hears it: it is killed */
	for (n = 0; n < 8; n++)
		conn_post_send(&c, (uint64_t)n);
	kill_wait(&c, 8);
	conn_free(&c);
	nic_close(&nic);
}

/* ---- a NIC that hangs, and somebody who asks it something ----------------------------------- */

/*
 * A QP of a type that SHIFT does not drive, on a CQ that it does. On a NIC that hangs, whatever the
 * creation needs does not come back.
 */
static atomic_bool hung_asked;

static void *hung_create(void *arg)
{
	struct conn *c = arg;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UC,
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1 }
	};

	say("ASK");
	hear("ask");
	say("ASKED");
	atomic_store(&hung_asked, true);
	ibv_create_qp(c->nic->pd, &init);
	return NULL;
}

void run_hung_nic(void)
{
	struct nic nic, sick;
	struct conn c, other;
	pthread_t thread;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	nic_open(&sick, opt.dev2);
	conn_make(&other, &sick);
	must_zero(pthread_create(&thread, NULL, hung_create, &other), "a thread");
	while (!atomic_load(&hung_asked))
		usleep(1000);
	hear("go");
	conn_talk(&c, 200);
	meet();
	say("OK");
	_exit(0);
}
