/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine, one behaviour at a time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry small = { 16, 16, 4, 16, 4, false };
static const struct fake_geometry large = { 64, 32, 8, 64, 8, false };
static struct rig *rig;

static int setup(void **state)
{
	rig = rig_new(&small, 64, false);
	return 0;
}

static int setup_ex(void **state)
{
	rig = rig_new(&small, 128, true);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static void expect_sends(uint64_t first, int n, enum ibv_wc_status status)
{
	struct ibv_wc wc[64];
	int got = rig_poll(rig, true, wc, 64);

	assert_int_equal(got, n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + i);
		assert_int_equal(wc[i].status, status);
		assert_int_equal(wc[i].qp_num, fake_ibv(rig->app)->qp_num);
	}
}

static void expect_recvs(uint64_t first, int n, enum ibv_wc_status status)
{
	struct ibv_wc wc[64];
	int got = rig_poll(rig, false, wc, 64);

	assert_int_equal(got, n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + i);
		assert_int_equal(wc[i].status, status);
	}
}

static void write_n(uint64_t first, int n, unsigned flags)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, first + i, flags, 1), 0);
}

/* Leave the active carrier: its QP is in ERR, and everything is drained. */
static struct sp_flushed leave(uint8_t syndrome)
{
	struct sp_flushed flushed;

	ENGINE->move.withhold(rig->sp);
	fake_flush(rig_active(rig), syndrome);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	if (flushed.sq && flushed.rq)
		return flushed;
	/* the marker */
	fake_flush(rig_active(rig), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	return flushed;
}

static void settle(uint32_t to, const enum sp_fate *fates, uint32_t n, struct sp_settled *out)
{
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, out), 0);
	rig->active = to;
}

/* -- plain use -------------------------------------------------------------------------------- */

static void posts_and_polls_over_the_end(void **state)
{
	for (int round = 0; round < 40; round++) {
		write_n(round * 10, 10, IBV_SEND_SIGNALED);
		assert_int_equal(fake_run(rig->app, 10), 10);
		expect_sends(round * 10, 10, IBV_WC_SUCCESS);
	}
	assert_int_equal(fake_log.n, 400);
}

static void full_ring_is_refused(void **state)
{
	write_n(0, 16, IBV_SEND_SIGNALED);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 16, 0, 1), ENOMEM);
	fake_run(rig->app, 1);
	expect_sends(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 16, 0, 1), 0);
}

static void errors_pass_without_guard(void **state)
{
	struct ibv_wc wc[4];

	write_n(0, 3, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(rig_poll(rig, true, wc, 4), 3);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[1].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[2].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fake_events.errors, 1);
	assert_int_equal(fake_events.withheld, 0);
}

