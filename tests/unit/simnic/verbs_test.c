/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The whole software NIC under the distribution's libibverbs and libmlx5: what lands, which errors
 * come back, what each fault does. One argument: eth or ib.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "tests/lib/fork.h"
#include "tests/lib/simnic_checks.h"
#include "tests/lib/simnic_rig.h"

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/*
 * rc gives a lost path up after about 8 ms: for faults; calm after 0.27 s: where the peer must have done
 * something until then; patient after 0.54 s: for all else.
 */
static const struct rig_conn rc = { IBV_QPT_RC, RIG_TIMEOUT, 1, 7, ALL_ACCESS, false };
static const struct rig_conn calm = { IBV_QPT_RC, 15, 1, 7, ALL_ACCESS, false };
static const struct rig_conn patient = { IBV_QPT_RC, 14, 7, 7, ALL_ACCESS, false };

static int connect_rc(void **state)
{
	return rig_connect(rc);
}

static int connect_calm(void **state)
{
	return rig_connect(calm);
}

static int connect_patient(void **state)
{
	return rig_connect(patient);
}

static int no_connection(void **state)
{
	return rig_open(&rig, ALL_ACCESS);
}

static int post(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t remote, uint32_t rkey,
		unsigned int flags)
{
	static uint64_t id;
	struct ibv_send_wr wr = { .wr_id = ++id,
				  .sg_list = &sge,
				  .num_sge = sge.length ? 1 : 0,
				  .opcode = opcode,
				  .send_flags = flags,
				  .imm_data = 0x01020304 };
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(rig.qp, &wr, &bad);
}

static int post_write(uint32_t length, unsigned int flags)
{
	return post(IBV_WR_RDMA_WRITE, rig_sge(0, length), rig_peer.mem, rig_peer.rkey, flags);
}

