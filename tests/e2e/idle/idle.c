// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * idle: queue pairs that give whoever wants to move them in order nothing to hold on to. The client
 * posts, the server is served; what each of them does is its kind. While they rest, the runner puts
 * faults; when both are told to end, everything must arrive, once and in order.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOT = 64, RING_MAX = 512, RECVS = 64, TICK_US = 5000, UNSIGNALED = 24 };

#define KINDS(X)                                                                                   \
	X(IDLE, "idle")			 /* nothing was ever posted */                             \
	X(RECEIVER, "receives only")	 /* the server sends nothing, the client a little */       \
	X(SILENT, "never signals")	 /* unsignaled WRITEs, and none that tells of them */      \
	X(FULL, "full ring")		 /* all of it is done, and nobody polls */                 \
	X(WAITING, "full ring, waiting") /* SENDs for which the server posts no receive yet */

enum kind {
#define X(name, text) KIND_##name,
	KINDS(X)
#undef X
		KIND_COUNT
};

static const char *const kind_names[] = {
#define X(name, text) [KIND_##name] = text,
	KINDS(X)
#undef X
};

struct options opt = { .port = 18515, .timeout = 16, .dev = "mlx5_0" };

struct rest {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *
		mem; /* RING_MAX slots to send from, as many that the peer WRITEs to, RECVS slots */
	struct address own, peer;
	uint32_t depth;
	uint64_t posted, done, received, laid;
};

static struct nic nic;
static struct rest rests[KIND_COUNT];
static struct rest *more; /* of kind IDLE, and nothing else is done */
static int more_n;

enum { MEM = (2 * RING_MAX + RECVS) * SLOT };

/* ---- connections ---------------------------------------------------------------------------- */

