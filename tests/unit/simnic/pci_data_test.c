/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How the commands of keys, queues and transitions reach the data path, and how its events reach
 * the driver.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "simnic/pci/command.h"
#include "simnic/pci/eq.h"
#include "simnic/pci/fault.h"
#include "simnic/pci/field.h"
#include "tests/unit/simnic/pci_driver.h"
#include "tests/unit/simnic/pci_fake_bridge.h"

enum {
	ENABLE_HCA = 0x104,
	CREATE_MKEY = 0x200,
	QUERY_MKEY = 0x201,
	DESTROY_MKEY = 0x202,
	QUERY_SPECIAL_CONTEXTS = 0x203,
	CREATE_CQ = 0x400,
	QUERY_CQ = 0x402,
	MODIFY_CQ = 0x403,
	CREATE_QP = 0x500,
	INIT2RTR_QP = 0x503,
	QUERY_QP = 0x50b,
	CREATE_SRQ = 0x700,
	ARM_RQ = 0x703,
	QUERY_ROCE_ADDRESS = 0x760,
	SET_ROCE_ADDRESS = 0x761,
	QUERY_GID = 0x764,
	QUERY_PKEY = 0x765,
	ACCESS_REG = 0x805,
	CREATE_TIR = 0x900,
	DESTROY_TIR = 0x902,
	CREATE_SQ = 0x904,
	MODIFY_SQ = 0x905,
	QUERY_SQ = 0x907,
	CREATE_RQ = 0x908,
	MODIFY_RQ = 0x909,
	CREATE_RMP = 0x90c,
	CREATE_RQT = 0x916,
	MODIFY_RQT = 0x917,
	HEAD = 272,
	EQ_AT = DRIVER_FREE,
	LOG_EVENTS = 12,
	EVENTS = 1 << LOG_EVENTS,
};

static struct driver driver;

static int start(void **state)
{
	struct sn_pci_nic nic = { .fabric = "f", .host = 1, .nic = 2, .iommu = true };

	memset(&fake_bridge, 0, sizeof(fake_bridge));
	fake_bridge.port.up = true;
	fake_bridge.port.node_guid = 0xabcd;
	driver_start(&driver, false);
	if (sn_pci_attach(driver.pci, &nic))
		return -1;
	driver_set_queue(&driver);
	return 0;
}

static int finish(void **state)
{
	driver_stop(&driver);
	return 0;
}

static void list_pages(uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sn_store64(driver.in + at + 8 * i, 0x100000 + 0x1000 * i);
}

static uint8_t *mkc(void)
{
	return SN_AT(create_mkey_in, driver.in, memory_key_mkey_entry);
}

static void fill_region(void)
{
	SN_SET(mkc, mkc(), mkey_7_0, 0x5a);
	SN_SET(mkc, mkc(), access_mode_1_0, 1);
	SN_SET(mkc, mkc(), lw, 1);
	SN_SET(mkc, mkc(), rr, 1);
	SN_SET(mkc, mkc(), pd, 9);
	SN_SET(mkc, mkc(), start_addr, 0x7f0000000800);
	SN_SET(mkc, mkc(), len, 3 * 4096);
	SN_SET(mkc, mkc(), log_page_size, 12);
	SN_SET(create_mkey_in, driver.in, translations_octword_actual_size, 2);
	list_pages(HEAD, 4);
}

static void a_region_has_its_pages(void **state)
{
	fill_region();
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD + 32, 16), SN_OK);
	assert_int_equal(SN_GET(create_mkey_out, driver.out, mkey_index), FAKE_NUMBER);
	assert_int_equal(fake_bridge.key.mode, SN_BRIDGE_PAGES);
	assert_int_equal(fake_bridge.key.variant, 0x5a);
	assert_int_equal(fake_bridge.key.access, 1 | 4);
	assert_int_equal(fake_bridge.key.pd, 9);
	assert_int_equal(fake_bridge.key.start, 0x7f0000000800);
	/* It begins in the middle of its first page, and so ends in a fourth. */
	assert_int_equal(fake_bridge.key.pages.offset, 0x800);
	assert_int_equal(fake_bridge.key.pages.n, 4);
	assert_int_equal(fake_bridge.page[3], 0x103000);
}

static void a_region_with_too_few_pages_is_refused(void **state)
{
	fill_region();
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD + 24, 16), SN_BAD_PARAM);
}

