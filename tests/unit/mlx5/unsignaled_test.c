/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests without completions: when a queue is withheld, those that are complete are known to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

enum { ROOM = 8, MAX = 16 };

static const struct fake_geometry geometry = { 16, 16, 4, ROOM, 1, false };
static struct rig *rig;

static int setup(void **state)
{
	rig = rig_new(&geometry, 64, false);
	ENGINE->qp.guard(rig->sp, true);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static void post(enum ibv_wr_opcode opcode, uint64_t id, unsigned int flags)
{
	assert_int_equal(rig_send(rig, opcode, id, flags, 1), 0);
}

/* WRITE, atomic, WRITE; none has a completion. */
static void post_three(void)
{
	post(IBV_WR_RDMA_WRITE, 1, 0);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0);
	post(IBV_WR_RDMA_WRITE, 3, 0);
}

static uint32_t outstanding(void)
{
	struct sp_request info[MAX];

	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	return ENGINE->move.outstanding(rig->sp, info, MAX);
}

static void sees(int n)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(rig_poll(rig, true, wc, MAX), n);
}

static void what_is_complete_is_known(void **state)
{
	post_three();
	assert_int_equal(fake_run(rig->app, 3), 3);
	assert_int_equal(outstanding(), 3);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(fake_run(rig->app, MAX), 1);
	assert_int_equal(outstanding(), 0);
	sees(0);
}

static void what_is_not_is_not(void **state)
{
	post_three();
	assert_int_equal(fake_run(rig->app, 1), 1);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(outstanding(), 3);
	assert_int_equal(fake_run(rig->app, 1), 1); /* and no further: the path is down */
	assert_int_equal(outstanding(), 3);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(outstanding(), 1); /* the error says where it stopped */
	sees(0);
}

/* One that has a completion of its own needs no other; nor does the hidden one, however often it is looked. */
static void one_at_most(void **state)
{
	post_three();
	post(IBV_WR_SEND, 4, IBV_SEND_SIGNALED);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(fake_run(rig->app, MAX), 4);
	assert_int_equal(outstanding(), 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	post_three();
	for (int i = 0; i < 3; i++)
		ENGINE->move.withhold(rig->sp);
	assert_int_equal(fake_run(rig->app, MAX), 4);
	assert_int_equal(outstanding(), 0);
	sees(1);
}

/* Nothing behind one that is told of is complete before it. When it is, the hidden one asks for those. */
static void not_behind_one_that_is_told_of(void **state)
{
	post(IBV_WR_SEND, 4, IBV_SEND_SIGNALED);
	post_three();
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(fake_run(rig->app, MAX), 4);
	assert_int_equal(outstanding(), 3);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(fake_run(rig->app, MAX), 1);
	assert_int_equal(outstanding(), 0);
	sees(1);
}

/* How many ran; one of them is seen. */
static uint32_t run_all(void)
{
	struct ibv_wc wc[MAX];
	uint32_t ran = 0;
	int seen = 0;

	for (int i = 0; i < 4; i++) {
		ran += fake_run(rig->app, MAX);
		seen += rig_poll(rig, true, wc, MAX);
		(void)ENGINE->move.publish(rig->sp);
	}
	assert_int_equal(seen, 1);
	return ran;
}

/* The wait is over, and all goes on where it is: as many requests find room as before, and none is seen twice. */
static void it_takes_no_place(void **state)
{
	for (int turn = 0; turn < 5; turn++) {
		post_three();
		ENGINE->move.withhold(rig->sp);
		for (uint64_t i = 3; i < ROOM; i++)
			post(IBV_WR_RDMA_WRITE, 10 + i, i + 1 == ROOM ? IBV_SEND_SIGNALED : 0);
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 9, 0, 1), ENOMEM);
		(void)ENGINE->move.resume(
			rig->sp); /* the last one waits for the hidden one's place */
		assert_int_equal(run_all(), 1 + ROOM);
		assert_int_equal(outstanding(), 0);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_complete_is_known),      TEST(what_is_not_is_not), TEST(one_at_most),
		TEST(not_behind_one_that_is_told_of), TEST(it_takes_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
