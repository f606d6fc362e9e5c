// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Objects that come and go: from many threads, again and again, in the middle of a move. */
#include "abuse.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CYCLES_KB = 256, CYCLES_MAPPINGS = 32 }; /* as abuse.py asks */

/* ---- churn: threads that make and destroy while connections move ---------------------------- */

static atomic_bool churn_stop;

static void churn_mrs(struct nic *nic)
{
	static _Thread_local uint8_t mem[16 * 4096];
	struct ibv_mr *mrs[16];
	int i;

	for (i = 0; i < 16; i++) {
		mrs[i] = ibv_reg_mr(nic->pd, mem + 4096 * i, 4096, IBV_ACCESS_LOCAL_WRITE);
		must(mrs[i], "ibv_reg_mr");
	}
	for (i = 0; i < 16; i++)
		must_zero(ibv_dereg_mr(mrs[15 - i]), "ibv_dereg_mr");
}

/* Connected to nobody: as far as SHIFT knows, its peer is late. */
static void churn_qp(struct nic *nic)
{
	struct nic own = *nic;
	struct conn c;

	own.pd = ibv_alloc_pd(nic->ctx);
	must(own.pd, "ibv_alloc_pd");
	conn_make(&c, &own);
	conn_to_init(&c);
	conn_post_recv(&c, 0);
	c.peer = (struct address){ .qpn = 0xabc, .psn = 1 };
	memcpy(c.peer.gid, nic->gid.raw, 16);
	c.own.psn = 1;
	conn_to_rts_alone(&c);
	conn_free(&c);
	must_zero(ibv_dealloc_pd(own.pd), "ibv_dealloc_pd");
}

static void *churn_thread(void *arg)
{
	struct nic *nic = arg;
	int i;

	for (i = 0; !atomic_load(&churn_stop); i++) {
		if (i & 1)
			churn_mrs(nic);
		else
			churn_qp(nic);
		usleep(500);
	}
	return NULL;
}

void run_churn(void)
{
	struct conn *conns = calloc((size_t)opt.qps, sizeof(*conns));
	pthread_t threads[4];
	struct nic nic;
	int i;

	must(conns, "memory");
	nic_open(&nic, opt.dev);
	for (i = 0; i < opt.qps; i++) {
		conn_make(&conns[i], &nic);
		conn_connect(&conns[i]);
	}
	for (i = 0; i < 4; i++)
		must_zero(pthread_create(&threads[i], NULL, churn_thread, &nic), "a thread");
	/* Or the program sets up, for all that is known, as it never pauses (tests/unit/loop/). */
	for (i = 0; i < opt.qps; i++)
		conn_talk(&conns[i], 20);
	say("CONNECTED");
	hear("go");
	while (!both_told())
		for (i = 0; i < opt.qps; i++)
			conn_talk(&conns[i], 20);
	atomic_store(&churn_stop, true);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	meet();
	for (i = 0; i < opt.qps; i++)
		conn_free(&conns[i]);
	nic_close(&nic);
	free(conns);
}

/* ---- reset: the same QPs are connected again and again -------------------------------------- */

void run_reset(void)
{
	struct nic nic;
	struct conn c;
	int round;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	for (round = 0; round < opt.rounds; round++) {
		conn_connect(&c);
		say("CONNECTED %d", round);
		hear("talk");
		conn_talk(&c, 200);
		say("TALKED %d", round);
		hear("reset");
		meet();
		conn_reset(&c);
		meet();
	}
	conn_free(&c);
	nic_close(&nic);
}

/* ---- late RTS: one end only receives, until its connection has moved ------------------------ */

void run_late_rts(void)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_swap(&c);
	conn_lay(&c);
	conn_to_rtr(&c);
	if (!opt.server)
		conn_to_rts(&c);
	say("CONNECTED");
	hear("go");
	if (opt.server)
		conn_to_rts(&c);
	conn_talk(&c, 200);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- late-peer: connected long before the other end ------------------------------------------ */

static void late_peer(struct nic *nic)
{
	struct conn c;

	conn_make(&c, nic);
	conn_swap(&c);
	conn_lay(&c);
	if (opt.server)
		conn_to_rts_alone(&c);
	say("CONNECTED");
	hear("connect");
	if (!opt.server)
		conn_to_rts_alone(&c);
	hear("go");
	meet();
	conn_talk(&c, 200);
	meet();
	conn_free(&c);
}

void run_late_peer(void)
{
	struct nic nic;

	nic_open(&nic, opt.dev);
	late_peer(&nic);
	nic_close(&nic);
}

/* The same, beside a connection that has been there before. */
void run_late_second(void)
{
	struct nic nic;
	struct conn first;

	nic_open(&nic, opt.dev);
	conn_make(&first, &nic);
	conn_connect(&first);
	conn_talk(&first, 200);
	late_peer(&nic);
	conn_talk(&first, 200);
	meet();
	conn_free(&first);
	nic_close(&nic);
}

/* ---- destroy: in mid-move, with work outstanding -------------------------------------------- */