static void a_free_key_has_none(void **state)
{
	fill_region();
	SN_SET(mkc, mkc(), free, 1);
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD + 32, 16), SN_OK);
	assert_true(fake_bridge.key.free);
	assert_int_equal(fake_bridge.key.pages.n, 0);
}

static void fill_window(void)
{
	SN_SET(mkc, mkc(), access_mode_1_0, SN_BRIDGE_KLMS);
	SN_SET(mkc, mkc(), free, 1);
	SN_SET(mkc, mkc(), pd, 9);
	SN_SET(mkc, mkc(), en_rinval, 1);
	SN_SET(mkc, mkc(), translations_octword_size, 4);
}

static void a_free_list_that_may_be_read_is_a_window(void **state)
{
	fill_window();
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD, 16), SN_OK);
	assert_int_equal(fake_bridge.key.mode, SN_BRIDGE_KLMS);
	fill_window();
	SN_SET(mkc, mkc(), lr, 1);
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD, 16), SN_OK);
	assert_int_equal(fake_bridge.key.mode, SN_BRIDGE_WINDOW);
	assert_true(fake_bridge.key.remote_end);
	assert_int_equal(driver_command(&driver, QUERY_MKEY, 0, 16, HEAD), SN_OK);
	assert_int_equal(SN_GET(mkc, SN_AT(query_mkey_out, driver.out, memory_key_mkey_entry),
				access_mode_1_0),
			 SN_BRIDGE_KLMS);
}

static void a_mode_that_is_not_simulated_is_refused(void **state)
{
	fill_region();
	SN_SET(mkc, mkc(), access_mode_4_2, 1);
	assert_int_equal(driver_command(&driver, CREATE_MKEY, 0, HEAD + 32, 16), SN_BAD_PARAM);
}

static void a_key_is_told_as_requests_made_it(void **state)
{
	fake_bridge.key.variant = 0x77;
	fake_bridge.key.access = 8;
	assert_int_equal(driver_command(&driver, QUERY_MKEY, 0, 16, HEAD), SN_OK);
	assert_int_equal(
		SN_GET(mkc, SN_AT(query_mkey_out, driver.out, memory_key_mkey_entry), mkey_7_0),
		0x77);
	assert_int_equal(SN_GET(mkc, SN_AT(query_mkey_out, driver.out, memory_key_mkey_entry), a),
			 1);
}

static void the_drivers_key_is_all_of_memory(void **state)
{
	assert_int_equal(driver_command(&driver, QUERY_SPECIAL_CONTEXTS, 0, 16, 32), SN_OK);
	assert_int_equal(SN_GET(query_special_contexts_out, driver.out, resd_lkey),
			 FAKE_NUMBER << 8);
	assert_int_equal(fake_bridge.key.mode, SN_BRIDGE_PHYSICAL);
	assert_true(fake_bridge.key.any_length);
}

static void errors_become_statuses(void **state)
{
	static const struct {
		int error;
		uint32_t status;
	} table[] = { { -ENOENT, SN_BAD_RESOURCE },
		      { -EBUSY, SN_RESOURCE_BUSY },
		      { -ENOMEM, SN_NO_RESOURCES },
		      { -EINVAL, SN_BAD_PARAM } };

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		fake_bridge.answer = table[i].error;
		sn_store32(driver.in + 8, 17);
		assert_int_equal(driver_command(&driver, DESTROY_MKEY, 0, 16, 16), table[i].status);
		assert_int_equal(fake_bridge.destroyed, 17);
	}
}

static void fill_cq(uint32_t log_size)
{
	uint8_t *cqc = SN_AT(create_cq_in, driver.in, cq_context);

	SN_SET(cqc, cqc, log_cq_size, log_size);
	SN_SET(cqc, cqc, cqe_sz, 1);
	SN_SET(cqc, cqc, c_eqn_or_apu_element, 5);
	SN_SET(cqc, cqc, page_offset, 2);
	SN_SET(cqc, cqc, dbr_addr, 0x123456789000);
	list_pages(HEAD, 9);
}

