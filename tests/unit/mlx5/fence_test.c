/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine in an ordered switch: fence, what waits behind it, and the way back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

/* one WQEBB a request, no place to spare; and two, which leaves some */
static const struct fake_geometry tight = { 16, 16, 4, 16, 1, false };
static const struct fake_geometry roomy = { 16, 16, 4, 8, 4, false };
static const struct fake_geometry all_signaled = { 16, 16, 4, 16, 1, true };
static const struct fake_geometry large = { 64, 32, 8, 64, 8, false };
static struct rig *rig;

static void make(const struct fake_geometry *g, bool cq_ex)
{
	rig = calloc(1, sizeof(*rig));
	rig_make(rig, g, 64, cq_ex);
	ENGINE->qp.guard(rig->sp, true);
}

static int setup(void **state)
{
	make(&tight, false);
	return 0;
}

static int setup_ex(void **state)
{
	make(&tight, true);
	return 0;
}

static int setup_roomy(void **state)
{
	make(&roomy, false);
	return 0;
}

static int setup_all_signaled(void **state)
{
	make(&all_signaled, false);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static void write_n(uint64_t first, int n, unsigned flags)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, first + i, flags, 1), 0);
}

static void refused(void)
{
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 999, 0, 1), ENOMEM);
}

static void expect_sends(uint64_t first, int n, enum ibv_wc_status status)
{
	struct ibv_wc wc[64];

	assert_int_equal(rig_poll(rig, true, wc, 64), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + i);
		assert_int_equal(wc[i].status, status);
	}
}

static int fence(void)
{
	bool atomics;

	return ENGINE->move.fence(rig->sp, &atomics);
}

static void drain(void)
{
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
}

/* Does the NIC complete all that it was given, and does the engine see it? */
static bool fenced(void)
{
	fake_run(rig_active(rig), 64);
	drain();
	return ENGINE->move.fenced(rig->sp);
}

/* What was executed, in order: NOPs leave no trace in the log. */
static void expect_ran(uint64_t first, uint32_t n)
{
	assert_int_equal(fake_log.n, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(fake_log.done[i].id, first + i);
}

static struct sp_flushed leave(uint8_t syndrome)
{
	struct sp_flushed flushed;

	ENGINE->move.withhold(rig->sp);
	for (int i = 0; i < 2; i++) {
		fake_flush(rig_active(rig), syndrome);
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	return flushed;
}

static struct sp_settled settle(uint32_t to, uint32_t n)
{
	static const enum sp_fate resend[4] = { SP_FATE_RESEND, SP_FATE_RESEND, SP_FATE_RESEND,
						SP_FATE_RESEND };
	struct sp_settled settled;

	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, resend, n, &settled),
			 0);
	rig->active = to;
	return settled;
}

/* -- laying it -------------------------------------------------------------------------------- */

static void idle_queue_is_fenced_at_once(void **state)
{
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(fence(), 0);
	assert_true(ENGINE->move.fenced(rig->sp));
	write_n(1, 3, IBV_SEND_SIGNALED);
	assert_int_equal(fake_published(rig->app), 0);
	assert_true(ENGINE->move.fenced(rig->sp));
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_false(ENGINE->move.fenced(rig->sp));
	fake_run(rig->app, 8);
	expect_sends(1, 3, IBV_WC_SUCCESS);
	expect_ran(1, 3);
}

static void signaled_request_is_the_fence(void **state)
{
	write_n(1, 2, 0);
	write_n(3, 1, IBV_SEND_SIGNALED);
	assert_int_equal(fence(), 0);
	assert_int_equal(fake_published(rig->app), 3);
	fake_run(rig->app, 2);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_true(fenced());
	expect_sends(3, 1, IBV_WC_SUCCESS);
}

static void unsignaled_requests_get_a_hidden_one(void **state)
{
	uint32_t number;

	write_n(1, 3, 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(fake_published(rig->app), 4);
	assert_true(fenced());
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_NONE);
	expect_sends(0, 0, IBV_WC_SUCCESS);
	expect_ran(1, 3);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
}

