/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting into the ring of a carrier with other keys: translations remembered, ended, missing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/mlx5/hold.h"
#include "providers/mlx5/qp.h"
#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry geometry = { 16, 16, 4, 16, 4, false };
static struct rig *rig;

/* A QP that lies on another NIC. */
static int setup_on(bool ex)
{
	struct sp_settled settled;
	uint32_t to;

	rig = rig_new(&geometry, 64, ex);
	to = rig_standby(rig, &geometry);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	if (ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp) ||
	    ENGINE->move.settle(rig->sp, rig->carriers[to].sp, NULL, 0, &settled))
		return -1;
	rig->active = to;
	return 0;
}

static int setup(void **state)
{
	return setup_on(false);
}

static int setup_ex(void **state)
{
	return setup_on(true);
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static void expect(bool send, uint64_t first, uint64_t step, int n)
{
	struct ibv_wc wc[64];

	assert_int_equal(rig_poll(rig, send, wc, 64), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + step * (uint64_t)i);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	}
}

static void send_all(uint64_t first, int n)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < n; i++)
		assert_int_equal(rig_send(rig, ops[i % 4], first + 16 * (uint64_t)i,
					  IBV_SEND_SIGNALED, i % 4 == 3 ? 1 : 1 + i % 2),
				 0);
}

static void recv_all(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(rig_recv(rig, first + 16 * (uint64_t)i, 2), 0);
}

static void run_all(uint64_t first, int n)
{
	assert_int_equal(fake_run(rig_active(rig), 64), n);
	expect(true, first, 16, n);
}

static void receive_all(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8));
	expect(false, first, 16, n);
}

/* Requests go into the ring at once: nothing is held. */
static void requests_are_written_once(void **state)
{
	for (int i = 0; i < 4; i++) {
		send_all(16, 8);
		recv_all(16, 8);
		assert_int_equal(rig->sp->tx_mode, RING_XLAT);
		assert_int_equal(ring_hold_len(rig->sp), 0);
		assert_int_equal(rig->sp->hold.head, 0);
		run_all(16, 8);
		receive_all(16, 8);
	}
}

/* More keys than are remembered. */
static void any_number_of_keys(void **state)
{
	for (uint64_t i = 1; i < 10 * FAKE_KEYS; i++) {
		send_all(16 * i, 1);
		recv_all(16 * i, 1);
		run_all(16 * i, 1);
		receive_all(16 * i, 1);
	}
}

/* What a key stood for ends with its memory region; the same number may be another's then. */
static void changed_keys_are_asked_for_again(void **state)
{
	for (int i = 0; i < 4; i++) {
		send_all(16, 4);
		recv_all(16, 4);
		run_all(16, 4);
		receive_all(16, 4);
		fake_keys_turn++;
		ENGINE->keys_changed();
	}
}

static void key_changes_inside_a_batch(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;

	send_all(16, 1);
	run_all(16, 1);
	ibv_wr_start(qp);
	fake_keys_turn++;
	ENGINE->keys_changed();
	qp->wr_id = 16;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, fake_rkey(16), 16);
	ibv_wr_set_sge(qp, fake_lkey(16), 16, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	run_all(16, 1);
}

static void missing_key_inside_a_batch(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge[2] = { { 16, 8, fake_lkey(16) }, { 16, 8, 0x123456 } };

	for (int round = 0; round < 20; round++) {
		ibv_wr_start(qp);
		for (uint64_t id = 16; id <= 48; id += 16) {
			qp->wr_id = id;
			qp->wr_flags = IBV_SEND_SIGNALED;
			fake_keys_missing = id > 16;
			ENGINE->keys_changed();
			ibv_wr_rdma_write(qp, fake_rkey(id), id);
			ibv_wr_set_sge(qp, fake_lkey(id), id, 8);
		}
		assert_int_equal(ibv_wr_complete(qp), 0);
		assert_int_equal(fake_published(rig_active(rig)), 0);
		assert_int_equal(fake_events.keys, (uint32_t)round + 1);
		send_all(64, 2);
		assert_int_equal(fake_published(rig_active(rig)), 0);
		fake_keys_missing = false;
		assert_int_equal(ENGINE->move.publish(rig->sp), 0);
		run_all(16, 5);
		assert_int_equal(rig->sp->tx_mode, RING_XLAT);
		/* and given up */
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, 0x123456, 16);
		ibv_wr_set_sge_list(qp, 2, sge);
		ibv_wr_abort(qp);
		send_all(16, 2);
		run_all(16, 2);
	}
}

