/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine over many carriers: moves in a row, and carriers that die in the middle of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

enum {
	AGAIN = RIG_NICS - 1, /* the application's NIC, opened again: other keys */
};

static const struct fake_geometry small = { 16, 16, 4, 16, 1, false };
static const struct fake_geometry large = { 64, 32, 8, 64, 8, false };
static struct rig *rig;
static uint64_t next_send, polled_send, next_recv, polled_recv, received;

static void make(bool cq_ex)
{
	rig = rig_new(&small, 64, cq_ex);
	ENGINE->qp.guard(rig->sp, true);
	next_send = next_recv = 1;
	polled_send = polled_recv = received = 0;
}

static int setup(void **state)
{
	make(false);
	return 0;
}

static int setup_ex(void **state)
{
	make(true);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

/* -- the application: all is signaled, numbers rise, buffers lie at their number -------------- */

static void post(int sends, int recvs)
{
	for (; sends; sends--, next_send++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, next_send, IBV_SEND_SIGNALED, 1),
				 0);
	for (; recvs; recvs--, next_recv++)
		assert_int_equal(rig_recv(rig, next_recv * 16, 1 + next_recv % 4), 0);
}

static void poll(int sends, int recvs)
{
	struct ibv_wc wc[64];

	assert_int_equal(rig_poll(rig, true, wc, 64), sends);
	for (int i = 0; i < sends; i++) {
		assert_int_equal(wc[i].wr_id, ++polled_send);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig_poll(rig, false, wc, 64), recvs);
	for (int i = 0; i < recvs; i++) {
		assert_int_equal(wc[i].wr_id, ++polled_recv * 16);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	}
}

/* -- the NICs --------------------------------------------------------------------------------- */

static struct fake_qp *nic(uint32_t carrier)
{
	return &rig->carriers[carrier].qp;
}

static void receive(uint32_t carrier, int n)
{
	for (; n; n--) {
		assert_int_equal(fake_recv_addr(nic(carrier), nic(carrier)->rq_ci, 0),
				 ++received * 16);
		assert_true(fake_receive(nic(carrier), MLX5_CQE_RESP_SEND, NULL, 8));
	}
}

/* -- the shell -------------------------------------------------------------------------------- */

static void drain(void)
{
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
}

static struct sp_flushed flushed(void)
{
	struct sp_flushed f;

	drain();
	ENGINE->move.flushed(rig->sp, true, &f);
	return f;
}

/* The NIC flushes all it has on that carrier, a hidden NOP that is posted on the way too. */
static void quiesce(uint32_t carrier)
{
	struct sp_flushed f;

	ENGINE->move.withhold(rig->sp);
	fake_flush(nic(carrier), MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	f = flushed();
	fake_flush(nic(carrier), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	f = flushed();
	assert_true(f.sq);
	assert_true(f.rq);
	assert_true(f.error_seen);
	assert_int_equal(f.recv_count, received);
}

static void lay(uint32_t to)
{
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->qp.recv_count(rig->sp), received);
}

static struct sp_settled settle(uint32_t to, uint32_t delivered)
{
	enum sp_fate fates[64];
	struct sp_request info[64];
	struct sp_settled settled;
	uint32_t n = ENGINE->move.outstanding(rig->sp, info, 64), i;

	for (i = 0; i < n && info[i].published; i++)
		fates[i] = i < delivered ? SP_FATE_DELIVERED : SP_FATE_RESEND;
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, i, &settled), 0);
	rig->active = to;
	return settled;
}

static void move(uint32_t to)
{
	quiesce(rig->active);
	lay(to);
	settle(to, 0);
}

/* -- moves in a row --------------------------------------------------------------------------- */

static void goes_on_over_many_carriers(void **state)
{
	uint32_t old, to;

	for (int i = 0; i < 30; i++) {
		old = rig->active;
		to = rig_standby_on(rig, i % RIG_NICS, i % 2 ? &small : &large);
		assert_int_not_equal(to, 0);
		post(5, 4);
		assert_int_equal(fake_run(nic(old), 3), 3);
		receive(old, 2);
		move(to);
		if (old)
			rig_drop(rig, old);
		post(2, 1);
		assert_int_equal(fake_run(nic(to), 64), 4);
		receive(to, 3);
		poll(7, 5);
	}
	assert_int_equal(fake_log.n, 7 * 30);
}