void run_destroy(void)
{
	struct conn *conns = calloc((size_t)opt.qps, sizeof(*conns));
	struct nic nic;
	int i, n, round;

	must(conns, "memory");
	nic_open(&nic, opt.dev);
	for (round = 0; round < opt.rounds; round++) {
		for (i = 0; i < opt.qps; i++) {
			conn_make(&conns[i], &nic);
			conn_connect(&conns[i]);
		}
		say("CONNECTED %d", round);
		hear("go");
		for (i = 0; i < opt.qps; i++)
			for (n = 0; n < DEPTH / 2; n++)
				conn_post_send(&conns[i], (uint64_t)n);
		usleep((useconds_t)round * 7000);
		for (i = 0; i < opt.qps; i++)
			conn_free(&conns[i]);
		say("DESTROYED %d", round);
		hear("next");
		meet();
	}
	nic_close(&nic);
	free(conns);
}

/* ---- cycles: nothing may grow --------------------------------------------------------------- */

/*
 * What the program's allocators hold. Resident memory would also count pages that a ring of a fixed
 * size touches for the first time, and the file of the KV.
 */
static long heap_kb(void)
{
	struct mallinfo2 info = mallinfo2();

	return (long)((info.uordblks + info.hblkhd) / 1024);
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int c, lines = 0;

	must(f, "/proc/self/maps");
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

struct holds {
	long kb;
	int mappings;
};

static struct holds holds(void)
{
	return (struct holds){ heap_kb(), mappings() };
}

/* Standbys of connections that have just gone are destroyed behind the program's back. */
static struct holds hold_at_most(const struct holds *most)
{
	struct holds now = holds();

	for (int wait = 0; wait < 200 && (now.kb > most->kb || now.mappings > most->mappings);
	     wait++) {
		usleep(50000);
		now = holds();
	}
	say("HOLDS %ld %d", now.kb, now.mappings);
	return now;
}

void run_cycles(void)
{
	struct holds most = { LONG_MAX, INT_MAX };
	struct nic nic, own;
	struct conn c;
	int round;

	nic_open(&nic, opt.dev);
	/* the first standby opens the backup NIC, which then stays: not a part of what a cycle holds */
	conn_make(&c, &nic);
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	meet();
	conn_free(&c);
	for (round = 0; round < opt.rounds; round++) {
		own = nic;
		own.pd = ibv_alloc_pd(nic.ctx);
		must(own.pd, "ibv_alloc_pd");
		conn_make(&c, &own);
		conn_connect(&c);
		conn_talk(&c, 4);
		if (opt.rest_ms && round % 5 == 4) /* long enough for a standby */
			usleep((useconds_t)opt.rest_ms * 1000);
		meet();
		conn_free(&c);
		must_zero(ibv_dealloc_pd(own.pd), "ibv_dealloc_pd");
		if (round == opt.rounds / 5 || round == opt.rounds - 1) {
			most = hold_at_most(&most);
			most.kb += CYCLES_KB;
			most.mappings += CYCLES_MAPPINGS;
		}
	}
	nic_close(&nic);
}

/* ---- abandon: the device is closed, and everything of it is left as it is ------------------- */

/*
 * QPs of a type that SHIFT does not drive: one shares both CQs with a connection, the others one CQ. Their
 * other CQ is no driven QP's.
 */
static void abandon_foreign(struct conn *c)
{
	struct ibv_cq *own = ibv_create_cq(c->nic->ctx, 8, NULL, NULL, 0);
	struct ibv_cq *cqs[][2] = { { c->cq, c->cq }, { c->cq, own }, { own, c->cq } };
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UC,
		.cap = { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1 }
	};
	size_t i;

	must(own, "ibv_create_cq");
	for (i = 0; i < sizeof(cqs) / sizeof(cqs[0]); i++) {
		init.send_cq = cqs[i][0];
		init.recv_cq = cqs[i][1];
		must(ibv_create_qp(c->nic->pd, &init), "ibv_create_qp of a UC QP");
	}
}

void run_abandon(void)
{
	struct nic nic;
	struct conn c, kept;
	int round;

	for (round = 0; round < opt.rounds; round++) {
		nic_open(&nic, opt.dev);
		conn_make(&c, &nic);
		conn_connect(&c);
		abandon_foreign(&c);
		say("CONNECTED %d", round);
		hear("go");
		conn_talk(&c, 20);
		meet();
		must_zero(ibv_close_device(nic.ctx), "ibv_close_device");
		nic_open(&nic, opt.dev);
		conn_make(&kept, &nic);
		conn_connect(&kept);
		conn_talk(&kept, 20);
		usleep(100000);
		meet();
		conn_free(&kept);
		nic_close(&nic);
	}
}

/* ---- many: QPs whose peers never show up in the KV ------------------------------------------ */

void run_many(void)
{
	struct conn *conns = calloc((size_t)opt.qps, sizeof(*conns));
	struct nic nic;
	int i;

	must(conns, "memory");
	nic_open(&nic, opt.dev);
	for (i = 0; i < opt.qps; i++) {
		conn_make(&conns[i], &nic);
		conn_connect(&conns[i]);
		conn_talk(&conns[i], 2);
	}
	say("CONNECTED");
	hear("go");
	meet();
	for (i = 0; i < opt.qps; i++)
		conn_free(&conns[i]);
	nic_close(&nic);
	free(conns);
}