static int post_recv(uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(offset, length);
	struct ibv_recv_wr wr = { .wr_id = 1000 + offset, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(rig.qp, &wr, &bad);
}

static int peer_state(void)
{
	return rig_order((struct rig_order){ .op = RIG_STATE }).result;
}

static int peer_event(void)
{
	return rig_order((struct rig_order){ .op = RIG_EVENT }).result;
}

/* ---- what lands ----------------------------------------------------------------------------- */

static void write_lands_whole(void **state)
{
	assert_int_equal(post_write(RIG_MEM, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	for (uint32_t at = 0; at < RIG_MEM; at += RIG_MEM / 16)
		expect_peer_bytes(at, rig.mem + at, 256);
	expect_peer_bytes(RIG_MEM - 256, rig.mem + RIG_MEM - 256, 256);
}

static void send_with_immediate_arrives(void **state)
{
	struct rig_reply reply;

	peer_recv(4096, 1000);
	assert_int_equal(post(IBV_WR_SEND_WITH_IMM, rig_sge(0, 700), 0, 0, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 });
	assert_int_equal(reply.result, 1);
	assert_int_equal(reply.wc[0].opcode, IBV_WC_RECV);
	assert_int_equal(reply.wc[0].byte_len, 700);
	assert_true(reply.wc[0].wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(reply.wc[0].imm_data, 0x01020304);
	expect_peer_bytes(4096, rig.mem, 256);
	expect_peer_bytes(4096 + 700 - 100, rig.mem + 600, 100);
}

/* A receive of up to 32 bytes travels inside the CQE (scatter to CQE, on by default). */
static void small_send_scatters_from_the_cqe(void **state)
{
	peer_recv(64, 32);
	assert_int_equal(post(IBV_WR_SEND, rig_sge(5, 31), 0, 0, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 }).result, 1);
	expect_peer_bytes(64, rig.mem + 5, 31);
	expect_peer_bytes(95, "\xee", 1);
}

static void read_fetches(void **state)
{
	rig_order((struct rig_order){ .op = RIG_MEM_FILL, .a = 0x5a });
	assert_int_equal(post(IBV_WR_RDMA_READ, rig_sge(8192, 300000), rig_peer.mem + 100,
			      rig_peer.rkey, IBV_SEND_SIGNALED),
			 0);
	expect_status(IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 300000; i++)
		assert_int_equal(rig.mem[8192 + i], 0x5a);
	assert_int_not_equal(rig.mem[8192 + 300000], 0x5a);
}

static void atomics_act_once(void **state)
{
	struct ibv_sge sge = rig_sge(0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD },
			   *bad;
	uint64_t value = 0xeeeeeeeeeeeeeeeeULL;

	wr.wr.atomic.remote_addr = rig_peer.mem;
	wr.wr.atomic.rkey = rig_peer.rkey;
	wr.wr.atomic.compare_add = 5;
	for (int i = 0; i < 100; i++, value += 5) {
		assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
		expect_status(IBV_WC_SUCCESS);
		assert_memory_equal(rig.mem, &value, 8);
	}
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = value;
	wr.wr.atomic.swap = 42;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	expect_status(IBV_WC_SUCCESS);
	value = 42;
	expect_peer_bytes(0, &value, 8);
}

static void inline_and_lists_of_segments(void **state)
{
	struct ibv_sge sge[3] = { rig_sge(0, 10), rig_sge(1000, 20), rig_sge(50, 30) };
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	uint8_t want[60];

	memcpy(want, rig.mem, 10);
	memcpy(want + 10, rig.mem + 1000, 20);
	memcpy(want + 30, rig.mem + 50, 30);
	wr.wr.rdma.rkey = rig_peer.rkey;
	for (int i = 0; i < 2; i++) {
		wr.wr.rdma.remote_addr = rig_peer.mem + 100 * i;
		wr.send_flags = IBV_SEND_SIGNALED | (i ? IBV_SEND_INLINE : 0);
		assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
		expect_status(IBV_WC_SUCCESS);
		expect_peer_bytes(100 * i, want, 60);
	}
}

static bool write_to_myself(void)
{
	struct rig_addr self = { .mem = (uintptr_t)rig.mem };
	struct rig_conn conn = patient;
	struct ibv_wc wc;

	if (rig_loopback(&conn, &self))
		return false;
	memset(rig.mem, 0x11, 4096);
	memset(rig.mem + 65536, 0, 4096);
	if (post(IBV_WR_RDMA_WRITE, rig_sge(0, 4096), self.mem + 65536, rig.mr->rkey,
		 IBV_SEND_SIGNALED))
		return false;
	return rig_poll(&wc) == IBV_WC_SUCCESS && !memcmp(rig.mem, rig.mem + 65536, 4096);
}

/* The switch is no part of the way to oneself. */
static void qp_connected_to_itself(void **state)
{
	assert_int_equal(rig_ctl("fault switch-down rail1"), 0);
	assert_true(write_to_myself());
}

/* A child opens the device anew; what the parent has open goes on. */
static void fork_then_open(void **state)
{
	pid_t pid = test_fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(rig_open(&rig, ALL_ACCESS) == 0 && write_to_myself() ? 0 : 1);
	assert_int_equal(post_write(4096, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(post_write(4096, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
}

/* ---- errors of the application -------------------------------------------------------------- */

static void expect_remote_access_error(uint64_t remote, uint32_t rkey)
{
	assert_int_equal(post(IBV_WR_RDMA_WRITE, rig_sge(0, 64), remote, rkey, IBV_SEND_SIGNALED),
			 0);
	expect_status(IBV_WC_REM_ACCESS_ERR);
	/* What is posted later is flushed. */
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(peer_state(), IBV_QPS_ERR);
}

static void write_past_the_end(void **state)
{
	expect_remote_access_error(rig_peer.mem + RIG_MEM - 63, rig_peer.rkey);
	expect_peer_bytes(RIG_MEM - 256, "\xee\xee\xee\xee", 4);
}

/* Registered, and unmapped since: the request fails, and nobody dies of it. */
static void read_into_a_hole(uint32_t length)
{
	uint8_t *hole =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)hole, length, mr ? mr->lkey : 0 };

	assert_non_null(mr);
	assert_int_equal(post(IBV_WR_RDMA_READ, sge, rig_peer.mem, rig_peer.rkey, 0), 0);
	assert_int_equal(munmap(hole, 4096), 0);
	assert_int_equal(post(IBV_WR_RDMA_READ, sge, rig_peer.mem, rig_peer.rkey, 0), 0);
	expect_status(IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void short_read_into_a_hole(void **state)
{
	read_into_a_hole(200);
}

static void long_read_into_a_hole(void **state)
{
	read_into_a_hole(4096);
}

static void write_with_a_wrong_key(void **state)
{
	expect_remote_access_error(rig_peer.mem, rig_peer.rkey ^ 1);
}

static int connect_read_only(void **state)
{
	struct rig_conn conn = patient;

	conn.access = IBV_ACCESS_REMOTE_READ;
	return rig_connect(conn);
}

static int connect_write_only(void **state)
{
	struct rig_conn conn = patient;

	conn.access = IBV_ACCESS_REMOTE_WRITE;
	return rig_connect(conn);
}

/* To a QP that was not set up for it; the key is good. Of zero bytes too, which need no key. */
static void expect_not_supported(enum ibv_wr_opcode opcode, uint32_t length)
{
	assert_int_equal(post(opcode, rig_sge(0, length), length ? rig_peer.mem : 0,
			      length ? rig_peer.rkey : 0, IBV_SEND_SIGNALED),
			 0);
	expect_status(IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(peer_state(), IBV_QPS_ERR);
	assert_int_equal(peer_event(), IBV_EVENT_QP_REQ_ERR);
}

static void write_without_the_right(void **state)
{
	expect_not_supported(IBV_WR_RDMA_WRITE, 64);
}

static void empty_write_without_the_right(void **state)
{
	expect_not_supported(IBV_WR_RDMA_WRITE, 0);
}

static void read_without_the_right(void **state)
{
	expect_not_supported(IBV_WR_RDMA_READ, 64);
}

static void empty_read_without_the_right(void **state)
{
	expect_not_supported(IBV_WR_RDMA_READ, 0);
}

/* The key's right is another matter than the QP's. */
static void empty_ones_need_no_key(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		assert_int_equal(post(opcodes[i], rig_sge(0, 0), 0, 0, IBV_SEND_SIGNALED), 0);
		expect_status(IBV_WC_SUCCESS);
	}
	assert_int_equal(peer_state(), IBV_QPS_RTS);
}

static void local_key_is_checked(void **state)
{
	struct ibv_sge sge = rig_sge(0, 64);

	sge.lkey ^= 1;
	assert_int_equal(
		post(IBV_WR_RDMA_WRITE, sge, rig_peer.mem, rig_peer.rkey, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_LOC_PROT_ERR);
}

/* Rights and domain change in place, as by the kernel's driver: the key stays. */
static void changed_region_keeps_its_key(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig.ctx);
	uint32_t key = rig.mr->rkey;

	assert_non_null(pd);
	assert_int_equal(ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	assert_int_equal(rig.mr->rkey, key);
	assert_int_not_equal(ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  IBV_ACCESS_REMOTE_WRITE),
			     0); /* without the local right */
	assert_int_equal(ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	assert_int_equal(rig.mr->lkey, key);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_PD, rig.pd, NULL, 0, 0), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(rig.mr->lkey, key);
}

/* As its own responder: the right is asked for as it is now. */
static void changed_rights_count_at_once(void **state)
{
	const struct rig_conn how = {
		IBV_QPT_RC, RIG_TIMEOUT, 1, 7, IBV_ACCESS_REMOTE_WRITE, false
	};
	const int rights[] = { IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			       IBV_ACCESS_LOCAL_WRITE };
	struct rig_addr self;
	struct ibv_wc wc;

	assert_int_equal(rig_loopback(&how, &self), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = rig_sge(0, 8);
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		assert_int_equal(
			ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights[i]),
			0);
		wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + 4096;
		wr.wr.rdma.rkey = rig.mr->rkey;
		assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
		assert_int_equal(rig_poll(&wc) != 0, i);
	}
}

static void send_longer_than_the_receive(void **state)
{
	struct rig_reply reply;

	peer_recv(0, 100);
	assert_int_equal(post(IBV_WR_SEND, rig_sge(0, 101), 0, 0, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_REM_INV_REQ_ERR);
	reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 });
	assert_int_equal(reply.result, 1);
	assert_int_equal(reply.wc[0].status, IBV_WC_LOC_LEN_ERR);
}

static void mr_must_be_mapped(void **state)
{
	uint8_t *hole =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(hole + 4096, 4096);
	assert_null(ibv_reg_mr(rig.pd, hole, 3 * 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	assert_null(ibv_reg_mr(rig.pd, hole, 4096, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	munmap(hole, 3 * 4096);
}

static void mr_limit_gives_enomem(void **state)
{
	struct ibv_mr *mr;

	assert_int_equal(rig_ctl("limit h0/mlx5_1 mrs 2"), 0);
	mr = ibv_reg_mr(rig.pd, rig.mem, 4096, 0);
	assert_non_null(mr);
	assert_null(ibv_reg_mr(rig.pd, rig.mem, 4096, 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 mrs 0"), 0);
}

/* Of the process, over all of its devices: a second one gets no more. */
static void other_limits_give_enomem(void **state)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_context *second = ibv_open_device(rig.ctx->device);
	struct ibv_qp_init_attr qp = { .send_cq = rig.cq,
				       .recv_cq = rig.cq,
				       .qp_type = IBV_QPT_RC,
				       .cap = { .max_send_wr = 1, .max_send_sge = 1 } };

	assert_non_null(second);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 pds 1"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 cqs 1"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 qps 1"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 srqs 1"), 0);
	errno = 0;
	assert_null(ibv_alloc_pd(second));
	assert_int_equal(errno, ENOMEM);
	errno = 0;
	assert_null(ibv_create_cq(second, 16, NULL, NULL, 0));
	assert_int_equal(errno, ENOMEM);
	qp.qp_context = ibv_create_qp(rig.pd, &qp);
	assert_non_null(qp.qp_context);
	errno = 0;
	assert_null(ibv_create_qp(rig.pd, &qp));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp.qp_context), 0);
	srq.srq_context = ibv_create_srq(rig.pd, &srq);
	assert_non_null(srq.srq_context);
	errno = 0;
	assert_null(ibv_create_srq(rig.pd, &srq));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_destroy_srq(srq.srq_context), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 pds 0"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 cqs 0"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 qps 0"), 0);
	assert_int_equal(rig_ctl("limit h0/mlx5_1 srqs 0"), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void foreign_descriptors_are_refused(void **state)
{
	struct ibv_comp_channel fake = *rig.channel;

	fake.fd = 0;
	assert_null(ibv_create_cq(rig.ctx, 16, NULL, &fake, 0));
	assert_int_equal(errno, EBADF);
}

/* As on a ConnectX whose firmware allows no user context; UCX then takes its other ways. */
static void devx_is_refused(void **state)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_device *device = rig.ctx->device;
	struct ibv_context *context;

	errno = 0;
	assert_null(mlx5dv_open_device(device, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(mlx5dv_create_mkey(&(struct mlx5dv_mkey_init_attr){
		.pd = rig.pd,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
		.max_entries = 4 }));
	attr.flags = 0;
	context = mlx5dv_open_device(device, &attr);
	assert_non_null(context);
	assert_int_equal(ibv_close_device(context), 0);
}

static void busy_objects_are_kept(void **state)
{
	assert_int_equal(ibv_dealloc_pd(rig.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(rig.cq), EBUSY);
}

static void modify_rules_hold(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	assert_int_not_equal(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_not_equal(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE), 0);
}

/* ---- events --------------------------------------------------------------------------------- */

static void completion_event_once_per_arm(void **state)
{
	struct pollfd pfd = { .fd = rig.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_req_notify_cq(rig.cq, 0), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_get_cq_event(rig.channel, &cq, &context), 0);
	assert_ptr_equal(cq, rig.cq);
	expect_status(IBV_WC_SUCCESS);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	ibv_ack_cq_events(cq, 1);
}

/* ibv_destroy_cq waits for acknowledgements of events that were read, not of unread ones. */
static void unread_events_do_not_block_destroy(void **state)
{
	assert_int_equal(ibv_req_notify_cq(rig.cq, 0), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	/* finish() destroys; the test's time-out is the proof */
}

/* The same where the NIC is gone, and another CQ of the channel has an unread event, too. */
static void unread_events_of_a_gone_nic(void **state)
{
	struct ibv_cq *other = ibv_create_cq(rig.ctx, 16, NULL, rig.channel, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = other, .recv_cq = other, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 }
	};
	struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr to_error = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp *qp;

	assert_non_null(other);
	qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &to_init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_modify_qp(qp, &to_error, IBV_QP_STATE), 0);
	assert_int_equal(ibv_req_notify_cq(rig.cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(rig_ctl("fault nic-disassociate h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(other), 0);
	/* finish() destroys the other one */
}

static void cq_resize_keeps_completions(void **state)
{
	for (int i = 0; i < 8; i++)
		assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(ibv_resize_cq(rig.cq, 8 * RIG_DEPTH), 0);
	for (int i = 0; i < 7; i++)
		expect_status(IBV_WC_SUCCESS);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_SUCCESS);
}

/* ---- not ready, no answer ------------------------------------------------------------------- */

static void rnr_waits_for_a_receive(void **state)
{
	assert_int_equal(post(IBV_WR_SEND, rig_sge(0, 64), 0, 0, IBV_SEND_SIGNALED), 0);
	usleep(20000);
	peer_recv(0, 64);
	expect_status(IBV_WC_SUCCESS);
	expect_peer_bytes(0, rig.mem, 64);
}

static int connect_no_rnr(void **state)
{
	struct rig_conn conn = patient;

	conn.rnr_retry = 1;
	return rig_connect(conn);
}

static void rnr_gives_up(void **state)
{
	assert_int_equal(post(IBV_WR_SEND, rig_sge(0, 64), 0, 0, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_RNR_RETRY_EXC_ERR);
}

/* One error for the oldest, in order, then flushes for all the rest, receives too. */
static void expect_retry_error_then_flushes(void)
{
	struct ibv_wc wc;

	assert_int_equal(post_recv(0, 64), 0);
	assert_int_equal(post_write(64, 0), 0);
	assert_int_equal(post_write(64, 0), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(rig_poll(&wc), IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 3; i++)
		expect_status(IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(post_recv(0, 64), 0);
	expect_status(IBV_WC_WR_FLUSH_ERR);
}

static void port_down_at_the_peer(void **state)
{
	assert_int_equal(rig_ctl("fault port-down h1/mlx5_1"), 0);
	assert_int_equal(peer_event(), IBV_EVENT_PORT_ERR);
	expect_retry_error_then_flushes();
	assert_int_equal(rig_ctl("heal h1/mlx5_1"), 0);
	assert_int_equal(peer_event(), IBV_EVENT_PORT_ACTIVE);
}

static void port_down_here(void **state)
{
	struct ibv_port_attr port;

	assert_int_equal(rig_ctl("fault cable-down h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_query_port(rig.ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	expect_retry_error_then_flushes();
}

static void switch_down_is_silent(void **state)
{
	struct pollfd pfd = { .fd = rig.ctx->async_fd, .events = POLLIN };

	assert_int_equal(rig_ctl("fault switch-down rail1"), 0);
	expect_retry_error_then_flushes();
	assert_int_equal(poll(&pfd, 1, 0), 0);
}

static void lost_requests(void **state)
{
	assert_int_equal(rig_ctl("fault lose-tx h0/mlx5_1"), 0);
	expect_retry_error_then_flushes();
	expect_peer_bytes(0, "\xee\xee\xee\xee", 4);
}

static void lost_at_the_receiver(void **state)
{
	assert_int_equal(rig_ctl("fault lose-rx h1/mlx5_1"), 0);
	expect_retry_error_then_flushes();
	expect_peer_bytes(0, "\xee\xee\xee\xee", 4);
}

/* The request was executed; the sender never learns. */
static void lost_acknowledgements(void **state)
{
	assert_int_equal(rig_ctl("fault lose-acks h0/mlx5_1"), 0);
	expect_retry_error_then_flushes();
	expect_peer_bytes(0, rig.mem, 64);
}

static void short_outage_is_retried(void **state)
{
	assert_int_equal(rig_ctl("fault lose-tx h0/mlx5_1 --for 0.1"), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(post_write(4096, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < 32; i++)
		expect_status(IBV_WC_SUCCESS);
	expect_peer_bytes(0, rig.mem, 256);
}

static void cut_message_lands_in_part(void **state)
{
	assert_int_equal(rig_ctl("fault cut-message h0/mlx5_1"), 0);
	assert_int_equal(post_write(RIG_MEM, IBV_SEND_SIGNALED), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	expect_peer_bytes(0, rig.mem, 256);
	expect_peer_bytes(RIG_MEM - 256, "\xee\xee\xee\xee", 4);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_PORT_ERR);
}

/* The tenth message. On a machine with much else to do some are sent again, which counts. */
static void fault_at_a_message(void **state)
{
	int status = IBV_WC_SUCCESS, done = 0;
	struct ibv_wc wc;

	assert_int_equal(rig_ctl("fault port-down h0/mlx5_1 --at-message 10"), 0);
	while (!status && done < 10) {
		assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
		status = rig_poll(&wc);
		done += !status;
	}
	assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(done, 1, 9);
}

/* ---- dead NICs ------------------------------------------------------------------------------ */

static struct ibv_mr *_Atomic late_mr;

static void *late_reg(void *arg)
{
	late_mr = ibv_reg_mr(rig.pd, rig.mem, 4096, 0);
	return NULL;
}

static void hang_blocks_commands_until_healed(void **state)
{
	struct ibv_wc wc;
	pthread_t thread;

	assert_int_equal(rig_ctl("fault nic-hang h0/mlx5_1"), 0);
	late_mr = NULL;
	assert_int_equal(pthread_create(&thread, NULL, late_reg, NULL), 0);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	usleep(50000);
	assert_null(late_mr);
	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	pthread_join(thread, NULL);
	assert_non_null(late_mr);
	assert_int_equal(ibv_dereg_mr(late_mr), 0);
	expect_status(IBV_WC_SUCCESS);
}

static void internal_error_flushes_nothing(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	assert_int_equal(post_recv(0, 64), 0);
	assert_int_equal(rig_ctl("fault nic-internal-error h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(post_write(64, IBV_SEND_SIGNALED), 0);
	assert_null(ibv_reg_mr(rig.pd, rig.mem, 4096, 0));
	assert_int_equal(errno, ENOLINK);
	assert_int_equal(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE), 0);
	usleep(20000);
	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_qp(rig.qp), 0);
	rig.qp = NULL;
	/* It comes back as another device: this context stays dead. */
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	assert_null(ibv_reg_mr(rig.pd, rig.mem, 4096, 0));
	assert_int_equal(errno, EIO);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* All but what destroys. */
static void disassociated_fails_everything(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_device_attr device;

	assert_int_equal(rig_ctl("fault nic-disassociate h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE), EIO);
	assert_null(ibv_alloc_pd(rig.ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_query_device(rig.ctx, &device), EIO);
	assert_int_equal(ibv_destroy_qp(rig.qp), 0); /* the kernel has destroyed it already */
	rig.qp = NULL;
	assert_int_equal(ibv_dereg_mr(rig.mr), 0);
	rig.mr = NULL;
}

/* Each command waits by itself, then fails; a queue pair goes all the same, by two commands. */
static void hang_times_commands_out(void **state)
{
	struct ibv_device_attr device;
	uint64_t began;

	assert_int_equal(rig_ctl("timeout h0/mlx5_1 0.1"), 0);
	assert_int_equal(rig_ctl("fault nic-hang h0/mlx5_1"), 0);
	began = now_ns();
	assert_null(ibv_reg_mr(rig.pd, rig.mem, 4096, 0));
	assert_int_equal(errno, ETIMEDOUT);
	assert_true(now_ns() - began >= 100000000);
	assert_int_equal(ibv_query_device(rig.ctx, &device), 0);
	began = now_ns();
	assert_int_equal(ibv_destroy_qp(rig.qp), 0);
	assert_true(now_ns() - began >= 200000000);
	rig.qp = NULL;
	assert_int_equal(ibv_dereg_mr(rig.mr), ETIMEDOUT);
	assert_int_equal(ibv_destroy_cq(rig.cq), ETIMEDOUT);
	assert_int_equal(ibv_dealloc_pd(rig.pd), EBUSY);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	assert_int_equal(ibv_dereg_mr(rig.mr), 0);
	rig.mr = NULL;
}

/* After any of them a new context on the healed NIC works: each test's connect proves it. */

static void commands_cost_time(void **state)
{
	struct ibv_mr *mr;
	uint64_t begun;

	assert_int_equal(rig_ctl("cost h0/mlx5_1 5000"), 0);
	begun = now_ns();
	mr = ibv_reg_mr(rig.pd, rig.mem, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(now_ns() - begun >= 10000000);
	assert_int_equal(rig_ctl("cost h0/mlx5_1 0"), 0);
}

enum { LINE_THREADS = 4, LINE_COST_US = 5000 };

static void *line_reg(void *arg)
{
	struct ibv_mr *mr = ibv_reg_mr(arg, rig.mem, 4096, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return NULL;
}

/* A NIC serves one command after the other, whoever gives them; another NIC has a line of its own. */
static void commands_stand_in_one_line(void **state)
{
	struct ibv_context *other = ibv_open_device(rig.ctx->device);
	struct ibv_pd *pds[2] = { rig.pd, other ? ibv_alloc_pd(other) : NULL };
	const struct sn_nic *nic = &rig_fabric->nic[0][1];
	pthread_t threads[LINE_THREADS];
	uint64_t begun;

	assert_non_null(pds[1]);
	assert_int_equal(rig_ctl("cost h0/mlx5_1 5000"), 0);
	begun = now_ns();
	for (int i = 0; i < LINE_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, line_reg, pds[i % 2]), 0);
	for (int i = 0; i < LINE_THREADS; i++)
		pthread_join(threads[i], NULL);
	/* One registers, one gives it back, each. */
	assert_true(nic->cmd_free_ns >= begun + 2 * LINE_THREADS * LINE_COST_US * 1000u);
	assert_true(now_ns() >= nic->cmd_free_ns);
	assert_int_equal(rig_fabric->nic[0][0].cmd_free_ns, 0);
	assert_int_equal(rig_ctl("cost h0/mlx5_1 0"), 0);
	assert_int_equal(ibv_dealloc_pd(pds[1]), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

/* Those in line behind a slow one do not wait for it when the NIC dies. */
static void a_line_ends_with_its_nic(void **state)
{
	pthread_t thread;

	assert_int_equal(rig_ctl("cost h0/mlx5_1 100000000"), 0);
	late_mr = rig.mr;
	assert_int_equal(pthread_create(&thread, NULL, late_reg, NULL), 0);
	while (!rig_fabric->nic[0][1].cmd_free_ns)
		usleep(1000);
	assert_int_equal(rig_ctl("fault nic-disassociate h0/mlx5_1"), 0);
	pthread_join(thread, NULL);
	assert_null(late_mr);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	assert_int_equal(rig_fabric->nic[0][1].cmd_free_ns, 0);
	assert_int_equal(rig_ctl("cost h0/mlx5_1 0"), 0);
}

#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, rig_finish)

static int tests(void)
{
	const struct CMUnitTest all[] = {
		WITH(connect_patient, write_lands_whole),
		WITH(connect_patient, send_with_immediate_arrives),
		WITH(connect_patient, small_send_scatters_from_the_cqe),
		WITH(connect_patient, read_fetches),
		WITH(connect_patient, atomics_act_once),
		WITH(connect_patient, inline_and_lists_of_segments),
		WITH(no_connection, qp_connected_to_itself),
		WITH(connect_patient, fork_then_open),
		WITH(connect_patient, write_past_the_end),
		WITH(connect_patient, short_read_into_a_hole),
		WITH(connect_patient, long_read_into_a_hole),
		WITH(connect_patient, write_with_a_wrong_key),
		WITH(connect_read_only, write_without_the_right),
		WITH(connect_read_only, empty_write_without_the_right),
		WITH(connect_write_only, read_without_the_right),
		WITH(connect_write_only, empty_read_without_the_right),
		WITH(connect_patient, empty_ones_need_no_key),
		WITH(connect_patient, local_key_is_checked),
		WITH(connect_patient, send_longer_than_the_receive),
		WITH(no_connection, changed_region_keeps_its_key),
		WITH(no_connection, changed_rights_count_at_once),
		WITH(no_connection, mr_must_be_mapped),
		WITH(no_connection, mr_limit_gives_enomem),
		WITH(no_connection, other_limits_give_enomem),
		WITH(no_connection, foreign_descriptors_are_refused),
		WITH(no_connection, devx_is_refused),
		WITH(connect_patient, busy_objects_are_kept),
		WITH(connect_rc, modify_rules_hold),
		WITH(connect_patient, completion_event_once_per_arm),
		WITH(connect_patient, unread_events_do_not_block_destroy),
		WITH(connect_patient, unread_events_of_a_gone_nic),
		WITH(connect_patient, cq_resize_keeps_completions),
		WITH(connect_patient, rnr_waits_for_a_receive),
		WITH(connect_no_rnr, rnr_gives_up),
		WITH(connect_rc, port_down_at_the_peer),
		WITH(connect_rc, port_down_here),
		WITH(connect_rc, switch_down_is_silent),
		WITH(connect_rc, lost_requests),
		WITH(connect_rc, lost_at_the_receiver),
		WITH(connect_calm, lost_acknowledgements),
		WITH(connect_patient, short_outage_is_retried),
		WITH(connect_calm, cut_message_lands_in_part),
		WITH(connect_calm, fault_at_a_message),
		WITH(connect_patient, hang_blocks_commands_until_healed),
		WITH(connect_rc, internal_error_flushes_nothing),
		WITH(connect_rc, disassociated_fails_everything),
		WITH(connect_rc, hang_times_commands_out),
		WITH(no_connection, commands_cost_time),
		WITH(no_connection, commands_stand_in_one_line),
		WITH(no_connection, a_line_ends_with_its_nic),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
