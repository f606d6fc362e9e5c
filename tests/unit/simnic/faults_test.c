/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Faults that leave something behind, under the distribution's libibverbs and libmlx5: packets that
 * come late, a pause, a NIC that is probed again, a GID that moved. One argument: eth or ib.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/fabric/line.h"
#include "tests/lib/simnic_checks.h"
#include "tests/lib/simnic_rig.h"

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum { FAILED = 1 << 8, USAGE = 2 << 8 }; /* as system() tells the exit status */

/* rc gives a lost path up after about 8 ms: where it is lost. patient after 0.54 s. */
static const struct rig_conn rc = { IBV_QPT_RC, RIG_TIMEOUT, 1, 7, ALL_ACCESS, false };
static const struct rig_conn patient = { IBV_QPT_RC, 14, 7, 7, ALL_ACCESS, false };
/* Each retry as early, and many of them. */
static const struct rig_conn quick = { IBV_QPT_RC, RIG_TIMEOUT, 7, 7, ALL_ACCESS, false };
/* After 0.27 s, and it never sends again. */
static const struct rig_conn once = { IBV_QPT_RC, 16, 0, 7, ALL_ACCESS, false };
static const struct rig_conn ud = { IBV_QPT_UD, 0, 0, 0, ALL_ACCESS, false };

static int connect_rc(void **state)
{
	return rig_connect(rc);
}

static int connect_quick(void **state)
{
	return rig_connect(quick);
}

static int connect_patient(void **state)
{
	return rig_connect(patient);
}

static int connect_once(void **state)
{
	return rig_connect(once);
}

/* Retries for 2 s. */
static int connect_very_patient(void **state)
{
	struct rig_conn conn = patient;

	conn.timeout = 16;
	return rig_connect(conn);
}

static int connect_ud(void **state)
{
	return rig_connect(ud);
}

static int post_write(uint32_t length)
{
	struct ibv_sge sge = rig_sge(0, length);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = rig_peer.mem;
	wr.wr.rdma.rkey = rig_peer.rkey;
	return ibv_post_send(rig.qp, &wr, &bad);
}

static void expect_nothing(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
}

static bool peer_has(uint32_t offset, const void *bytes, size_t n)
{
	struct rig_reply reply = rig_order((struct rig_order){ .op = RIG_MEM_READ, .a = offset });

	assert_int_equal(reply.result, 0);
	return !memcmp(reply.bytes, bytes, n);
}

static const uint8_t untouched[64] = {
	0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
	0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
	0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
	0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
	0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
};

static const struct sn_counters *counters(uint32_t host)
{
	return &rig_fabric->nic[host][1].count;
}

/* Waits until a word of the fabric has changed from what it was; true if it has. */
static bool changes(const _Atomic uint64_t *word, uint64_t from)
{
	for (int i = 0; i < 2000 && *word == from; i++)
		usleep(1000);
	return *word != from;
}

/* ---- late packets --------------------------------------------------------------------------- */

static void wait_until_delivered(void)
{
	for (int i = 0; i < 5000 && rig_fabric->n_held; i++)
		usleep(1000);
	assert_int_equal(rig_fabric->n_held, 0);
}