/* A request of a list that is refused leaves those before it posted. */
static void missing_key_before_a_refused_request(void **state)
{
	struct ibv_sge sge = { 16, 8, fake_lkey(16) }, none = { 32, 8, 0x123456 };
	struct ibv_send_wr wr[3] = {
		{ .wr_id = 16, .next = &wr[1], .sg_list = &sge, .num_sge = 1 },
		{ .wr_id = 32, .next = &wr[2], .sg_list = &none, .num_sge = 1 },
		{ .wr_id = 48, .sg_list = &sge, .num_sge = 99 },
	}, *bad = NULL;

	for (int i = 0; i < 3; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	assert_int_equal(ibv_post_send(fake_ibv(rig->app), wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(fake_events.keys, 1);
	run_all(16, 1); /* in order, up to the one whose key is missing */
	assert_int_equal(ring_hold_len(rig->sp), 1);
}

static void missing_key_of_a_receive(void **state)
{
	struct ibv_sge sge[3] = { { 16, 8, fake_lkey(16) },
				  { 32, 8, fake_lkey(32) },
				  { 48, 8, fake_lkey(48) } };
	struct ibv_recv_wr wr[3] = {
		{ .wr_id = 16, .next = &wr[1], .sg_list = &sge[0], .num_sge = 1 },
		{ .wr_id = 32, .next = &wr[2], .sg_list = &sge[1], .num_sge = 1 },
		{ .wr_id = 48, .sg_list = &sge[2], .num_sge = 1 },
	}, *bad = NULL;

	for (int round = 0; round < 20; round++) {
		sge[1].lkey = 0x123456;
		assert_int_equal(ibv_post_recv(fake_ibv(rig->app), wr, &bad), 0);
		assert_int_equal(fake_events.keys, (uint32_t)round + 1);
		receive_all(16, 1);
		assert_false(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8));
		/* it waits with the application's key in place: mend that */
		((struct mlx5_wqe_data_seg *)(rig->sp->rx->rq.buf +
					      ((rig->sp->rx->rq.pub & rig->sp->rx->rq.mask)
					       << rig->sp->rx->rq.shift)))
			->lkey = htobe32(fake_lkey(32));
		assert_int_equal(ENGINE->move.publish(rig->sp), 0);
		receive_all(32, 2);
		assert_int_equal(rig->sp->rx_mode, RING_XLAT);
	}
}

/* The application's keys come back out of the carrier's ring, wherever in it they lie. */
static void moves_on_with_the_applications_keys(void **state)
{
	enum sp_fate fates[16];
	struct sp_settled settled;
	uint32_t to, n;

	for (int i = 0; i < 40; i++) {
		send_all(16, 3);
		recv_all(16, 5);
		to = rig_standby_on(rig, (uint32_t)i % RIG_NICS, &geometry);
		ENGINE->move.withhold(rig->sp);
		send_all(64, 2);
		ENGINE->move.seal(rig->sp);
		assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
		for (n = 0; n < 3; n++)
			fates[n] = SP_FATE_RESEND;
		assert_int_equal(
			ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled), 0);
		rig_drop(rig, rig->active);
		rig->active = to;
		run_all(16, 5);
		receive_all(16, 5);
		/* so that every place of the ring is used */
		send_all(16, i % 7);
		run_all(16, i % 7);
	}
}

static void reset_qp(void)
{
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	rig->app->db[MLX5_SND_DBR] = rig->app->db[MLX5_RCV_DBR] = 0;
	rig->app->sq_ci = rig->app->rq_ci = 0;
	ENGINE->qp.modified(rig->sp, IBV_QPS_INIT);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	rig->active = 0;
}

/* After a reset the QP is on its own NIC again, and nothing may be translated. */
static void reset_goes_back_to_plain_keys(void **state)
{
	send_all(16, 3);
	run_all(16, 3);
	reset_qp();
	send_all(16, 3);
	recv_all(16, 3);
	run_all(16, 3);
	receive_all(16, 3);
}

/* A program may post in both ways; the first post behind the reset decides nothing for the other. */
static void reset_goes_back_for_both_ways_of_posting(void **state)
{
	struct ibv_sge sge = { 16, 8, fake_lkey(16) };
	struct ibv_send_wr wr = { .wr_id = 16,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	send_all(16, 3);
	run_all(16, 3);
	reset_qp();
	assert_int_equal(ibv_post_send(fake_ibv(rig->app), &wr, &bad), 0);
	run_all(16, 1);
	send_all(16, 3);
	run_all(16, 3);
}

/*
 * A withheld request whose key nobody knows on the next carrier: what is before it runs there, it waits there, and so does what is
 * behind it.
 */
static void a_move_does_not_wait_for_keys_of_what_is_withheld(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_RESEND };
	struct ibv_sge sge = { 0x1000, 64, FAKE_LKEY };
	struct ibv_send_wr gone = { .wr_id = 48,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = { 0x2000, FAKE_RKEY + FAKE_KEYS } },
			   *bad;
	uint32_t to = rig_standby(rig, &geometry);
	struct sp_settled settled;

	send_all(16, 1);
	ENGINE->move.withhold(rig->sp);
	send_all(32, 1);
	assert_int_equal(ibv_post_send(fake_ibv(rig->app), &gone, &bad), 0);
	send_all(64, 2);
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, 1, &settled), 0);
	rig->active = to;
	assert_int_equal(settled.resent, 1);
	assert_int_equal(settled.published, 1);
	assert_int_equal(fake_events.keys, 1);
	run_all(16, 2);
	assert_int_equal(ENGINE->move.publish(rig->sp), -ENOENT);
	assert_int_equal(ring_hold_len(rig->sp), 3);
}

