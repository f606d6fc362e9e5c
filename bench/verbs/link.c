// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The connections, and what both ends do without being measured. */
#include "verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	WC_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM,
};

static void make_cq(struct link *l, bool ex)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = CQ_SIZE,
					    .channel = l->channel,
					    .wc_flags = WC_FLAGS };

	if (ex) {
		l->cq_ex = ibv_create_cq_ex(l->nic->ctx, &attr);
		must(l->cq_ex, "ibv_create_cq_ex");
		l->cq = ibv_cq_ex_to_cq(l->cq_ex);
	} else {
		l->cq = ibv_create_cq(l->nic->ctx, CQ_SIZE, NULL, l->channel, 0);
		must(l->cq, "ibv_create_cq");
	}
}

static void make_qp(struct link *l, bool ex)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { SEND_WR, RECV_WR, SGES, 1, INLINE_MAX },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ex ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = l->nic->pd,
		.send_ops_flags = ex ? OPS : 0,
	};

	l->qp = ibv_create_qp_ex(l->nic->ctx, &attr);
	must(l->qp, "ibv_create_qp_ex");
	if (ex)
		l->qp_ex = ibv_qp_to_qp_ex(l->qp);
}

void link_make(struct link *l, struct nic *nic, bool ex)
{
	memset(l, 0, sizeof(*l));
	l->nic = nic;
	must_zero(posix_memalign((void **)&l->mem, 4096, SPACE), "memory");
	memset(l->mem, 0, SPACE);
	l->mr = ibv_reg_mr(nic->pd, l->mem, SPACE, ACCESS);
	must(l->mr, "ibv_reg_mr");
	l->channel = ibv_create_comp_channel(nic->ctx);
	must(l->channel, "ibv_create_comp_channel");
	make_cq(l, ex);
	make_qp(l, ex);
}

static void to_init(struct link *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = ACCESS };

	must_zero(
		ibv_modify_qp(l->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
}

static void to_rtr(struct link *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = l->peer.qpn,
				    .rq_psn = l->peer.psn,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = { .dlid = l->peer.lid,
						 .port_num = PORT,
						 .is_global = 1,
						 .grh = { .hop_limit = 64 } } };

	memcpy(attr.ah_attr.grh.dgid.raw, l->peer.gid, 16);
	must_zero(ibv_modify_qp(l->qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
		  "ibv_modify_qp to RTR");
}

static void to_rts(struct link *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 18,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .sq_psn = l->own.psn,
				    .max_rd_atomic = 1 };

	must_zero(ibv_modify_qp(l->qp, &attr,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		  "ibv_modify_qp to RTS");
}

void link_connect(struct link *l)
{
	l->own = (struct address){ .qpn = l->qp->qp_num,
				   .psn = 0x1000,
				   .rkey = l->mr->rkey,
				   .addr = (uintptr_t)l->mem,
				   .lid = l->nic->port.lid };
	memcpy(l->own.gid, l->nic->gid.raw, 16);
	swap(&l->own, &l->peer, sizeof(l->own));
	to_init(l);
	to_rtr(l);
	to_rts(l);
	meet();
}

void link_free(struct link *l)
{
	must_zero(ibv_destroy_qp(l->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(l->cq), "ibv_destroy_cq");
	must_zero(ibv_destroy_comp_channel(l->channel), "ibv_destroy_comp_channel");
	must_zero(ibv_dereg_mr(l->mr), "ibv_dereg_mr");
	free(l->mem);
}

void link_post_receives(struct link *l, int n)
{
	struct ibv_sge sge = { (uintptr_t)l->mem, MESSAGE, l->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	while (n--)
		must_zero(ibv_post_recv(l->qp, &wr, &bad), "ibv_post_recv");
}

/* Posts sends, for ex too: they are not part of the measurement. */
void link_post_sends(struct link *l, int n)
{
	struct ibv_sge sge = { (uintptr_t)l->mem, MESSAGE, l->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	while (n--)
		must_zero(ibv_post_send(l->qp, &wr, &bad), "ibv_post_send");
}

int link_reap(struct link *l, int n)
{
	double end = now_s() + PATIENCE_S;
	struct ibv_wc wc[BATCH];
	int got = 0, more;

	while (got < n && now_s() < end) {
		more = ibv_poll_cq(l->cq, n - got < BATCH ? n - got : BATCH, wc);
		must(more >= 0, "ibv_poll_cq");
		for (int i = 0; i < more; i++)
			must(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		got += more;
		if (!more) /* valgrind runs one thread at a time: the software NIC is another one */
			usleep(50);
	}
	return got;
}
