/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues that are armed before they have a queue pair that SHIFT drives. */
#include <poll.h>

#include "tests/e2e/abuse/abuse.h"

static void arm(struct conn *c)
{
	must_zero(ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq");
}

/* It was armed, and not since. */
static void await_event(struct conn *c)
{
	struct pollfd in = { .fd = c->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	must(poll(&in, 1, 20000) == 1, "an event of the armed CQ");
	must_zero(ibv_get_cq_event(c->channel, &cq, &context), "ibv_get_cq_event");
	must(cq == c->cq, "an event of this CQ");
	ibv_ack_cq_events(cq, 1);
}

/* Of a QP that SHIFT does not drive: its receive is flushed, which the application hears of. */
static void foreign_event(struct conn *c)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UC,
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_sge sge = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp *qp = ibv_create_qp(c->nic->pd, &init);
	struct ibv_wc wc;

	must(qp, "ibv_create_qp of a UC QP");
	must_zero(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
	must_zero(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	arm(c);
	attr.qp_state = IBV_QPS_ERR;
	must_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ibv_modify_qp to ERR");
	await_event(c);
	must(ibv_poll_cq(c->cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	     "a flushed receive");
	must_zero(ibv_destroy_qp(qp), "ibv_destroy_qp");
}

/* Its CQ is armed, and then gets its first connection. */
static void armed_make(struct conn *c, struct nic *nic, int events)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_wr = DEPTH,
						  .max_recv_sge = 1 } };

	conn_make(c, nic); /* of which the memory is used */
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->channel = ibv_create_comp_channel(nic->ctx);
	must(c->channel, "ibv_create_comp_channel");
	c->cq = ibv_create_cq(nic->ctx, 4 * DEPTH, NULL, c->channel, 0);
	must(c->cq, "ibv_create_cq");
	while (events--)
		foreign_event(c);
	arm(c);
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

static void send_one(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

/* The server's sleep is ended by a message and nothing else: what it armed last is for that. */
static void armed_round(struct conn *c)
{
	struct ibv_wc wc;

	if (!opt.server) {
		send_one(c);
	} else {
		await_event(c);
		must(!conn_poll(c, &wc) && wc.opcode == IBV_WC_RECV, "a message");
		arm(c);
		must(!ibv_poll_cq(c->cq, 1, &wc), "no other message");
	}
	meet();
}

static void armed(int events)
{
	struct ibv_comp_channel *channel;
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	armed_make(&c, &nic, events);
	conn_connect(&c);
	say("CONNECTED");
	for (int i = 0; i < opt.rounds; i++) {
		hear("go");
		armed_round(&c);
		say("WOKEN %d", i);
	}
	channel = c.channel;
	conn_free(&c);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	nic_close(&nic);
}

/* ---- armed: no event has come yet when its NIC goes away ---------------------------------------- */

void run_armed(void)
{
	armed(0);
}

/* ---- armed-foreign: events of it were read before: the arm number is not that of a new CQ -------- */

void run_armed_foreign(void)
{
	armed(1);
}
