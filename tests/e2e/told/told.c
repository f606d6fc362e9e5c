// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * told: a program that follows its asynchronous events. The server says each event of its context as it
 * comes, and does what the runner says, a line for each word; the client answers its messages. Beside the
 * connection between the two, the server may have queue pairs that no peer answers: bystanders.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TALKS = 20, BYSTANDERS = 4, LINE = 64 };

struct options opt = { .port = 18515, .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conn;
static bool connected;

/* A queue pair to nobody. */
struct bystander {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
} bystanders[BYSTANDERS];

static int n_bystanders;
static struct ibv_comp_channel *listening; /* of bystanders made from now on; NULL: none */

/* ---- events --------------------------------------------------------------------------------- */

static void *events_say(void *context)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(context, &event)) {
		say("EVENT %d %s", event.event_type, ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	return NULL;
}

/* A thread that waits for completions, until that fails. Its errno is the kernel's: the software NIC's file just ends. */
static void *completions_say(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	say("WAITED");
	return NULL;
}

static void listen_from_now(void)
{
	pthread_t thread;

	listening = ibv_create_comp_channel(nic.ctx);
	must(listening, "ibv_create_comp_channel");
	must_zero(pthread_create(&thread, NULL, completions_say, listening), "pthread_create");
	pthread_detach(thread);
	say("LISTENS");
}

/* One that the program only looks at. */
static void look_from_now(void)
{
	listening = ibv_create_comp_channel(nic.ctx);
	must(listening, "ibv_create_comp_channel");
	must_zero(fcntl(listening->fd, F_SETFL, O_NONBLOCK), "fcntl");
	say("LOOKS");
}

static void look(void)
{
	struct pollfd fd = { listening->fd, POLLIN, 0 };
	struct ibv_cq *cq;
	void *context;
	int n = poll(&fd, 1, 0);

	errno = 0;
	must(ibv_get_cq_event(listening, &cq, &context), "no event");
	say("LOOKED %s %d", errno == EAGAIN ? "EAGAIN" : "error", n);
}

static void events_follow(struct ibv_context *context)
{
	pthread_t thread;

	must_zero(pthread_create(&thread, NULL, events_say, context), "pthread_create");
	pthread_detach(thread);
}

/* ---- bystanders ----------------------------------------------------------------------------- */

static enum ibv_qp_type type_of(const char *name)
{
	return !strcmp(name, "ud") ? IBV_QPT_UD : !strcmp(name, "uc") ? IBV_QPT_UC : IBV_QPT_RC;
}

static struct ibv_qp *bystander_make(struct bystander *b, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	b->cq = ibv_create_cq(nic.ctx, 16, NULL, listening, 0);
	if (!b->cq || ibv_req_notify_cq(b->cq, 0))
		return NULL;
	init.send_cq = init.recv_cq = b->cq;
	b->qp = ibv_create_qp(nic.pd, &init);
	return b->qp;
}

static int bystander_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = 0x11 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	return ibv_modify_qp(qp, &attr, mask);
}

/* Nobody has that number at the other host. */
static int bystander_to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0xfffff0,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .port_num = PORT, .is_global = 1, .grh = { .hop_limit = 64 } }
	};
	int mask = IBV_QP_STATE;

	memcpy(attr.ah_attr.grh.dgid.raw, conn.peer.gid, 16);
	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static int bystander_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

static void bystander_init(const char *name)
{
	struct bystander *b = &bystanders[n_bystanders++];

	must(n_bystanders <= BYSTANDERS, "a place for a bystander");
	must(bystander_make(b, type_of(name)), "a bystander");
	must_zero(bystander_to_init(b->qp), "a bystander in INIT");
	say("INIT %s", name);
}

/* The last one that was made. */
static void bystander_connect(void)
{
	struct ibv_qp *qp = bystanders[n_bystanders - 1].qp;
	int ret = bystander_to_rtr(qp);

	say("CONNECT %d", ret ? ret : bystander_to_rts(qp));
}