static void a_cq_has_its_ring(void **state)
{
	fill_cq(8);
	assert_int_equal(driver_command(&driver, CREATE_CQ, 0, HEAD + 72, 16), SN_OK);
	assert_int_equal(SN_GET(create_cq_out, driver.out, cqn), FAKE_NUMBER);
	assert_int_equal(fake_bridge.cq.cqe_size, 128);
	assert_int_equal(fake_bridge.cq.user, 5);
	assert_int_equal(fake_bridge.cq.record, 0x123456789000);
	/*
	 * Offsets are parts of a 64th of a page; 256 entries of 128 bytes behind one take nine
	 * pages.
	 */
	assert_int_equal(fake_bridge.cq.pages.offset, 128);
	assert_int_equal(fake_bridge.cq.pages.n, 9);
}

static void only_a_resize_has_a_ring(void **state)
{
	fill_cq(7);
	assert_int_equal(driver_command(&driver, MODIFY_CQ, 0, HEAD + 72, 16), SN_OK);
	assert_int_equal(fake_bridge.cq.log_size, 0);
	fill_cq(7);
	assert_int_equal(driver_command(&driver, MODIFY_CQ, 1, HEAD + 72, 16), SN_OK);
	assert_int_equal(fake_bridge.cq.log_size, 7);
}

static void a_cq_tells_its_counters(void **state)
{
	const uint8_t *cqc = SN_AT(query_cq_out, driver.out, cq_context);

	assert_int_equal(driver_command(&driver, QUERY_CQ, 0, 16, HEAD), SN_OK);
	assert_int_equal(SN_GET(cqc, cqc, producer_counter), 5);
	assert_int_equal(SN_GET(cqc, cqc, consumer_counter), 3);
	assert_int_equal(SN_GET(cqc, cqc, st), 9);
}

static void an_srq_and_an_rmp_are_the_same(void **state)
{
	uint8_t *srqc = SN_AT(create_srq_in, driver.in, srq_context_entry);
	uint8_t *wq = SN_AT(rmpc, SN_AT(create_rmp_in, driver.in, ctx), wq);

	SN_SET(srqc, srqc, log_srq_size, 6);
	SN_SET(srqc, srqc, log_rq_stride, 2);
	SN_SET(srqc, srqc, pd, 3);
	list_pages(HEAD, 1);
	assert_int_equal(driver_command(&driver, CREATE_SRQ, 0, HEAD + 8, 16), SN_OK);
	assert_int_equal(sn_load32(driver.out + 8), FAKE_NUMBER);
	assert_int_equal(fake_bridge.srq.log_size, 6);
	assert_int_equal(fake_bridge.srq.log_stride, 6);
	SN_SET(wq, wq, log_wq_sz, 6);
	SN_SET(wq, wq, log_wq_stride, 6);
	SN_SET(wq, wq, pd, 4);
	sn_store64(SN_AT(wq, wq, pas), 0x5000);
	assert_int_equal(driver_command(&driver, CREATE_RMP, 0, HEAD + 8, 16), SN_OK);
	assert_int_equal(fake_bridge.srq.log_stride, 6);
	assert_int_equal(fake_bridge.srq.pd, 4);
	assert_int_equal(fake_bridge.page[0], 0x5000);
	SN_SET(arm_rq_in, driver.in, lwm, 12);
	assert_int_equal(driver_command(&driver, ARM_RQ, 0, 16, 16), SN_OK);
	assert_int_equal(fake_bridge.limit, 12);
}

/* A ring of frames with 64 entries, in a context whose list of pages has one. */
static void fill_wq(uint8_t *wq, uint32_t type, uint32_t log_stride)
{
	SN_SET(wq, wq, wq_type, type);
	SN_SET(wq, wq, log_wq_sz, 6);
	SN_SET(wq, wq, log_wq_stride, log_stride);
	SN_SET(wq, wq, pd, 4);
	SN_SET(wq, wq, dbr_addr, 0x7000);
	sn_store64(SN_AT(wq, wq, pas), 0x5000);
}