/* The sender gave up long ago; its request lands all the same, from its copy in the fabric. */
static void held_request_lands_late(void **state)
{
	uint64_t late = counters(1)->late;
	uint8_t sent[64];

	memcpy(sent, rig.mem, sizeof(sent));
	assert_int_equal(rig_ctl("fault hold-requests h0/mlx5_1"), 0);
	assert_int_equal(post_write(100000), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	memset(rig.mem, 0x77, RIG_MEM); /* the buffer is the application's again */
	assert_int_equal(ibv_destroy_qp(rig.qp), 0);
	rig.qp = NULL;
	assert_true(peer_has(0, untouched, sizeof(untouched)));
	assert_int_equal(rig_ctl("release h0/mlx5_1"), 0);
	wait_until_delivered();
	assert_true(changes(&counters(1)->late, late));
	for (int i = 0; i < 2000 && !peer_has(0, sent, sizeof(sent)); i++)
		usleep(1000);
	assert_true(peer_has(0, sent, sizeof(sent)));
	assert_false(peer_has(99936, untouched, sizeof(untouched)));
	assert_true(peer_has(100000, untouched, sizeof(untouched)));
}

/* The receiver made its QP anew: the packet goes to a number that nobody has, and is lost. */
static void held_request_finds_no_qp(void **state)
{
	assert_int_equal(rig_ctl("fault hold-requests h0/mlx5_1"), 0);
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	rig_close(&rig);
	assert_int_equal(rig_ctl("release h1/mlx5_1"), 0); /* another NIC's: nothing goes */
	assert_int_not_equal(rig_fabric->n_held, 0);
	assert_int_equal(rig_connect(patient), 0);
	assert_int_equal(rig_ctl("release h0/mlx5_1"), 0);
	wait_until_delivered();
	usleep(20000);
	assert_true(peer_has(0, untouched, sizeof(untouched)));
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_SUCCESS);
}

/* Executed, not acknowledged; the acknowledgement that comes late counts if somebody waits. */
static void held_acks_come_when_the_time_is_over(void **state)
{
	assert_int_equal(rig_ctl("fault hold-acks h1/mlx5_1 --for 0.1"), 0);
	assert_int_equal(post_write(64), 0);
	for (int i = 0; i < 1000 && !peer_has(0, rig.mem, 64); i++)
		usleep(1000);
	assert_true(peer_has(0, rig.mem, 64));
	expect_status(IBV_WC_SUCCESS);
	wait_until_delivered();
	assert_int_equal(rig_fabric->nic[1][1].fault.hold_acks, 0);
}

/* The data of a READ travels with the answer, staged in the responder's memory. */
static void held_read_brings_its_data_late(void **state)
{
	struct ibv_sge sge = rig_sge(8192, 300000);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	rig_order((struct rig_order){ .op = RIG_MEM_FILL, .a = 0x5a });
	wr.wr.rdma.remote_addr = rig_peer.mem;
	wr.wr.rdma.rkey = rig_peer.rkey;
	sn_fault_apply(rig_fabric, SN_FAULT_HOLD_ACKS, 1, 1, 0);
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	for (int i = 0; i < 5000 && rig_fabric->n_held < 3; i++)
		usleep(1000);
	assert_in_range(rig_fabric->n_held, 3, SN_MAX_HELD);
	expect_nothing();
	sn_fault_apply(rig_fabric, SN_FAULT_LOSE_TX, 0, 1, 0); /* it cannot ask again */
	sn_fault_end(rig_fabric, SN_FAULT_HOLD_ACKS, 1, 1);
	expect_status(IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 300000; i++)
		assert_int_equal(rig.mem[8192 + i], 0x5a);
}

static void held_ack_for_a_qp_in_error_is_nothing(void **state)
{
	assert_int_equal(rig_ctl("fault hold-acks h1/mlx5_1"), 0);
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_ctl("release h1/mlx5_1"), 0);
	wait_until_delivered();
	usleep(20000);
	expect_nothing();
}

/* The fabric keeps SN_MAX_HELD packets; what is more is lost, and retransmission mends it. */
static void held_packets_are_bounded(void **state)
{
	sn_fault_apply(rig_fabric, SN_FAULT_HOLD_REQUESTS, 0, 1, 0);
	for (int i = 0; i < RIG_DEPTH - 1; i++)
		assert_int_equal(post_write(64), 0);
	for (int i = 0; i < 5000 && rig_fabric->n_held < SN_MAX_HELD; i++)
		usleep(1000);
	assert_int_equal(rig_fabric->n_held, SN_MAX_HELD);
	/* At once: a process more would take long where each instruction is watched. */
	sn_fault_end(rig_fabric, SN_FAULT_HOLD_REQUESTS, 0, 1);
	for (int i = 0; i < RIG_DEPTH - 1; i++)
		expect_status(IBV_WC_SUCCESS);
	wait_until_delivered();
	assert_int_not_equal(counters(0)->rc_retransmits, 0);
}

