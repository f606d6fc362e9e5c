/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine: what a QP has before its first post, and what becomes of that post without memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/mlx5/blank.h"
#include "providers/mlx5/qp.h"
#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry geometry = { 64, 32, 8, 64, 8, false };
static struct rig *rig;
static bool no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __real_calloc(n, size);
}

static void make(bool by_calls)
{
	no_memory = false;
	rig = rig_new(&geometry, 64, by_calls);
	ENGINE->qp.guard(rig->sp, true);
}

static int setup(void **state)
{
	make(false);
	return 0;
}

static int setup_calls(void **state)
{
	make(true);
	return 0;
}

static int teardown(void **state)
{
	no_memory = false;
	rig_delete(rig);
	return 0;
}

static int send_one(uint64_t id)
{
	return rig_send(rig, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, 1);
}

static void polls(bool sends, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc[4];

	assert_int_equal(rig_poll(rig, sends, wc, 4), 1);
	assert_int_equal(wc[0].wr_id, id);
	assert_int_equal(wc[0].status, status);
}

static struct sp_flushed flushed(void)
{
	struct sp_flushed f;

	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	ENGINE->move.flushed(rig->sp, true, &f);
	return f;
}

static void each_queue_gets_tables_with_its_first_post(void **state)
{
	struct sp_carrier *c = rig->sp->tx;

	assert_ptr_equal(c->sq.wrid, ring_blank(geometry.sq_cnt));
	assert_ptr_equal(c->rq.wrid, ring_blank(geometry.rq_cnt));
	assert_int_equal(send_one(16), 0);
	assert_ptr_not_equal(c->sq.wrid, ring_blank(geometry.sq_cnt));
	assert_ptr_equal(c->rq.wrid, ring_blank(geometry.rq_cnt));
	assert_int_equal(rig_recv(rig, 32, 1), 0);
	assert_ptr_not_equal(c->rq.wrid, ring_blank(geometry.rq_cnt));
	assert_int_equal(fake_run(rig->app, 1), 1);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	polls(true, 16, IBV_WC_SUCCESS);
	polls(false, 32, IBV_WC_SUCCESS);
}

/* The shell looks into thousands of queues when a path is in doubt, and most have nothing. */
static void an_empty_queue_is_collected_without_memory(void **state)
{
	assert_int_equal(send_one(16), 0);
	no_memory = true;
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
	assert_int_equal(fake_run(rig->app, 1), 1);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), -ENOMEM); /* which loses nothing */
	no_memory = false;
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	polls(true, 16, IBV_WC_SUCCESS);
}

/* A completion that is nobody's is read from tables like any other. */
static void blank_ones_have_no_request(void **state)
{
	const uint64_t *blank = ring_blank(geometry.sq_cnt);
	const uint32_t *number = (const uint32_t *)(blank + geometry.sq_cnt);
	const uint8_t *data = (const uint8_t *)(number + geometry.sq_cnt);

	for (uint32_t i = 0; i < geometry.sq_cnt; i++) {
		assert_int_equal(blank[i], 0);
		assert_int_equal(number[i], UINT32_MAX);
		assert_int_equal(data[i], 0);
	}
	assert_ptr_equal(ring_blank(geometry.sq_cnt), blank);
}

static void a_send_without_memory_is_refused_and_the_next_runs(void **state)
{
	for (int i = 0; i < 2; i++) {
		no_memory = true;
		assert_int_equal(send_one(16), ENOMEM);
		no_memory = false;
		assert_int_equal(fake_published(rig->app), 0);
	}
	assert_int_equal(send_one(32), 0);
	no_memory = true; /* it has all that it needs */
	assert_int_equal(send_one(48), 0);
	assert_int_equal(fake_run(rig->app, 1), 1);
	polls(true, 32, IBV_WC_SUCCESS);
	assert_int_equal(fake_run(rig->app, 1), 1);
	polls(true, 48, IBV_WC_SUCCESS);
}

static void a_receive_without_memory_is_refused_and_the_next_runs(void **state)
{
	for (int i = 0; i < 2; i++) {
		no_memory = true;
		assert_int_equal(rig_recv(rig, 16, 1), ENOMEM);
		no_memory = false;
	}
	assert_int_equal(rig_recv(rig, 32, 1), 0);
	no_memory = true;
	assert_int_equal(rig_recv(rig, 48, 1), 0);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	polls(false, 32, IBV_WC_SUCCESS);
	assert_true(fake_receive(rig->app, MLX5_CQE_RESP_SEND, NULL, 8));
	polls(false, 48, IBV_WC_SUCCESS);
}

static void one_without_a_post_shows_that_it_is_flushed(void **state)
{
	ENGINE->move.withhold(rig->sp);
	assert_false(flushed().error_seen);
	assert_int_equal(fake_published(rig->app), 1); /* a NOP */
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_true(flushed().error_seen);
}

static void without_memory_it_is_not_believed(void **state)
{
	no_memory = true;
	ENGINE->move.withhold(rig->sp);
	assert_false(flushed().rq);
	assert_int_equal(fake_published(rig->app), 0);
	no_memory = false;
}

static void a_failed_one_takes_posts(void **state)
{
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 0);
	assert_int_equal(send_one(16), 0);
	assert_int_equal(rig_recv(rig, 32, 1), 0);
	polls(true, 16, IBV_WC_RETRY_EXC_ERR);
	polls(false, 32, IBV_WC_WR_FLUSH_ERR);
}

static void a_reset_one_starts_anew(void **state)
{
	struct sp_carrier *c = rig->sp->tx;
	uint32_t slot = c->sq.cur_post & c->sq.mask;

	assert_int_equal(send_one(16), 0);
	assert_int_equal(c->sq.wqe_head[slot], 0);
	rig->app->db[MLX5_SND_DBR] = rig->app->db[MLX5_RCV_DBR] = 0;
	rig->app->sq_ci = 0;
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	assert_int_equal(c->sq.wqe_head[slot], UINT32_MAX);
	ENGINE->qp.modified(rig->sp, IBV_QPS_INIT);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	assert_int_equal(send_one(32), 0);
}

static void one_that_was_not_used_is_reset_too(void **state)
{
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	assert_ptr_equal(rig->sp->tx->sq.wrid, ring_blank(geometry.sq_cnt));
}

#define TEST(f)	      cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TEST_CALLS(f) cmocka_unit_test_setup_teardown(f, setup_calls, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_queue_gets_tables_with_its_first_post),
		TEST_CALLS(each_queue_gets_tables_with_its_first_post),
		TEST(an_empty_queue_is_collected_without_memory),
		TEST_CALLS(an_empty_queue_is_collected_without_memory),
		TEST(blank_ones_have_no_request),
		TEST(a_send_without_memory_is_refused_and_the_next_runs),
		TEST_CALLS(a_send_without_memory_is_refused_and_the_next_runs),
		TEST(a_receive_without_memory_is_refused_and_the_next_runs),
		TEST(one_without_a_post_shows_that_it_is_flushed),
		TEST(without_memory_it_is_not_believed),
		TEST(a_failed_one_takes_posts),
		TEST(a_reset_one_starts_anew),
		TEST(one_that_was_not_used_is_reset_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
