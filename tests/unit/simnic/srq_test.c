/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues under the distribution's libibverbs and libmlx5: QPs that are
 * connected to themselves, all taking their receives from one SRQ.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

#define SRQ_WRS 16
#define SLOT	4096 /* one receive buffer */
#define SENDS	8    /* room in each send queue */

static const struct rig_conn patient = { IBV_QPT_RC, 14, 7, 7, 0, false };
static struct ibv_srq *srq;

static int open_with_srq(void **state)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = SRQ_WRS, .max_sge = 2 } };

	if (rig_open(&rig, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		return -1;
	srq = ibv_create_srq(rig.pd, &init);
	return srq ? 0 : -1;
}

static int finish(void **state)
{
	if (srq && ibv_destroy_srq(srq))
		return -1;
	srq = NULL;
	rig_close(&rig);
	return rig_ctl("heal all");
}

static struct rig_addr own_address(const struct ibv_qp *qp)
{
	struct rig_addr addr = { .qpn = qp->qp_num };
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(rig.ctx, 1, &port), 0);
	assert_int_equal(ibv_query_gid(rig.ctx, 1, 0, &addr.gid), 0);
	addr.lid = port.lid;
	return addr;
}

/* A QP on the SRQ, connected to itself. */
static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { SENDS, 99, 2, 99, 0 }, /* of receives of its own nothing comes */
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct rig_end end = rig;
	struct rig_addr to;

	end.qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(end.qp);
	assert_int_equal(init.cap.max_recv_wr, 0);
	assert_int_equal(
		ibv_modify_qp(end.qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	to = own_address(end.qp);
	assert_int_equal(rig_qp_to_rts(&end, &patient, &to), 0);
	return end.qp;
}

/* Receive number `slot` goes to that part of the memory. */
static int post_srq(uint32_t slot)
{
	struct ibv_sge sge = rig_sge(slot * SLOT, SLOT);
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void post_srq_range(uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(post_srq(first + i), 0);
}

static void send_bytes(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = rig_sge(RIG_MEM / 2, length);
	struct ibv_send_wr wr = { .wr_id = 1ULL << 32,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .imm_data = 7,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + RIG_MEM / 4;
	wr.wr.rdma.rkey = rig.mr->rkey;
	memset(rig.mem + RIG_MEM / 2, (int)(length & 0xff), length);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* The send's completion and the receive's, in any order; the receive's is returned. */
static struct ibv_wc take_both(void)
{
	struct ibv_wc wc, received = { .status = IBV_WC_GENERAL_ERR };

	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_poll(&wc), IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			received = wc;
	}
	assert_int_equal(received.status, IBV_WC_SUCCESS);
	return received;
}

static void no_completion(void)
{
	struct ibv_wc wc;

	usleep(20000);
	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
}

/* ---- what lands ----------------------------------------------------------------------------- */

/* In the order of posting, whoever takes them; several rounds of the ring, sizes of all kinds. */
static void qps_share_the_receives(void **state)
{
	static const uint32_t sizes[] = { 1, 32, 33, 64, 1000, SLOT };
	struct ibv_qp *qp[3] = { make_qp(), make_qp(), make_qp() };
	struct ibv_wc wc;

	post_srq_range(0, SRQ_WRS);
	for (uint32_t i = 0; i < 5 * SRQ_WRS; i++) {
		uint32_t length = sizes[i % 6], slot = i % SRQ_WRS;

		memset(rig.mem + slot * SLOT, 0, SLOT);
		send_bytes(qp[i % 3], IBV_WR_SEND, length);
		wc = take_both();
		assert_int_equal(wc.wr_id, slot);
		assert_int_equal(wc.qp_num, qp[i % 3]->qp_num);
		assert_int_equal(wc.byte_len, length);
		assert_memory_equal(rig.mem + slot * SLOT, rig.mem + RIG_MEM / 2, length);
		assert_int_equal(post_srq(slot), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

static void immediate_takes_a_receive(void **state)
{
	struct ibv_qp *qp = make_qp();
	struct ibv_wc wc;

	post_srq_range(0, 1);
	memset(rig.mem, 0xaa, SLOT);
	send_bytes(qp, IBV_WR_RDMA_WRITE_WITH_IMM, 100);
	wc = take_both();
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 7);
	assert_int_equal(rig.mem[0], 0xaa); /* the receive's own buffer stays as it is */
	assert_int_equal(rig.mem[RIG_MEM / 4 + 99], 100);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Nothing posted: the sender waits (RNR), and goes on when there is a receive. */
static void empty_queue_makes_the_sender_wait(void **state)
{
	struct ibv_qp *qp = make_qp();

	send_bytes(qp, IBV_WR_SEND, 10);
	no_completion();
	post_srq_range(3, 1);
	assert_int_equal(take_both().wr_id, 3);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void full_queue_refuses(void **state)
{
	struct ibv_srq_attr attr;
	int n = 0;

	while (n < 1000 && !post_srq(0))
		n++;
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(n >= SRQ_WRS && (uint32_t)n <= attr.max_wr);
	assert_int_equal(post_srq(0), ENOMEM);
}

/* ---- errors and events ---------------------------------------------------------------------- */

/* Too long for the receive: that one fails; the others stay for the other QPs. */
static void error_of_one_qp_leaves_the_rest(void **state)
{
	struct ibv_qp *bad = make_qp(), *good = make_qp();
	bool seen_length = false, seen_flush = false;
	struct ibv_wc wc;

	post_srq_range(0, 4);
	send_bytes(bad, IBV_WR_SEND, SLOT + 1);
	for (int i = 0; i < 2; i++) {
		int status = rig_poll(&wc);

		seen_length |= status == IBV_WC_LOC_LEN_ERR && wc.wr_id == 0;
		/* The sender is that same QP, in error before it could hear why. */
		seen_flush |= status == IBV_WC_WR_FLUSH_ERR && wc.wr_id >> 32;
	}
	assert_true(seen_length && seen_flush);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_QP_LAST_WQE_REACHED);
	no_completion(); /* no flush of what is everybody's */
	send_bytes(good, IBV_WR_SEND, 10);
	assert_int_equal(take_both().wr_id, 1);
	assert_int_equal(ibv_destroy_qp(bad), 0);
	assert_int_equal(ibv_destroy_qp(good), 0);
}

static void modify_to_error_reaches_the_last_wqe(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = make_qp();

	post_srq_range(0, 2);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_QP_LAST_WQE_REACHED);
	no_completion();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A SEND of three packets, of which one or two have come. */
static void cut_send(struct ibv_qp *qp)
{
	assert_int_equal(rig_ctl("fault cut-message h0/mlx5_1"), 0);
	send_bytes(qp, IBV_WR_SEND, 3000);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_PORT_ERR);
}

/* Nobody else gets the receive that its first packets are in, and the rest goes there, too. */
static void cut_send_keeps_its_receive(void **state)
{
	struct ibv_qp *cut = make_qp(), *other = make_qp();
	struct ibv_wc wc;

	post_srq_range(0, 2);
	memset(rig.mem, 0, SLOT);
	cut_send(cut);
	assert_int_equal(rig_ctl("heal all"), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_PORT_ACTIVE);
	memset(rig.mem + RIG_MEM / 2, 0,
	       SLOT); /* of the next one: what is sent again would differ */
	send_bytes(other, IBV_WR_SEND, 10);
	for (int i = 0; i < 4; i++) { /* in the order of retries and of this machine */
		assert_int_equal(rig_poll(&wc), IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			assert_int_equal(wc.wr_id, wc.qp_num == cut->qp_num ? 0 : 1);
	}
	/* Sent once, not again: its first packet is as it was. */
	assert_int_equal(rig.mem[1023], 3000 & 0xff);
	assert_int_equal(ibv_destroy_qp(cut), 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
}

/* What it had begun to fill is flushed, before the event; the rest is everybody's. */
static void cut_send_gives_its_receive_back(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *cut = make_qp(), *other = make_qp();
	bool flushed = false;
	struct ibv_wc wc;

	post_srq_range(0, 2);
	cut_send(cut);
	assert_int_equal(ibv_modify_qp(cut, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_QP_LAST_WQE_REACHED);
	for (int i = 0; i < 2; i++) { /* the SEND itself, too */
		assert_int_equal(rig_poll(&wc), IBV_WC_WR_FLUSH_ERR);
		flushed |= wc.wr_id == 0 && wc.qp_num == cut->qp_num;
	}
	assert_true(flushed);
	assert_int_equal(rig_ctl("heal all"), 0);
	send_bytes(other, IBV_WR_SEND, 10);
	assert_int_equal(take_both().wr_id, 1);
	assert_int_equal(ibv_destroy_qp(cut), 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
}

static void arm_limit(uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
}

static uint32_t limit_now(void)
{
	struct ibv_srq_attr attr;

	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	return attr.srq_limit;
}

/* Raised when fewer than the limit are left, once for each time that it is armed. */
static void limit_event_comes_once(void **state)
{
	struct ibv_qp *qp = make_qp();

	post_srq_range(0, 4);
	arm_limit(3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(limit_now(), i < 2 ? 3 : 0);
		send_bytes(qp, IBV_WR_SEND, 10);
		take_both();
	}
	assert_int_equal(limit_now(), 0);
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_SRQ_LIMIT_REACHED);
	arm_limit(2); /* one is left: at once */
	assert_int_equal(rig_event(rig.ctx), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void wrong_commands_are_refused(void **state)
{
	struct ibv_srq_attr attr = { .max_wr = 2 * SRQ_WRS, .srq_limit = 1 << 20 };
	struct ibv_srq_init_attr huge = { .attr = { .max_wr = 1 << 20, .max_sge = 1 } };
	struct ibv_qp *qp = make_qp();

	assert_int_not_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_not_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_null(ibv_create_srq(rig.pd, &huge));
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Makes a queue that never has a receive, as rdma-core's python tests do. */
static void queue_without_room_is_made(void **state)
{
	struct ibv_srq_init_attr none = { .attr = { .max_wr = 0, .max_sge = 0 } };
	struct ibv_srq *empty = ibv_create_srq(rig.pd, &none);
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	assert_non_null(empty);
	assert_int_equal(none.attr.max_wr, 0);
	assert_int_not_equal(ibv_post_srq_recv(empty, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_srq(empty), 0);
}

#define WITH_SRQ(f) cmocka_unit_test_setup_teardown(f, open_with_srq, finish)

static int tests(void)
{
	const struct CMUnitTest list[] = {
		WITH_SRQ(qps_share_the_receives),
		WITH_SRQ(immediate_takes_a_receive),
		WITH_SRQ(empty_queue_makes_the_sender_wait),
		WITH_SRQ(full_queue_refuses),
		WITH_SRQ(error_of_one_qp_leaves_the_rest),
		WITH_SRQ(modify_to_error_reaches_the_last_wqe),
		WITH_SRQ(cut_send_keeps_its_receive),
		WITH_SRQ(cut_send_gives_its_receive_back),
		WITH_SRQ(limit_event_comes_once),
		WITH_SRQ(wrong_commands_are_refused),
		WITH_SRQ(queue_without_room_is_made),
	};

	return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