/* ---- a receiver without a processor --------------------------------------------------------- */

/* A NIC of hardware answers whatever its host does: what lies unread is not lost, and no retry is spent on it. */
static void receiver_waits_for_a_processor(void **state)
{
	uint64_t again = counters(0)->rc_retransmits;

	assert_int_equal(rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 1 }).result, 0);
	assert_int_equal(post_write(64), 0);
	usleep(200000); /* all its retries take 34 ms */
	expect_nothing();
	assert_int_equal(counters(0)->rc_retransmits, again);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 0 }).result, 0);
	expect_status(IBV_WC_SUCCESS);
}

/* One that is gone does not come back to it. */
static void receiver_is_gone(void **state)
{
	struct rig_reply reply = rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 1 });

	assert_int_equal(reply.result, 0);
	assert_int_equal(post_write(64), 0);
	assert_int_equal(kill(reply.pid, SIGKILL), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
}

/* ---- pause ---------------------------------------------------------------------------------- */

static int pause_ends_without_a_loss(const char *command)
{
	uint64_t dropped = counters(0)->dropped, again = counters(0)->rc_retransmits;

	assert_int_equal(rig_ctl(command), 0);
	assert_int_equal(post_write(4096), 0);
	usleep(400000); /* longer than it waits */
	expect_nothing();
	assert_true(peer_has(0, untouched, sizeof(untouched)));
	assert_int_equal(rig_ctl("heal all"), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(counters(0)->dropped, dropped);
	return counters(0)->rc_retransmits == again ? 0 : -1;
}

static void pause_of_my_nic(void **state)
{
	struct pollfd event = { .fd = rig.ctx->async_fd, .events = POLLIN };

	assert_int_equal(pause_ends_without_a_loss("fault pause h0/mlx5_1"), 0);
	assert_int_equal(poll(&event, 1, 0), 0);
}

static void pause_of_the_peers_nic(void **state)
{
	assert_int_equal(pause_ends_without_a_loss("fault pause h1/mlx5_1"), 0);
}

/* It lasts longer than all retries. */
static void pause_ends_in_time(void **state)
{
	assert_int_equal(rig_ctl("fault pause h0/mlx5_1 --for 1"), 0);
	assert_int_equal(post_write(4096), 0);
	expect_status(IBV_WC_SUCCESS);
}

static int post_datagram_from(struct ibv_ah *ah, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(offset, length);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = rig_peer.qpn;
	wr.wr.ud.remote_qkey = 0x1234;
	return ibv_post_send(rig.qp, &wr, &bad);
}

static int post_datagram(struct ibv_ah *ah)
{
	return post_datagram_from(ah, 0, 200);
}

static struct ibv_ah *ah_of_peer(void)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .dlid = rig_peer.lid,
				    .grh = { .dgid = rig_peer.gid, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(rig.pd, &attr);

	assert_non_null(ah);
	return ah;
}

/* Another traffic class than that which is paused or held: heartbeats go through. */
static void datagrams_pass_pause_and_hold(void **state)
{
	struct ibv_ah *ah = ah_of_peer();
	uint64_t sent = counters(0)->ud_tx_packets, got = counters(1)->ud_rx_packets;
	uint64_t bytes = counters(1)->ud_rx_bytes, connected = counters(0)->rc_tx_messages;

	assert_int_equal(rig_ctl("fault pause h0/mlx5_1"), 0);
	assert_int_equal(rig_ctl("fault hold-requests h0/mlx5_1"), 0);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_RECV, .a = 0, .b = 300 }).result,
			 0);
	assert_int_equal(post_datagram(ah), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 }).result, 1);
	assert_int_equal(counters(0)->ud_tx_packets, sent + 1);
	/* The completion comes before it is counted. */
	assert_true(changes(&counters(1)->ud_rx_bytes, bytes));
	assert_int_equal(counters(1)->ud_rx_packets, got + 1);
	assert_int_equal(counters(1)->ud_rx_bytes, bytes + 200);
	assert_int_equal(counters(0)->rc_tx_messages, connected);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* More than there is room for before a receiver that reads nothing: the last one is lost, none that is on its way. */
