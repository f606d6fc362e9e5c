/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * room: one completion queue that is as small as its program needs it. A connection keeps hundreds of WRITEs under way,
 * of which one in EVERY is signaled; a connection to a stranger and datagrams may share the queue. The runner makes
 * faults; behind them everything on the queue must complete as before, or the queue tells that it overran.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pair.h"

enum {
	DEEP = 255,	  /* requests of the deep connection */
	EVERY = 16,	  /* of them one in so many is signaled */
	ALONE_CQE = 15,	  /* room for those that are signaled */
	BESIDE_CQE = 31,  /* and for the one request of each neighbour */
	NEIGHBOUR = 1000, /* wr_id of the stranger's connection, and of datagrams */
	DATAGRAM = 2000,
	AFTER = 40, /* rounds behind the faults */
	LIMIT_S = 20,
	QKEY = 0x11111111,
};

struct options opt;

#ifdef ROOM_DIRECT
#include <infiniband/mlx5dv.h>
/* The program could ask for its rings by direct verbs, and never does: SHIFT waits until it posts. */
void *const room_asks = (void *)mlx5dv_init_obj;
#endif

static struct user {
	struct ibv_cq *cq;
	struct conn deep, other;
	struct ibv_qp *ud;
	struct ibv_ah *ah;
	uint64_t posted, done; /* of the deep connection's requests */
	bool busy[2];	       /* the neighbours: one request each */
	uint64_t rounds[2];
} u;

/* A line of the runner's has come. */
static bool told(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void make_on(struct conn *c, struct nic *nic, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = depth, .max_send_sge = 1 } };

	conn_make(c, nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = cq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

static void end_on(struct conn *c)
{
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	free(c->mem);
}

static int write_to(struct conn *c, uint64_t id, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, 64, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = flags,
				  .wr.rdma = { c->peer.addr + AREA, c->peer.rkey } },
			   *bad;

	return ibv_post_send(c->qp, &wr, &bad);
}

/* ---- datagrams to itself --------------------------------------------------------------------- */

