// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A NIC that has only so many objects: those that the program asks for itself come before SHIFT's. */
#include "abuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CONNS = 4, MOST = 8 };

/* All on the NIC that backs up the connections' one. */
struct own {
	struct nic nic;
	struct ibv_cq *cq;
	uint8_t *mem;
	int n;
	void *made[MOST];
};

static void *make_qp(struct own *own)
{
	struct ibv_qp_init_attr init = { .send_cq = own->cq,
					 .recv_cq = own->cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };

	return ibv_create_qp(own->nic.pd, &init);
}

static int drop_qp(void *made)
{
	return ibv_destroy_qp(made);
}

static void *make_cq(struct own *own)
{
	return ibv_create_cq(own->nic.ctx, 16, NULL, NULL, 0);
}

static int drop_cq(void *made)
{
	return ibv_destroy_cq(made);
}

static void *make_srq(struct own *own)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(own->nic.pd, &init);
}

static int drop_srq(void *made)
{
	return ibv_destroy_srq(made);
}

static void *make_pd(struct own *own)
{
	return ibv_alloc_pd(own->nic.ctx);
}

static int drop_pd(void *made)
{
	return ibv_dealloc_pd(made);
}

static void *make_mr(struct own *own)
{
	return ibv_reg_mr(own->nic.pd, own->mem, PART, IBV_ACCESS_LOCAL_WRITE);
}

static int drop_mr(void *made)
{
	return ibv_dereg_mr(made);
}

static const struct kind {
	const char *name;
	int n; /* that the program wants */
	void *(*make)(struct own *own);
	int (*drop)(void *made);
} kinds[] = {
	{ "qps", MOST, make_qp, drop_qp },    { "cqs", MOST, make_cq, drop_cq },
	{ "srqs", MOST, make_srq, drop_srq }, { "pds", MOST, make_pd, drop_pd },
	{ "mrs", MOST, make_mr, drop_mr },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* As many as it wants, or until the NIC has no more. */
static int own_fill(struct own *own, const struct kind *kind)
{
	for (own->n = 0; own->n < kind->n; own->n++) {
		errno = 0;
		own->made[own->n] = kind->make(own);
		if (!own->made[own->n])
			break;
	}
	return own->n;
}

static void own_empty(struct own *own, const struct kind *kind)
{
	while (own->n)
		must_zero(kind->drop(own->made[--own->n]), kind->name);
}

static void own_open(struct own *own)
{
	nic_open(&own->nic, opt.dev2);
	must_zero(posix_memalign((void **)&own->mem, PART, PART), "memory");
	own->cq = ibv_create_cq(own->nic.ctx, 16, NULL, NULL, 0);
	must(own->cq, "ibv_create_cq");
}

static void own_close(struct own *own)
{
	must_zero(ibv_destroy_cq(own->cq), "ibv_destroy_cq");
	free(own->mem);
	nic_close(&own->nic);
}

/* The first has its receives in a shared queue, so that there is a shadow of one. */
static struct ibv_srq *share_receives(struct conn *c)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .send_cq = c->cq,
					 .recv_cq = c->cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = DEPTH, .max_send_sge = 1 } };

	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	init.srq = ibv_create_srq(c->nic->pd, &srq);
	must(init.srq, "ibv_create_srq");
	c->qp = ibv_create_qp(c->nic->pd, &init);
	must(c->qp, "ibv_create_qp");
	return init.srq;
}

static void conns_talk(struct conn *c, uint64_t n)
{
	for (int i = 1; i < CONNS; i++)
		conn_talk(&c[i], n);
	meet();
}

/* While the connections are where they were the NIC gives all; when they are there it does not. */
void run_limits(void)
{
	struct conn c[CONNS];
	struct ibv_srq *srq;
	struct own own;
	struct nic nic;
	int i, n;

	nic_open(&nic, opt.dev);
	own_open(&own);
	for (i = 0; i < CONNS; i++)
		conn_make(&c[i], &nic);
	srq = share_receives(&c[0]);
	for (i = 1; i < CONNS; i++)
		conn_connect(&c[i]);
	conn_connect_bare(&c[0]);
	say("CONNECTED");
	for (i = 0; i < KINDS; i++) {
		hear("fill");
		say("HAS %s %d", kinds[i].name, own_fill(&own, &kinds[i]));
		conns_talk(c, 50);
		hear("empty");
		own_empty(&own, &kinds[i]);
		say("EMPTY %s", kinds[i].name);
	}
	hear("talk");
	conns_talk(c, 100);
	say("MOVED");
	hear("fill");
	for (i = 0; i < KINDS; i++) {
		n = own_fill(&own, &kinds[i]);
		say("THEN %s %d: %s", kinds[i].name, n, strerror(errno));
		own_empty(&own, &kinds[i]);
	}
	conns_talk(c, 200);
	for (i = 0; i < CONNS; i++)
		conn_free(&c[i]);
	must_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
	own_close(&own);
	nic_close(&nic);
}