static void transport_errors_are_withheld(void **state)
{
	struct ibv_wc wc[4];

	ENGINE->qp.guard(rig->sp, true);
	write_n(0, 3, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	fake_run(rig->app, 1);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(rig_poll(rig, true, wc, 4), 1);
	assert_int_equal(rig_poll(rig, true, wc, 4), 0);
	assert_int_equal(rig_poll(rig, false, wc, 4), 0);
	assert_int_equal(fake_events.withheld, 1);
	assert_int_equal(fake_events.status, IBV_WC_RETRY_EXC_ERR);
}

/* The receive's flush is seen first; its cause is on the other CQ, and the application's own. */
static void cause_behind_a_withheld_flush_is_reported(void **state)
{
	struct sp_flushed flushed;
	struct ibv_wc wc[4];

	ENGINE->qp.guard(rig->sp, true);
	write_n(0, 1, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	assert_int_equal(rig_poll(rig, false, wc, 4), 0);
	assert_int_equal(fake_events.app_errors, 0);
	assert_int_equal(rig_poll(rig, true, wc, 4), 0);
	assert_int_equal(fake_events.app_errors, 1);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_int_equal(flushed.status, IBV_WC_LOC_PROT_ERR);
	ENGINE->move.fail_all(rig->sp, flushed.status, flushed.vendor_err, 0);
	expect_sends(0, 1, IBV_WC_LOC_PROT_ERR);
	expect_recvs(50, 1, IBV_WC_WR_FLUSH_ERR);
}

static void waiting_error_is_seen(void **state)
{
	assert_false(ENGINE->cq.error_waiting(rig->sp_scq));
	ENGINE->qp.guard(rig->sp, true);
	write_n(0, 1, 0);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_true(ENGINE->cq.error_waiting(rig->sp_scq));
	ENGINE->cq.collect(rig->sp_scq);
	assert_false(ENGINE->cq.error_waiting(rig->sp_scq));
}

/* The application has not polled what lies before the error, and may never do so. */
static void error_behind_good_completions_is_seen(void **state)
{
	ENGINE->qp.guard(rig->sp, true);
	write_n(0, 4, IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	assert_false(ENGINE->cq.error_waiting(rig->sp_scq));
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_true(ENGINE->cq.error_waiting(rig->sp_scq));
	assert_true(ENGINE->cq.error_waiting(rig->sp_scq));
	ENGINE->cq.collect(rig->sp_scq);
	assert_false(ENGINE->cq.error_waiting(rig->sp_scq));
	expect_sends(0, 2, IBV_WC_SUCCESS);
}

/* -- withholding ------------------------------------------------------------------------------ */

static void withheld_requests_do_not_run(void **state)
{
	struct sp_request info[8];

	write_n(0, 2, IBV_SEND_SIGNALED);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.withhold(rig->sp);
	write_n(2, 3, IBV_SEND_SIGNALED);
	assert_int_equal(fake_published(rig->app), 2);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 5);
	assert_true(info[1].published);
	assert_false(info[2].published);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(fake_run(rig->app, 10), 5);
	expect_sends(0, 5, IBV_WC_SUCCESS);
}

static void withheld_requests_are_bounded(void **state)
{
	write_n(0, 10, IBV_SEND_SIGNALED);
	ENGINE->move.withhold(rig->sp);
	write_n(10, 6, IBV_SEND_SIGNALED);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 16, 0, 1), ENOMEM);
}

static void withheld_receives_do_not_run(void **state)
{
	assert_int_equal(rig_recv(rig, 0, 1), 0);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(rig_recv(rig, 1, 1), 0);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	assert_false(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	expect_recvs(0, 2, IBV_WC_SUCCESS);
}

/* Nothing signaled, all acknowledged: only the marker can tell that the flush is over. */
static void marker_ends_a_silent_flush(void **state)
{
	struct sp_flushed flushed;

	write_n(0, 5, 0);
	fake_run(rig->app, 5);
	flushed = leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_true(flushed.sq);
	assert_true(flushed.rq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, NULL, 0), 0);
	expect_sends(0, 0, IBV_WC_SUCCESS);
}

static void marker_finds_the_position(void **state)
{
	struct sp_request info[8];

	write_n(0, 5, 0);
	fake_run(rig->app, 2);
	assert_true(leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR).sq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 3);
}