/* It takes a place in the completion queue, and would tell nothing before that. */
static void none_while_a_completion_is_awaited(void **state)
{
	write_n(1, 2, IBV_SEND_SIGNALED);
	write_n(3, 2, 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(fake_run(rig->app, 1), 1);
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(fake_published(rig->app), 3);
	assert_false(fenced()); /* all have run, and nothing tells of two: it asks */
	assert_int_equal(fake_published(rig->app), 1);
	assert_true(fenced());
	expect_sends(1, 2, IBV_WC_SUCCESS);
	expect_ran(1, 4);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	write_n(5, 16, IBV_SEND_SIGNALED);
	refused();
	fake_run(rig->app, 64);
	expect_sends(5, 16, IBV_WC_SUCCESS);
}

/* Called off meanwhile: nothing is laid behind what the application posts then. */
static void none_when_called_off(void **state)
{
	write_n(1, 1, IBV_SEND_SIGNALED);
	write_n(2, 1, 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 64);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(fake_published(rig->app), 0);
	expect_sends(1, 1, IBV_WC_SUCCESS);
}

/* What shows that the peer's NIC answers, whether the program polls or not. */
static void sent_sees_what_is_not_polled(void **state)
{
	struct sp_sent before, after;

	ENGINE->qp.sent(rig->sp, &before);
	assert_true(before.posted_known && before.done_known);
	assert_int_equal(before.posted, before.done);
	write_n(1, 4, IBV_SEND_SIGNALED);
	ENGINE->qp.sent(rig->sp, &after);
	assert_int_equal(after.posted - before.posted, 4);
	assert_int_equal(after.done, before.done);
	fake_run(rig->app, 3);
	ENGINE->qp.sent(rig->sp, &after);
	assert_true(after.done_known);
	assert_int_equal(after.done - before.done, 3);
	expect_sends(1, 3, IBV_WC_SUCCESS);
	ENGINE->qp.sent(rig->sp, &after);
	assert_int_equal(after.done - before.done, 3);
	fake_run(rig->app, 1);
	expect_sends(4, 1, IBV_WC_SUCCESS);
	expect_ran(1, 4);
}

/* What the shell's watch goes by: is there work whose end a completion will tell? */
static void sending_knows_what_is_awaited(void **state)
{
	uint32_t number = 0, before;

	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_NONE);
	before = number;
	write_n(1, 3, 0);
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_UNTOLD);
	assert_int_not_equal(number, before);
	write_n(4, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_AWAITED);
	before = number;
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_AWAITED);
	assert_int_equal(number, before);
	fake_run(rig->app, 4);
	expect_sends(4, 1, IBV_WC_SUCCESS);
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_NONE);
	expect_ran(1, 4);
}

static void every_request_signaled_needs_none(void **state)
{
	write_n(1, 16, 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(fake_published(rig->app), 16);
	assert_true(fenced());
	expect_sends(1, 16, IBV_WC_SUCCESS);
}

static void receives_go_on(void **state)
{
	struct ibv_wc wc[2];

	assert_int_equal(fence(), 0);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	assert_int_equal(rig_poll(rig, false, wc, 2), 1);
	assert_int_equal(ENGINE->qp.recv_count(rig->sp), 1);
}

static void atomics_are_told(void **state)
{
	bool atomics;

	write_n(1, 1, 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_false(atomics);
	assert_true(fenced());
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(rig_send(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_true(atomics);
	assert_true(fenced());
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_false(atomics);
	/* a READ may run again, but not once what is fenced on it may have run */
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_false(atomics);
	assert_true(fenced());
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, 4, 0, 1), 0);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 5, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 1),
			 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_true(atomics);
}

/* Sends wait from the first try on: an application that keeps its ring full would never leave a
 * place. */
static void full_ring_gives_a_place_in_time(void **state)
{
	write_n(1, 1, IBV_SEND_SIGNALED);
	write_n(2, 15, 0);
	assert_int_equal(fence(), -EAGAIN);
	refused();
	assert_int_equal(fake_published(rig->app), 16);
	fake_run(rig->app, 1);
	assert_int_equal(fence(), -EAGAIN);
	expect_sends(1, 1, IBV_WC_SUCCESS);
	write_n(17, 1, IBV_SEND_SIGNALED);
	refused();
	assert_int_equal(fence(), 0);
	assert_true(fenced());
	expect_ran(1, 16);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 8);
	expect_sends(17, 1, IBV_WC_SUCCESS);
}