/* ---- a completion queue that grows ---------------------------------------------------------- */

enum { CQE_FIRST = 8, BURST = 200 };

/* With the queue that it completes in, and so many places. */
static void deep_make(struct conn *c, struct nic *nic, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = depth, .max_send_sge = 1 } };

	conn_make(c, nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = cq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

static void resize_make(struct conn *c, struct nic *nic)
{
	struct ibv_cq *cq = ibv_create_cq(nic->ctx, CQE_FIRST, NULL, NULL, 0);

	must(cq && cq->cqe < BURST, "a small completion queue");
	deep_make(c, nic, cq, BURST);
}

/* Each has its own place until it is executed. */
static void resize_write(struct conn *c, uint64_t number)
{
	uint8_t *from = c->mem + number % (AREA / sizeof(number)) * sizeof(number);
	struct ibv_sge sge = { (uintptr_t)from, sizeof(number), c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr + AREA, c->peer.rkey } },
			   *bad;

	memcpy(from, &number, sizeof(number));
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

static void await_bytes(const struct conn *c, uint64_t number)
{
	const _Atomic uint64_t *seen = (const _Atomic uint64_t *)(const void *)(c->mem + AREA);
	double end = now_s() + 20;

	while (atomic_load(seen) != number)
		must(now_s() < end, "the peer's last bytes within 20 s");
}

/* The last bytes are there before the first completion is looked for: all lie in the queue. */
static void resize_burst(struct conn *c, uint64_t round, uint64_t n)
{
	struct ibv_wc wc;

	for (uint64_t i = 1; i <= n; i++)
		resize_write(c, round * BURST + i);
	await_bytes(c, round * BURST + n);
	meet();
	for (uint64_t i = 1; i <= n; i++) {
		must(!conn_poll(c, &wc), "a good completion");
		must(wc.wr_id == round * BURST + i, "send completions in order");
	}
	meet();
}

/* Its NIC, or the other one, has died or hangs when the queue is made larger. */
void run_resize(void)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	resize_make(&c, &nic);
	conn_connect_bare(&c);
	resize_burst(&c, 0, CQE_FIRST - 1);
	say("CONNECTED");
	hear("resize");
	must_zero(ibv_resize_cq(c.cq, BURST), "ibv_resize_cq");
	say("RESIZED");
	hear("go");
	resize_burst(&c, 1, BURST);
	say("MORE");
	hear("go");
	resize_burst(&c, 2, BURST);
	conn_free(&c);
	nic_close(&nic);
}

/* ---- a completion queue that is smaller on the backup ---------------------------------------- */

enum { CQE_SHARED = 4000, MANY = 3500 };

/* Of the first so many, of the second one, each in its order. */
static void overrun_poll(struct conn c[2], uint64_t first, uint64_t n)
{
	uint64_t next[2] = { first, first };
	struct ibv_wc wc;

	for (uint64_t i = 0; i <= n; i++) {
		must(!conn_poll(&c[0], &wc), "a good completion");
		must(wc.wr_id == next[wc.qp_num == c[1].qp->qp_num]++, "send completions in order");
	}
	must(next[0] == first + n && next[1] == first + 1, "completions of both");
}

/* One connection lets more lie than the backup's queue has room for; the other one does nothing wrong. */
static void overrun_burst(struct conn c[2], uint64_t first)
{
	if (!opt.server) {
		await_bytes(&c[0], first + MANY - 1);
		await_bytes(&c[1], first);
		meet();
		meet();
		return;
	}
	for (uint64_t i = 0; i < MANY; i++)
		resize_write(&c[0], first + i);
	resize_write(&c[1], first);
	meet();
	overrun_poll(c, first, MANY);
	meet();
}

void run_overrun(void)
{
	struct ibv_cq *cq;
	struct conn c[2];
	struct nic nic;

	nic_open(&nic, opt.dev);
	cq = ibv_create_cq(nic.ctx, CQE_SHARED, NULL, NULL, 0);
	must(cq, "ibv_create_cq");
	for (int i = 0; i < 2; i++)
		deep_make(&c[i], &nic, cq, MANY);
	for (int i = 0; i < 2; i++)
		conn_connect_bare(&c[i]);
	overrun_burst(c, 1);
	say("CONNECTED");
	hear("go");
	for (uint64_t i = 1; i <= (uint64_t)opt.rounds; i++)
		overrun_burst(c, 1 + i * MANY);
	for (int i = 0; i < 2; i++) {
		must_zero(ibv_destroy_qp(c[i].qp), "ibv_destroy_qp");
		must_zero(ibv_dereg_mr(c[i].mr), "ibv_dereg_mr");
		free(c[i].mem);
	}
	must_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	nic_close(&nic);
}