/* A NIC that only says that it went to ERR must not pass for one that did. */
static void idle_queue_proves_that_it_is_flushed(void **state)
{
	struct sp_flushed flushed;

	ENGINE->move.withhold(rig->sp);
	ENGINE->move.flushed(rig->sp, false, &flushed); /* not in ERR yet: a NOP would run */
	assert_false(flushed.sq);
	assert_int_equal(fake_published(rig->app), 0);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_false(flushed.sq);
	assert_false(flushed.rq);
	assert_int_equal(fake_published(rig->app), 1);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_int_equal(fake_published(rig->app), 1);
	fake_run(rig->app, 1); /* it did not: the NOP runs */
	ENGINE->cq.collect(rig->sp_scq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_false(flushed.sq);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	ENGINE->cq.collect(rig->sp_scq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_true(flushed.sq);
	assert_true(flushed.rq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, NULL, 0), 0);
	expect_sends(0, 0, IBV_WC_SUCCESS);
}

/* No NOP can be posted: what the NIC says must do. */
static void queue_that_cannot_prove_it_is_believed(void **state)
{
	static const struct fake_geometry no_sends = { 16, 16, 4, 0, 4, false };
	struct sp_flushed flushed;

	rig_free(rig);
	rig_make(rig, &no_sends, 64, false);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_false(flushed.rq);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	ENGINE->cq.collect(rig->sp_rcq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_true(flushed.sq);
	assert_true(flushed.rq);
	assert_false(flushed.error_seen);
	assert_int_equal(fake_published(rig->app), 0);
}

/* Whoever still looks at a flush when the move is over must not post into the new carrier. */
static void marker_stays_out_of_the_next_carrier(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_flushed flushed;
	struct sp_settled settled;

	leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	settle(to, NULL, 0, &settled);
	write_n(0, 2, 0);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_int_equal(fake_published(rig_active(rig)), 2);
}

/* The CQ overran: the first error that is seen is not the first. */
static void lost_completions_do_not_move_the_position(void **state)
{
	struct sp_request info[8];

	write_n(0, 1, 0);
	write_n(1, 4, IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	fake_lose(rig->app, 1);
	leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 3);
	expect_sends(1, 1, IBV_WC_SUCCESS);
}

static void overrun_cq_does_not_hide_a_flush(void **state)
{
	struct sp_flushed flushed;

	write_n(0, 4, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_recv(rig, 50 + i, 1), 0);
	fake_run(rig->app, 1);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	ENGINE->move.withhold(rig->sp);
	fake_flush_overrun(rig->app);
	ENGINE->cq.collect(rig->sp_scq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_true(flushed.sq);
	assert_false(flushed.rq);
	ENGINE->cq.collect(rig->sp_rcq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_true(flushed.rq);
	assert_int_equal(flushed.recv_count, 1);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, NULL, 0), 3);
	expect_recvs(50, 1, IBV_WC_SUCCESS);
}

static void unflushed_queue_is_not_final(void **state)
{
	struct sp_flushed flushed;

	write_n(0, 3, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_false(flushed.sq);
	assert_false(flushed.rq);
	fake_run(rig->app, 3);
	ENGINE->cq.collect(rig->sp_scq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_false(flushed.sq);
	assert_false(flushed.error_seen);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	ENGINE->cq.collect(rig->sp_rcq);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	assert_true(flushed.sq);
	assert_true(flushed.rq);
}

/* -- drain ------------------------------------------------------------------------------------ */

static void drained_completions_come_first(void **state)
{
	write_n(0, 3, IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	fake_run(rig->app, 1);
	expect_sends(0, 3, IBV_WC_SUCCESS);
	assert_int_equal(be32toh(rig->scq.db[0]), 3);
}

static void drain_scatters_at_once(void **state)
{
	uint64_t buffer[8] = { 0 };
	struct ibv_sge sge = { (uintptr_t)buffer, sizeof(buffer), fake_lkey((uintptr_t)buffer) };
	struct ibv_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_recv(fake_ibv(rig->app), &wr, &bad), 0);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, "inside the CQE", 15));
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
	assert_string_equal((char *)buffer, "inside the CQE");
	expect_recvs(7, 1, IBV_WC_SUCCESS);
}

static void drain_wakes_who_waits(void **state)
{
	write_n(0, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 0), 0);
	fake_run(rig->app, 1);
	ENGINE->cq.collect(rig->sp_scq);
	assert_int_equal(fake_events.events, 1);
	expect_sends(0, 1, IBV_WC_SUCCESS);
}

static void arming_counts_events(void **state)
{
	ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 0);
	assert_int_equal(be32toh(rig->scq.db[1]) >> 28, 0);
	ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq));
	ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 1);
	assert_int_equal(be32toh(rig->scq.db[1]) >> 28, 1);
	assert_int_equal(be32toh(rig->scq.db[1]) >> 24 & 1, 1);
}

/* -- moving ----------------------------------------------------------------------------------- */