static void datagrams_do_not_wait_for_a_reader(void **state)
{
	uint64_t dropped = counters(0)->dropped;
	struct ibv_ah *ah = ah_of_peer();

	assert_int_equal(rig_order((struct rig_order){ .op = RIG_RECV, .b = 500 }).result, 0);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 1 }).result, 0);
	for (uint32_t i = 0; i <= SN_BOUNCE_SLOTS; i++) {
		assert_int_equal(post_datagram_from(ah, 4097 * i, 400), 0);
		expect_status(IBV_WC_SUCCESS);
	}
	assert_int_equal(counters(0)->dropped, dropped + 1);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 0 }).result, 0);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 }).result, 1);
	assert_true(peer_has(40, rig.mem, 200));
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* A line gives up what its receiver does not take; who finds it there is not its receiver, though the numbers are the same. */
static void datagram_on_a_line_is_given_up(void **state)
{
	const struct sn_line_config line = { .delay_ns = 1000000 };
	struct ibv_sge sge = rig_sge(4096, 300);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_ah *ah = ah_of_peer();

	assert_int_equal(rig.qp->qp_num, rig_peer.qpn);
	assert_int_equal(ibv_post_recv(rig.qp, &wr, &bad), 0);
	assert_int_equal(sn_line_set(rig_fabric, 0, 1, &line), 0);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 1 }).result, 0);
	assert_int_equal(post_datagram(ah), 0);
	expect_status(IBV_WC_SUCCESS);
	for (int i = 0; i < 20000 && sn_line_next_ns(rig_fabric) != UINT64_MAX; i++)
		usleep(1000);
	assert_true(sn_line_next_ns(rig_fabric) == UINT64_MAX);
	usleep(20000);
	expect_nothing();
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- probed again --------------------------------------------------------------------------- */

/* How often a device is in the list. */
static int listed(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int times = 0;

	for (int i = 0; list && list[i]; i++)
		times += !strcmp(ibv_get_device_name(list[i]), name);
	ibv_free_device_list(list);
	return times;
}

static void old_context_is_dead(struct rig_end *old)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_null(ibv_reg_mr(old->pd, old->mem, 4096, 0));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_modify_qp(old->qp, &attr, IBV_QP_STATE), EIO);
	assert_null(ibv_alloc_pd(old->ctx));
}

/* Its objects cannot be destroyed one by one any more; closing frees them. */
static void old_context_goes(struct rig_end *old)
{
	assert_int_equal(ibv_close_device(old->ctx), 0);
}