/* All that it may post is posted, nothing is signaled; the ring's memory has a place more. */
static void full_queue_of_a_roomy_ring_is_fenced(void **state)
{
	write_n(1, 8, 0);
	assert_int_equal(fence(), 0);
	refused();
	assert_true(fenced());
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	write_n(9, 8, IBV_SEND_SIGNALED);
	fake_run(rig->app, 8);
	expect_sends(9, 8, IBV_WC_SUCCESS);
	expect_ran(1, 16);
}

static void no_fence_on_a_carrier_that_is_left(void **state)
{
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(fence(), -EINVAL);
	assert_false(ENGINE->move.fenced(rig->sp));
}

static void error_is_no_fence(void **state)
{
	write_n(1, 1, IBV_SEND_SIGNALED);
	assert_int_equal(fence(), 0);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp));
}

/* -- the way back ----------------------------------------------------------------------------- */

/* The NOP has the place of the 17th request: stock would take that one. */
static void nop_costs_no_place(void **state)
{
	write_n(1, 1, IBV_SEND_SIGNALED);
	write_n(2, 14, 0);
	assert_int_equal(fence(), 0);
	fake_run(rig->app, 1);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp)); /* and now it is laid */
	assert_int_equal(fake_published(rig->app), 15);
	write_n(16, 2, IBV_SEND_SIGNALED);
	refused();
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	assert_int_equal(fake_published(rig->app), 16);
	refused();
	fake_run(rig->app, 15);
	expect_sends(1, 1, IBV_WC_SUCCESS); /* and what the NOP tells publishes what waited */
	assert_int_equal(fake_published(rig->app), 2);
	fake_run(rig->app, 64);
	expect_sends(16, 2, IBV_WC_SUCCESS);
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	expect_ran(1, 17);
}

/* The same with a posting after the way back. */
static void nop_costs_no_place_later(void **state)
{
	write_n(1, 15, 0);
	assert_int_equal(fence(), 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	write_n(16, 1, IBV_SEND_SIGNALED);
	refused();
	assert_int_equal(ENGINE->move.publish(rig->sp), -EAGAIN);
	fake_run(rig->app, 64);
	assert_int_equal(fake_published(rig->app), 0);
	/* the application never polls: the shell does */
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	fake_run(rig->app, 64);
	expect_sends(16, 1, IBV_WC_SUCCESS);
	expect_ran(1, 16);
	write_n(17, 16, IBV_SEND_SIGNALED);
	refused();
}

/* Of a CQ with events: what the NOP's completion wakes must publish, even if it finds nothing. */
static void empty_poll_publishes(void **state)
{
	write_n(1, 15, 0);
	assert_int_equal(fence(), 0);
	write_n(16, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	fake_run(rig->app, 64);
	expect_sends(0, 0, IBV_WC_SUCCESS);
	assert_int_equal(fake_published(rig->app), 1);
	fake_run(rig->app, 64);
	expect_sends(16, 1, IBV_WC_SUCCESS);
	expect_ran(1, 16);
}

static void fenced_again_behind_its_own_nop(void **state)
{
	write_n(1, 3, 0);
	assert_int_equal(fence(), 0);
	write_n(4, 2, 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	assert_int_equal(fake_published(rig->app), 6);
	assert_int_equal(fence(), -EAGAIN);
	fake_run(rig->app, 4);
	drain();
	assert_int_equal(fence(), 0);
	assert_true(fenced());
	write_n(6, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 64);
	expect_sends(6, 1, IBV_WC_SUCCESS);
	expect_ran(1, 6);
}

static void many_cancels_lose_nothing(void **state)
{
	uint64_t id = 1;

	for (int i = 0; i < 100; i++) {
		write_n(id, 1, i % 3 ? 0 : IBV_SEND_SIGNALED);
		fence();
		write_n(id + 1, 1, 0);
		write_n(id + 2, 1, i % 4 == 3 ? IBV_SEND_SIGNALED : 0);
		ENGINE->move.resume(rig->sp);
		id += 3;
		if (i % 4 == 3) {
			fake_run(rig->app, 64);
			drain();
			fake_run(rig->app, 64);
			drain();
		}
	}
	expect_ran(1, 300);
	assert_int_equal(rig_poll(rig, true, (struct ibv_wc[64]){ 0 }, 64), 59);
}

/* -- builders and pollers that stay where they are -------------------------------------------- */

static void build(uint64_t id)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge = { id, 8, fake_lkey(id) };

	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, fake_rkey(id), id);
	ibv_wr_set_sge_list(qp, 1, &sge);
}

static void open_builder_puts_it_off(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;

	ibv_wr_start(qp);
	build(1);
	assert_int_equal(fence(), -EAGAIN);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(fence(), 0);
	ibv_wr_start(qp);
	build(2);
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_true(fenced());
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 64);
	expect_sends(1, 2, IBV_WC_SUCCESS);
}