static void moves_what_was_not_delivered(void **state)
{
	enum sp_fate fates[4] = { SP_FATE_DELIVERED, SP_FATE_DELIVERED, SP_FATE_RESEND,
				  SP_FATE_RESEND };
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;

	write_n(0, 6, IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	assert_true(leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR).sq);
	write_n(6, 2, IBV_SEND_SIGNALED);
	settle(to, fates, 4, &settled);
	assert_int_equal(settled.delivered, 2);
	assert_int_equal(settled.resent, 2);
	assert_int_equal(settled.resent_bytes, 2 * 8);
	assert_int_equal(settled.published, 2);
	expect_sends(0, 4, IBV_WC_SUCCESS);
	assert_int_equal(fake_run(rig_active(rig), 10), 4);
	expect_sends(4, 4, IBV_WC_SUCCESS);
	assert_int_equal(fake_events.progress, 1);
	write_n(8, 3, IBV_SEND_SIGNALED);
	assert_int_equal(fake_run(rig_active(rig), 10), 3);
	expect_sends(8, 3, IBV_WC_SUCCESS);
}

/* A READ whose data may lie in the completion that was lost is not complete without it. */
static void read_into_a_completion_is_lost_with_it(void **state)
{
	enum sp_fate fates[2] = { SP_FATE_DELIVERED, SP_FATE_DELIVERED };
	struct fake_geometry all = small;
	struct sp_settled settled;
	uint32_t to;

	rig_free(rig);
	all.sig_all = true;
	rig_make(rig, &all, 64, false);
	to = rig_standby(rig, &all);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_SEND, 2, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 1), 0);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ENGINE->move.seal(rig->sp);
	ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, 2, &settled),
			 -EIO);
	fates[0] = fates[1] = SP_FATE_READ_AGAIN;
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, 2, &settled), 0);
}

/* w r W r' W: the READs run again, and what was delivered behind them completes behind them. */
static void reads_run_again_in_order(void **state)
{
	enum sp_fate fates[5] = { SP_FATE_DELIVERED, SP_FATE_READ_AGAIN, SP_FATE_DELIVERED,
				  SP_FATE_READ_AGAIN, SP_FATE_DELIVERED };
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;
	struct ibv_wc wc[8];

	write_n(0, 1, IBV_SEND_SIGNALED);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, 2), 0);
	assert_int_equal(rig_send(rig, IBV_WR_SEND_WITH_IMM, 2, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_SEND, 4, IBV_SEND_SIGNALED, 1), 0);
	assert_true(leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR).sq);
	settle(to, fates, 5, &settled);
	assert_int_equal(settled.resent, 2);
	expect_sends(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fake_run(rig_active(rig), 10), 4);
	assert_int_equal(fake_log.n, 2);
	assert_int_equal(rig_poll(rig, true, wc, 8), 4);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc[1].opcode, IBV_WC_SEND);
	if (!rig->cq_ex) /* the reader says so of receives only */
		assert_int_equal(wc[1].wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc[2].opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc[3].opcode, IBV_WC_SEND);
	for (int i = 0; i < 4; i++)
		assert_int_equal(wc[i].wr_id, i + 1);
}

static void describes_what_is_outstanding(void **state)
{
	struct sp_request info[8];
	uint32_t posted, done;

	rig_send(rig, IBV_WR_RDMA_WRITE, 0, 0, 1);
	rig_send(rig, IBV_WR_RDMA_READ, 1, IBV_SEND_FENCE, 1);
	rig_send(rig, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, 1);
	rig_send(rig, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 0, 4);
	rig_send(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, IBV_SEND_SIGNALED, 1);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 5);
	assert_int_equal(info[0].kind, SP_REQ_WRITE);
	assert_int_equal(info[1].kind, SP_REQ_READ);
	assert_true(info[1].send_fence);
	assert_int_equal(info[2].kind, SP_REQ_TWO_SIDED);
	assert_true(info[2].signaled);
	assert_int_equal(info[3].kind, SP_REQ_TWO_SIDED);
	assert_int_equal(info[4].kind, SP_REQ_ATOMIC);
	fake_run(rig->app, 3);
	expect_sends(2, 1, IBV_WC_SUCCESS);
	ENGINE->qp.send_counts(rig->sp, &posted, &done);
	assert_int_equal(posted, 2);
	assert_int_equal(done, 1);
}