static void works_as_another_device(void)
{
	struct rig_end old = rig;
	uint32_t qpn = old.qp->qp_num, rkey = old.mr->rkey;
	union ibv_gid gid;

	memset(&rig, 0, sizeof(rig));
	old_context_is_dead(&old);
	assert_int_equal(rig_connect(patient), 0);
	assert_int_not_equal(rig.qp->qp_num, qpn);
	assert_true(rig.qp->qp_num > qpn + 0x100 || rig.qp->qp_num + 0x100 < qpn);
	assert_int_not_equal(rig.mr->rkey >> 24, rkey >> 24); /* another range of keys */
	assert_int_equal(ibv_query_gid(rig.ctx, 1, 0, &gid), 0);
	assert_memory_equal(&gid, rig_fabric->nic[0][1].gid, sizeof(gid));
	assert_int_equal(post_write(65536), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_true(peer_has(0, rig.mem, 64));
	old_context_is_dead(&old);
	old_context_goes(&old);
}

static void reprobe_after_an_internal_error(void **state)
{
	assert_int_equal(rig_ctl("fault nic-internal-error h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(rig_ctl("reprobe h0/mlx5_1"), 0);
	works_as_another_device();
}

static void reprobe_after_disassociation(void **state)
{
	assert_int_equal(listed("mlx5_1"), 1);
	assert_int_equal(rig_ctl("fault nic-disassociate h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(listed("mlx5_1"), 0);
	assert_int_equal(listed("mlx5_0"), 1);
	assert_int_equal(rig_ctl("reprobe h0/mlx5_1"), 0);
	assert_int_equal(listed("mlx5_1"), 1);
	assert_int_equal(listed("mlx5_0"), 1);
	works_as_another_device();
}

/* A healthy one: its driver was loaded again. */
static void reprobe_of_a_healthy_nic(void **state)
{
	assert_int_equal(rig_ctl("reprobe h0/mlx5_1"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	works_as_another_device();
}

static _Atomic int hung_errno;

static void *hung_reg(void *arg)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, rig.mem, 4096, 0);

	hung_errno = mr ? -1 : errno;
	return NULL;
}

static void reprobe_ends_commands_that_hang(void **state)
{
	pthread_t thread;

	hung_errno = 0;
	assert_int_equal(rig_ctl("fault nic-hang h0/mlx5_1"), 0);
	assert_int_equal(pthread_create(&thread, NULL, hung_reg, NULL), 0);
	usleep(50000);
	assert_int_equal(hung_errno, 0);
	assert_int_equal(rig_ctl("reprobe h0/mlx5_1"), 0);
	pthread_join(thread, NULL);
	assert_int_equal(hung_errno, EIO);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_DEVICE_FATAL);
	works_as_another_device();
}

/* The peer remembers keys and QPNs of the last life: they are worth nothing. */
static void reprobe_of_the_peers_nic(void **state)
{
	uint32_t qpn = rig_peer.qpn, rkey = rig_peer.rkey;

	assert_int_equal(rig_ctl("fault nic-hang h1/mlx5_1"), 0);
	assert_int_equal(rig_ctl("reprobe h1/mlx5_1 --after 0.02"), 0);
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_EVENT }).result,
			 IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_destroy_qp(rig.qp), 0);
	rig.qp = NULL;
	rig_close(&rig);
	assert_int_equal(rig_connect(patient), 0);
	assert_int_not_equal(rig_peer.qpn, qpn);
	assert_int_not_equal(rig_peer.rkey, rkey);
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_SUCCESS);
}

/* ---- GIDs and interfaces -------------------------------------------------------------------- */

static void expect_gid(uint32_t index, int type)
{
	struct ibv_gid_entry entry;
	int err = ibv_query_gid_ex(rig.ctx, 1, index, &entry, 0);

	assert_int_equal(err, type < 0 ? ENODATA : 0);
	if (type < 0)
		return;
	assert_int_equal(entry.gid_type, type);
	assert_memory_equal(entry.gid.raw, rig_fabric->nic[0][1].gid, 16);
}