/* A poll between wr_start and wr_complete cannot publish what waits: wr_complete does. */
static void completed_builder_publishes(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;

	write_n(1, 14, 0);
	assert_int_equal(fence(), 0);
	write_n(15, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	ibv_wr_start(qp);
	build(16);
	fake_run(rig->app, 64);
	expect_sends(15, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wr_complete(qp), 0);
	fake_run(rig->app, 64);
	expect_sends(16, 1, IBV_WC_SUCCESS);
	write_n(17, 14, 0);
	assert_int_equal(fence(), 0);
	write_n(31, 2, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	fake_run(rig->app, 64);
	ibv_wr_start(qp);
	expect_sends(31, 1, IBV_WC_SUCCESS);
	assert_int_equal(fake_published(rig->app), 0);
	ibv_wr_abort(qp);
	assert_int_equal(fake_run(rig->app, 64), 1);
	expect_sends(32, 1, IBV_WC_SUCCESS);
}

static void held_completion_does_not_hinder(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;

	write_n(1, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	write_n(2, 14, 0);
	assert_int_equal(fence(), 0);
	write_n(16, 2, IBV_SEND_SIGNALED);
	assert_true(fenced());
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	fake_run(rig->app, 64);
	expect_sends(16, 2, IBV_WC_SUCCESS);
}

/* The end of the poll publishes, if no drain does. */
static void end_of_a_poll_publishes(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;

	write_n(1, 14, 0);
	assert_int_equal(fence(), 0);
	write_n(15, 2, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	fake_run(rig->app, 16);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(cq->wr_id, 15);
	assert_int_equal(fake_published(rig->app), 0);
	ibv_end_poll(cq);
	assert_int_equal(fake_published(rig->app), 1);
	fake_run(rig->app, 64);
	expect_sends(16, 1, IBV_WC_SUCCESS);
}

/* -- on to the next carrier ------------------------------------------------------------------- */

static void ordered_switch_resends_nothing(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;
	struct sp_flushed flushed;

	write_n(1, 5, 0);
	assert_int_equal(fence(), 0);
	write_n(6, 3, IBV_SEND_SIGNALED);
	assert_true(fenced());
	flushed = leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_true(flushed.sq && flushed.rq);
	settled = settle(to, 0);
	assert_int_equal(settled.delivered + settled.resent, 0);
	assert_int_equal(settled.published, 3);
	write_n(9, 1, IBV_SEND_SIGNALED);
	fake_run(rig_active(rig), 64);
	expect_sends(6, 4, IBV_WC_SUCCESS);
	expect_ran(1, 9);
}

/* The fence does not complete: the move goes on without it. */
static void unfinished_fence_is_left(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_request info[16];
	struct sp_flushed flushed;
	struct sp_settled settled;

	write_n(1, 5, 0);
	assert_int_equal(fence(), 0);
	write_n(6, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	flushed = leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_true(flushed.sq && flushed.rq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 16), 4);
	assert_true(info[2].published);
	assert_false(info[3].published);
	settled = settle(to, 3);
	assert_int_equal(settled.resent, 3);
	assert_int_equal(settled.published, 1);
	assert_int_equal(fake_run(rig_active(rig), 64), 4);
	expect_sends(6, 1, IBV_WC_SUCCESS);
	expect_ran(1, 6);
}

/* All ran, and the NOP is what the error hits. */
static void flushed_nop_is_not_seen(void **state)
{
	uint32_t to = rig_standby(rig, &large), number;

	write_n(1, 5, 0);
	assert_int_equal(fence(), 0);
	fake_run(rig->app, 5);
	assert_true(leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR).sq);
	assert_int_equal(ENGINE->qp.sending(rig->sp, &number), SP_SENDING_NONE);
	settle(to, 0);
	write_n(6, 1, IBV_SEND_SIGNALED);
	assert_int_equal(fake_run(rig_active(rig), 64), 1);
	expect_sends(6, 1, IBV_WC_SUCCESS);
	expect_ran(1, 6);
}

/* Cancelled, its NOP still in the ring with requests behind it, and then the carrier dies. */
static void dies_after_the_way_back(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_request info[24];
	struct sp_settled settled;

	write_n(1, 15, 0);
	assert_int_equal(fence(), 0);
	write_n(16, 1, IBV_SEND_SIGNALED);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	fake_run(rig->app, 13);
	assert_true(leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR).sq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 24), 3);
	settled = settle(to, 2);
	assert_int_equal(settled.published, 1);
	assert_int_equal(fake_run(rig_active(rig), 64), 3);
	expect_sends(16, 1, IBV_WC_SUCCESS);
	expect_ran(1, 16);
	write_n(17, 16, IBV_SEND_SIGNALED);
	refused();
}

static void fails_behind_a_fence(void **state)
{
	struct ibv_wc wc[16];

	write_n(1, 2, 0);
	assert_int_equal(fence(), 0);
	write_n(3, 2, 0);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 0);
	assert_int_equal(rig_poll(rig, true, wc, 16), 4);
	assert_int_equal(wc[0].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[3].wr_id, 4);
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
}