static void receives_move_with_their_count(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_flushed flushed;
	struct sp_settled settled;
	int i;

	for (i = 0; i < 12; i++)
		assert_int_equal(rig_recv(rig, i * 16, 1 + i % 4), 0);
	for (i = 0; i < 5; i++)
		assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	flushed = leave(0);
	assert_true(flushed.rq);
	assert_int_equal(flushed.recv_count, 5);
	assert_int_equal(rig_recv(rig, 12 * 16, 4), 0);
	ENGINE->move.seal(rig->sp);
	settle(to, NULL, 0, &settled);
	for (i = 5; i < 13; i++) {
		assert_int_equal(fake_recv_addr(rig_active(rig), i - 5, i % 4 > 3 ? 3 : 0), i * 16);
		assert_true(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND_IMM, NULL, 8));
	}
	assert_int_equal(rig_recv(rig, 13 * 16, 1), 0);
	assert_true(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8));
	for (i = 0; i < 14; i++) {
		struct ibv_wc wc;

		assert_int_equal(rig_poll(rig, false, &wc, 1), 1);
		assert_int_equal(wc.wr_id, i * 16);
	}
	assert_int_equal(ENGINE->qp.recv_count(rig->sp), 14);
}

static void late_completions_of_a_left_carrier_are_dropped(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	enum sp_fate fates[2] = { SP_FATE_RESEND, SP_FATE_RESEND };
	struct sp_settled settled;

	write_n(0, 2, IBV_SEND_SIGNALED);
	rig_recv(rig, 50, 1);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	settle(to, fates, 2, &settled);
	fake_run(rig->app, 2);
	fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8);
	expect_sends(0, 0, IBV_WC_SUCCESS);
	expect_recvs(50, 0, IBV_WC_SUCCESS);
	assert_int_equal(fake_run(rig_active(rig), 5), 2);
	expect_sends(0, 2, IBV_WC_SUCCESS);
}

static void missing_keys_change_nothing(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	enum sp_fate fates[1] = { SP_FATE_RESEND };
	struct sp_settled settled;
	struct sp_carrier *c = rig->carriers[to].sp;

	write_n(0, 1, IBV_SEND_SIGNALED);
	rig_recv(rig, 50, 1);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	fake_keys_missing = true;
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, c), -ENOENT);
	assert_int_equal(ENGINE->move.settle(rig->sp, c, fates, 1, &settled), -ENOENT);
	assert_int_equal(fake_published(&rig->carriers[to].qp), 0);
	fake_keys_missing = false;
	settle(to, fates, 1, &settled);
	assert_int_equal(fake_run(rig_active(rig), 5), 1);
	expect_sends(0, 1, IBV_WC_SUCCESS);
}

static void posts_wait_for_their_keys(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;

	leave(0);
	settle(to, NULL, 0, &settled);
	write_n(0, 1, IBV_SEND_SIGNALED);
	fake_keys_missing = true;
	ENGINE->keys_changed();
	write_n(1, 2, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 2), 0);
	assert_int_equal(fake_events.keys, 2);
	assert_int_equal(fake_published(rig_active(rig)), 1);
	assert_int_equal(ENGINE->move.publish(rig->sp), -ENOENT);
	fake_keys_missing = false;
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	assert_int_equal(fake_run(rig_active(rig), 5), 3);
	assert_true(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8));
	expect_sends(0, 3, IBV_WC_SUCCESS);
	expect_recvs(50, 1, IBV_WC_SUCCESS);
}

/* IBA 9.7.4.1.5: a request without data may name any key. */
static void request_without_data_needs_no_key(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	enum sp_fate fates[1] = { SP_FATE_RESEND };
	struct sp_settled settled;

	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE_WITH_IMM, 0, IBV_SEND_SIGNALED, 0), 0);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	fake_keys_missing = true;
	settle(to, fates, 1, &settled);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE_WITH_IMM, 1, IBV_SEND_SIGNALED, 0), 0);
	assert_int_equal(fake_events.keys, 0);
	assert_int_equal(fake_run(rig_active(rig), 5), 2);
	expect_sends(0, 2, IBV_WC_SUCCESS);
}

