// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A context's answers to a program that asks it, or makes objects and destroys them. */
#include "bystanders.h"

#include <errno.h>
#include <stdlib.h>

static char answers[512];
static size_t length;

static void note(const char *what, int answer)
{
	length += (size_t)snprintf(answers + length, sizeof(answers) - length, " %s %d", what,
				   answer);
}

static void note_pointer(const char *what, const void *made)
{
	note(what, made ? 0 : errno);
}

static void probe_port(struct context *c)
{
	struct ibv_port_attr port = { 0 };
	union ibv_gid gid;
	int rc = ibv_query_port(c->ctx, PORT, &port);

	note("port", rc);
	note("state", rc ? -1 : (int)port.state);
	note("gid", ibv_query_gid(c->ctx, PORT, c->gid_index, &gid) ? errno : 0);
}

static void probe_memory(struct context *c)
{
	void *mem = calloc(1, 4096);
	struct ibv_mr *mr;
	struct ibv_pd *pd = ibv_alloc_pd(c->ctx);

	must(mem, "memory");
	note_pointer("pd", pd);
	if (pd)
		note("-pd", ibv_dealloc_pd(pd));
	mr = ibv_reg_mr(c->pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	note_pointer("mr", mr);
	if (mr)
		note("-mr", ibv_dereg_mr(mr));
	free(mem);
}

static void probe_qp(struct context *c, struct ibv_cq *cq, const char *what, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp *qp = ibv_create_qp(c->pd, &attr);

	note_pointer(what, qp);
	if (qp)
		note("-qp", ibv_destroy_qp(qp));
}

static void probe_queues(struct context *c)
{
	struct ibv_cq *cq = ibv_create_cq(c->ctx, 15, NULL, NULL, 0);

	note_pointer("cq", cq);
	if (!cq)
		return;
	note("entries", cq->cqe);
	probe_qp(c, cq, "rc", IBV_QPT_RC);
	probe_qp(c, cq, "ud", IBV_QPT_UD);
	probe_qp(c, cq, "uc", IBV_QPT_UC);
	note("-cq", ibv_destroy_cq(cq));
}

static void probe_ah(struct context *c)
{
	struct ibv_ah_attr way = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = c->gid, .sgid_index = (uint8_t)c->gid_index, .hop_limit = 8 }
	};
	struct ibv_ah *ah = ibv_create_ah(c->pd, &way);

	note_pointer("ah", ah);
	if (ah)
		note("-ah", ibv_destroy_ah(ah));
}

/* probe CTX */
void probe(char **word)
{
	struct context *c = &contexts[number(word[0])];

	length = 0;
	probe_port(c);
	probe_memory(c);
	probe_queues(c);
	probe_ah(c);
	reply("=%s", answers);
}