static void reset_forgets_the_fence(void **state)
{
	write_n(1, 15, 0);
	assert_int_equal(fence(), 0);
	write_n(16, 1, 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	rig->app->db[0] = rig->app->db[1] = 0;
	rig->app->sq_ci = rig->app->rq_ci = 0;
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	ENGINE->qp.modified(rig->sp, IBV_QPS_INIT);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	write_n(20, 16, IBV_SEND_SIGNALED);
	refused();
	fake_run(rig->app, 64);
	expect_sends(20, 16, IBV_WC_SUCCESS);
}

static void progress_is_counted(void **state)
{
	uint64_t before = ENGINE->qp.progressed(rig->sp);
	uint32_t to = rig_standby(rig, &large);

	write_n(1, 4, IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 50, 1), 0);
	assert_true(ENGINE->qp.progressed(rig->sp) == before);
	fake_run(rig->app, 3);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	drain();
	assert_true(ENGINE->qp.progressed(rig->sp) == before + 4);
	leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	settle(to, 1);
	assert_true(ENGINE->qp.progressed(rig->sp) == before + 4);
	fake_run(rig_active(rig), 1);
	drain();
	assert_true(ENGINE->qp.progressed(rig->sp) == before + 5);
}

/* -- the gate --------------------------------------------------------------------------------- */

static void read_n(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_READ, first + i, IBV_SEND_SIGNALED, 1),
				 0);
}

static void nothing_runs(void)
{
	assert_int_equal(fake_run(rig_active(rig), 64), 0);
}

static void gate(bool on)
{
	assert_int_equal(ENGINE->qp.gate(rig->sp, on), 0);
}

static void gate_lets_pass_what_it_is_told(void **state)
{
	struct sp_read reads[8];

	read_n(1, 2);
	gate(true);
	read_n(3, 3);
	write_n(6, 1, IBV_SEND_SIGNALED);
	assert_int_equal(fake_run(rig_active(rig), 64), 2);
	assert_true(fake_events.gated > 0);
	assert_int_equal(ENGINE->qp.gated(rig->sp, reads, 8), 4);
	assert_int_equal(reads[0].addr, 3);
	assert_int_equal(reads[0].rkey, fake_rkey(3));
	assert_int_equal(reads[2].addr, 5);
	assert_int_equal(reads[3].rkey, 0);
	assert_int_equal(ENGINE->qp.gated(rig->sp, reads, 1), 1);
	assert_int_equal(ENGINE->qp.pass(rig->sp, 1), 1);
	assert_int_equal(fake_run(rig_active(rig), 64), 1);
	nothing_runs();
	gate(false);
	read_n(7, 1);
	assert_int_equal(fake_run(rig_active(rig), 64), 4);
	expect_sends(1, 7, IBV_WC_SUCCESS);
	expect_ran(1, 7);
}

