// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connected pair of QPs and numbered messages over it. */
#include "tests/lib/pair.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC
};

void conn_make(struct conn *c, struct nic *nic)
{
	conn_make_on(c, nic, NULL, NULL);
}

void conn_make_on(struct conn *c, struct nic *nic, struct ibv_comp_channel *channel,
		  void *cq_context)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = !opt.unsignaled,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	memset(c, 0, sizeof(*c));
	c->nic = nic;
	must_zero(posix_memalign((void **)&c->mem, 4096, 2 * AREA), "memory");
	memset(c->mem, 0, 2 * AREA);
	c->mr = ibv_reg_mr(nic->pd, c->mem, 2 * AREA, ACCESS);
	must(c->mr, "ibv_reg_mr");
	c->cq = ibv_create_cq(nic->ctx, 4 * DEPTH, cq_context, channel, 0);
	must(c->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = c->cq;
	init.srq = nic->srq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

void conn_to_init(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = ACCESS };

	must_zero(
		ibv_modify_qp(c->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
}

void conn_to_rtr(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = opt.mtu ? opt.mtu : IBV_MTU_1024,
				    .dest_qp_num = c->peer.qpn,
				    .rq_psn = c->peer.psn,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 12,
				    .ah_attr = { .dlid = c->peer.lid,
						 .port_num = PORT,
						 .is_global = 1,
						 .grh = { .hop_limit = 64 } } };

	memcpy(attr.ah_attr.grh.dgid.raw, c->peer.gid, 16);
	attr.ah_attr.grh.sgid_index = (uint8_t)opt.gid_index;
	must_zero(ibv_modify_qp(c->qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
		  "ibv_modify_qp to RTR");
}

void conn_to_rts(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = (uint8_t)opt.timeout,
				    .retry_cnt = 7,
				    .rnr_retry = opt.rnr_retry ? opt.rnr_retry : 7,
				    .sq_psn = c->own.psn,
				    .max_rd_atomic = 4 };

	must_zero(ibv_modify_qp(c->qp, &attr,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		  "ibv_modify_qp to RTS");
}

void conn_to_rts_alone(struct conn *c)
{
	conn_to_rtr(c);
	conn_to_rts(c);
}

void conn_set_own(struct conn *c)
{
	c->own = (struct address){ .qpn = c->qp->qp_num,
				   .psn = 0x1000,
				   .rkey = c->mr->rkey,
				   .addr = (uintptr_t)c->mem,
				   .lid = c->nic->port.lid };
	memcpy(c->own.gid, c->nic->gid.raw, 16);
}

void conn_lay(struct conn *c)
{
	for (uint64_t i = 0; i < DEPTH; i++)
		conn_post_recv(c, i);
}

void conn_swap(struct conn *c)
{
	conn_set_own(c);
	swap(&c->own, &c->peer, sizeof(c->own));
	conn_to_init(c);
}

void conn_connect_bare(struct conn *c)
{
	conn_swap(c);
	conn_to_rts_alone(c);
	meet();
}

void conn_connect(struct conn *c)
{
	c->sent = c->got = 0;
	conn_swap(c);
	conn_lay(c);
	conn_to_rts_alone(c);
	meet();
}

void conn_reset(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	must_zero(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RESET");
}

void conn_free(struct conn *c)
{
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	free(c->mem);
}

int conn_poll(struct conn *c, struct ibv_wc *wc)
{
	double end = now_s() + (opt.wait_s ? opt.wait_s : 20);
	int n;

	while (!(n = ibv_poll_cq(c->cq, 1, wc))) {
		must(now_s() < end, "a completion in time");
		usleep(20);
	}
	must(n == 1, "ibv_poll_cq");
	return wc->status;
}

/* ---- numbered messages ---------------------------------------------------------------------- */

static uint8_t *part(struct conn *c, uint64_t number, bool receive)
{
	return c->mem + (receive ? AREA : 0) + number % DEPTH * PART;
}

void conn_post_recv(struct conn *c, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)part(c, number, true), PART, c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

	must_zero(ibv_post_recv(c->qp, &wr, &bad), "ibv_post_recv");
}

void conn_post_send(struct conn *c, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)part(c, number, false), PART, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND },
			   *bad;

	memcpy(part(c, number, false), &number, sizeof(number));
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

void conn_arrived(struct conn *c, const struct ibv_wc *wc)
{
	uint64_t number;

	memcpy(&number, part(c, c->got, true), sizeof(number));
	must(wc->wr_id == c->got && number == c->got, "the next message in order");
	c->got++;
	conn_post_recv(c, wc->wr_id + DEPTH);
}

/* Half of the depth is under way at most, so that a receive always waits for it. */
void conn_talk(struct conn *c, uint64_t n)
{
	uint64_t last = c->sent + n, expect = c->got + n, done = c->sent;
	struct ibv_wc wc;

	while (done < last || c->got < expect) {
		while (c->sent < last && c->sent < done + DEPTH / 2 && c->sent < c->got + DEPTH / 2)
			conn_post_send(c, c->sent++);
		if (conn_poll(c, &wc)) {
			say("FAILED status %d of %s", wc.status,
			    wc.opcode & IBV_WC_RECV ? "a receive" : "a send");
			must(false, "a good completion");
		}
		if (wc.opcode & IBV_WC_RECV)
			conn_arrived(c, &wc);
		else
			must(wc.wr_id == done++, "send completions in order");
	}
}