/* The old carrier's NIC was not as dead as it seemed: what it says late lies in a ring still. */
static void late_completions_go_with_their_carrier(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large), two, three;

	move(one);
	post(4, 4);
	fake_run(nic(one), 1);
	receive(one, 1);
	two = rig_standby_on(rig, AGAIN, &large);
	drain();
	ENGINE->move.withhold(rig->sp);
	lay(two);
	settle(two, 0);
	fake_run(nic(one), 3);
	fake_receive(nic(one), MLX5_CQE_RESP_SEND, NULL, 8);
	rig_drop(rig, one);
	/* a new carrier gets the QPN of the one that is gone */
	rig->nics[0].dev.next_qpn = fake_ibv(nic(one))->qp_num;
	three = rig_standby_on(rig, 0, &large);
	assert_int_equal(fake_ibv(nic(three))->qp_num, fake_ibv(nic(one))->qp_num);
	poll(1, 1);
	fake_log.n = 0;
	assert_int_equal(fake_run(nic(two), 64), 3);
	receive(two, 2);
	move(three);
	receive(three, 1);
	post(2, 0);
	fake_run(nic(three), 64);
	poll(5, 3);
}

static void husk_stays_silent(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large), two = rig_standby_on(rig, AGAIN, &large);

	post(3, 2);
	ENGINE->move.withhold(rig->sp);
	lay(one);
	settle(one, 0);
	fake_run(rig->app, 64);
	fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	poll(0, 0);
	move(two);
	fake_run(nic(two), 64);
	receive(two, 2);
	poll(3, 2);
	assert_int_equal(fake_events.app_errors, 0);
}

/* -- the carrier-to-be dies in mid-move ------------------------------------------------------- */

static void receives_come_on_it_first(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large), two = rig_standby_on(rig, AGAIN, &large);
	struct sp_settled settled;

	post(6, 8);
	fake_run(rig->app, 2);
	receive(0, 2);
	quiesce(0);
	lay(one);
	post(1, 2);
	receive(one, 3);
	poll(2, 5);
	receive(one, 1);
	fake_flush(nic(one), MLX5_CQE_SYNDROME_WR_FLUSH_ERR); /* before anybody knows */
	quiesce(one);
	post(1, 1);
	lay(two);
	post(0, 1);
	receive(two, 2);
	settled = settle(two, 1);
	assert_int_equal(settled.delivered, 1);
	assert_int_equal(settled.resent, 3);
	assert_int_equal(settled.published, 2);
	rig_drop(rig, one);
	assert_int_equal(fake_run(nic(two), 64), 5);
	receive(two, 4);
	poll(6, 7);
	assert_int_equal(ENGINE->qp.recv_count(rig->sp), received);
}

static void unused_one_proves_that_it_is_flushed(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large), two = rig_standby_on(rig, AGAIN, &large);
	struct sp_flushed f;

	post(2, 0);
	quiesce(0);
	lay(one);
	f = flushed(); /* not left yet: nothing of ours goes there */
	assert_int_equal(fake_published(nic(one)), 0);
	ENGINE->move.withhold(rig->sp);
	f = flushed();
	assert_true(f.sq);
	assert_false(f.rq);
	assert_false(f.error_seen);
	assert_int_equal(fake_published(nic(one)), 1);
	fake_run(nic(one), 1); /* its NIC lies: the NOP runs */
	f = flushed();
	assert_false(f.rq);
	assert_int_equal(fake_published(nic(one)), 1);
	fake_flush(nic(one), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	f = flushed();
	assert_true(f.rq);
	assert_true(f.error_seen);
	lay(two);
	settle(two, 0);
	rig_drop(rig, one);
	post(1, 1);
	assert_int_equal(fake_run(nic(two), 64), 3);
	receive(two, 1);
	poll(3, 1);
}

/* Its receives are used up, all polled, and it has not shown an error. */
static void emptied_one_proves_it_too(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large), two = rig_standby_on(rig, 1, &large);
	struct sp_flushed f;

	post(0, 3);
	quiesce(0);
	lay(one);
	receive(one, 3);
	ENGINE->move.withhold(rig->sp);
	post(0, 1);
	f = flushed();
	assert_false(f.rq);
	quiesce(one);
	poll(0, 3);
	lay(two);
	receive(two, 1);
	settle(two, 0);
	poll(0, 1);
}

static void one_after_the_other_dies(void **state)
{
	uint32_t to = 0;

	post(4, 10);
	fake_run(rig->app, 1);
	receive(0, 1);
	for (int i = 0; i < 6; i++) {
		quiesce(to);
		to = rig_standby_on(rig, i % RIG_NICS, i % 2 ? &small : &large);
		lay(to);
		post(1, 0);
		receive(to, 1);
	}
	settle(to, 1);
	for (uint32_t old = 1; old < to; old++)
		rig_drop(rig, old);
	assert_int_equal(fake_run(nic(to), 64), 8);
	receive(to, 3);
	poll(10, 10);
}