static void rings_of_frames_have_their_pages(void **state)
{
	uint8_t *sqc = SN_AT(create_sq_in, driver.in, ctx);

	SN_SET(sqc, sqc, cqn, 0x11);
	fill_wq(SN_AT(sqc, sqc, wq), 1, 6);
	assert_int_equal(driver_command(&driver, CREATE_SQ, 0, HEAD + 8, 16), SN_OK);
	assert_int_equal(sn_load32(driver.out + 8), FAKE_NUMBER);
	assert_int_equal(fake_bridge.frames.log_size, 6);
	assert_int_equal(fake_bridge.frames.cq, 0x11);
	assert_int_equal(fake_bridge.frames.pd, 4);
	assert_int_equal(fake_bridge.frames.record, 0x7000);
	assert_int_equal(fake_bridge.page[0], 0x5000);
	SN_SET(rqc, sqc, vsd, 1);
	fill_wq(SN_AT(rqc, sqc, wq), 1, 5);
	assert_int_equal(driver_command(&driver, CREATE_RQ, 0, HEAD + 8, 16), SN_OK);
	assert_int_equal(fake_bridge.frames.log_stride, 5);
	assert_true(fake_bridge.frames.keeps_vlan);
	fill_wq(SN_AT(rqc, sqc, wq), 2, 5); /* striding: no capability says so */
	assert_int_equal(driver_command(&driver, CREATE_RQ, 0, HEAD + 8, 16), SN_BAD_PARAM);
	fill_wq(SN_AT(rqc, sqc, wq), 1, 7); /* two pages, of which the list has one */
	assert_int_equal(driver_command(&driver, CREATE_RQ, 0, HEAD + 8, 16), SN_BAD_PARAM);
}

static void rings_of_frames_have_states(void **state)
{
	uint8_t *sqc = SN_AT(modify_sq_in, driver.in, ctx);

	SN_SET(sqc, sqc, state, 1);
	assert_int_equal(driver_command(&driver, MODIFY_SQ, 0, HEAD, 16), SN_OK);
	assert_true(fake_bridge.ready);
	SN_SET(sqc, sqc, state, 3);
	assert_int_equal(driver_command(&driver, MODIFY_RQ, 0, HEAD, 16), SN_OK);
	assert_false(fake_bridge.ready);
	assert_int_equal(driver_command(&driver, QUERY_SQ, 0, 16, HEAD), SN_OK);
	sqc = SN_AT(query_sq_out, driver.out, sq_context);
	assert_int_equal(SN_GET(sqc, sqc, state), 3); /* the fake one has failed */
}

static uint32_t make_rqt(uint32_t ring)
{
	uint8_t *rqtc = SN_AT(create_rqt_in, driver.in, rqt_context);

	memset(driver.in, 0, sizeof(driver.in));
	SN_SET(rq_num, SN_AT(rqtc, rqtc, rq_num), rq_num, ring);
	assert_int_equal(driver_command(&driver, CREATE_RQT, 0, HEAD + 4, 16), SN_OK);
	return sn_load32(driver.out + 8);
}

static uint32_t make_tir(uint32_t rqt, uint32_t hash)
{
	uint8_t *tirc = SN_AT(create_tir_in, driver.in, ctx);

	memset(driver.in, 0, sizeof(driver.in));
	SN_SET(tirc, tirc, indirect_table, rqt);
	SN_SET(tirc, tirc, rx_hash_fn, hash);
	assert_int_equal(driver_command(&driver, CREATE_TIR, 0, HEAD, 16), SN_OK);
	return sn_load32(driver.out + 8);
}

/* Frames go where the table of all traffic leads, and follow it when it changes. */
static void frames_follow_the_table_of_all_traffic(void **state)
{
	uint32_t direct = make_rqt(7), all = make_rqt(8), tir;
	uint8_t *rqtc;

	make_tir(direct, 1);
	assert_int_equal(fake_bridge.receives, 0);
	tir = make_tir(all, 2);
	assert_int_equal(fake_bridge.receives, 8);
	memset(driver.in, 0, sizeof(driver.in));
	sn_store32(driver.in + 8, all);
	rqtc = SN_AT(modify_rqt_in, driver.in, ctx);
	SN_SET(rq_num, SN_AT(rqtc, rqtc, rq_num), rq_num, 9);
	assert_int_equal(driver_command(&driver, MODIFY_RQT, 0, HEAD + 4, 16), SN_OK);
	assert_int_equal(fake_bridge.receives, 9);
	sn_store32(driver.in + 8, tir);
	assert_int_equal(driver_command(&driver, DESTROY_TIR, 0, 16, 16), SN_OK);
	assert_int_equal(fake_bridge.receives, 0);
	assert_int_equal(driver_command(&driver, DESTROY_TIR, 0, 16, 16), SN_BAD_RESOURCE);
}

static void write_paos(uint32_t status)
{
	memset(driver.in, 0, sizeof(driver.in));
	SN_SET(access_register_in, driver.in, register_id, 0x5006);
	SN_SET(paos_reg, SN_AT(access_register_in, driver.in, register_data), admin_status, status);
	assert_int_equal(driver_command(&driver, ACCESS_REG, 0, 32, 32), SN_OK);
}