static void gid_moves(void **state)
{
	struct rig_addr self = { 0 };

	if (rig.ib) {
		assert_int_not_equal(rig_ctl("move-gid h0/mlx5_1 3 2>/dev/null"), 0);
		return;
	}
	expect_gid(0, IBV_GID_TYPE_ROCE_V2);
	expect_gid(3, -1);
	assert_int_equal(rig_ctl("move-gid h0/mlx5_1 3"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_GID_CHANGE);
	expect_gid(0, -1);
	expect_gid(1, IBV_GID_TYPE_ROCE_V1);
	expect_gid(3, IBV_GID_TYPE_ROCE_V2);
	/* A connection that is there goes on; a new one by the old index has no address. */
	assert_int_equal(post_write(64), 0);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(rig.qp), 0);
	assert_int_not_equal(rig_loopback(&patient, &self), 0);
	assert_int_equal(rig_ctl("move-gid h0/mlx5_1 1"), 0); /* changes places with RoCE v1 */
	expect_gid(1, IBV_GID_TYPE_ROCE_V2);
	expect_gid(3, IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(rig_ctl("move-gid h0/mlx5_1 3"), 0);
	assert_int_equal(rig_ctl("move-gid h0/mlx5_1 0"), 0);
	expect_gid(0, IBV_GID_TYPE_ROCE_V2);
	expect_gid(1, IBV_GID_TYPE_ROCE_V1);
}

/* The only entry of a folder, dots aside. */
static void only_entry(const char *folder, char *name, size_t len)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	snprintf(name, len, "%s", dir ? "" : "no folder");
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			snprintf(name + strlen(name), len - strlen(name), "%s", entry->d_name);
	if (dir)
		closedir(dir);
}

static void first_line(const char *path, char *text, size_t len)
{
	FILE *f = fopen(path, "r");

	if (!f || !fgets(text, (int)len, f))
		snprintf(text, len, "no file");
	text[strcspn(text, "\n")] = '\0';
	if (f)
		fclose(f);
}

static void netdev_is_shown(void **state)
{
	char text[64];

	if (rig.ib) {
		assert_int_not_equal(rig_ctl("netdev h0/mlx5_1 veth7 2>/dev/null"), 0);
		return;
	}
	assert_int_equal(rig_ctl("netdev h0/mlx5_1 veth7"), 0);
	only_entry("/sys/class/infiniband/mlx5_1/device/net", text, sizeof(text));
	assert_string_equal(text, "veth7");
	first_line("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", text, sizeof(text));
	assert_string_equal(text, "veth7");
	assert_int_equal(rig_ctl("netdev h0/mlx5_1 none"), 0);
	only_entry("/sys/class/infiniband/mlx5_1/device/net", text, sizeof(text));
	assert_string_equal(text, "no folder");
	assert_int_not_equal(rig_ctl("netdev h0/mlx5_1 a/b 2>/dev/null"), 0);
}

/* ---- counters, scripts ---------------------------------------------------------------------- */

static void counters_tell_where_traffic_goes(void **state)
{
	uint64_t messages = counters(0)->rc_tx_messages, bytes = counters(0)->rc_tx_bytes;
	uint64_t got = counters(1)->rc_rx_messages, landed = counters(1)->rc_rx_bytes;
	uint64_t other = rig_fabric->nic[0][0].count.tx_messages;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(post_write(1000), 0);
		expect_status(IBV_WC_SUCCESS);
	}
	assert_int_equal(counters(0)->rc_tx_messages, messages + 5);
	assert_int_equal(counters(0)->rc_tx_bytes, bytes + 5000);
	assert_int_equal(counters(1)->rc_rx_messages, got + 5);
	assert_int_equal(counters(1)->rc_rx_bytes, landed + 5000);
	assert_int_equal(rig_fabric->nic[0][0].count.tx_messages, other);
}

static void retransmissions_are_counted(void **state)
{
	uint64_t again = counters(0)->rc_retransmits, landed = counters(1)->rc_rx_messages;

	sn_fault_apply(rig_fabric, SN_FAULT_LOSE_ACKS, 0, 1, 0);
	assert_int_equal(post_write(64), 0);
	assert_true(changes(&counters(0)->rc_retransmits, again));
	sn_fault_end(rig_fabric, SN_FAULT_LOSE_ACKS, 0, 1);
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(counters(1)->rc_rx_messages, landed + 1); /* executed once */
}

static int run_script(const char *text)
{
	char command[600];

	snprintf(command, sizeof(command), "script - <<'END'\n%sEND\n", text);
	return rig_ctl(command);
}

