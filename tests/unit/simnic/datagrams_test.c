/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Datagrams of the software NIC under the distribution's libibverbs and libmlx5: what comes before
 * their data, and what outlives their sender. One argument: eth or ib.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/fork.h"
#include "tests/lib/simnic_checks.h"
#include "tests/lib/simnic_rig.h"

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static int connect_ud(void **state)
{
	return rig_connect((struct rig_conn){ IBV_QPT_UD, RIG_TIMEOUT, 1, 7, ALL_ACCESS, false });
}

static int post_datagram(struct ibv_ah *ah, uint32_t length, uint32_t qkey)
{
	struct ibv_sge sge = rig_sge(0, length);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = rig_peer.qpn;
	wr.wr.ud.remote_qkey = qkey;
	return ibv_post_send(rig.qp, &wr, &bad);
}

static struct ibv_ah *ah_from(uint8_t sgid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.dlid = rig_peer.lid,
		.grh = { .dgid = rig_peer.gid, .sgid_index = sgid_index, .hop_limit = 1 }
	};

	return ibv_create_ah(rig.pd, &attr);
}

static struct ibv_ah *ah_of_peer(void)
{
	return ah_from(0);
}

static void datagram_behind_a_route(void **state)
{
	struct ibv_ah *ah = ah_of_peer();
	struct rig_reply reply;

	assert_non_null(ah);
	peer_recv(0, 300);
	assert_int_equal(post_datagram(ah, 200, 0x9999), 0); /* wrong key: dropped in silence */
	expect_status(IBV_WC_SUCCESS);
	assert_int_equal(post_datagram(ah, 200, 0x1234), 0);
	expect_status(IBV_WC_SUCCESS);
	reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 });
	assert_int_equal(reply.result, 1);
	assert_int_equal(reply.wc[0].byte_len, 240);
	assert_true(reply.wc[0].wc_flags & IBV_WC_GRH);
	assert_int_equal(reply.wc[0].src_qp, rig.qp->qp_num);
	expect_peer_bytes(40, rig.mem, 200);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* RoCE: the receiver's CQE says in place of a service level which header is before the data. */
static void datagram_says_its_header(void **state)
{
	static const struct kind {
		uint8_t sgid_index, sl, version; /* version: of the IP header; 6: or of a GRH */
	} roce[] = { { 0, 8 | 2, 4 }, { 1, 0, 6 } }, ib[] = { { 0, 0, 6 } };
	const struct kind *kind = rig.ib ? ib : roce, *end = kind + (rig.ib ? 1 : 2);
	struct rig_reply reply;
	struct ibv_ah *ah;

	for (; kind < end; kind++) {
		ah = ah_from(kind->sgid_index);
		assert_non_null(ah);
		peer_recv(0, 300);
		assert_int_equal(post_datagram(ah, 200, 0x1234), 0);
		expect_status(IBV_WC_SUCCESS);
		reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 });
		assert_int_equal(reply.result, 1);
		assert_int_equal(reply.wc[0].sl, kind->sl);
		reply = rig_order((struct rig_order){ .op = RIG_MEM_READ, .a = 0 });
		assert_int_equal(reply.bytes[kind->version == 4 ? 20 : 0] >> 4, kind->version);
		assert_int_equal(ibv_destroy_ah(ah), 0);
	}
}

/* In a child: sends one, and is gone. */
static int send_and_end(uint32_t length)
{
	const struct rig_conn conn = { .type = IBV_QPT_UD };
	struct rig_addr self;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	if (rig_open(&rig, ALL_ACCESS) || rig_loopback(&conn, &self))
		return 1;
	memset(rig.mem, 0x5a, length);
	ah = ah_of_peer();
	if (!ah || post_datagram(ah, length, 0x1234))
		return 2;
	return rig_poll(&wc);
}

/* The receiver's NIC stands still until the sender, whose datagram is on the wire, is no more. */
static void datagram_outlives_its_sender(void **state)
{
	static const uint32_t length[] = { 200, 1000 }; /* in the packet, and staged */
	struct rig_reply reply;
	uint8_t sent[1000];
	int status;

	memset(sent, 0x5a, sizeof(sent));
	for (int i = 0; i < 2; i++) {
		pid_t child;

		peer_recv(0, 1040);
		rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 1 });
		child = test_fork();
		if (!child)
			_exit(send_and_end(length[i]));
		assert_int_equal(waitpid(child, &status, 0), child);
		rig_order((struct rig_order){ .op = RIG_FREEZE, .a = 0 });
		assert_int_equal(status, 0);
		reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 });
		assert_int_equal(reply.result, 1);
		assert_int_equal(reply.wc[0].byte_len, 40 + length[i]);
		reply = rig_order((struct rig_order){ .op = RIG_MEM_READ, .a = 40 });
		assert_memory_equal(reply.bytes, sent, length[i] < 256 ? length[i] : 256);
	}
}

#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, rig_finish)

static int tests(void)
{
	const struct CMUnitTest all[] = {
		WITH(connect_ud, datagram_behind_a_route),
		WITH(connect_ud, datagram_says_its_header),
		WITH(connect_ud, datagram_outlives_its_sender),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