static void rest_make(struct rest *r)
{
	enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = RECVS,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	r->mem = calloc(1, MEM);
	must(r->mem, "memory");
	r->mr = ibv_reg_mr(nic.pd, r->mem, MEM, ACCESS);
	must(r->mr, "ibv_reg_mr");
	r->cq = ibv_create_cq(nic.ctx, RING_MAX + RECVS, NULL, NULL, 0);
	must(r->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = r->cq;
	r->qp = ibv_create_qp(nic.pd, &init);
	must(r->qp, "ibv_create_qp");
	r->depth = init.cap.max_send_wr < RING_MAX ? init.cap.max_send_wr : RING_MAX;
}

static void rest_init(struct rest *r)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = PORT,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	must_zero(
		ibv_modify_qp(r->qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
}

static void rest_ready(struct rest *r)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = r->peer.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .port_num = PORT, .is_global = 1, .grh = { .hop_limit = 64 } }
	};

	memcpy(a.ah_attr.grh.dgid.raw, r->peer.gid, 16);
	must_zero(ibv_modify_qp(r->qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
		  "ibv_modify_qp to RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = (uint8_t)opt.timeout,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1 };
	must_zero(ibv_modify_qp(r->qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		  "ibv_modify_qp to RTS");
}

static void rest_connect(struct rest *r)
{
	r->own = (struct address){ .qpn = r->qp->qp_num,
				   .rkey = r->mr->rkey,
				   .addr = (uintptr_t)r->mem };
	memcpy(r->own.gid, nic.gid.raw, 16);
	swap(&r->own, &r->peer, sizeof(r->own));
	rest_init(r);
	rest_ready(r);
}

static void rest_free(struct rest *r)
{
	must_zero(ibv_destroy_qp(r->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(r->cq), "ibv_destroy_cq");
	must_zero(ibv_dereg_mr(r->mr), "ibv_dereg_mr");
	free(r->mem);
}

/* ---- requests ------------------------------------------------------------------------------- */

static uint8_t *slot(const struct rest *r, uint64_t part, uint64_t number)
{
	return r->mem + (part * RING_MAX + number % (part == 2 ? RECVS : RING_MAX)) * SLOT;
}

/* The number of the message is its text. False: the ring is full. */
static bool post(struct rest *r, enum ibv_wr_opcode opcode, unsigned int flags)
{
	uint64_t to = r->peer.addr + (RING_MAX + r->posted % RING_MAX) * SLOT;
	struct ibv_sge sge = { (uintptr_t)slot(r, 0, r->posted), SLOT, r->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = r->posted,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = flags,
				  .wr.rdma = { to, r->peer.rkey } },
			   *bad;
	int rc;

	memcpy(slot(r, 0, r->posted), &r->posted, sizeof(r->posted));
	rc = ibv_post_send(r->qp, &wr, &bad);
	if (rc == ENOMEM)
		return false;
	must_zero(rc, "ibv_post_send");
	r->posted++;
	return true;
}

static void lay(struct rest *r, unsigned int n)
{
	while (n--) {
		struct ibv_sge sge = { (uintptr_t)slot(r, 2, r->laid), SLOT, r->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = r->laid++, .sg_list = &sge, .num_sge = 1 }, *bad;

		must_zero(ibv_post_recv(r->qp, &wr, &bad), "ibv_post_recv");
	}
}

/* first: the number of the message that the first receive holds */
static void take(struct rest *r, const struct ibv_wc *wc, uint64_t first)
{
	uint64_t number;

	if (wc->status)
		say("FAILED status %d of QP 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "a good completion");
	if (!(wc->opcode & IBV_WC_RECV)) {
		must(wc->wr_id >= r->done, "send completions in order");
		r->done = wc->wr_id + 1;
		return;
	}
	must(wc->wr_id == r->received, "receives in order");
	memcpy(&number, slot(r, 2, r->received), sizeof(number));
	must(number == first + r->received, "messages in order");
	r->received++;
}

static bool take_one(struct rest *r, uint64_t first)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(r->cq, 1, &wc);

	must(n >= 0, "ibv_poll_cq");
	if (n)
		take(r, &wc, first);
	return n;
}

static void await(struct rest *r, const uint64_t *count, uint64_t wanted, uint64_t first)
{
	double end = now_s() + 20;

	while (*count < wanted) {
		must(now_s() < end, "all completions within 20 s");
		if (!take_one(r, first))
			usleep(50);
	}
	must(*count == wanted, "as many completions as there should be");
}

/* ---- what they do --------------------------------------------------------------------------- */

static void fill(struct rest *r, enum ibv_wr_opcode opcode)
{
	while (r->posted < r->depth && post(r, opcode, IBV_SEND_SIGNALED))
		;
}

static void begin(void)
{
	if (opt.server) {
		lay(&rests[KIND_RECEIVER], RECVS);
		lay(&rests[KIND_IDLE], 1);
		lay(&rests[KIND_SILENT], 1);
	}
	meet();
	if (opt.server)
		return;
	fill(&rests[KIND_FULL], IBV_WR_RDMA_WRITE);
	fill(&rests[KIND_WAITING], IBV_WR_SEND);
}

static void tick(void)
{
	struct rest *receiver = &rests[KIND_RECEIVER], *silent = &rests[KIND_SILENT];

	while (take_one(receiver, 0))
		if (opt.server)
			lay(receiver, 1);
	if (opt.server)
		return;
	if (receiver->posted - receiver->done < DEPTH / 2)
		post(receiver, IBV_WR_SEND, IBV_SEND_SIGNALED);
	if (silent->posted < UNSIGNALED)
		post(silent, IBV_WR_RDMA_WRITE, 0);
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static void end_client(void)
{
	struct rest *silent = &rests[KIND_SILENT], *receiver = &rests[KIND_RECEIVER];
	uint64_t sent[KIND_COUNT], none[KIND_COUNT];

	post(silent, IBV_WR_SEND, IBV_SEND_SIGNALED);
	post(&rests[KIND_IDLE], IBV_WR_SEND, IBV_SEND_SIGNALED);
	await(silent, &silent->done, silent->posted, 0);
	await(receiver, &receiver->done, receiver->posted, 0);
	await(&rests[KIND_IDLE], &rests[KIND_IDLE].done, 1, 0);
	await(&rests[KIND_FULL], &rests[KIND_FULL].done, rests[KIND_FULL].posted, 0);
	for (int i = 0; i < KIND_COUNT; i++)
		sent[i] = rests[i].posted;
	swap(sent, none, sizeof(sent));
	await(&rests[KIND_WAITING], &rests[KIND_WAITING].done, rests[KIND_WAITING].posted, 0);
}

static void written(const struct rest *r, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		must(!memcmp(slot(r, 1, i), &i, sizeof(i)), "what was written");
}

static void end_server(void)
{
	struct rest *receiver = &rests[KIND_RECEIVER], *waiting = &rests[KIND_WAITING];
	uint64_t none[KIND_COUNT] = { 0 }, sent[KIND_COUNT];

	swap(none, sent, sizeof(sent));
	await(receiver, &receiver->received, sent[KIND_RECEIVER], 0);
	await(&rests[KIND_IDLE], &rests[KIND_IDLE].received, 1, 0);
	await(&rests[KIND_SILENT], &rests[KIND_SILENT].received, 1, sent[KIND_SILENT] - 1);
	written(&rests[KIND_SILENT], sent[KIND_SILENT] - 1);
	written(&rests[KIND_FULL], sent[KIND_FULL]);
	while (waiting->received < sent[KIND_WAITING]) {
		lay(waiting, 1);
		await(waiting, &waiting->received, waiting->laid, 0);
	}
}

static int options_read(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--rest") && i + 1 < argc)
			more_n = atoi(argv[++i]);
		else if (strcmp(argv[i], "--client"))
			return -1;
	}
	return 0;
}

/* Memory and completion queue are shared: what is measured beside them is the queue pairs. */
static void more_make(struct rest *r)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = more->cq,
		.recv_cq = more->cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	r->mr = more->mr;
	r->mem = more->mem;
	r->cq = more->cq;
	r->qp = ibv_create_qp(nic.pd, &init);
	must(r->qp, "ibv_create_qp");
}

static int rest_only(void)
{
	more = calloc((size_t)more_n + 1, sizeof(*more));
	must(more, "memory");
	rest_make(&more[0]);
	rest_connect(&more[0]);
	for (int i = 1; i < more_n; i++) {
		more_make(&more[i]);
		rest_connect(&more[i]);
	}
	meet();
	say("RESTING %d", more_n);
	hear("end");
	meet();
	for (int i = 1; i < more_n; i++)
		must_zero(ibv_destroy_qp(more[i].qp), "ibv_destroy_qp");
	rest_free(&more[0]);
	nic_close(&nic);
	free(more);
	say("OK");
	return 0;
}

int main(int argc, char **argv)
{
	if (options_read(argc, argv)) {
		fputs("usage: idle --server|--client [--port N] [--rest QPS]\n", stderr);
		return 2;
	}
	line_open();
	nic_open(&nic, opt.dev);
	if (more_n)
		return rest_only();
	for (int i = 0; i < KIND_COUNT; i++) {
		rest_make(&rests[i]);
		rest_connect(&rests[i]);
		say("QP 0x%06x %s", rests[i].qp->qp_num, kind_names[i]);
	}
	meet();
	begin();
	say("RESTING %d", KIND_COUNT);
	while (!told()) {
		tick();
		usleep(TICK_US);
	}
	hear("end");
	if (opt.server)
		end_server();
	else
		end_client();
	meet();
	for (int i = 0; i < KIND_COUNT; i++)
		rest_free(&rests[i]);
	nic_close(&nic);
	say("OK");
	return 0;
}
