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

static void resize_make(struct conn *c, struct nic *nic)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = BURST, .max_send_sge = 1 } };

	conn_make(c, nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = ibv_create_cq(nic->ctx, CQE_FIRST, NULL, NULL, 0);
	must(c->cq && c->cq->cqe < BURST, "a small completion queue");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

static void resize_write(struct conn *c, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, sizeof(number), c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr + AREA, c->peer.rkey } },
			   *bad;

	memcpy(c->mem, &number, sizeof(number));
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

/* The last bytes are there before the first completion is looked for: all lie in the queue. */
static void resize_burst(struct conn *c, uint64_t round, uint64_t n)
{
	const _Atomic uint64_t *seen = (const _Atomic uint64_t *)(const void *)(c->mem + AREA);
	double end = now_s() + 20;
	struct ibv_wc wc;

	for (uint64_t i = 1; i <= n; i++) {
		if (i == n) /* what is under way has the number of the one before, at most */
			meet();
		resize_write(c, round * BURST + i);
	}
	while (atomic_load(seen) != round * BURST + n)
		must(now_s() < end, "the peer's last bytes within 20 s");
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
