// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * fields: one process with an object of each kind that verbs make, and two queue pairs that are
 * connected to each other. After each verb the program prints all public fields of all its objects
 * (walk.c). Its runner makes a fault, and compares what is printed on stock and under SHIFT.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/fields/fields.h"

enum { A, B, CONNS, LIMIT = 4, SRQ_WRS = 4 * DEPTH };

struct options opt = { .timeout = 19, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conns[CONNS]; /* each other's; B takes its receives from the SRQ */
static struct ibv_comp_channel *channel;
static struct ibv_qp *extended; /* made by ibv_create_qp_ex(), and used by no one */
static struct ibv_cq_ex *cq_ex;
static uint64_t n_sent, n_polled; /* messages from A to B; completions of both ends */
static struct ibv_mr *spare;
static int cookies[4];

/* ---- what is there -------------------------------------------------------------------------- */

static void open_all(void)
{
	nic_open(&nic, opt.dev);
	walk_add("device", "ibv_device", nic.ctx->device);
	walk_add("context", "ibv_context", nic.ctx);
	walk_add("verbs", "verbs_context", verbs_get_ctx(nic.ctx));
	walk_add("pd", "ibv_pd", nic.pd);
	walk("open");
}

/* Objects that only their own verbs use. What this NIC does not have, it has under neither. */
static void make_others(void)
{
	struct ibv_td_init_attr td = { 0 };
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_parent_domain_init_attr domain = { .pd = nic.pd };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_ah_attr ah = { .port_num = PORT, .is_global = 1, .grh = { .hop_limit = 64 } };

	ah.grh.dgid = nic.gid;
	domain.td = ibv_alloc_td(nic.ctx, &td);
	walk_add("td", "ibv_td", domain.td);
	walk_add("domain", "ibv_pd", ibv_alloc_parent_domain(nic.ctx, &domain));
	walk_add("xrcd", "ibv_xrcd", ibv_open_xrcd(nic.ctx, &xrcd));
	walk_add("mw", "ibv_mw", ibv_alloc_mw(nic.pd, IBV_MW_TYPE_1));
	walk_add("ah", "ibv_ah", ibv_create_ah(nic.pd, &ah));
	walk_add("dm", "ibv_dm", ibv_alloc_dm(nic.ctx, &dm));
	walk_add("counters", "ibv_counters", ibv_create_counters(nic.ctx, &counters));
	walk("others");
}

/* No request names it. */
static void make_spare(void)
{
	static uint8_t memory[4096];

	spare = ibv_reg_mr(nic.pd, memory, sizeof(memory), 0);
	must(spare, "ibv_reg_mr");
	walk_add("mr_spare", "ibv_mr", spare);
}

static void make_work_queue(void)
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ,
					 .wq_context = &cookies[0],
					 .max_wr = 4,
					 .max_sge = 1,
					 .pd = nic.pd,
					 .cq = ibv_create_cq(nic.ctx, 10, NULL, NULL, 0) };
	struct ibv_wq *wq = ibv_create_wq(nic.ctx, &attr);
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &wq };

	walk_add("cq_wq", "ibv_cq", attr.cq);
	walk_add("wq", "ibv_wq", wq);
	walk_add("table", "ibv_rwq_ind_table",
		 wq ? ibv_create_rwq_ind_table(nic.ctx, &table) : NULL);
	walk_add("flow", "ibv_flow", NULL);
	walk_add("action", "ibv_flow_action", NULL);
}

static void make_extended(void)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 100,
					  .cq_context = &cookies[1],
					  .channel = channel,
					  .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_qp_init_attr_ex qp = {
		.qp_context = &cookies[2],
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.pd = nic.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ
	};

	cq_ex = ibv_create_cq_ex(nic.ctx, &cq);
	must(cq_ex, "ibv_create_cq_ex");
	walk_add("cq_ex", "ibv_cq_ex", cq_ex);
	walk_add("cq_ex_cq", "ibv_cq", ibv_cq_ex_to_cq(cq_ex));
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(cq_ex);
	extended = ibv_create_qp_ex(nic.ctx, &qp);
	must(extended, "ibv_create_qp_ex");
	walk_add("qp_c", "ibv_qp", extended);
	walk_add("qp_ex", "ibv_qp_ex", ibv_qp_to_qp_ex(extended));
	walk("extended");
}