static void gate_stays_shut_through_a_move(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;

	read_n(1, 1);
	gate(true);
	read_n(2, 2);
	assert_true(leave(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR).sq);
	assert_int_equal(ENGINE->qp.pass(rig->sp, 2), -EAGAIN);
	read_n(4, 1);
	settled = settle(to, 1);
	assert_int_equal(settled.resent, 1);
	assert_int_equal(settled.published, 0);
	assert_int_equal(fake_run(rig_active(rig), 64), 1);
	assert_int_equal(ENGINE->qp.pass(rig->sp, 2), 2);
	assert_int_equal(fake_run(rig_active(rig), 64), 2);
	gate(false);
	read_n(5, 1);
	assert_int_equal(fake_run(rig_active(rig), 64), 2);
	expect_sends(1, 5, IBV_WC_SUCCESS);
	expect_ran(1, 5);
}

static void gate_stays_shut_behind_a_fence(void **state)
{
	read_n(1, 1);
	gate(true);
	read_n(2, 1);
	assert_int_equal(fence(), 0);
	read_n(3, 1);
	assert_true(fenced());
	assert_int_equal(ENGINE->qp.pass(rig->sp, 2), -EAGAIN);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	nothing_runs();
	assert_int_equal(ENGINE->qp.pass(rig->sp, 2), 2);
	assert_int_equal(fake_run(rig_active(rig), 64), 2);
	expect_sends(1, 3, IBV_WC_SUCCESS);
}

static void fails_behind_the_gate(void **state)
{
	struct ibv_wc wc[16];

	gate(true);
	read_n(1, 2);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 0);
	assert_int_equal(rig_poll(rig, true, wc, 16), 2);
	assert_int_equal(wc[0].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ENGINE->qp.pass(rig->sp, 2), 0);
	gate(false);
	nothing_runs();
}

/* -- the first post that is told --------------------------------------------------------------- */

static bool told_next(void)
{
	uint32_t number = 0;

	ENGINE->qp.sending(rig->sp, &number);
	return ENGINE->qp.tell(rig->sp, number);
}

static void expect_posted(uint32_t n)
{
	assert_int_equal(fake_events.posted, n);
}

static void next_post_is_told_once(void **state)
{
	expect_posted(0);
	write_n(1, 1, IBV_SEND_SIGNALED);
	fake_run(rig->app, 1);
	expect_sends(1, 1, IBV_WC_SUCCESS);
	expect_posted(0);
	assert_true(told_next());
	assert_true(told_next());
	assert_int_equal(rig_recv(rig, 9, 1), 0);
	expect_posted(0);
	write_n(2, 1, IBV_SEND_SIGNALED);
	expect_posted(1);
	write_n(3, 2, IBV_SEND_SIGNALED);
	expect_posted(1);
	fake_run(rig->app, 8);
	expect_sends(2, 3, IBV_WC_SUCCESS);
	expect_ran(1, 4);
}

/* The very first post: also it is decided then whose the ring is. */
static void first_post_of_all_is_told(void **state)
{
	assert_true(told_next());
	write_n(1, 2, IBV_SEND_SIGNALED);
	expect_posted(1);
	fake_run(rig->app, 8);
	expect_sends(1, 2, IBV_WC_SUCCESS);
}

static void work_under_way_is_not_told(void **state)
{
	uint32_t before = 0;

	ENGINE->qp.sending(rig->sp, &before);
	write_n(1, 1, IBV_SEND_SIGNALED);
	assert_false(told_next());
	fake_run(rig->app, 1);
	expect_sends(1, 1, IBV_WC_SUCCESS);
	assert_false(ENGINE->qp.tell(rig->sp, before)); /* it was posted, and is complete */
	write_n(2, 1, IBV_SEND_SIGNALED);
	expect_posted(0);
	fake_run(rig->app, 1);
	expect_sends(2, 1, IBV_WC_SUCCESS);
	write_n(3, 1, 0); /* nothing will tell of its end */
	assert_true(told_next());
	write_n(4, 1, 0);
	expect_posted(1);
}

static void withheld_post_is_told(void **state)
{
	assert_true(told_next());
	ENGINE->move.withhold(rig->sp);
	write_n(1, 1, IBV_SEND_SIGNALED);
	expect_posted(1);
	assert_false(told_next());
}