/* A memory window is of one NIC: on another, its key names something else. */
static void memory_windows_do_not_move(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	enum sp_fate fates[1] = { SP_FATE_RESEND };
	struct sp_settled settled;
	struct sp_carrier *c = rig->carriers[to].sp;
	bool intruder = true;

	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_int_equal(rig_send(rig, IBV_WR_LOCAL_INV, 0, IBV_SEND_SIGNALED, 0), 0);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_false(intruder);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(ENGINE->move.settle(rig->sp, c, fates, 1, &settled), -EOPNOTSUPP);
	assert_int_equal(fake_published(&rig->carriers[to].qp), 0);
}

static void key_invalidated_at_the_peer_is_not_sent(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;

	leave(0);
	settle(to, NULL, 0, &settled);
	assert_int_equal(rig_send(rig, IBV_WR_SEND_WITH_INV, 0, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(fake_published(rig_active(rig)), 0);
	assert_int_equal(fake_events.keys, 1);
	assert_int_equal(ENGINE->move.publish(rig->sp), -EOPNOTSUPP);
}

static void too_small_a_standby_is_refused(void **state)
{
	static const struct fake_geometry tiny = { 8, 16, 4, 8, 4, false };

	assert_int_equal(rig_standby(rig, &tiny), 0);
}

static void wrong_number_of_fates_is_refused(void **state)
{
	enum sp_fate fates[2] = { SP_FATE_RESEND, SP_FATE_RESEND };
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;

	write_n(0, 1, 0);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, 2, &settled),
			 -EINVAL);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void fails_in_order(void **state)
{
	struct ibv_wc wc[16];
	int n;

	write_n(0, 2, IBV_SEND_SIGNALED);
	write_n(2, 1, 0);
	write_n(3, 2, IBV_SEND_SIGNALED);
	rig_recv(rig, 50, 1);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	write_n(5, 1, 0);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0x81, 3);
	write_n(6, 1, 0);
	rig_recv(rig, 51, 1);
	n = rig_poll(rig, true, wc, 16);
	assert_int_equal(n, 6);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[2].wr_id, 3);
	assert_int_equal(wc[2].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[2].vendor_err, 0x81);
	for (int i = 3; i < 6; i++) {
		assert_int_equal(wc[i].wr_id, i + 1);
		assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
	}
	expect_recvs(50, 2, IBV_WC_WR_FLUSH_ERR);
	write_n(7, 1, 0);
	expect_sends(7, 1, IBV_WC_WR_FLUSH_ERR);
}

static void failed_queue_is_bounded_and_wakes(void **state)
{
	ENGINE->move.fail_all(rig->sp, IBV_WC_WR_FLUSH_ERR, 0, 0);
	ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 0);
	write_n(0, 16, 0);
	assert_int_equal(fake_events.events, 1);
	assert_int_equal(rig_send(rig, IBV_WR_SEND, 16, 0, 1), ENOMEM);
	expect_sends(0, 16, IBV_WC_WR_FLUSH_ERR);
	write_n(16, 16, 0);
	expect_sends(16, 16, IBV_WC_WR_FLUSH_ERR);
}

/* Who arms and finds nothing more to poll sleeps: what waits must wake him. */
static void arming_tells_of_failed_requests(void **state)
{
	write_n(0, 2, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 0);
	assert_int_equal(fake_events.events, 0);
	ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 0);
	assert_int_equal(fake_events.events, 1);
	ibv_req_notify_cq(fake_ibv_cq(&rig->rcq), 0);
	assert_int_equal(fake_events.events, 2);
	assert_int_equal(rig_poll(rig, true, (struct ibv_wc[4]){ 0 }, 4), 2);
	ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 1);
	assert_int_equal(fake_events.events, 2);
	write_n(2, 1, 0); /* an error: solicited or not */
	assert_int_equal(fake_events.events, 3);
}