static void make_srq(void)
{
	struct ibv_srq_init_attr attr = { .srq_context = &cookies[3],
					  .attr = { .max_wr = SRQ_WRS, .max_sge = 1 } };

	nic.srq = ibv_create_srq(nic.pd, &attr);
	must(nic.srq, "ibv_create_srq");
	walk_add("srq", "ibv_srq", nic.srq);
	walk("srq");
}

static void make_pair(void)
{
	static const char *names[CONNS][3] = { { "cq_a", "qp_a", "mr_a" },
					       { "cq_b", "qp_b", "mr_b" } };

	channel = ibv_create_comp_channel(nic.ctx);
	must(channel, "ibv_create_comp_channel");
	walk_add("channel", "ibv_comp_channel", channel);
	walk("channel");
	for (int i = 0; i < CONNS; i++) {
		if (i == B)
			make_srq();
		conn_make_on(&conns[i], &nic, channel, &conns[i]);
		walk_add(names[i][0], "ibv_cq", conns[i].cq);
		walk_add(names[i][1], "ibv_qp", conns[i].qp);
		walk_add(names[i][2], "ibv_mr", conns[i].mr);
		walk(names[i][1]);
		conn_set_own(&conns[i]);
	}
}

static void receive_b(void)
{
	struct ibv_sge sge = { (uintptr_t)conns[B].mem + AREA, PART, conns[B].mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must_zero(ibv_post_srq_recv(nic.srq, &wr, &bad), "ibv_post_srq_recv");
}

static void connect_pair(void)
{
	for (int i = 0; i < CONNS; i++) {
		conns[i].peer = conns[!i].own;
		conn_to_init(&conns[i]);
	}
	walk("init");
	for (int i = 0; i < CONNS; i++)
		conn_to_rtr(&conns[i]);
	walk("rtr");
	for (int i = 0; i < CONNS; i++)
		conn_to_rts(&conns[i]);
	for (int i = 0; i < DEPTH; i++)
		receive_b();
	walk("rts");
}

/* ---- messages and events -------------------------------------------------------------------- */

static void arm(void)
{
	for (int i = 0; i < CONNS; i++)
		must_zero(ibv_req_notify_cq(conns[i].cq, 0), "ibv_req_notify_cq");
}

static void send_messages(int n)
{
	while (n--)
		conn_post_send(&conns[A], n_sent++);
}

/* All completions of what was sent: one at each end. */
static void poll_all(void)
{
	double end = now_s() + 30;
	struct ibv_wc wc;

	while (n_polled < 2 * n_sent) {
		int n = 0;

		for (int i = 0; i < CONNS && !n; i++)
			n = ibv_poll_cq(conns[i].cq, 1, &wc);
		must(n >= 0, "ibv_poll_cq");
		must(!n || !wc.status, "a good completion");
		must(now_s() < end, "completions in time");
		n_polled += (uint64_t)n;
		if (n && wc.opcode & IBV_WC_RECV)
			receive_b();
	}
}

/* Waits for n events, and takes those that came beside. */
static void take_events(int n, bool ack)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *cookie;

	for (; n > 0 || poll(&ready, 1, 0) > 0; n--) {
		must_zero(ibv_get_cq_event(channel, &cq, &cookie), "ibv_get_cq_event");
		must(cookie == cq->cq_context, "the context of the completion queue");
		walk("got");
		if (!ack)
			continue;
		ibv_ack_cq_events(cq, 1);
		walk_acked(cq, 1, 0);
	}
}

static void ack_both(void)
{
	for (int i = 0; i < CONNS; i++) {
		ibv_ack_cq_events(conns[i].cq, 1);
		walk_acked(conns[i].cq, 1, 0);
	}
}

