// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * control: measures the cost of control verbs, and of many queue pairs. Two processes connect
 * --qps queue pairs; both time each verb, and say how long the whole set-up took. They rest until
 * the runner ends them, and take everything down again. With --roomy-cqs a completion queue has a
 * place for each request of its queue pairs, else for fewer.
 *
 * One line for each verb, all times in ns. unqueued: without the time in which the calling thread
 * could have run and other work had the cores; cpu: the time in which it ran; faults and sleeps:
 * page faults and waits, per call: VERB|name|calls|median|mean|unqueued median|cpu
 * median|faults|sleeps
 *
 * Told to "post" meanwhile, the client posts a WRITE on each queue pair, and says when
 * (CLOCK_MONOTONIC) the first, the median and the last of them completed: FLOWS|queue
 * pairs|first|median|last Told "regions MS", an end registers REGIONS regions and deregisters
 * them, each at once or, where MS is not 0, all of them that much later; and says the times of
 * both verbs.
 */
#include "tests/lib/pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	SEND_WR = 64,
	RECV_WR = 64,
	QPS_OF_A_CQ = 32,
	CQ_ROOMY = QPS_OF_A_CQ * (SEND_WR + RECV_WR),
	CQ_SMALL = 256,
	SPACE = 65536,
	LOOK_US = 50, /* the cores are few: a thread that only looks takes them from others */
	CALLS_MAX = 1 << 17,
	REGIONS = 500,
	REGIONS_US = 2000, /* pause between two: longer than a thread naps that was woken */
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

#define VERBS(X)                                                                                   \
	X(REG_MR, "reg_mr")                                                                        \
	X(CREATE_CQ, "create_cq")                                                                  \
	X(CREATE_QP, "create_qp")                                                                  \
	X(INIT, "modify_qp to INIT")                                                               \
	X(RTR, "modify_qp to RTR")                                                                 \
	X(RTS, "modify_qp to RTS")                                                                 \
	X(DESTROY_QP, "destroy_qp")                                                                \
	X(DESTROY_CQ, "destroy_cq")                                                                \
	X(DEREG_MR, "dereg_mr")

enum verb {
#define X(name, text) VERB_##name,
	VERBS(X)
#undef X
		VERB_COUNT
};

static const char *const verb_names[] = {
#define X(name, text) [VERB_##name] = text,
	VERBS(X)
#undef X
};

struct options opt = { .port = 18515, .qps = 1, .dev = "mlx5_0" };

struct timed {
	uint32_t n;
	uint32_t *ns, *unqueued_ns, *cpu_ns;
	uint64_t faults, sleeps;
};

/* A moment of the calling thread. */
struct instant {
	uint64_t ns, queued_ns, cpu_ns, faults, sleeps;
};

struct end {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address own, peer;
};

static struct timed timed[VERB_COUNT];
static int schedstat;
static bool one_region; /* all queue pairs share one region */
static int cq_size = CQ_SMALL;
static struct nic nic;
static struct end *ends;
static struct ibv_cq **cqs;
static uint8_t *mem;

/* ---- times ---------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint32_t *times_new(void)
{
	uint32_t *ns = malloc(CALLS_MAX * sizeof(*ns));

	must(ns, "memory");
	memset(ns, 0, CALLS_MAX * sizeof(*ns)); /* no page faults later */
	return ns;
}

static void times_init(void)
{
	for (int i = 0; i < VERB_COUNT; i++) {
		timed[i].ns = times_new();
		timed[i].unqueued_ns = times_new();
		timed[i].cpu_ns = times_new();
	}
	schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	must(schedstat >= 0, "/proc/thread-self/schedstat");
}

/* Time spent in line for a core, so far: the second of the figures there. */
static uint64_t queued_ns(void)
{
	char text[96] = "";

	must(pread(schedstat, text, sizeof(text) - 1, 0) > 0 && strchr(text, ' '), "schedstat");
	return strtoull(strchr(text, ' '), NULL, 10);
}

static void instant_usage(struct instant *at)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	at->faults = (uint64_t)usage.ru_minflt;
	at->sleeps = (uint64_t)usage.ru_nvcsw;
}

/* The clock on the wall is read last before the verb, and first behind it. */
static struct instant begin(void)
{
	struct instant at;

	instant_usage(&at);
	at.queued_ns = queued_ns();
	at.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	at.ns = now_ns();
	return at;
}