/* What was asked for is true of the carrier that a move leads to. */
static void first_post_behind_a_move_is_told(void **state)
{
	uint32_t to = rig_standby(rig, &tight);

	assert_true(told_next());
	leave(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	settle(to, 0);
	expect_posted(0);
	write_n(1, 1, IBV_SEND_SIGNALED);
	expect_posted(1);
	fake_run(rig_active(rig), 4);
	expect_sends(1, 1, IBV_WC_SUCCESS);
	assert_true(told_next());
	write_n(2, 1, IBV_SEND_SIGNALED);
	expect_posted(2);
	write_n(3, 1, IBV_SEND_SIGNALED);
	expect_posted(2);
	fake_run(rig_active(rig), 4);
	expect_sends(2, 2, IBV_WC_SUCCESS);
}

static void built_request_is_told(void **state)
{
	struct ibv_qp_ex *qp = &rig->app->ex;

	assert_true(told_next());
	ibv_wr_start(qp);
	expect_posted(1);
	assert_false(told_next());
	ibv_wr_abort(qp);
	assert_true(told_next());
	for (uint64_t id = 1; id <= 2; id++) {
		ibv_wr_start(qp);
		build(id);
		assert_int_equal(ibv_wr_complete(qp), 0);
		expect_posted(2);
	}
	fake_run(rig->app, 4);
	expect_sends(1, 2, IBV_WC_SUCCESS);
}

int main(void)
{
#define TEST(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(idle_queue_is_fenced_at_once, setup),
		TEST(signaled_request_is_the_fence, setup),
		TEST(sending_knows_what_is_awaited, setup),
		TEST(next_post_is_told_once, setup),
		TEST(first_post_of_all_is_told, setup),
		TEST(work_under_way_is_not_told, setup),
		TEST(withheld_post_is_told, setup),
		TEST(first_post_behind_a_move_is_told, setup),
		TEST(built_request_is_told, setup),
		TEST(sent_sees_what_is_not_polled, setup),
		TEST(unsignaled_requests_get_a_hidden_one, setup),
		TEST(unsignaled_requests_get_a_hidden_one, setup_ex),
		TEST(none_while_a_completion_is_awaited, setup),
		TEST(none_while_a_completion_is_awaited, setup_ex),
		TEST(none_when_called_off, setup),
		TEST(every_request_signaled_needs_none, setup_all_signaled),
		TEST(receives_go_on, setup),
		TEST(atomics_are_told, setup),
		TEST(full_ring_gives_a_place_in_time, setup),
		TEST(full_ring_gives_a_place_in_time, setup_ex),
		TEST(full_queue_of_a_roomy_ring_is_fenced, setup_roomy),
		TEST(no_fence_on_a_carrier_that_is_left, setup),
		TEST(error_is_no_fence, setup),
		TEST(nop_costs_no_place, setup),
		TEST(nop_costs_no_place, setup_ex),
		TEST(nop_costs_no_place_later, setup),
		TEST(nop_costs_no_place_later, setup_ex),
		TEST(empty_poll_publishes, setup),
		TEST(empty_poll_publishes, setup_ex),
		TEST(fenced_again_behind_its_own_nop, setup),
		TEST(many_cancels_lose_nothing, setup),
		TEST(open_builder_puts_it_off, setup_ex),
		TEST(completed_builder_publishes, setup_ex),
		TEST(held_completion_does_not_hinder, setup_ex),
		TEST(end_of_a_poll_publishes, setup_ex),
		TEST(ordered_switch_resends_nothing, setup),
		TEST(ordered_switch_resends_nothing, setup_ex),
		TEST(unfinished_fence_is_left, setup),
		TEST(flushed_nop_is_not_seen, setup),
		TEST(dies_after_the_way_back, setup),
		TEST(fails_behind_a_fence, setup),
		TEST(reset_forgets_the_fence, setup),
		TEST(progress_is_counted, setup),
		TEST(gate_lets_pass_what_it_is_told, setup),
		TEST(gate_lets_pass_what_it_is_told, setup_ex),
		TEST(gate_stays_shut_through_a_move, setup),
		TEST(gate_stays_shut_through_a_move, setup_ex),
		TEST(gate_stays_shut_behind_a_fence, setup),
		TEST(fails_behind_the_gate, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
