/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * forge: sends whatever it is told to UD queue pairs, as anyone on the fabric may. Each line that it
 * reads is a datagram, "GID QPN QKEY BYTES", numbers decimal, the others hexadecimal; it says "sent"
 * when one has left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/pair.h"

enum { LINE = 9000, BYTES = 4096, QKEY = 0x11111111 };

struct options opt = { .dev = "mlx5_0" };

struct sender {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t bytes[BYTES];
};

static void sender_open(struct sender *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };

	nic_open(&s->nic, opt.dev);
	s->cq = ibv_create_cq(s->nic.ctx, 2, NULL, NULL, 0);
	must(s->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->nic.pd, &init);
	must(s->qp, "ibv_create_qp");
	s->mr = ibv_reg_mr(s->nic.pd, s->bytes, sizeof(s->bytes), IBV_ACCESS_LOCAL_WRITE);
	must(s->mr, "ibv_reg_mr");
	must_zero(ibv_modify_qp(s->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		  "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must_zero(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must_zero(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

static size_t unhex(const char *hex, uint8_t *out, size_t size)
{
	size_t n = 0;
	unsigned byte;

	for (; n < size && sscanf(hex, "%2x", &byte) == 1; hex += 2)
		out[n++] = (uint8_t)byte;
	return n;
}

static void sender_send(struct sender *s, const char *gid, uint32_t qpn, uint32_t qkey, size_t n)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = PORT, .grh = { .hop_limit = 64 } };
	struct ibv_sge sge = { .addr = (uintptr_t)s->bytes,
			       .length = (uint32_t)n,
			       .lkey = s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;
	int got;

	must(unhex(gid, to.grh.dgid.raw, sizeof(to.grh.dgid.raw)) == 16, "a GID");
	wr.wr.ud.ah = ibv_create_ah(s->nic.pd, &to);
	must(wr.wr.ud.ah, "ibv_create_ah");
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	must_zero(ibv_post_send(s->qp, &wr, &bad), "ibv_post_send");
	while (!(got = ibv_poll_cq(s->cq, 1, &wc)))
		;
	must(got == 1 && wc.status == IBV_WC_SUCCESS, "a send");
	must_zero(ibv_destroy_ah(wr.wr.ud.ah), "ibv_destroy_ah");
}

int main(void)
{
	static struct sender sender;
	static char line[LINE], hex[LINE];
	unsigned qpn, qkey;
	char gid[64];

	sender_open(&sender);
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		must(sscanf(line, "%63s %u %u %8999s", gid, &qpn, &qkey, hex) == 4, "a line");
		sender_send(&sender, gid, qpn, qkey, unhex(hex, sender.bytes, BYTES));
		say("sent");
	}
	return 0;
}