static void reset_forgets(void **state)
{
	write_n(0, 4, IBV_SEND_SIGNALED);
	rig_recv(rig, 50, 1);
	fake_run(rig->app, 2);
	ENGINE->cq.collect(rig->sp_scq);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	rig->app->db[0] = rig->app->db[1] = 0;
	rig->app->sq_ci = rig->app->rq_ci = 0;
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	expect_sends(0, 0, IBV_WC_SUCCESS);
	expect_recvs(0, 0, IBV_WC_SUCCESS);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 0, 0, 1), ENOMEM);
	ENGINE->qp.modified(rig->sp, IBV_QPS_INIT);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	write_n(60, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	expect_sends(60, 1, IBV_WC_SUCCESS);
}

/* A drain by the shell while the application looks at a completion does not pull it away. */
static void drain_respects_a_held_completion(void **state)
{
	struct ibv_cq_ex *cq = &rig->scq.ex;
	struct ibv_poll_cq_attr attr = { 0 };

	write_n(0, 4, IBV_SEND_SIGNALED);
	fake_run(rig->app, 4);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(be32toh(rig->scq.db[0]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(cq->wr_id, i);
		assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
		assert_int_equal(ibv_next_poll(cq), i < 3 ? 0 : ENOENT);
	}
	ibv_end_poll(cq);
	assert_int_equal(be32toh(rig->scq.db[0]), 4);
	write_n(4, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	expect_sends(4, 1, IBV_WC_SUCCESS);
}

static void *withhold(void *arg)
{
	ENGINE->move.withhold(rig->sp);
	return NULL;
}

/* An application may poll between wr_start and wr_complete, whatever the shell wants meanwhile. */
static void polling_inside_a_batch_does_not_hang(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge = { 9, 8, FAKE_LKEY };
	struct ibv_wc wc[4];
	pthread_t shell;

	write_n(1, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	ibv_wr_start(qp);
	assert_int_equal(pthread_create(&shell, NULL, withhold, NULL), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rig_poll(rig, true, wc, 4), i ? 0 : 1);
	qp->wr_id = 9;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, FAKE_RKEY, 9);
	ibv_wr_set_sge_list(qp, 1, &sge);
	assert_int_equal(ibv_wr_complete(qp), 0);
	pthread_join(shell, NULL);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 4);
	expect_sends(9, 1, IBV_WC_SUCCESS);
}

static void aborted_batches_leave_nothing(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge = { 9, 8, FAKE_LKEY };

	for (int i = 0; i < 40; i++) {
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, FAKE_RKEY, 9);
		ibv_wr_set_sge_list(qp, 1, &sge);
		ibv_wr_abort(qp);
	}
	assert_int_equal(fake_published(rig->app), 0);
	ENGINE->move.fail_all(rig->sp, IBV_WC_WR_FLUSH_ERR, 0, 0);
	ibv_wr_start(qp);
	expect_sends(0, 0, IBV_WC_SUCCESS);
	ibv_wr_abort(qp);
	write_n(3, 1, 0);
	expect_sends(3, 1, IBV_WC_WR_FLUSH_ERR);
}

static void write_by_lkey(uint64_t id, uint32_t lkey, uint32_t sges)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge[4];

	for (uint32_t i = 0; i < sges; i++)
		sge[i] = (struct ibv_sge){ id, 8, lkey };
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, FAKE_RKEY, id);
	ibv_wr_set_sge_list(qp, sges, sge);
}

/* The number of an aborted request lies where a later request has its data, and that data looks
 * like a request. */
static void aborted_requests_are_not_found(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct sp_request info[2];

	ibv_wr_start(qp);
	write_by_lkey(1, FAKE_LKEY, 4);
	write_by_lkey(2, FAKE_LKEY, 1);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	write_by_lkey(3, FAKE_LKEY, 1);
	write_by_lkey(4, FAKE_LKEY + 1, 4);
	assert_int_equal(ibv_wr_complete(qp), 0);
	fake_run(rig->app, 1);
	expect_sends(3, 1, IBV_WC_SUCCESS);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 2), 1);
	assert_true(info[0].signaled);
	assert_int_equal(info[0].psn, rig->app->psn & 0xffffff);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 0);
	expect_sends(4, 1, IBV_WC_RETRY_EXC_ERR);
}