/* An application's own error on the carrier-to-be is told apart. */
static void its_error_is_told(void **state)
{
	uint32_t one = rig_standby_on(rig, 0, &large);
	struct sp_flushed f;

	post(2, 2);
	quiesce(0);
	assert_int_equal(flushed().status, IBV_WC_RETRY_EXC_ERR);
	lay(one);
	fake_recv_error(nic(one), MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	ENGINE->move.withhold(rig->sp);
	f = flushed();
	assert_int_equal(f.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(fake_events.app_errors, 1);
	poll(0, 0);
}

/* Everything was laid again, and nothing has run there. */
static void dies_right_after_the_move(void **state)
{
	enum sp_fate fates[4] = { SP_FATE_DELIVERED, SP_FATE_READ_AGAIN, SP_FATE_DELIVERED,
				  SP_FATE_RESEND };
	uint32_t one = rig_standby_on(rig, 0, &large), two = rig_standby_on(rig, AGAIN, &small);
	struct sp_settled settled;
	struct sp_request info[8];
	struct ibv_wc wc[8];

	post(1, 3);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_SEND_WITH_IMM, 3, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_SEND, 4, IBV_SEND_SIGNALED, 1), 0);
	quiesce(0);
	lay(one);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[one].sp, fates, 4, &settled),
			 0);
	rig->active = one;
	quiesce(one);
	lay(two);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 3);
	assert_int_equal(info[0].kind, SP_REQ_READ);
	assert_int_equal(info[1].kind, SP_REQ_LOCAL);
	settled = settle(two, 0);
	assert_int_equal(settled.resent, 3);
	rig_drop(rig, one);
	poll(1, 0);
	assert_int_equal(fake_run(nic(two), 64), 3);
	receive(two, 3);
	assert_int_equal(rig_poll(rig, true, wc, 8), 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(wc[i].wr_id, i + 2);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc[1].opcode, IBV_WC_SEND);
	poll(0, 3);
	assert_int_equal(fake_log.n, 2); /* the SEND with immediate ran before */
}

/* What was drained while a completion is held comes behind it, over three carriers. */
static void held_completion_survives_moves(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;
	uint32_t one = rig_standby_on(rig, 0, &large), two;

	post(2, 0);
	fake_run(rig->app, 2);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	move(one);
	post(2, 0);
	fake_run(nic(one), 2);
	two = rig_standby_on(rig, AGAIN, &large);
	move(two);
	rig_drop(rig, one);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_wc_read_qp_num(cq), fake_ibv(rig->app)->qp_num);
	for (uint64_t id = 2; id <= 4; id++) {
		assert_int_equal(ibv_next_poll(cq), 0);
		assert_int_equal(cq->wr_id, id);
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
}

/* -- errors that are the program's, or a sick NIC's ------------------------------------------- */

/* The shell says whose the error is, and gives it back. */
static void an_error_of_a_send_is_withheld(void **state)
{
	struct ibv_wc wc[4];

	post(3, 0);
	fake_run(rig->app, 1);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	poll(1, 0);
	assert_int_equal(fake_events.app_errors, 1);
	assert_int_equal(fake_events.withheld, 1);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.fail_all(rig->sp, IBV_WC_REM_ACCESS_ERR, 0x77, 0);
	assert_int_equal(rig_poll(rig, true, wc, 4), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[0].status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc[0].vendor_err, 0x77);
	assert_int_equal(wc[1].wr_id, 3);
	assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
}

/* The receive that is at fault has a status of its own, and no send can stand for it. */
static void an_error_of_a_receive_is_passed_on(void **state)
{
	struct ibv_wc wc[4];

	post(0, 1);
	fake_recv_error(rig->app, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	assert_int_equal(rig_poll(rig, false, wc, 4), 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(fake_events.app_errors, 1);
	assert_int_equal(fake_events.withheld, 0);
}

int main(void)
{
#define TEST(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(goes_on_over_many_carriers, setup),
		TEST(goes_on_over_many_carriers, setup_ex),
		TEST(late_completions_go_with_their_carrier, setup),
		TEST(late_completions_go_with_their_carrier, setup_ex),
		TEST(husk_stays_silent, setup),
		TEST(receives_come_on_it_first, setup),
		TEST(receives_come_on_it_first, setup_ex),
		TEST(unused_one_proves_that_it_is_flushed, setup),
		TEST(emptied_one_proves_it_too, setup),
		TEST(one_after_the_other_dies, setup),
		TEST(one_after_the_other_dies, setup_ex),
		TEST(its_error_is_told, setup),
		TEST(an_error_of_a_send_is_withheld, setup),
		TEST(an_error_of_a_send_is_withheld, setup_ex),
		TEST(an_error_of_a_receive_is_passed_on, setup),
		TEST(dies_right_after_the_move, setup),
		TEST(dies_right_after_the_move, setup_ex),
		TEST(held_completion_survives_moves, setup_ex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