static uint32_t reset_timeout(void)
{
	memset(driver.in, 0, sizeof(driver.in));
	SN_SET(access_register_in, driver.in, register_id, 0xc00e);
	assert_int_equal(driver_command(&driver, ACCESS_REG, 1, 80, 80), SN_OK);
	return SN_GET(dtor_reg, SN_AT(access_register_out, driver.out, register_data), fw_reset_to);
}

static void the_driver_is_told_how_long_to_wait_for_a_reset(void **state)
{
	assert_int_equal(reset_timeout(), 2000);
	assert_int_equal(sn_pci_fault(driver.pci, "reset-timeout=70000"), 0);
	assert_int_equal(reset_timeout(), 70000);
}

static void the_driver_switches_an_ethernet_port_off(void **state)
{
	struct sn_pci_nic nic = { .fabric = "f", .host = 1, .nic = 2 };

	write_paos(2); /* of InfiniBand: nobody does */
	assert_false(fake_bridge.off);
	driver_stop(&driver);
	fake_bridge.port.ethernet = true;
	driver_start(&driver, true);
	assert_int_equal(sn_pci_attach(driver.pci, &nic), 0);
	driver_set_queue(&driver);
	write_paos(2);
	assert_true(fake_bridge.off);
	write_paos(1);
	assert_false(fake_bridge.off);
	write_paos(2);
	assert_int_equal(driver_command(&driver, ENABLE_HCA, 0, 16, 16), SN_OK);
	assert_false(fake_bridge.off);
}

static void a_qp_has_receives_before_sends(void **state)
{
	uint8_t *qpc = SN_AT(create_qp_in, driver.in, qpc);

	SN_SET(qpc, qpc, st, SN_BRIDGE_UD);
	SN_SET(qpc, qpc, log_rq_size, 6);
	SN_SET(qpc, qpc, log_rq_stride, 2);
	SN_SET(qpc, qpc, log_sq_size, 7);
	SN_SET(qpc, qpc, user_index, 0x77);
	SN_SET(qpc, qpc, uar_page, 18);
	list_pages(HEAD, 3);
	assert_int_equal(driver_command(&driver, CREATE_QP, 0, HEAD + 24, 16), SN_OK);
	assert_int_equal(SN_GET(create_qp_out, driver.out, qpn), FAKE_NUMBER);
	assert_true(fake_bridge.qp.has_rq && fake_bridge.qp.has_sq && !fake_bridge.qp.has_srq);
	assert_int_equal(fake_bridge.qp.log_rq_stride, 6);
	assert_int_equal(fake_bridge.qp.pages.n, 3);
	assert_int_equal(fake_bridge.qp.uar, 18);
	assert_int_equal(fake_bridge.qp.user_index, 0x77);
}

static void a_qp_with_an_srq_has_no_receive_ring(void **state)
{
	uint8_t *qpc = SN_AT(create_qp_in, driver.in, qpc);

	SN_SET(qpc, qpc, log_sq_size, 6);
	SN_SET(qpc, qpc, rq_type, 1);
	SN_SET(qpc, qpc, srqn_rmpn_xrqn, 21);
	list_pages(HEAD, 1);
	assert_int_equal(driver_command(&driver, CREATE_QP, 0, HEAD + 8, 16), SN_OK);
	assert_true(fake_bridge.qp.has_srq && !fake_bridge.qp.has_rq);
	assert_int_equal(fake_bridge.qp.srq, 21);
	assert_int_equal(fake_bridge.qp.pages.n, 1);
}

static void a_transition_has_mask_and_attributes(void **state)
{
	uint8_t *qpc = SN_AT(rst2init_qp_in, driver.in, qpc);
	uint8_t *ads = SN_AT(qpc, qpc, primary_address_path);

	SN_SET(rst2init_qp_in, driver.in, opt_param_mask, 0xe);
	SN_SET(qpc, qpc, remote_qpn, 0x1234);
	SN_SET(qpc, qpc, next_rcv_psn, 0x654321);
	SN_SET(ads, ads, rlid, 7);
	SN_SET(ads, ads, src_addr_index, 3);
	memset(SN_AT(ads, ads, rgid_rip), 0xfe, 16);
	assert_int_equal(driver_command(&driver, INIT2RTR_QP, 0, HEAD, 16), SN_OK);
	assert_int_equal(fake_bridge.transition, SN_BRIDGE_INIT2RTR);
	assert_int_equal(fake_bridge.mask, 0xe);
	assert_int_equal(fake_bridge.qpc.remote_qpn, 0x1234);
	assert_int_equal(fake_bridge.qpc.next_rcv_psn, 0x654321);
	assert_int_equal(fake_bridge.qpc.path.rlid, 7);
	assert_int_equal(fake_bridge.qpc.path.sgid_index, 3);
	assert_int_equal(fake_bridge.qpc.path.rgid[15], 0xfe);
}

