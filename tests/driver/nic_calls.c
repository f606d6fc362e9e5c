/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that holds a NIC open through its death, and says what each verb answers and when each
 * event comes. The same program runs on a software NIC and on a kernel's driver, so both can be
 * compared (belief.py).
 *
 * usage: nic_calls DEVICE GID_INDEX
 *
 * It opens the device, connects a queue pair to itself, says {"ready": ...} and obeys lines of its
 * standard input:
 *
 *   probe    makes each call once, all in parallel, and gives back what the calls have made
 *   end      takes the queue pair to ERR, and destroys what it holds; closes the device
 *   exit     ends the process as it is (exit(3)); so does the end of the input
 *
 * Each call is a line {"t": seconds, "call": name, "errno": number, "s": time that it took}; each
 * event {"t": seconds, "event": name}; each completion {"t": seconds, "completion": status}. Behind
 * a command comes {"t": seconds, "done": command}. Times are of CLOCK_MONOTONIC.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT = 1, DEPTH = 64, BYTES = 64, AREA = 8192, ACCESS = 7, POLL_MS = 300 };

/* What is held open from the beginning to "end". */
static struct held {
	struct ibv_device *device;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint8_t gid_index;
} held;

static uint8_t area[AREA] __attribute__((aligned(AREA)));
static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say_word(const char *kind, const char *word)
{
	pthread_mutex_lock(&say_lock);
	printf("{\"t\": %.6f, \"%s\": \"%s\"}\n", now_s(), kind, word);
	fflush(stdout);
	pthread_mutex_unlock(&say_lock);
}

static void say_call(const char *name, int err, double began)
{
	double ended = now_s();

	pthread_mutex_lock(&say_lock);
	printf("{\"t\": %.6f, \"call\": \"%s\", \"errno\": %d, \"s\": %.6f}\n", began, name, err,
	       ended - began);
	fflush(stdout);
	pthread_mutex_unlock(&say_lock);
}

/* Says how a call ended that returns an errno, or -1 with errno set. */
#define CALL(name, call)                                                                           \
	({                                                                                         \
		double began = now_s();                                                            \
		int ret;                                                                           \
                                                                                                   \
		errno = 0;                                                                         \
		ret = (call);                                                                      \
		say_call(name, ret < 0 && errno ? errno : abs(ret), began);                        \
		!ret;                                                                              \
	})

/* Says how a call ended that returns a pointer, or NULL with errno set; returns the pointer. */
#define MAKE(name, call)                                                                           \
	({                                                                                         \
		double began = now_s();                                                            \
		__typeof__(call) made;                                                             \
                                                                                                   \
		errno = 0;                                                                         \
		made = (call);                                                                     \
		say_call(name, made ? 0 : errno ? errno : EINVAL, began);                          \
		made;                                                                              \
	})

static const char *event_name(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL: return "QP_FATAL";
	case IBV_EVENT_PORT_ACTIVE: return "PORT_ACTIVE";
	case IBV_EVENT_PORT_ERR: return "PORT_ERR";
	case IBV_EVENT_LID_CHANGE: return "LID_CHANGE";
	case IBV_EVENT_PKEY_CHANGE: return "PKEY_CHANGE";
	case IBV_EVENT_GID_CHANGE: return "GID_CHANGE";
	case IBV_EVENT_SM_CHANGE: return "SM_CHANGE";
	case IBV_EVENT_CLIENT_REREGISTER: return "CLIENT_REREGISTER";
	case IBV_EVENT_DEVICE_FATAL: return "DEVICE_FATAL";
	default: return ibv_event_type_str(type);
	}
}

/* Tells of asynchronous events until the file ends. */
static void *tell_events(void *ctx)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(ctx, &event)) {
		say_word("event", event_name(event.event_type));
		ibv_ack_async_event(&event);
	}
	say_word("async_ends", strerror(errno));
	return NULL;
}

/* Tells of the completion channel's end. Its events only wake this thread. */
static void *tell_channel(void *channel)
{
	struct ibv_cq *cq;
	void *arg;

	while (!ibv_get_cq_event(channel, &cq, &arg)) {
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
	}
	say_word("channel_ends", strerror(errno));
	return NULL;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "nic_calls: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct ibv_device *find_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i]; /* the list stays: the device is opened again by "probe" */
	return NULL;
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = { .send_cq = held.cq,
					 .recv_cq = held.cq,
					 .cap = { 16, 16, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };

	return ibv_create_qp(held.pd, &attr);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = ACCESS };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* To itself, over the NIC's port. */
static int to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = qp->qp_num,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = { .dlid = held.port.lid, .port_num = PORT } };

	attr.ah_attr.is_global = held.port.link_layer == IBV_LINK_LAYER_ETHERNET;
	attr.ah_attr.grh.dgid = held.gid;
	attr.ah_attr.grh.sgid_index = held.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1 };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void hold(const char *device, uint8_t gid_index)
{
	held.gid_index = gid_index;
	held.device = find_device(device);
	must(held.device, "no such device");
	held.ctx = ibv_open_device(held.device);
	must(held.ctx, "ibv_open_device");
	must(!ibv_query_port(held.ctx, PORT, &held.port), "ibv_query_port");
	must(!ibv_query_gid(held.ctx, PORT, gid_index, &held.gid), "ibv_query_gid");
	held.pd = ibv_alloc_pd(held.ctx);
	must(held.pd, "ibv_alloc_pd");
	held.channel = ibv_create_comp_channel(held.ctx);
	must(held.channel, "ibv_create_comp_channel");
	held.cq = ibv_create_cq(held.ctx, DEPTH, NULL, held.channel, 0);
	must(held.cq && !ibv_req_notify_cq(held.cq, 0), "ibv_create_cq");
	held.mr = ibv_reg_mr(held.pd, area, AREA, ACCESS);
	must(held.mr, "ibv_reg_mr");
	held.qp = make_qp();
	must(held.qp, "ibv_create_qp");
	must(!to_init(held.qp) && !to_rtr(held.qp) && !to_rts(held.qp), "ibv_modify_qp");
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* A WRITE within the area, by the queue pair that is connected to itself. */
static int post(void)
{
	struct ibv_sge sge = { (uintptr_t)area, BYTES, held.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE },
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)area + AREA / 2;
	wr.wr.rdma.rkey = held.mr->rkey;
	return ibv_post_send(held.qp, &wr, &bad);
}

