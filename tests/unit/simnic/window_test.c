/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows under the distribution's libibverbs and libmlx5: binding gives a key, unbinding kills it, and what is
 * written by a dead key reaches nobody. One argument: eth or ib.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

#define LOCAL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
enum { PART = 4096, AT = 3 * PART, FROM = 64 * PART, MARK = 128 * PART };

static const struct rig_conn uc = { .type = IBV_QPT_UC, .access = IBV_ACCESS_REMOTE_WRITE };
static const struct rig_conn rc = { IBV_QPT_RC, RIG_TIMEOUT, 1, 7, IBV_ACCESS_REMOTE_WRITE, false };
static struct ibv_mw *mw;
static struct ibv_mr *marker;

static int start(const struct rig_conn *conn, uint32_t access)
{
	struct rig_addr self;

	if (rig_open(&rig, access) || rig_loopback(conn, &self))
		return -1;
	marker = ibv_reg_mr(rig.pd, rig.mem + MARK, PART,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mw = ibv_alloc_mw(rig.pd, IBV_MW_TYPE_1);
	return mw && marker ? 0 : -1;
}

static int start_uc(void **state)
{
	return start(&uc, LOCAL);
}

static int start_rc(void **state)
{
	return start(&rc, LOCAL);
}

static int start_unbindable(void **state)
{
	return start(&uc, IBV_ACCESS_LOCAL_WRITE);
}

static int finish(void **state)
{
	if (mw && ibv_dealloc_mw(mw))
		return -1;
	mw = NULL;
	ibv_dereg_mr(marker);
	rig_close(&rig);
	return 0;
}

static int bind(uint32_t offset, uint32_t length)
{
	struct ibv_mw_bind bind = { .wr_id = 7, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc = { 0 };
	int status;

	bind.bind_info =
		(struct ibv_mw_bind_info){ .mr = length ? rig.mr : NULL,
					   .addr = length ? (uintptr_t)rig.mem + offset : 0,
					   .length = length,
					   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	assert_int_equal(ibv_bind_mw(rig.qp, mw, &bind), 0);
	status = rig_poll(&wc);
	assert_int_equal(wc.wr_id, 7);
	if (!status)
		assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	return status;
}

static int post_write(uint64_t id, uint32_t key, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(FROM, length);
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + offset;
	wr.wr.rdma.rkey = key;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	return rig_poll(&wc);
}

/* A completion on UC tells that it left. Behind it goes one by the region's own key: when that is there, it had its turn. */
static int write_to(uint32_t key, uint32_t offset, uint32_t length)
{
	volatile uint8_t *mark = rig.mem + MARK;
	int status;

	memset(rig.mem + FROM, 0xab, length);
	memset(rig.mem + offset, 0, length);
	*mark = 0;
	status = post_write(8, key, offset, length);
	if (status || rig.qp->qp_type != IBV_QPT_UC)
		return status;
	assert_int_equal(post_write(9, marker->rkey, MARK, 1), 0);
	for (int i = 0; i < 20000 && !*mark; i++)
		usleep(500);
	assert_int_equal(*mark, 0xab);
	return 0;
}

static bool landed(uint32_t offset)
{
	return rig.mem[offset] == 0xab;
}

static enum ibv_qp_state state_of_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(rig.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void bound_part_alone_is_written(void **state)
{
	assert_int_equal(bind(AT, PART), 0);
	assert_int_equal(write_to(mw->rkey, AT, PART), 0);
	assert_true(landed(AT));
	assert_int_equal(write_to(mw->rkey, AT + PART, 8), 0);
	assert_false(landed(AT + PART));
	assert_int_equal(write_to(mw->rkey, AT - 8, 16), 0);
	assert_false(landed(AT - 8));
	assert_int_equal(state_of_qp(), IBV_QPS_RTS);
}

static void each_bind_has_a_key_of_its_own(void **state)
{
	uint32_t first, old;

	assert_int_equal(bind(AT, PART), 0);
	first = old = mw->rkey;
	for (int i = 0; i < 255; i++) {
		assert_int_equal(bind(AT, PART), 0);
		assert_int_not_equal(mw->rkey, old);
		assert_int_not_equal(mw->rkey, first);
		assert_int_equal(mw->rkey >> 8, first >> 8);
		old = mw->rkey;
	}
	assert_int_equal(write_to(first, AT, PART), 0);
	assert_false(landed(AT));
	assert_int_equal(write_to(mw->rkey, AT, PART), 0);
	assert_true(landed(AT));
}

static void dead_key_is_dropped_and_uc_goes_on(void **state)
{
	uint32_t key;

	assert_int_equal(bind(AT, PART), 0);
	key = mw->rkey;
	assert_int_equal(bind(0, 0), 0);
	assert_int_equal(write_to(key, AT, PART), 0);
	assert_int_equal(write_to(mw->rkey, AT, PART), 0);
	assert_false(landed(AT));
	assert_int_equal(state_of_qp(), IBV_QPS_RTS);
	assert_int_equal(bind(AT, PART), 0);
	assert_int_equal(write_to(mw->rkey, AT, PART), 0);
	assert_true(landed(AT));
}

static void dead_key_fails_rc(void **state)
{
	uint32_t key;

	assert_int_equal(bind(AT, PART), 0);
	key = mw->rkey;
	assert_int_equal(write_to(key, AT, PART), 0);
	assert_true(landed(AT));
	assert_int_equal(bind(0, 0), 0);
	/* As its own responder the QP stops first, and flushes its own request. */
	assert_int_not_equal(write_to(key, AT, PART), IBV_WC_SUCCESS);
	assert_int_equal(state_of_qp(), IBV_QPS_ERR);
	assert_false(landed(AT));
}

static void window_needs_a_region_that_allows_it(void **state)
{
	assert_int_equal(bind(AT, PART), IBV_WC_MW_BIND_ERR);
	assert_int_equal(state_of_qp(), IBV_QPS_ERR);
}

static void window_ends_with_its_region(void **state)
{
	assert_int_equal(bind(RIG_MEM - PART, 2 * PART), IBV_WC_MW_BIND_ERR);
}

static void window_outlives_no_region(void **state)
{
	uint32_t key;

	assert_int_equal(bind(AT, PART), 0);
	key = mw->rkey;
	assert_int_equal(ibv_dereg_mr(rig.mr), 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.mem + FROM, PART, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(rig.mr);
	assert_int_equal(write_to(key, AT, 8), 0);
	assert_false(landed(AT));
}

/* As an lkey it is nothing: a request that reads by it fails. */
static void window_is_no_local_key(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	assert_int_equal(bind(AT, PART), 0);
	sge = (struct ibv_sge){ (uintptr_t)rig.mem + AT, 8, mw->rkey };
	wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + AT;
	wr.wr.rdma.rkey = mw->rkey;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	assert_int_equal(rig_poll(&wc), IBV_WC_LOC_PROT_ERR);
}

static void freed_window_is_dead_after_binds(void **state)
{
	uint32_t key;

	assert_int_equal(bind(AT, PART), 0);
	key = mw->rkey;
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	mw = NULL;
	assert_int_equal(write_to(key, AT, PART), 0);
	assert_false(landed(AT));
}

/* ---- SEND with invalidate ------------------------------------------------------------------- */

static struct ibv_mw *window_2(uint32_t *key)
{
	struct ibv_mw *own = ibv_alloc_mw(rig.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	assert_non_null(own);
	*key = ibv_inc_rkey(own->rkey);
	wr.bind_mw.mw = own;
	wr.bind_mw.rkey = *key;
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){ .mr = rig.mr,
					   .addr = (uintptr_t)rig.mem + AT,
					   .length = PART,
					   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	assert_int_equal(rig_poll(&wc), 0);
	return own;
}

/* Posts a receive and a SEND that ends the key, over the loop. */
static void post_invalidate(uint32_t key)
{
	struct ibv_sge to = rig_sge(MARK, 64), from = rig_sge(FROM, 40);
	struct ibv_recv_wr receive = { .wr_id = 6, .sg_list = &to, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &from,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .invalidate_rkey = key,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	assert_int_equal(ibv_post_recv(rig.qp, &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
}

static void send_ends_the_window_of_its_receiver(void **state)
{
	struct ibv_wc wc = { 0 };
	uint32_t key;
	struct ibv_mw *own = window_2(&key);

	assert_int_equal(write_to(key, AT, PART), 0);
	assert_true(landed(AT));
	post_invalidate(key);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_poll(&wc), 0);
		assert_int_equal(wc.opcode, wc.wr_id == 6 ? IBV_WC_RECV : IBV_WC_SEND);
		if (wc.wr_id != 6)
			continue;
		assert_int_equal(wc.byte_len, 40);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
		assert_int_equal(wc.invalidated_rkey, key);
	}
	assert_int_not_equal(write_to(key, AT, PART), 0);
	assert_false(landed(AT));
	assert_int_equal(ibv_dealloc_mw(own), 0);
}

/* A region's key and one of nothing: the receive fails, and so does the connection. */
static void send_ends_no_region(void **state)
{
	struct ibv_wc wc = { 0 };
	bool failed = false;

	post_invalidate(marker->rkey);
	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(rig_poll(&wc), 0);
		failed |= wc.wr_id == 6 && wc.status == IBV_WC_REM_INV_REQ_ERR;
	}
	assert_true(failed);
	assert_int_equal(state_of_qp(), IBV_QPS_ERR);
}

static void domain_waits_for_its_windows(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig.ctx);
	struct ibv_mw *other;

	assert_non_null(pd);
	other = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	assert_non_null(other);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(other), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static int tests(void)
{
#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, finish)
	static const struct CMUnitTest list[] = {
		WITH(start_uc, bound_part_alone_is_written),
		WITH(start_uc, each_bind_has_a_key_of_its_own),
		WITH(start_uc, dead_key_is_dropped_and_uc_goes_on),
		WITH(start_rc, dead_key_fails_rc),
		WITH(start_unbindable, window_needs_a_region_that_allows_it),
		WITH(start_uc, window_ends_with_its_region),
		WITH(start_uc, window_outlives_no_region),
		WITH(start_uc, window_is_no_local_key),
		WITH(start_uc, freed_window_is_dead_after_binds),
		WITH(start_uc, domain_waits_for_its_windows),
		WITH(start_rc, send_ends_the_window_of_its_receiver),
		WITH(start_rc, send_ends_no_region),
	};

	return cmocka_run_group_tests_name("windows", list, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