static uint32_t recv_lkey(const struct sp_carrier *c, uint32_t n)
{
	const struct mlx5_wqe_data_seg *seg =
		(const void *)(c->rq.buf + ((size_t)n << c->rq.shift));

	return be32toh(seg->lkey);
}

/* A receive whose region is gone: it fails if a message comes to it, and neither a move nor the receives behind it wait for it. */
static void a_receive_whose_region_is_gone_holds_up_nothing(void **state)
{
	uint32_t to = rig_standby(rig, &geometry);
	const struct sp_carrier *c = rig->carriers[rig->active].sp;
	struct ibv_sge sge = { 0x1000, 64, FAKE_LKEY + FAKE_KEYS };
	struct ibv_recv_wr gone = { .wr_id = 32, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct sp_settled settled;

	recv_all(16, 1);
	assert_int_equal(ibv_post_recv(fake_ibv(rig->app), &gone, &bad), 0);
	recv_all(48, 1);
	assert_int_equal(fake_events.keys, 1);
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	assert_int_equal(recv_lkey(c, 1), SP_NO_KEY);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	fake_keys_missing = true; /* another one only is not known there yet */
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), -ENOENT);
	fake_keys_missing = false;
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, NULL, 0, &settled), 0);
	c = rig->carriers[to].sp;
	assert_int_equal(c->rq.pub, 3);
	assert_int_equal(recv_lkey(c, 1), SP_NO_KEY);
	assert_int_not_equal(recv_lkey(c, 0), SP_NO_KEY);
	assert_int_not_equal(recv_lkey(c, 2), SP_NO_KEY);
}

int main(void)
{
#define TEST_EX(f) cmocka_unit_test_setup_teardown(f, setup_ex, teardown)
#define TEST(f)	   cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(requests_are_written_once),
		TEST_EX(requests_are_written_once),
		TEST(any_number_of_keys),
		TEST_EX(any_number_of_keys),
		TEST(changed_keys_are_asked_for_again),
		TEST_EX(changed_keys_are_asked_for_again),
		TEST_EX(key_changes_inside_a_batch),
		TEST_EX(missing_key_inside_a_batch),
		TEST(missing_key_before_a_refused_request),
		TEST(missing_key_of_a_receive),
		TEST(moves_on_with_the_applications_keys),
		TEST_EX(moves_on_with_the_applications_keys),
		TEST(reset_goes_back_to_plain_keys),
		TEST_EX(reset_goes_back_to_plain_keys),
		TEST_EX(reset_goes_back_for_both_ways_of_posting),
		TEST(a_move_does_not_wait_for_keys_of_what_is_withheld),
		TEST(a_receive_whose_region_is_gone_holds_up_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