/* What a query tells is what a transition took. */
static void a_qp_tells_its_attributes(void **state)
{
	struct sn_bridge_qpc *qpc = &fake_bridge.qpc;
	struct sn_bridge_qpc asked;

	memset(qpc, 0, sizeof(*qpc));
	qpc->path = (struct sn_bridge_path){ true, 3, 5, 1, 2, 1, 14, 6, 64, 9, 0xabcde, { 1, 2 } };
	qpc->remote_qpn = 0x10203;
	qpc->next_send_psn = 0x111111;
	qpc->mtu = 5;
	qpc->retry_count = 7;
	qpc->rnr_retry = 6;
	qpc->min_rnr_nak = 12;
	qpc->log_sra_max = 4;
	qpc->log_rra_max = 3;
	qpc->rwe = true;
	asked = *qpc;
	assert_int_equal(driver_command(&driver, QUERY_QP, 0, 16, HEAD), SN_OK);
	memcpy(SN_AT(rst2init_qp_in, driver.in, qpc), SN_AT(query_qp_out, driver.out, qpc), 232);
	assert_int_equal(driver_command(&driver, INIT2RTR_QP, 0, HEAD, 16), SN_OK);
	assert_memory_equal(qpc, &asked, sizeof(asked));
}

static void gids_and_pkeys_are_the_fabrics(void **state)
{
	SN_SET(query_hca_vport_gid_in, driver.in, gid_index, 3);
	assert_int_equal(driver_command(&driver, QUERY_GID, 0, 16, 32), SN_OK);
	assert_int_equal(driver.out[16], 0x13);
	SN_SET(query_hca_vport_pkey_in, driver.in, pkey_index, 0xffff);
	assert_int_equal(driver_command(&driver, QUERY_PKEY, 0, 16, 16 + 4 * 128), SN_OK);
	assert_int_equal(sn_load32(driver.out + 16 + 4 * 127), 0x8000 + 127);
}

static void a_roce_address_is_read_back(void **state)
{
	uint8_t *address = SN_AT(set_roce_address_in, driver.in, roce_address);

	SN_SET(set_roce_address_in, driver.in, roce_address_index, 4);
	memset(address, 0xab, 16);
	assert_int_equal(driver_command(&driver, SET_ROCE_ADDRESS, 0, 48, 16), SN_OK);
	SN_SET(query_roce_address_in, driver.in, roce_address_index, 4);
	assert_int_equal(driver_command(&driver, QUERY_ROCE_ADDRESS, 0, 16, 48), SN_OK);
	assert_int_equal(*SN_AT(query_roce_address_out, driver.out, roce_address), 0xab);
	SN_SET(set_roce_address_in, driver.in, roce_address_index, 64);
	assert_int_equal(driver_command(&driver, SET_ROCE_ADDRESS, 0, 48, 16), SN_BAD_INDEX);
}

static void a_roce_address_is_set_and_taken_away(void **state)
{
	uint8_t *address = SN_AT(set_roce_address_in, driver.in, roce_address);

	SN_SET(set_roce_address_in, driver.in, roce_address_index, 4);
	SN_SET(roce_addr_layout, address, roce_version, 2);
	SN_SET(roce_addr_layout, address, vlan_id, 7);
	memset(address, 0xab, 16);
	assert_int_equal(driver_command(&driver, SET_ROCE_ADDRESS, 0, 48, 16), SN_OK);
	assert_int_equal(fake_bridge.gid_index, 4);
	assert_int_equal(fake_bridge.gid_version, 2);
	assert_int_equal(fake_bridge.gid_vlan, 0);
	assert_int_equal(fake_bridge.gid[0], 0xab);
	SN_SET(set_roce_address_in, driver.in, roce_address_index, 4);
	assert_int_equal(driver_command(&driver, SET_ROCE_ADDRESS, 0, 48, 16), SN_OK);
	assert_int_equal(fake_bridge.gid_version, 0);
}

