/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Atomics that may not run yet: they wait with what is behind them, all else goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry geometry = { 16, 16, 4, 16, 4, false };
static struct rig *rig;

static int setup_with(bool ex)
{
	rig = rig_new(&geometry, 64, ex);
	return 0;
}

static int setup(void **state)
{
	return setup_with(false);
}

static int setup_ex(void **state)
{
	return setup_with(true);
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static bool bar(bool on)
{
	bool used;
	int ret = ENGINE->qp.atomics(rig->sp, !on, &used);

	assert_int_equal(ret, 0);
	return used;
}

static void post(enum ibv_wr_opcode op, uint64_t id)
{
	assert_int_equal(rig_send(rig, op, id, IBV_SEND_SIGNALED, 1), 0);
}

static void writes(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		post(IBV_WR_RDMA_WRITE, first + (uint64_t)i);
}

static void adds(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, first + (uint64_t)i);
}

static void run(int n)
{
	assert_int_equal(fake_run(rig_active(rig), 64), n);
}

static void expect(uint64_t first, int n)
{
	struct ibv_wc wc[64];

	assert_int_equal(rig_poll(rig, true, wc, 64), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + (uint64_t)i);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	}
}

static int move(uint32_t n, enum sp_fate fate)
{
	enum sp_fate fates[8] = { fate, fate, fate, fate, fate, fate, fate, fate };
	uint32_t to = rig_standby(rig, &geometry);
	struct sp_settled settled;
	int ret;

	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	ret = ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled);
	if (!ret)
		rig->active = to;
	return ret;
}

static void it_tells_whether_there_were_any(void **state)
{
	writes(1, 2);
	assert_false(bar(true));
	adds(3, 1);
	assert_true(bar(true));
	bar(false);
	run(3);
	expect(1, 3);
}

static void those_shown_before_run(void **state)
{
	adds(1, 2);
	assert_true(bar(true));
	run(2);
	expect(1, 2);
}

static void all_else_goes_on(void **state)
{
	uint32_t missing = fake_events.keys;

	bar(true);
	writes(1, 3);
	run(3);
	adds(4, 2);
	writes(6, 1);
	assert_true(fake_events.keys > missing);
	run(0);
	assert_int_equal(ENGINE->move.publish(rig->sp), -EACCES);
	run(0);
	bar(false);
	run(3);
	expect(1, 6);
	adds(7, 2);
	run(2);
	expect(7, 2);
}

static void so_it_is_on_another_nic(void **state)
{
	assert_int_equal(move(0, SP_FATE_RESEND), 0);
	all_else_goes_on(state);
}

/* Withheld in the move, they stay so when it is over. */
static void withheld_ones_wait_behind_a_move(void **state)
{
	writes(1, 1);
	ENGINE->move.withhold(rig->sp);
	writes(2, 1);
	adds(3, 2);
	writes(5, 1);
	bar(true);
	assert_int_equal(move(1, SP_FATE_RESEND), 0);
	run(2);
	adds(6, 1);
	run(0);
	bar(false);
	run(4);
	expect(1, 6);
}

/* One that never ran would run on the new NIC: the move waits. */
static void one_that_is_sent_again_waits(void **state)
{
	writes(1, 1);
	adds(2, 1);
	bar(true);
	assert_int_equal(move(2, SP_FATE_RESEND), -EACCES);
	assert_int_equal(move(2, SP_FATE_DELIVERED), 0);
	expect(1, 2);
}

static void and_is_sent_when_it_may(void **state)
{
	adds(1, 1);
	bar(true);
	assert_int_equal(move(1, SP_FATE_RESEND), -EACCES);
	bar(false);
	assert_int_equal(move(1, SP_FATE_RESEND), 0);
	run(1);
	expect(1, 1);
}

int main(void)
{
#define TEST(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(it_tells_whether_there_were_any, setup),
		TEST(it_tells_whether_there_were_any, setup_ex),
		TEST(those_shown_before_run, setup),
		TEST(all_else_goes_on, setup),
		TEST(all_else_goes_on, setup_ex),
		TEST(so_it_is_on_another_nic, setup),
		TEST(so_it_is_on_another_nic, setup_ex),
		TEST(withheld_ones_wait_behind_a_move, setup),
		TEST(withheld_ones_wait_behind_a_move, setup_ex),
		TEST(one_that_is_sent_again_waits, setup),
		TEST(and_is_sent_when_it_may, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