static void ud_make(struct nic *nic)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .send_cq = u.cq,
					 .recv_cq = u.cq,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	struct ibv_ah_attr to = { .port_num = PORT,
				  .dlid = nic->port.lid,
				  .is_global = 1,
				  .grh = { .dgid = nic->gid, .hop_limit = 64 } };

	u.ud = ibv_create_qp(nic->pd, &init);
	must(u.ud, "ibv_create_qp (UD)");
	must_zero(ibv_modify_qp(u.ud, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		  "UD to INIT");
	attr.qp_state = IBV_QPS_RTR;
	must_zero(ibv_modify_qp(u.ud, &attr, IBV_QP_STATE), "UD to RTR");
	attr.qp_state = IBV_QPS_RTS;
	must_zero(ibv_modify_qp(u.ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD to RTS");
	u.ah = ibv_create_ah(nic->pd, &to);
	must(u.ah, "ibv_create_ah");
}

static void ud_send(void)
{
	struct ibv_sge sge = { (uintptr_t)u.deep.mem, 64, u.deep.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = DATAGRAM,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { u.ah, u.ud->qp_num, QKEY } },
			   *bad;

	must_zero(ibv_post_send(u.ud, &wr, &bad), "a datagram");
}

/* ---- all users ------------------------------------------------------------------------------- */

static void fill(void)
{
	while (u.posted - u.done < DEEP - EVERY) {
		bool signaled = !(++u.posted % EVERY);

		must_zero(write_to(&u.deep, u.posted, signaled ? IBV_SEND_SIGNALED : 0), "a WRITE");
	}
	if (!u.ud)
		return;
	if (!u.busy[0])
		must_zero(write_to(&u.other, NEIGHBOUR, IBV_SEND_SIGNALED),
			  "the neighbour's WRITE");
	if (!u.busy[1])
		ud_send();
	u.busy[0] = u.busy[1] = true;
}

/* What the deep connection, the other one and the datagrams have must complete, each in its order. */
static void take(const struct ibv_wc *wc)
{
	if (wc->status)
		say("status %d of qp 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "good completions alone");
	if (wc->qp_num == u.deep.qp->qp_num) {
		must(wc->wr_id == u.done + EVERY, "completions in order");
		u.done += EVERY;
		return;
	}
	u.busy[wc->qp_num == u.ud->qp_num] = false;
	u.rounds[wc->qp_num == u.ud->qp_num]++;
}

static void poll_some(double *since, bool wanted)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(u.cq, 8, wc);

	must(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		take(&wc[i]);
	if (n || !wanted)
		*since = now_s();
	must(now_s() - *since < LIMIT_S, "completions go on");
}

static void drain(void)
{
	double since = now_s();

	while (u.done < u.posted / EVERY * EVERY || u.busy[0] || u.busy[1])
		poll_some(&since, true);
}

static void flow(void)
{
	double since = now_s();
	bool said = false;

	while (!told()) {
		fill();
		poll_some(&since, true);
		if (!said && u.done > 10 * DEEP &&
		    (!u.ud || (u.rounds[0] > 10 && u.rounds[1] > 10)))
			say("FLOWS");
		said |= u.done > 10 * DEEP && (!u.ud || (u.rounds[0] > 10 && u.rounds[1] > 10));
	}
	hear("stop");
	drain();
	say("DRAINED");
	for (int i = 0; u.ud && i < AFTER; i++) {
		must_zero(write_to(&u.other, NEIGHBOUR, IBV_SEND_SIGNALED),
			  "the neighbour's WRITE");
		ud_send();
		u.busy[0] = u.busy[1] = true;
		drain();
	}
}

/* ---- the queue as the application sees it ------------------------------------------------------ */

static void size_is(int cqe, const char *what)
{
	const char *engine = getenv("SHIFT_ENGINE");

	if (engine && !strcmp(engine, "ledger"))
		return; /* its provider reads the field */
	if (u.cq->cqe != cqe)
		say("cqe %d instead of %d", u.cq->cqe, cqe);
	must(u.cq->cqe == cqe, what);
}

/* Anew on the same queue: the same queue pair after RESET, and another one. */
static void again(struct nic *nic)
{
	meet();
	for (int i = 0; i < 2; i++) {
		if (i) {
			end_on(&u.deep);
			make_on(&u.deep, nic, u.cq, DEEP);
		} else {
			conn_reset(&u.deep);
		}
		u.posted = u.done = 0;
		conn_connect_bare(&u.deep);
		for (int k = 0; k < AFTER; k++) {
			fill();
			drain();
		}
		say("AGAIN %d", i);
		meet();
	}
}

static void awaits(struct nic *nic)
{
	meet();
	for (int i = 0; i < 2; i++) {
		if (i) {
			conn_free(&u.deep);
			conn_make(&u.deep, nic);
		} else {
			conn_reset(&u.deep);
		}
		conn_connect_bare(&u.deep);
		meet();
	}
}

static void open_cq(struct nic *nic, int cqe)
{
	u.cq = ibv_create_cq(nic->ctx, cqe, NULL, NULL, 0);
	must(u.cq, "ibv_create_cq");
	say("CQE %d", u.cq->cqe);
}

/* Alone on its queue. */
/* used: it has posted and polled before the runner hears of it. */
static void alone(struct nic *nic, bool used)
{
	int cqe;

	if (!opt.server) {
		conn_make(&u.deep, nic);
		conn_connect_bare(&u.deep);
		say("CONNECTED");
		awaits(nic);
		conn_free(&u.deep);
		return;
	}
	open_cq(nic, ALONE_CQE);
	cqe = u.cq->cqe;
	make_on(&u.deep, nic, u.cq, DEEP);
	conn_connect_bare(&u.deep);
	if (used) {
		fill();
		drain();
	}
	say("CONNECTED");
	hear("go");
	flow();
	size_is(cqe, "the size that was made");
	again(nic);
	size_is(cqe, "the size that was made");
	end_on(&u.deep);
	must_zero(ibv_destroy_cq(u.cq), "ibv_destroy_cq");
}

static void run_alone(struct nic *nic)
{
	alone(nic, true);
}

static void run_unused(struct nic *nic)
{
	alone(nic, false);
}

/* With datagrams and a connection to a stranger, whose line is the second one. */
static void run_beside(struct nic *nic)
{
	int first = sock;

	if (!opt.server) {
		conn_make(&u.deep, nic);
		conn_connect_bare(&u.deep);
		say("CONNECTED");
		meet();
		conn_free(&u.deep);
		return;
	}
	open_cq(nic, BESIDE_CQE);
	make_on(&u.deep, nic, u.cq, DEEP);
	conn_connect_bare(&u.deep);
	say("FIRST");
	line_open();
	make_on(&u.other, nic, u.cq, 1);
	conn_connect_bare(&u.other);
	ud_make(nic);
	fill();
	drain();
	say("CONNECTED");
	hear("go");
	flow();
	meet();
	sock = first;
	meet();
	must_zero(ibv_destroy_qp(u.ud), "ibv_destroy_qp");
	must_zero(ibv_destroy_ah(u.ah), "ibv_destroy_ah");
	end_on(&u.other);
	end_on(&u.deep);
	must_zero(ibv_destroy_cq(u.cq), "ibv_destroy_cq");
}

static void overrun_is_told(struct nic *nic)
{
	struct pollfd p = { .fd = nic->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	do {
		must(poll(&p, 1, LIMIT_S * 1000) == 1, "an asynchronous event");
		must_zero(ibv_get_async_event(nic->ctx, &event), "ibv_get_async_event");
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	must(event.element.cq == u.cq, "the event of its queue");
}

/* The program itself lets more lie than its queue has room for. */
static void run_overrun(struct nic *nic)
{
	if (!opt.server) {
		conn_make(&u.deep, nic);
		conn_connect_bare(&u.deep);
		say("CONNECTED");
		meet();
		conn_free(&u.deep);
		return;
	}
	open_cq(nic, ALONE_CQE);
	make_on(&u.deep, nic, u.cq, DEEP);
	conn_connect_bare(&u.deep);
	fill();
	drain();
	say("CONNECTED");
	hear("go");
	for (int i = 0; i < DEEP - EVERY; i++)
		must_zero(write_to(&u.deep, 0, IBV_SEND_SIGNALED), "a WRITE");
	overrun_is_told(nic);
	say("TOLD");
	hear("stop");
	meet();
	end_on(&u.deep);
	must_zero(ibv_destroy_cq(u.cq), "ibv_destroy_cq");
}

/* Its size, and what the verb answers, behind resizes of its own. */
static void run_resize(struct nic *nic)
{
	static const int sizes[] = { 3, 100, 20, 15, 600, 31, 0, -1, 1 << 30, 16 };

	if (!opt.server) {
		conn_make(&u.deep, nic);
		conn_connect_bare(&u.deep);
		say("CONNECTED");
		awaits(nic);
		conn_free(&u.deep);
		return;
	}
	open_cq(nic, ALONE_CQE);
	make_on(&u.deep, nic, u.cq, DEEP);
	conn_connect_bare(&u.deep);
	fill();
	drain();
	say("CONNECTED");
	hear("go");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int ret = ibv_resize_cq(u.cq, sizes[i]);

		say("RESIZED %d: %d, %d", sizes[i], ret, u.cq->cqe);
	}
	flow();
	again(nic);
	end_on(&u.deep);
	must_zero(ibv_destroy_cq(u.cq), "ibv_destroy_cq");
}

static const struct {
	const char *name;
	void (*run)(struct nic *nic);
} modes[] = {
	{ "alone", run_alone },	    { "unused", run_unused }, { "beside", run_beside },
	{ "overrun", run_overrun }, { "resize", run_resize },
};

int main(int argc, char **argv)
{
	struct nic nic;
	const char *mode = argc > 1 ? argv[1] : "";

	(void)options_seeded(argc - 1, argv + 1);
	opt.timeout = 16;
	opt.unsignaled = true;
	line_open();
	nic_open(&nic, "mlx5_0");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(mode, modes[i].name))
			modes[i].run(&nic);
	nic_close(&nic);
	say("OK");
	return 0;
}
