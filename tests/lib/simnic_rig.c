/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* All on mlx5_1: keys, QPNs and LIDs of its rail repeat those of mlx5_0's. */
#include "tests/lib/simnic_rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct rig_end rig;
struct rig_addr rig_peer;
struct sn_fabric *rig_fabric;
static int order_fd = -1;

int rig_open(struct rig_end *end, uint32_t access)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	memset(end, 0, sizeof(*end));
	for (int i = 0; list && list[i] && !end->ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "mlx5_1"))
			end->ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	end->mem = mmap(NULL, RIG_MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!end->ctx || end->mem == MAP_FAILED || ibv_query_port(end->ctx, 1, &port))
		return -1;
	end->ib = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	end->pd = ibv_alloc_pd(end->ctx);
	end->channel = ibv_create_comp_channel(end->ctx);
	end->cq = ibv_create_cq(end->ctx, 4 * RIG_DEPTH, NULL, end->channel, 0);
	end->mr = ibv_reg_mr(end->pd, end->mem, RIG_MEM, access);
	return end->pd && end->channel && end->cq && end->mr ? 0 : -1;
}

void rig_close(struct rig_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->mr)
		ibv_dereg_mr(end->mr);
	ibv_destroy_cq(end->cq);
	ibv_destroy_comp_channel(end->channel);
	ibv_dealloc_pd(end->pd);
	ibv_close_device(end->ctx);
	munmap(end->mem, RIG_MEM);
	memset(end, 0, sizeof(*end));
}

static int qp_make(struct rig_end *end, const struct rig_conn *conn)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = conn->type,
		.sq_sig_all = conn->sig_all,
		.cap = { RIG_DEPTH, RIG_DEPTH, 4, 4, 64 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = conn->access,
				    .qkey = 0x1234 };

	end->qp = ibv_create_qp(end->pd, &init);
	if (!end->qp)
		return -errno;
	return ibv_modify_qp(
		end->qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(conn->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int rig_qp_to_rts(struct rig_end *end, const struct rig_conn *conn, const struct rig_addr *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 10,
		.ah_attr = { .is_global = !end->ib,
			     .port_num = 1,
			     .dlid = peer->lid,
			     .grh = { .dgid = peer->gid, .hop_limit = 1 } },
	};
	bool ud = conn->type == IBV_QPT_UD, rc = conn->type == IBV_QPT_RC;

	if (ibv_modify_qp(
		    end->qp, &attr,
		    IBV_QP_STATE |
			    (ud ? 0
				: IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			    (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
		return -1;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = conn->timeout,
				     .retry_cnt = conn->retry_cnt,
				     .rnr_retry = conn->rnr_retry,
				     .max_rd_atomic = 4 };
	return ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						      IBV_QP_MAX_QP_RD_ATOMIC
					 : 0));
}

static struct rig_addr address(struct rig_end *end)
{
	struct rig_addr addr = { .qpn = end->qp->qp_num,
				 .rkey = end->mr->rkey,
				 .mem = (uintptr_t)end->mem };
	struct ibv_port_attr port;

	ibv_query_port(end->ctx, 1, &port);
	ibv_query_gid(end->ctx, 1, 0, &addr.gid);
	addr.lid = port.lid;
	return addr;
}

/* ---- orders --------------------------------------------------------------------------------- */

struct rig_reply rig_order(struct rig_order order)
{
	struct rig_reply reply = { .result = -EPIPE };

	if (send(order_fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order) ||
	    recv(order_fd, &reply, sizeof(reply), MSG_WAITALL) != sizeof(reply))
		reply.result = -EPIPE;
	return reply;
}

/* Fresh objects for each connection: a helper whose NIC died begins anew. */
static int helper_connect(const struct rig_order *order, struct rig_reply *reply)
{
	int err;

	if (rig.ctx)
		rig_close(&rig);
	err = rig_open(&rig, order->conn.access | IBV_ACCESS_LOCAL_WRITE);
	if (!err)
		err = qp_make(&rig, &order->conn);
	if (!err)
		err = rig_qp_to_rts(&rig, &order->conn, &order->addr);
	if (err)
		return err;
	memset(rig.mem, 0xee, RIG_MEM);
	reply->addr = address(&rig);
	return 0;
}

static int helper_recv(const struct rig_order *order)
{
	struct ibv_sge sge = rig_sge(order->a, order->b);
	struct ibv_recv_wr wr = { .wr_id = order->a, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(rig.qp, &wr, &bad);
}

static int helper_poll(const struct rig_order *order, struct rig_reply *reply)
{
	int n = 0;

	while (n < (int)order->a && n < 8 && rig_poll(&reply->wc[n]) >= 0)
		n++;
	return n;
}

static int helper_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(rig.qp, &attr, IBV_QP_STATE, &init) ? -EIO : (int)attr.qp_state;
}

static int helper_freeze(bool frozen)
{
	void (*freeze)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "simnic_test_freeze");

	if (!freeze)
		return -ENOSYS;
	freeze(frozen);
	return 0;
}

static int helper_obey(const struct rig_order *order, struct rig_reply *reply)
{
	switch (order->op) {
	case RIG_CONNECT: return helper_connect(order, reply);
	case RIG_RECV: return helper_recv(order);
	case RIG_POLL: return helper_poll(order, reply);
	case RIG_MEM_READ:
		if (order->a > RIG_MEM - sizeof(reply->bytes))
			return -EINVAL;
		memcpy(reply->bytes, rig.mem + order->a, sizeof(reply->bytes));
		return 0;
	case RIG_MEM_FILL: memset(rig.mem, order->a, RIG_MEM); return 0;
	case RIG_EVENT: return rig_event(rig.ctx);
	case RIG_STATE: return helper_state();
	case RIG_FREEZE: return helper_freeze(order->a);
	}
	return -EINVAL;
}

static int helper_main(void)
{
	struct rig_order order;

	while (recv(order_fd, &order, sizeof(order), MSG_WAITALL) == sizeof(order)) {
		struct rig_reply reply = { .pid = getpid() };

		reply.result = helper_obey(&order, &reply);
		if (send(order_fd, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply))
			return 1;
	}
	return 0;
}

/* ---- this end ------------------------------------------------------------------------------- */

int rig_connect(struct rig_conn conn)
{
	struct rig_conn mine = conn;
	struct rig_reply reply;
	int err;

	err = rig_open(&rig, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mine.access = IBV_ACCESS_REMOTE_WRITE;
	if (!err)
		err = qp_make(&rig, &mine);
	if (err)
		return err;
	reply = rig_order(
		(struct rig_order){ .op = RIG_CONNECT, .conn = conn, .addr = address(&rig) });
	if (reply.result)
		return reply.result;
	rig_peer = reply.addr;
	for (uint32_t i = 0; i < RIG_MEM; i++)
		rig.mem[i] = i * 7 + i / 256;
	return rig_qp_to_rts(&rig, &conn, &rig_peer);
}

int rig_loopback(const struct rig_conn *conn, struct rig_addr *self)
{
	int err = qp_make(&rig, conn);

	if (err)
		return err;
	*self = address(&rig);
	return rig_qp_to_rts(&rig, conn, self);
}

int rig_poll(struct ibv_wc *wc)
{
	for (int i = 0; i < 20000; i++) {
		int n = ibv_poll_cq(rig.cq, 1, wc);

		if (n)
			return n < 0 ? -EIO : (int)wc->status;
		usleep(500);
	}
	return -ETIME;
}

int rig_event(struct ibv_context *ctx)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&pfd, 1, 5000) != 1 || ibv_get_async_event(ctx, &event))
		return -ETIME;
	ibv_ack_async_event(&event);
	return event.event_type;
}