/* All doorbells but the EQs' are the data path's. */
static void doorbells_go_on_as_they_came(void **state)
{
	sn_pci_write(driver.pci, 17 * 4096 + 0x800, 0x1122334455667788, 8);
	assert_int_equal(fake_bridge.doorbell_uar, 17);
	assert_int_equal(fake_bridge.doorbell_offset, 0x800);
	assert_int_equal(fake_bridge.doorbell, 0x1122334455667788);
	sn_pci_fault(driver.pci, "dead");
	sn_pci_write(driver.pci, 17 * 4096 + 0x800, 1, 8);
	assert_int_equal(fake_bridge.doorbells, 1);
}

static void events_wait_for_the_machine(void **state)
{
	const uint8_t *eqe = driver.memory + EQ_AT;
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, 1ull << SN_EVENT_PORT_CHANGE);

	fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_COMPLETION, 0x99, eqn);
	fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_PORT_DOWN, 0, 0);
	assert_int_equal(driver.wakes, 2);
	assert_int_equal(sn_load32(eqe + 32 + 24), 0);
	sn_pci_deliver(driver.pci);
	assert_int_equal(eqe[1], SN_EVENT_COMPLETION);
	assert_int_equal(sn_load32(eqe + 32 + 24), 0x99);
	assert_int_equal(eqe[64 + 1], SN_EVENT_PORT_CHANGE);
	assert_int_equal(eqe[64 + 3], SN_PORT_DOWN);
}

/* An EQ's number is given again in the next life: events of the last one must not get there. */
static void events_of_the_last_life_are_forgotten(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, 1ull << SN_EVENT_QP_FATAL);

	fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_COMPLETION, 0x99, eqn);
	assert_int_equal(driver_command(&driver, ENABLE_HCA, 0, 16, 16), SN_OK);
	assert_int_equal(driver_eq(&driver, EQ_AT, 3, 1ull << SN_EVENT_QP_FATAL), eqn);
	sn_pci_deliver(driver.pci);
	assert_int_equal(sn_load32(driver.memory + EQ_AT + 32 + 24), 0);
	fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_QP_FATAL, 0x31, 0);
	sn_pci_deliver(driver.pci);
	assert_int_equal(driver.memory[EQ_AT + 1], SN_EVENT_QP_FATAL);
	assert_int_equal(sn_load32(driver.memory + EQ_AT + 32 + 24), 0x31);
}

static void *tell_many(void *arg)
{
	uint32_t eqn = *(uint32_t *)arg;

	for (uint32_t number = 1; number <= EVENTS; number++)
		fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_COMPLETION, number, eqn);
	return NULL;
}

/* The machine delivers while another thread tells: all arrive, in their order. */
static void events_come_from_any_thread(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, LOG_EVENTS, 0);
	pthread_t teller;

	assert_int_equal(pthread_create(&teller, NULL, tell_many, &eqn), 0);
	for (uint32_t i = 0; i < EVENTS; i++)
		sn_pci_deliver(driver.pci);
	pthread_join(teller, NULL);
	sn_pci_deliver(driver.pci);
	assert_int_equal(driver.wakes, EVENTS);
	for (uint32_t i = 0; i < EVENTS; i++)
		assert_int_equal(sn_load32(driver.memory + EQ_AT + 64 * i + 32 + 24), i + 1);
}

/* An entry that is left out would stop the queue for ever. */
static void events_wait_for_the_way_to_memory(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 4, 0), wakes = driver.wakes;

	sn_pci_bus_master(driver.pci, false);
	fake_bridge.config.tell(fake_bridge.config.ctx, SN_BRIDGE_COMPLETION, 7, eqn);
	sn_pci_deliver(driver.pci);
	assert_int_equal(sn_load32(driver.memory + EQ_AT + 32 + 24), 0);
	sn_pci_bus_master(driver.pci, true);
	assert_int_equal(driver.wakes, wakes + 2);
	sn_pci_deliver(driver.pci);
	assert_int_equal(sn_load32(driver.memory + EQ_AT + 32 + 24), 7);
}

