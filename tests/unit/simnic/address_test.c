/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands that Linux answers before a NIC is asked: the way to an address, and prefetching of
 * memory. One argument: eth or ib.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static const struct rig_conn rc = { IBV_QPT_RC, RIG_TIMEOUT, 1, 7, ALL_ACCESS, false };

static int open_end(void **state)
{
	return rig_open(&rig, ALL_ACCESS);
}

static int connect_rc(void **state)
{
	return rig_connect(rc);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static int to_init(void)
{
	struct ibv_qp_init_attr init = { .send_cq = rig.cq,
					 .recv_cq = rig.cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	rig.qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(rig.qp);
	return ibv_modify_qp(rig.qp, &attr,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(uint8_t last_byte)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = 100,
				    .max_dest_rd_atomic = 1,
				    .ah_attr = { .is_global = 1, .port_num = 1, .dlid = 77 } };

	assert_int_equal(ibv_query_gid(rig.ctx, 1, 0, &attr.ah_attr.grh.dgid), 0);
	attr.ah_attr.grh.dgid.raw[15] += last_byte;
	return ibv_modify_qp(rig.qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static void nobody_has_the_address(void **state)
{
	assert_int_equal(to_init(), 0);
	assert_int_equal(to_rtr(100), rig.ib ? 0 : ETIMEDOUT);
	if (!rig.ib) /* it stays in INIT, and goes on from there */
		assert_int_equal(to_rtr(0), 0);
}

/* ---- prefetching ---------------------------------------------------------------------------- */

static int advise(struct ibv_mr *mr, enum ib_uverbs_advise_mr_advice advice, uint32_t offset,
		  uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)rig.mem + offset, length, mr->lkey };

	return ibv_advise_mr(rig.pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static void prefetching_is_checked(void **state)
{
	struct ibv_mr *paged = ibv_reg_mr(rig.pd, rig.mem, 8192, IBV_ACCESS_ON_DEMAND);

	assert_non_null(paged);
	assert_int_equal(advise(paged, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 8192), 0);
	assert_int_equal(advise(paged, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 100, 8000), 0);
	assert_int_equal(advise(paged, IBV_ADVISE_MR_ADVICE_PREFETCH, 100, 8192), EFAULT);
	assert_int_equal(advise(paged, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 4096), EPERM);
	assert_int_equal(advise(rig.mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 4096), ENOENT);
	assert_int_equal(advise(paged, 77, 0, 4096), EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(paged), 0);
}

#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, rig_finish)

static int tests(void)
{
	const struct CMUnitTest all[] = {
		WITH(open_end, nobody_has_the_address),
		WITH(connect_rc, prefetching_is_checked),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