static uint32_t narrow(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* Subtracts the time in line, which may lie between two readings and outside the verb. */
static uint64_t less(uint64_t ns, uint64_t queued)
{
	return ns > queued ? ns - queued : 0;
}

static void took(enum verb verb, const struct instant *since)
{
	struct timed *t = &timed[verb];
	struct instant now = { .ns = now_ns() };

	now.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	now.queued_ns = queued_ns();
	instant_usage(&now);
	t->faults += now.faults - since->faults;
	t->sleeps += now.sleeps - since->sleeps;
	if (t->n == CALLS_MAX)
		return;
	t->ns[t->n] = narrow(now.ns - since->ns);
	t->unqueued_ns[t->n] = narrow(less(now.ns - since->ns, now.queued_ns - since->queued_ns));
	t->cpu_ns[t->n++] = narrow(now.cpu_ns - since->cpu_ns);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t median(uint32_t *ns, uint32_t n)
{
	qsort(ns, n, sizeof(*ns), by_value);
	return ns[n / 2];
}

static void time_say(const char *name, struct timed *t)
{
	uint64_t sum = 0;

	for (uint32_t k = 0; k < t->n; k++)
		sum += t->ns[k];
	say("VERB|%s|%u|%u|%llu|%u|%u|%.2f|%.2f", name, t->n, median(t->ns, t->n),
	    (unsigned long long)(sum / t->n), median(t->unqueued_ns, t->n), median(t->cpu_ns, t->n),
	    (double)t->faults / t->n, (double)t->sleeps / t->n);
}

static void times_say(enum verb first, enum verb last)
{
	for (int i = first; i <= (int)last; i++)
		if (timed[i].n)
			time_say(verb_names[i], &timed[i]);
}

/* ---- one queue pair ------------------------------------------------------------------------- */

static void end_register(struct end *e, int i)
{
	struct instant since;

	if (one_region && i) {
		e->mr = ends[0].mr;
		return;
	}
	since = begin();
	e->mr = ibv_reg_mr(nic.pd, mem, SPACE, ACCESS);
	took(VERB_REG_MR, &since);
	must(e->mr, "ibv_reg_mr");
}

static void end_make(int i)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = SEND_WR,
						  .max_recv_wr = RECV_WR,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct end *e = &ends[i];
	struct instant since;

	if (i % QPS_OF_A_CQ == 0) {
		since = begin();
		cqs[i / QPS_OF_A_CQ] = ibv_create_cq(nic.ctx, cq_size, NULL, NULL, 0);
		took(VERB_CREATE_CQ, &since);
		must(cqs[i / QPS_OF_A_CQ], "ibv_create_cq");
	}
	end_register(e, i);
	init.send_cq = init.recv_cq = cqs[i / QPS_OF_A_CQ];
	since = begin();
	e->qp = ibv_create_qp(nic.pd, &init);
	took(VERB_CREATE_QP, &since);
	must(e->qp, "ibv_create_qp");
	e->own = (struct address){ .qpn = e->qp->qp_num,
				   .psn = 0x1000,
				   .rkey = e->mr->rkey,
				   .addr = (uintptr_t)mem,
				   .lid = nic.port.lid };
	memcpy(e->own.gid, nic.gid.raw, 16);
}

static void modify(struct end *e, enum verb verb, struct ibv_qp_attr *attr, int mask)
{
	struct instant since = begin();
	int ret = ibv_modify_qp(e->qp, attr, mask);

	took(verb, &since);
	must_zero(ret, verb_names[verb]);
}

static void end_connect(struct end *e)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = ACCESS };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = e->peer.qpn,
				   .rq_psn = e->peer.psn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = { .dlid = e->peer.lid,
						.port_num = PORT,
						.is_global = 1,
						.grh = { .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 18,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .sq_psn = e->own.psn,
				   .max_rd_atomic = 1 };

	memcpy(rtr.ah_attr.grh.dgid.raw, e->peer.gid, 16);
	modify(e, VERB_INIT, &init,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(e, VERB_RTR, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(e, VERB_RTS, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void end_destroy(struct end *e)
{
	struct instant since = begin();
	int ret = ibv_destroy_qp(e->qp);

	took(VERB_DESTROY_QP, &since);
	must_zero(ret, "ibv_destroy_qp");
	if (one_region && e != ends)
		return;
	since = begin();
	ret = ibv_dereg_mr(e->mr);
	took(VERB_DEREG_MR, &since);
	must_zero(ret, "ibv_dereg_mr");
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void set_up(void)
{
	struct address *own = calloc((size_t)opt.qps, sizeof(*own));
	struct address *peer = calloc((size_t)opt.qps, sizeof(*peer));
	uint64_t since = now_ns();

	must(own && peer, "memory");
	for (int i = 0; i < opt.qps; i++) {
		end_make(i);
		own[i] = ends[i].own;
	}
	swap(own, peer, (size_t)opt.qps * sizeof(*own));
	for (int i = 0; i < opt.qps; i++) {
		ends[i].peer = peer[i];
		end_connect(&ends[i]);
	}
	meet();
	say("SETUP|%d|%llu", opt.qps, (unsigned long long)(now_ns() - since));
	free(own);
	free(peer);
}

static void take_down(void)
{
	uint64_t since = now_ns();
	struct instant at;
	int ret;

	for (int i = 0; i < opt.qps; i++)
		end_destroy(&ends[i]);
	for (int i = 0; i < opt.qps; i += QPS_OF_A_CQ) {
		at = begin();
		ret = ibv_destroy_cq(cqs[i / QPS_OF_A_CQ]);
		took(VERB_DESTROY_CQ, &at);
		must_zero(ret, "ibv_destroy_cq");
	}
	say("TAKEDOWN|%d|%llu", opt.qps, (unsigned long long)(now_ns() - since));
}

/* ---- traffic on all of them ----------------------------------------------------------------- */

static void end_post(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)mem, sizeof(uint64_t), e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { e->peer.addr, e->peer.rkey } },
			   *bad;

	must_zero(ibv_post_send(e->qp, &wr, &bad), "ibv_post_send");
}

/* The number of completions; each leaves the time at which it was seen. */
static int completions_take(uint64_t *at_ns)
{
	struct ibv_wc wc[QPS_OF_A_CQ];
	int taken = 0;

	for (int i = 0; i < opt.qps; i += QPS_OF_A_CQ) {
		int n = ibv_poll_cq(cqs[i / QPS_OF_A_CQ], QPS_OF_A_CQ, wc);
		uint64_t now = now_ns();

		must(n >= 0, "ibv_poll_cq");
		for (int k = 0; k < n; k++) {
			must(!wc[k].status, ibv_wc_status_str(wc[k].status));
			at_ns[taken++] = now;
		}
	}
	return taken;
}

static void flow(void)
{
	uint64_t *at_ns = calloc((size_t)opt.qps, sizeof(*at_ns));
	int done = 0;

	must(at_ns, "memory");
	for (int i = 0; i < opt.qps; i++)
		end_post(&ends[i]);
	say("POSTED");
	while (done < opt.qps) {
		int taken = completions_take(at_ns + done);

		done += taken;
		if (!taken)
			usleep(LOOK_US);
	}
	say("FLOWS|%d|%llu|%llu|%llu", opt.qps, (unsigned long long)at_ns[0],
	    (unsigned long long)at_ns[opt.qps / 2], (unsigned long long)at_ns[opt.qps - 1]);
	free(at_ns);
}

/* ---- regions that come and go --------------------------------------------------------------- */

static void times_forget(enum verb verb)
{
	timed[verb].n = 0;
	timed[verb].faults = timed[verb].sleeps = 0;
}

static struct ibv_mr *region_make(void)
{
	struct instant since = begin();
	struct ibv_mr *mr = ibv_reg_mr(nic.pd, mem, 4096, ACCESS);

	took(VERB_REG_MR, &since);
	must(mr, "ibv_reg_mr");
	return mr;
}

static void region_end(struct ibv_mr *mr)
{
	struct instant since = begin();
	int ret = ibv_dereg_mr(mr);

	took(VERB_DEREG_MR, &since);
	must_zero(ret, "ibv_dereg_mr");
}

/*
 * Times registrations. Threads that were woken can fall asleep again between two calls, as beside
 * a program that works.
 */
static void regions(unsigned int live_ms)
{
	static struct ibv_mr *mrs[REGIONS];

	times_forget(VERB_REG_MR);
	times_forget(VERB_DEREG_MR);
	for (int i = 0; i < REGIONS; i++) {
		mrs[i] = region_make();
		if (!live_ms)
			region_end(mrs[i]);
		usleep(REGIONS_US);
	}
	usleep(live_ms * 1000);
	for (int i = 0; live_ms && i < REGIONS; i++) {
		region_end(mrs[i]);
		usleep(REGIONS_US);
	}
	times_say(VERB_REG_MR, VERB_REG_MR);
	times_say(VERB_DEREG_MR, VERB_DEREG_MR);
	say("REGIONS|%u", live_ms);
	times_forget(VERB_DEREG_MR);
}

static void rest(void)
{
	char word[32] = "";
	unsigned int live_ms;

	say("RESTING");
	while (fgets(word, sizeof(word), stdin) && strcmp(word, "end\n")) {
		if (sscanf(word, "regions %u", &live_ms) == 1) {
			regions(live_ms);
			continue;
		}
		must(!strcmp(word, "post\n"), "post, regions or end");
		flow();
	}
}

static int options_read(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--qps") && i + 1 < argc)
			opt.qps = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--one-region"))
			one_region = true;
		else if (!strcmp(argv[i], "--roomy-cqs"))
			cq_size = CQ_ROOMY;
		else if (strcmp(argv[i], "--client"))
			return -1;
	}
	return opt.qps > 0 && opt.qps <= CALLS_MAX ? 0 : -1;
}

int main(int argc, char **argv)
{
	uint64_t since;

	if (options_read(argc, argv)) {
		fputs("usage: control --server|--client [--port N] [--qps N] [--one-region] "
		      "[--roomy-cqs]\n",
		      stderr);
		return 2;
	}
	times_init();
	ends = calloc((size_t)opt.qps, sizeof(*ends));
	cqs = calloc((size_t)opt.qps / QPS_OF_A_CQ + 1, sizeof(struct ibv_cq *));
	must(ends && cqs && !posix_memalign((void **)&mem, 4096, SPACE), "memory");
	line_open();
	since = now_ns();
	nic_open(&nic, opt.dev);
	say("OPEN|%llu", (unsigned long long)(now_ns() - since));
	meet();
	set_up();
	times_say(VERB_REG_MR, VERB_RTS);
	rest();
	meet();
	take_down();
	times_say(VERB_DESTROY_QP, VERB_DEREG_MR);
	nic_close(&nic);
	say("OK");
	return 0;
}
