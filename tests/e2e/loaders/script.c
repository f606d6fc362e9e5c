/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/loaders/script.h"

struct session {
	const struct loader_verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static char memory[8192];

void loader_check(int good, const char *what, int line)
{
	if (good)
		return;
	fprintf(stderr, "line %d: not so: %s (errno %s)\n", line, what, strerror(errno));
	exit(1);
}

static int device_open(struct session *s)
{
	int n = 0;
	struct ibv_device **list = s->verbs->get_device_list(&n);

	LOADER_CHECK(list != NULL);
	if (n)
		s->context = s->verbs->open_device(list[0]);
	s->verbs->free_device_list(list);
	if (!n)
		return 77;
	LOADER_CHECK(s->context != NULL);
	return 0;
}

/* The inline call of every application since rdma-core 17. */
static void port_query(struct session *s)
{
	struct verbs_context *vctx = verbs_get_ctx_op(s->context, query_port);
	struct ibv_port_attr attr;

	LOADER_CHECK(vctx != NULL);
	LOADER_CHECK(!vctx->query_port(s->context, 1, &attr, sizeof(attr)));
	LOADER_CHECK(attr.state == IBV_PORT_ACTIVE);
}

static void memory_use(struct session *s)
{
	struct ibv_mr *mr, *mr2;

	mr = s->verbs->reg_mr(s->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	LOADER_CHECK(mr != NULL);
	mr2 = s->verbs->reg_mr_iova2(s->pd, memory, sizeof(memory), (uintptr_t)memory,
				     IBV_ACCESS_LOCAL_WRITE);
	LOADER_CHECK(mr2 != NULL);
	LOADER_CHECK(!s->verbs->dereg_mr(mr2));
	LOADER_CHECK(!s->verbs->dereg_mr(mr));
}

static void qp_use(struct session *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = s->verbs->create_qp(s->pd, &init);

	LOADER_CHECK(qp != NULL);
	LOADER_CHECK(!s->verbs->modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	LOADER_CHECK(!s->verbs->query_qp(qp, &attr, IBV_QP_STATE, &init));
	LOADER_CHECK(attr.qp_state == IBV_QPS_INIT);
	LOADER_CHECK(!s->verbs->destroy_qp(qp));
}

/* perftest, UCX: calls that are inline and go through struct verbs_context. */
static void extended_use(struct session *s)
{
	struct verbs_context *vctx = verbs_get_ctx_op(s->context, create_cq_ex);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .channel = s->channel };
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = s->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_cq_ex *cq = vctx ? vctx->create_cq_ex(s->context, &cq_attr) : NULL;
	struct ibv_qp *qp;

	LOADER_CHECK(cq != NULL);
	LOADER_CHECK(cq_attr.channel == s->channel);
	init.send_cq = ibv_cq_ex_to_cq(cq);
	init.recv_cq = s->cq;
	vctx = verbs_get_ctx_op(s->context, create_qp_ex);
	qp = vctx ? vctx->create_qp_ex(s->context, &init) : NULL;
	LOADER_CHECK(qp != NULL);
	LOADER_CHECK(!s->verbs->destroy_qp(qp));
	LOADER_CHECK(!s->verbs->destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void objects_use(struct session *s)
{
	s->pd = s->verbs->alloc_pd(s->context);
	LOADER_CHECK(s->pd != NULL);
	s->channel = s->verbs->create_comp_channel(s->context);
	LOADER_CHECK(s->channel != NULL);
	s->cq = s->verbs->create_cq(s->context, 16, s, s->channel, 0);
	LOADER_CHECK(s->cq != NULL);
	LOADER_CHECK(s->cq->channel == s->channel && s->cq->cq_context == s);
	memory_use(s);
	qp_use(s);
	extended_use(s);
	LOADER_CHECK(s->verbs->destroy_comp_channel(s->channel) == EBUSY);
	LOADER_CHECK(!s->verbs->destroy_cq(s->cq));
	LOADER_CHECK(!s->verbs->destroy_comp_channel(s->channel));
	LOADER_CHECK(!s->verbs->dealloc_pd(s->pd));
}

int loader_script(const struct loader_verbs *verbs)
{
	struct session s = { .verbs = verbs };
	int ret = device_open(&s);

	if (ret)
		return ret;
	port_query(&s);
	objects_use(&s);
	LOADER_CHECK(!verbs->close_device(s.context));
	return 0;
}