/* Says each completion that is there. Returns their number; negative as ibv_poll_cq() does. */
static int poll_all(void)
{
	struct ibv_wc wc;
	int n, total = 0;

	while ((n = ibv_poll_cq(held.cq, 1, &wc)) > 0) {
		say_word("completion", ibv_wc_status_str(wc.status));
		total++;
	}
	return n < 0 ? n : total;
}

/* Polls until a completion comes, for so long. The call's errno is EAGAIN where none came. */
static void poll_for_one(void)
{
	double began = now_s();
	const struct timespec pause = { 0, 1000000 };
	int n;

	while (!(n = poll_all()) && now_s() - began < POLL_MS / 1e3)
		nanosleep(&pause, NULL);
	say_call("poll_cq", n > 0 ? 0 : n ? EINVAL : EAGAIN, began);
}

static void *probe_open(void *arg)
{
	struct ibv_context *ctx = MAKE("open_device", ibv_open_device(held.device));

	if (ctx)
		CALL("close_second", ibv_close_device(ctx));
	return arg;
}

static void *probe_device(void *arg)
{
	struct ibv_device_attr device;

	CALL("query_device", ibv_query_device(held.ctx, &device));
	return arg;
}

static void *probe_port(void *arg)
{
	struct ibv_port_attr port;

	CALL("query_port", ibv_query_port(held.ctx, PORT, &port));
	return arg;
}

static void *probe_state(void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CALL("query_qp", ibv_query_qp(held.qp, &attr, IBV_QP_STATE, &init));
	return arg;
}

static void *probe_pd(void *arg)
{
	struct ibv_pd *pd = MAKE("alloc_pd", ibv_alloc_pd(held.ctx));

	if (pd)
		CALL("dealloc_new_pd", ibv_dealloc_pd(pd));
	return arg;
}

static void *probe_mr(void *arg)
{
	struct ibv_mr *mr = MAKE("reg_mr", ibv_reg_mr(held.pd, area, AREA / 2, 1));

	if (mr)
		CALL("dereg_new_mr", ibv_dereg_mr(mr));
	return arg;
}

static void *probe_cq(void *arg)
{
	struct ibv_cq *cq = MAKE("create_cq", ibv_create_cq(held.ctx, DEPTH, NULL, NULL, 0));

	if (cq)
		CALL("destroy_new_cq", ibv_destroy_cq(cq));
	return arg;
}

static void *probe_qp(void *arg)
{
	struct ibv_qp *qp = MAKE("create_qp", make_qp());

	if (!qp)
		return arg;
	CALL("modify_qp", to_init(qp));
	CALL("destroy_new_qp", ibv_destroy_qp(qp));
	return arg;
}

/* All at the same time: on a NIC that hangs each command waits for itself. */
static void probe(void)
{
	static void *(*const calls[])(void *) = { probe_open, probe_device, probe_port, probe_state,
						  probe_pd,   probe_mr,	    probe_cq,	probe_qp };
	enum { CALLS = sizeof(calls) / sizeof(calls[0]) };
	pthread_t thread[CALLS];

	CALL("post_send", post());
	poll_for_one();
	for (size_t i = 0; i < CALLS; i++)
		must(!pthread_create(&thread[i], NULL, calls[i], NULL), "pthread_create");
	for (size_t i = 0; i < CALLS; i++)
		pthread_join(thread[i], NULL);
}

/* libibverbs frees the parent of an object that could not be destroyed only on close. */
static void end(void)
{
	CALL("modify_err", to_err(held.qp));
	poll_all();
	CALL("destroy_qp", ibv_destroy_qp(held.qp));
	CALL("dereg_mr", ibv_dereg_mr(held.mr));
	CALL("destroy_cq", ibv_destroy_cq(held.cq));
	CALL("dealloc_pd", ibv_dealloc_pd(held.pd));
	CALL("close_device", ibv_close_device(held.ctx));
}

static void obey(char *word)
{
	word[strcspn(word, "\n")] = '\0';
	if (!strcmp(word, "probe"))
		probe();
	else if (!strcmp(word, "end"))
		end();
	else if (!strcmp(word, "exit"))
		exit(0);
	say_word("done", word);
}

int main(int argc, char **argv)
{
	pthread_t events, channel;
	char line[64];

	if (argc != 3) {
		fprintf(stderr, "usage: nic_calls DEVICE GID_INDEX\n");
		return 2;
	}
	hold(argv[1], atoi(argv[2]));
	must(!pthread_create(&events, NULL, tell_events, held.ctx), "pthread_create");
	must(!pthread_create(&channel, NULL, tell_channel, held.channel), "pthread_create");
	say_word("ready", argv[1]);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