/*
 * An event that concerns an object, where the program awaits one; others are acknowledged on the
 * way.
 */
static void take_async(enum ibv_event_type type, const void *object)
{
	struct ibv_async_event event;

	do {
		must_zero(ibv_get_async_event(nic.ctx, &event), "ibv_get_async_event");
		if (event.event_type == type)
			walk("told");
		ibv_ack_async_event(&event);
	} while (event.event_type != type);
	walk_acked(object, 0, 1);
}

/* ---- the script ----------------------------------------------------------------------------- */

static void traffic(void)
{
	arm();
	walk("armed");
	send_messages(1);
	walk("posted");
	take_events(2, false);
	ack_both();
	walk("acked");
	poll_all();
	walk("polled");
}

static void change(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .min_rnr_timer = 14 };

	must_zero(ibv_modify_qp(conns[A].qp, &attr, IBV_QP_MIN_RNR_TIMER), "ibv_modify_qp");
	walk("modified");
	must_zero(ibv_query_qp(conns[A].qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init),
		  "ibv_query_qp");
	walk("queried");
	must_zero(ibv_resize_cq(conns[A].cq, 8 * DEPTH), "ibv_resize_cq");
	walk("resized");
	must_zero(ibv_rereg_mr(spare, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			       IBV_ACCESS_LOCAL_WRITE),
		  "ibv_rereg_mr");
	walk("reregistered");
}

/* On stock they wait for the link; then they are there under both. */
static void fault(void)
{
	say("READY");
	hear("down");
	arm();
	send_messages(3);
	walk("down");
	must_zero(ibv_resize_cq(conns[B].cq, 12 * DEPTH), "ibv_resize_cq");
	walk("resized_down");
	say("SENT");
	hear("up");
	poll_all();
	take_events(2, true);
	walk("up");
	say("POLLED");
	hear("back");
	traffic();
}

/* Before a move: then the NIC alone tells, and does not wait until the program polls. */
static void limit_event(void)
{
	struct ibv_srq_attr attr = { .srq_limit = DEPTH - 1 };

	must_zero(ibv_modify_srq(nic.srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
	walk("limit");
	send_messages(4);
	take_async(IBV_EVENT_SRQ_LIMIT_REACHED, nic.srq);
	poll_all();
	walk("srq_event");
}

static void to_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must_zero(ibv_modify_qp(conns[B].qp, &attr, IBV_QP_STATE), "ibv_modify_qp to ERR");
	take_async(IBV_EVENT_QP_LAST_WQE_REACHED, conns[B].qp);
	walk("error");
	conn_reset(&conns[A]);
	walk("reset");
}

static void destroy(void)
{
	must_zero(ibv_destroy_qp(extended), "ibv_destroy_qp");
	walk_remove(extended);
	walk("destroyed_qp");
	must_zero(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), "ibv_destroy_cq of an extended one");
	walk_remove(cq_ex);
	walk("destroyed_cq");
	for (int i = 0; i < CONNS; i++) {
		must_zero(ibv_destroy_qp(conns[i].qp), "ibv_destroy_qp");
		walk_remove(conns[i].qp);
		walk("destroyed_pair");
	}
	must_zero(ibv_destroy_cq(conns[B].cq), "ibv_destroy_cq");
	walk_remove(conns[B].cq);
	walk("destroyed_cq_b");
	must_zero(ibv_destroy_srq(nic.srq), "ibv_destroy_srq");
	walk_remove(nic.srq);
	for (int i = 0; i < CONNS; i++) {
		must_zero(ibv_dereg_mr(conns[i].mr), "ibv_dereg_mr");
		walk_remove(conns[i].mr);
	}
	walk("destroyed");
}

int main(void)
{
	setvbuf(stdin, NULL, _IONBF, 0);
	open_all();
	make_others();
	make_spare();
	make_pair();
	make_work_queue();
	make_extended();
	connect_pair();
	say("CONNECTED");
	hear("protected");
	traffic();
	change();
	limit_event();
	fault();
	to_error();
	destroy();
	say("OK");
	return 0;
}