static void bystander_destroy(void)
{
	struct bystander *b = &bystanders[--n_bystanders];
	int ret = ibv_destroy_qp(b->qp);

	say("GONE %d", ret ? ret : ibv_destroy_cq(b->cq));
}

/* It asks the nobody that it is connected with, until its retries have run out. */
static void bystander_fail(void)
{
	struct bystander *b = &bystanders[n_bystanders - 1];
	struct conn c = { .qp = b->qp, .cq = b->cq };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	must_zero(ibv_post_send(b->qp, &wr, &bad), "ibv_post_send of a bystander");
	conn_poll(&c, &wc);
	say("FAILED %d", wc.status);
}

static void bystander_stop(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	say("STOPPED %d", ibv_modify_qp(bystanders[n_bystanders - 1].qp, &attr, IBV_QP_STATE));
}

/* ---- words ---------------------------------------------------------------------------------- */

static void talk(void)
{
	conn_talk(&conn, TALKS);
	say("TALKED");
}

static void destroy(void)
{
	must_zero(ibv_destroy_qp(conn.qp), "ibv_destroy_qp");
	connected = false;
	say("DESTROYED");
}

static void to_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must_zero(ibv_modify_qp(conn.qp, &attr, IBV_QP_STATE), "ibv_modify_qp to ERR");
	say("ERR");
}

static void make(const char *what)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .send_cq = conn.cq,
					 .recv_cq = conn.cq,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
	static char memory[4096];
	void *made;

	errno = 0;
	if (!strcmp(what, "cq"))
		made = ibv_create_cq(nic.ctx, 16, NULL, NULL, 0);
	else if (!strcmp(what, "mr")) /* by a right for which there is no placeholder */
		made = ibv_reg_mr(nic.pd, memory, sizeof(memory),
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	else if (!strcmp(what, "pd"))
		made = ibv_alloc_pd(nic.ctx);
	else
		made = ibv_create_qp(nic.pd, &init);
	say("MADE %s %d", what, made ? 0 : errno);
}

static void port(void)
{
	struct ibv_port_attr attr;
	int ret = ibv_query_port(nic.ctx, PORT, &attr);

	say("PORT %d", ret ? -ret : (int)attr.state);
}

/* As a program does that was told of the device's end. */
static void reopen(void)
{
	struct nic again;
	struct conn other;

	nic_open(&again, opt.dev);
	events_follow(again.ctx);
	conn_make(&other, &again);
	conn_to_init(&other);
	say("REOPENED");
}

static void obey(char *word)
{
	char *argument = strchr(word, ' ');

	if (argument)
		*argument++ = 0;
	if (!strcmp(word, "talk"))
		talk();
	else if (!strcmp(word, "destroy"))
		destroy();
	else if (!strcmp(word, "error"))
		to_error();
	else if (!strcmp(word, "init"))
		bystander_init(argument);
	else if (!strcmp(word, "listen"))
		listen_from_now();
	else if (!strcmp(word, "watch"))
		look_from_now();
	else if (!strcmp(word, "look"))
		look();
	else if (!strcmp(word, "connect"))
		bystander_connect();
	else if (!strcmp(word, "fail"))
		bystander_fail();
	else if (!strcmp(word, "stop"))
		bystander_stop();
	else if (!strcmp(word, "gone"))
		bystander_destroy();
	else if (!strcmp(word, "make"))
		make(argument);
	else if (!strcmp(word, "port"))
		port();
	else if (!strcmp(word, "reopen"))
		reopen();
	else
		must(false, word);
}

int main(int argc, char **argv)
{
	char line[LINE];

	options_seeded(argc, argv);
	line_open();
	nic_open(&nic, opt.dev);
	if (opt.server)
		events_follow(nic.ctx);
	conn_make(&conn, &nic);
	conn_connect(&conn);
	connected = true;
	talk();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "end"))
			break;
		obey(line);
	}
	say("ENDED");
	_exit(0); /* a thread waits for events for ever */
}