/* Several on one target, by time and by message, which neither wait for nor undo each other. */
static void script_queues_faults(void **state)
{
	assert_int_equal(run_script("# kind target options\n"
				    "lose-tx h0/mlx5_1 --at-message 2 --for 0.05\n"
				    "lose-rx h0/mlx5_1 --after 0.02 --for 0.02  # together\n"
				    "\n"
				    "pause h0/mlx5_1 --after 0.03 --for 0.05\n"
				    "switch-down rail1 --after 0.05 --for 0.02\n"),
			 0);
	assert_int_not_equal(rig_fabric->faults_armed, 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(post_write(4096), 0);
		expect_status(IBV_WC_SUCCESS);
		usleep(10000);
	}
	for (int i = 0; i < 5000 && rig_fabric->faults_armed; i++)
		usleep(1000);
	assert_int_equal(rig_fabric->faults_armed, 0);
	assert_true(peer_has(0, rig.mem, 64));
}

static void script_with_an_error_starts_nothing(void **state)
{
	assert_int_equal(rig_ctl("script - 2>/dev/null <<'END'\n"
				 "port-down h0/mlx5_1\n"
				 "fire h0/mlx5_1 --after 1\n"
				 "END\n"),
			 USAGE);
	assert_int_equal(rig_fabric->nic[0][1].port_up, 1);
	assert_int_equal(rig_ctl("script - 2>/dev/null <<'END'\n"
				 "nic-reprobe h0/mlx5_1 --for 1\n"
				 "END\n"),
			 USAGE);
	assert_int_equal(rig_ctl("script /no/such/file 2>/dev/null"), FAILED);
}

/* Also where such a test has failed. */
static int thaw_and_finish(void **state)
{
	rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 0 });
	sn_line_set_way(rig_fabric, 0, 1, SN_LINE_BOTH, NULL);
	return rig_finish(state);
}

#define WITH(connect, f)   cmocka_unit_test_setup_teardown(f, connect, rig_finish)
#define FROZEN(connect, f) cmocka_unit_test_setup_teardown(f, connect, thaw_and_finish)

static int tests(void)
{
	const struct CMUnitTest all[] = {
		WITH(connect_rc, held_request_lands_late),
		WITH(connect_rc, held_request_finds_no_qp),
		WITH(connect_patient, held_acks_come_when_the_time_is_over),
		WITH(connect_very_patient, held_read_brings_its_data_late),
		WITH(connect_rc, held_ack_for_a_qp_in_error_is_nothing),
		WITH(connect_very_patient, held_packets_are_bounded),
		FROZEN(connect_quick, receiver_waits_for_a_processor),
		WITH(connect_once, pause_of_my_nic),
		WITH(connect_once, pause_of_the_peers_nic),
		WITH(connect_patient, pause_ends_in_time),
		WITH(connect_ud, datagrams_pass_pause_and_hold),
		FROZEN(connect_ud, datagrams_do_not_wait_for_a_reader),
		FROZEN(connect_ud, datagram_on_a_line_is_given_up),
		WITH(connect_patient, reprobe_after_an_internal_error),
		WITH(connect_patient, reprobe_after_disassociation),
		WITH(connect_patient, reprobe_of_a_healthy_nic),
		WITH(connect_patient, reprobe_ends_commands_that_hang),
		WITH(connect_rc, reprobe_of_the_peers_nic),
		WITH(connect_patient, gid_moves),
		WITH(connect_patient, netdev_is_shown),
		WITH(connect_patient, counters_tell_where_traffic_goes),
		WITH(connect_very_patient, retransmissions_are_counted),
		WITH(connect_patient, script_queues_faults),
		WITH(connect_patient, script_with_an_error_starts_nothing),
		WITH(connect_quick, receiver_is_gone), /* the last: it takes the helper away */
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