int rig_ctl(const char *arguments)
{
	char command[512];

	snprintf(command, sizeof(command), "%s %s", SIMNICCTL, arguments);
	return system(command);
}

int rig_finish(void **state)
{
	if (rig_ctl("heal all"))
		return -1;
	rig_close(&rig);
	return 0;
}

struct ibv_sge rig_sge(uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)rig.mem + offset,
				 .length = length,
				 .lkey = rig.mr->lkey };
}

/* ---- starting ------------------------------------------------------------------------------- */

static void run_on(const char *host, const char *self, const char *role, int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	execl(SIMNICCTL, SIMNICCTL, "run", "--host", host, "--", self, role, number, (char *)NULL);
	_exit(127);
}

static int orchestrate(const char *self, const char *link)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1
	};
	char name[64];
	pid_t helper, tester;
	int pair[2], status;

	snprintf(name, sizeof(name), "verbs-%s-%d", link, getpid());
	/* Tests destroy objects of a disassociated device: the library keeps those for ever. */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
	setenv("TSAN_OPTIONS", "die_after_fork=0", 0); /* a forked child opens the device */
	setenv("SIMNIC_FABRIC", name, 1);
	if (!strcmp(link, "ib"))
		config.link_layer = SN_LINK_IB;
	if (sn_fabric_create(name, &config) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	helper = fork();
	if (!helper) {
		prctl(PR_SET_PDEATHSIG, 9);
		close(pair[0]);
		run_on("h1", self, "helper", pair[1]);
	}
	tester = fork();
	if (!tester) {
		prctl(PR_SET_PDEATHSIG, 9);
		close(pair[1]);
		run_on("h0", self, "tester", pair[0]);
	}
	close(pair[0]);
	close(pair[1]);
	waitpid(tester, &status, 0);
	waitpid(helper, NULL, 0);
	sn_fabric_destroy(name);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int rig_main(int argc, char **argv, int (*tests)(void))
{
	if (argc == 3)
		order_fd = atoi(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "helper"))
		return helper_main();
	if (argc == 3 && !strcmp(argv[1], "tester"))
		return sn_fabric_attach(getenv("SIMNIC_FABRIC"), &rig_fabric) ? 1 : tests();
	return orchestrate(argv[0], argc > 1 ? argv[1] : "eth");
}
