/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rings that somebody else writes to, or polls: direct verbs; and QPs that are not driven at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry geometry = { 16, 16, 4, 16, 4, false };
static const struct fake_geometry large = { 64, 32, 8, 64, 8, false };
static struct rig *rig;

static int setup(void **state)
{
	rig = rig_new(&geometry, 64, false);
	return 0;
}

static int setup_ex(void **state)
{
	rig = rig_new(&geometry, 128, true);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

/* Two of them. */
static void writes(unsigned flags)
{
	for (uint64_t id = 0; id < 2; id++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, id, flags, 1), 0);
}

/* Before anything was posted through the verbs, the rings are those of whoever moves their records. */
static void somebody_elses_ring_is_left_alone(void **state)
{
	bool intruder = true;

	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	rig->app->db[MLX5_SND_DBR] = htobe32(3);
	writes(0);
	assert_int_equal(fake_events.provider_posts, 2);
	assert_int_equal(be32toh(rig->app->db[MLX5_SND_DBR]), 3);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_false(intruder);
}

static void somebody_elses_ring_is_seen_without_a_post(void **state)
{
	bool intruder = true;

	rig->app->db[MLX5_RCV_DBR] = htobe32(1);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_false(intruder);
}

static void somebody_elses_polling_is_seen(void **state)
{
	bool intruder = true;

	rig->rcq.db[0] = htobe32(1);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_false(intruder);
}

/* A hand that comes to rings which the engine posts to and polls. */
static void intruder_is_seen(__be32 *record)
{
	struct ibv_wc wc[2];
	bool intruder = false;

	writes(IBV_SEND_SIGNALED);
	assert_int_equal(rig_recv(rig, 0, 1), 0);
	fake_run(rig->app, 2);
	assert_int_equal(rig_poll(rig, true, wc, 2), 2);
	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	*record = htobe32(be32toh(*record) + 1);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_true(intruder);
}

static void intruder_in_the_send_ring_is_seen(void **state)
{
	intruder_is_seen(&rig->app->db[MLX5_SND_DBR]);
}

static void intruder_in_the_receive_ring_is_seen(void **state)
{
	intruder_is_seen(&rig->app->db[MLX5_RCV_DBR]);
}

static void intruder_that_polls_is_seen(void **state)
{
	intruder_is_seen(&rig->scq.db[0]);
}

/* A ring that was left for another NIC still has the application's address of it. */
static void intruder_in_a_left_ring_is_seen(void **state)
{
	uint32_t to = rig_standby(rig, &large);
	struct sp_settled settled;
	struct ibv_wc wc[2];
	bool intruder = false;

	writes(IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	assert_int_equal(rig_poll(rig, true, wc, 2), 2);
	ENGINE->move.withhold(rig->sp);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, NULL, 0, &settled), 0);
	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	rig->app->db[MLX5_SND_DBR] = htobe32(be32toh(rig->app->db[MLX5_SND_DBR]) + 1);
	assert_non_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_true(intruder);
}

/* Who holds completions owes their slots: the record lags behind. */
static void slots_that_are_owed_are_no_intruder(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;
	bool intruder;

	writes(IBV_SEND_SIGNALED);
	fake_run(rig->app, 2);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
	ibv_end_poll(cq);
	assert_null(ENGINE->qp.reason(rig->sp, &intruder));
}

/* What libmlx5 grants with out-of-order placement: half of the ring. Its flag is seen nowhere else. */
static void receives_out_of_order_are_not_driven(void **state)
{
	struct fake_qp qp;
	struct sp_qp *sp = NULL;
	const char *why = "";

	fake_qp_make(&rig->dev, &qp, &rig->scq, &rig->rcq, &geometry);
	qp.attr.cap.max_recv_wr = geometry.rq_cnt / 2;
	assert_int_equal(ENGINE->qp.drive(rig->dev.sp, fake_ibv(&qp), &qp.attr, rig->sp_scq,
					  rig->sp_rcq, rig, &sp, &why),
			 -EOPNOTSUPP);
	assert_string_equal(why, "its receive queue is consumed out of order");
	assert_null(sp);
	/* known before a CQ is given to the engine for good */
	assert_string_equal(ENGINE->qp.drivable(rig->dev.sp, fake_ibv(&qp), &qp.attr), why);
	qp.attr.cap.max_recv_wr = geometry.rq_cnt;
	assert_null(ENGINE->qp.drivable(rig->dev.sp, fake_ibv(&qp), &qp.attr));
	fake_qp_free(&qp);
}

static void creation_flags_are_not_driven(void **state)
{
	struct fake_qp qp;
	struct sp_qp *sp = NULL;
	const char *why = "";

	fake_qp_make(&rig->dev, &qp, &rig->scq, &rig->rcq, &geometry);
	qp.attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp.attr.create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	assert_int_equal(ENGINE->qp.drive(rig->dev.sp, fake_ibv(&qp), &qp.attr, rig->sp_scq,
					  rig->sp_rcq, rig, &sp, &why),
			 -EOPNOTSUPP);
	assert_string_equal(why, "it was made with creation flags");
	fake_qp_free(&qp);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(somebody_elses_ring_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(somebody_elses_ring_is_seen_without_a_post, setup,
						teardown),
		cmocka_unit_test_setup_teardown(somebody_elses_polling_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(intruder_in_the_send_ring_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(intruder_in_the_receive_ring_is_seen, setup,
						teardown),
		cmocka_unit_test_setup_teardown(intruder_that_polls_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(intruder_in_a_left_ring_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(slots_that_are_owed_are_no_intruder, setup_ex,
						teardown),
		cmocka_unit_test_setup_teardown(receives_out_of_order_are_not_driven, setup,
						teardown),
		cmocka_unit_test_setup_teardown(creation_flags_are_not_driven, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
