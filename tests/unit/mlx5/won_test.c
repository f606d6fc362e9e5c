/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Compare-and-swaps that have swapped, and whose answers were lost: a move brings them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

enum { COMPARED = 0x1122334455667788, SWAPPED = 77, WORD = 4096 };

static void cas(uint64_t id, void *first, uint32_t n, void *second)
{
	struct ibv_sge sge[2] = { { (uintptr_t)first, n, fake_lkey((uintptr_t)first) },
				  { (uintptr_t)second, 8 - n, fake_lkey((uintptr_t)second) } };
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = sge,
				  .num_sge = second ? 2 : 1,
				  .wr.atomic = { .remote_addr = WORD + 16 * id,
						 .compare_add = COMPARED,
						 .swap = SWAPPED + id,
						 .rkey = fake_rkey(WORD + 16 * id) } },
			   *bad;

	assert_int_equal(ibv_post_send(fake_ibv(rig->app), &wr, &bad), 0);
}

static void post(enum ibv_wr_opcode op, uint64_t id)
{
	assert_int_equal(rig_send(rig, op, id, IBV_SEND_SIGNALED, 1), 0);
}

static void settle(const enum sp_fate *fates, uint32_t n, struct sp_settled *settled)
{
	uint32_t to = rig_standby(rig, &geometry);

	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, settled), 0);
	rig->active = to;
}

static void expect(uint64_t id, enum ibv_wc_opcode opcode, const struct ibv_wc *wc)
{
	assert_int_equal(wc->wr_id, id);
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_int_equal(wc->opcode, opcode);
}

/* It brings 8 bytes, whatever its buffers have room for. */
static void expect_won(uint64_t id, const struct ibv_wc *wc)
{
	expect(id, IBV_WC_COMP_SWAP, wc);
	assert_int_equal(wc->byte_len, 8);
}

static void its_answer_is_what_it_compared_with(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_DELIVERED, SP_FATE_WON, SP_FATE_DELIVERED };
	uint64_t old = 0, spare = 0;
	struct sp_settled settled;
	struct ibv_wc wc[8];

	post(IBV_WR_RDMA_WRITE, 1);
	cas(2, &old, 8, &spare);
	post(IBV_WR_SEND, 3);
	settle(fates, 3, &settled);
	assert_true(old == COMPARED);
	assert_int_equal(settled.delivered, 3);
	assert_int_equal(settled.resent, 0);
	assert_int_equal(fake_run(rig_active(rig), 8), 0);
	assert_int_equal(rig_poll(rig, true, wc, 8), 3);
	expect_won(2, &wc[1]);
	expect(3, IBV_WC_SEND, &wc[2]);
}

/* In two pieces; and it completes behind what runs again before it, itself not run. */
static void it_completes_in_its_turn(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_RESEND, SP_FATE_WON, SP_FATE_DELIVERED };
	uint64_t old = 0;
	uint8_t pieces[8] = { 0 };
	struct sp_settled settled;
	struct ibv_wc wc[8];

	post(IBV_WR_RDMA_WRITE, 1);
	cas(2, pieces, 3, pieces + 3);
	post(IBV_WR_SEND, 3);
	settle(fates, 3, &settled);
	memcpy(&old, pieces, sizeof(old));
	assert_true(old == COMPARED);
	assert_int_equal(settled.resent, 1);
	assert_int_equal(rig_poll(rig, true, wc, 8), 0);
	assert_int_equal(fake_run(rig_active(rig), 8), 3);
	assert_int_equal(fake_log.n, 1);
	assert_int_equal(rig_poll(rig, true, wc, 8), 3);
	expect(1, IBV_WC_RDMA_WRITE, &wc[0]);
	expect_won(2, &wc[1]);
	expect(3, IBV_WC_SEND, &wc[2]);
}

/* One that has not swapped runs again, and what is delivered behind it waits for it. */
static void one_that_has_not_runs_again(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_RESEND, SP_FATE_DELIVERED };
	struct sp_settled settled;
	struct ibv_wc wc[8];

	post(IBV_WR_ATOMIC_CMP_AND_SWP, 1);
	post(IBV_WR_SEND, 2);
	settle(fates, 2, &settled);
	assert_int_equal(rig_poll(rig, true, wc, 8), 0);
	assert_int_equal(fake_run(rig_active(rig), 8), 2);
	assert_int_equal(fake_log.n, 1);
	assert_int_equal(rig_poll(rig, true, wc, 8), 2);
	expect(1, IBV_WC_COMP_SWAP, &wc[0]);
	expect(2, IBV_WC_SEND, &wc[1]);
}

static void what_they_change_is_described(void **state)
{
	struct sp_request info[4];
	uint64_t old;

	post(IBV_WR_RDMA_WRITE, 1);
	cas(2, &old, 8, NULL);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 3);
	post(IBV_WR_SEND, 4);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, 4), 4);
	assert_false(info[0].cas);
	assert_int_equal(info[0].addr, 1);
	assert_int_equal(info[0].bytes, 8);
	assert_true(info[1].cas);
	assert_int_equal(info[1].addr, WORD + 32);
	assert_int_equal(info[1].bytes, 8);
	assert_int_equal(info[1].rkey, fake_rkey(WORD + 32));
	assert_true(info[1].compare == COMPARED && info[1].swap == SWAPPED + 2);
	assert_false(info[2].cas);
	assert_int_equal(info[2].addr, 3);
	assert_int_equal(info[3].bytes, 0);
}

#define EACH_WAY(test)                                                                             \
	cmocka_unit_test_setup_teardown(test, setup, teardown),                                    \
		cmocka_unit_test_setup_teardown(test, setup_ex, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH_WAY(its_answer_is_what_it_compared_with),
		EACH_WAY(it_completes_in_its_turn),
		EACH_WAY(one_that_has_not_runs_again),
		EACH_WAY(what_they_change_is_described),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