static void the_data_path_stands_still_when_it_must(void **state)
{
	assert_false(fake_bridge.stopped);
	sn_pci_fault(driver.pci, "hang");
	assert_true(fake_bridge.stopped);
	sn_pci_fault(driver.pci, "resume");
	assert_false(fake_bridge.stopped);
	sn_pci_fault(driver.pci, "dead");
	assert_true(fake_bridge.stopped);
	sn_pci_fault(driver.pci, "heal");
	assert_true(fake_bridge.stopped);
	sn_pci_fault(driver.pci, "alive");
	assert_false(fake_bridge.stopped);
	sn_pci_bus_master(driver.pci, false);
	assert_true(fake_bridge.stopped);
}

static void a_new_life_resets_the_data_path(void **state)
{
	uint32_t before = fake_bridge.resets;

	assert_int_equal(driver_command(&driver, ENABLE_HCA, 0, 16, 16), SN_OK);
	assert_int_equal(fake_bridge.resets, before + 1);
	sn_pci_reset(driver.pci);
	assert_int_equal(fake_bridge.resets, before + 2);
}

/* ---- behind an IOMMU ------------------------------------------------------------------------ */

static void mappings_go_on_to_the_data_path(void **state)
{
	sn_pci_dma_map(driver.pci, 0x7000, 0x2000, 0x1000, true);
	assert_int_equal(fake_bridge.mapping.at, 0x7000);
	assert_int_equal(fake_bridge.mapping.bytes, 0x2000);
	assert_int_equal(fake_bridge.mapping.ram, 0x1000);
	assert_true(fake_bridge.mapping.writable);
	sn_pci_dma_unmap(driver.pci, 0x8000, 0x1000);
	assert_int_equal(fake_bridge.mapping.at, 0x8000);
	assert_int_equal(fake_bridge.mapping.bytes, 0x1000);
}

static void the_iommu_is_told_of_stray_pages(void **state)
{
	const uint32_t wakes = driver.wakes;

	fake_bridge.config.stray(fake_bridge.config.ctx);
	assert_int_equal(driver.wakes, wakes + 1);
	fake_bridge.stray = (struct sn_bridge_stray){ 0x5000, 3 * 4096, true };
	sn_pci_deliver(driver.pci);
	assert_int_equal(driver.strays, 3);
	assert_int_equal(driver.last_stray, 0x7000);
	assert_true(driver.stray_wrote);
	sn_pci_deliver(driver.pci);
	assert_int_equal(driver.strays, 3);
	assert_int_equal(sn_pci_fault(driver.pci, "stray-read=0x9000"), 0);
	sn_pci_deliver(driver.pci);
	assert_int_equal(driver.last_stray, 0x9000);
	assert_false(driver.stray_wrote);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_region_has_its_pages),
		CASE(a_region_with_too_few_pages_is_refused),
		CASE(a_free_key_has_none),
		CASE(a_free_list_that_may_be_read_is_a_window),
		CASE(a_mode_that_is_not_simulated_is_refused),
		CASE(a_key_is_told_as_requests_made_it),
		CASE(the_drivers_key_is_all_of_memory),
		CASE(errors_become_statuses),
		CASE(a_cq_has_its_ring),
		CASE(only_a_resize_has_a_ring),
		CASE(a_cq_tells_its_counters),
		CASE(an_srq_and_an_rmp_are_the_same),
		CASE(rings_of_frames_have_their_pages),
		CASE(rings_of_frames_have_states),
		CASE(frames_follow_the_table_of_all_traffic),
		CASE(the_driver_is_told_how_long_to_wait_for_a_reset),
		CASE(the_driver_switches_an_ethernet_port_off),
		CASE(a_qp_has_receives_before_sends),
		CASE(a_qp_with_an_srq_has_no_receive_ring),
		CASE(a_transition_has_mask_and_attributes),
		CASE(a_qp_tells_its_attributes),
		CASE(gids_and_pkeys_are_the_fabrics),
		CASE(a_roce_address_is_read_back),
		CASE(a_roce_address_is_set_and_taken_away),
		CASE(doorbells_go_on_as_they_came),
		CASE(events_wait_for_the_machine),
		CASE(events_of_the_last_life_are_forgotten),
		CASE(events_come_from_any_thread),
		CASE(events_wait_for_the_way_to_memory),
		CASE(the_data_path_stands_still_when_it_must),
		CASE(a_new_life_resets_the_data_path),
		CASE(mappings_go_on_to_the_data_path),
		CASE(the_iommu_is_told_of_stray_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