/* The whole ring is in use: rolling back must not touch its oldest request. */
static void aborting_leaves_the_oldest_alone(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct sp_request info[8];

	for (int i = 0; i < 7; i++) {
		ibv_wr_start(qp);
		write_by_lkey(i, FAKE_LKEY, 4);
		assert_int_equal(ibv_wr_complete(qp), 0);
	}
	ibv_wr_start(qp);
	write_by_lkey(7, FAKE_LKEY, 4);
	ibv_wr_abort(qp);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 8), 7);
}

static void withheld_errors_give_their_slots_back(void **state)
{
	struct ibv_wc wc[4];

	ENGINE->qp.guard(rig->sp, true);
	write_n(0, 3, IBV_SEND_SIGNALED);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(rig_poll(rig, true, wc, 4), 0);
	assert_int_equal(be32toh(rig->scq.db[0]), 3);
}

static void bound_cq_stays(void **state)
{
	assert_int_equal(ENGINE->cq.undrive(rig->sp_scq), -EBUSY);
}

int main(void)
{
#define TEST_EX(f) cmocka_unit_test_setup_teardown(f, setup_ex, teardown)
#define TEST(f)	   cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(posts_and_polls_over_the_end),
		TEST(full_ring_is_refused),
		TEST(errors_pass_without_guard),
		TEST(transport_errors_are_withheld),
		TEST(cause_behind_a_withheld_flush_is_reported),
		TEST(waiting_error_is_seen),
		TEST(error_behind_good_completions_is_seen),
		TEST(withheld_requests_do_not_run),
		TEST(withheld_requests_are_bounded),
		TEST(withheld_receives_do_not_run),
		TEST(marker_ends_a_silent_flush),
		TEST(marker_finds_the_position),
		TEST(idle_queue_proves_that_it_is_flushed),
		TEST(queue_that_cannot_prove_it_is_believed),
		TEST(marker_stays_out_of_the_next_carrier),
		TEST(lost_completions_do_not_move_the_position),
		TEST(overrun_cq_does_not_hide_a_flush),
		TEST(unflushed_queue_is_not_final),
		TEST(drained_completions_come_first),
		TEST(drain_scatters_at_once),
		TEST(drain_wakes_who_waits),
		TEST(arming_counts_events),
		TEST(moves_what_was_not_delivered),
		TEST(reads_run_again_in_order),
		TEST(read_into_a_completion_is_lost_with_it),
		TEST(describes_what_is_outstanding),
		TEST(receives_move_with_their_count),
		TEST(late_completions_of_a_left_carrier_are_dropped),
		TEST(missing_keys_change_nothing),
		TEST(posts_wait_for_their_keys),
		TEST(request_without_data_needs_no_key),
		TEST(memory_windows_do_not_move),
		TEST(key_invalidated_at_the_peer_is_not_sent),
		TEST(too_small_a_standby_is_refused),
		TEST(wrong_number_of_fates_is_refused),
		TEST(fails_in_order),
		TEST(failed_queue_is_bounded_and_wakes),
		TEST(arming_tells_of_failed_requests),
		TEST(reset_forgets),
		TEST(bound_cq_stays),
		TEST_EX(polling_inside_a_batch_does_not_hang),
		TEST_EX(aborted_batches_leave_nothing),
		TEST_EX(aborted_requests_are_not_found),
		TEST_EX(aborting_leaves_the_oldest_alone),
		TEST(withheld_errors_give_their_slots_back),
		TEST_EX(withheld_errors_give_their_slots_back),
		TEST_EX(drain_respects_a_held_completion),
		TEST_EX(moves_what_was_not_delivered),
		TEST_EX(reads_run_again_in_order),
		TEST_EX(fails_in_order),
		TEST_EX(transport_errors_are_withheld),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
