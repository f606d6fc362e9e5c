/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bridge without a machine around it: guests whose memory is a memfd and whose NICs are on one
 * fabric. Arguments: eth or ib; "iommu": the guests are behind one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bridge_guest.h"
#include "simnic/device/testing.h"
#include "simnic/fabric/fabric.h"
#include "simnic/pci/bridge_space.h"

enum {
	BUFFER = 40 * GUEST_PAGE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC,
	USER_A = 7,
	USER_B = 9,
	QUICK_MS = 30,
};

#define START_A 0x7f1200000100ull /* addresses of a program's: neither is at the start of a page */
#define START_B 0x7f3400000e00ull

static char fabric_name[32];
static bool ethernet, translated;
static struct sn_fabric *fabric;

/* Two guests, or on InfiniBand, where each NIC has a subnet of its own, one twice. */
static struct guest guests[2];

static struct {
	struct guest *a, *b;
	struct guest_cq acq, bcq;
	struct guest_qp aqp, bqp;
	struct guest_buffer abuf, bbuf; /* regions, from the first byte of the first page on */
	uint32_t akey, bkey;
} rig;

static void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* The byte of a buffer where a key's first byte is. */
static uint64_t offset_of(uint64_t start)
{
	return start % GUEST_PAGE;
}

static void make_ends(enum sn_bridge_transport transport)
{
	rig.abuf = guest_pages(rig.a, BUFFER / GUEST_PAGE + 1);
	rig.bbuf = guest_pages(rig.b, BUFFER / GUEST_PAGE + 1);
	guest_cq_make(rig.a, &rig.acq, USER_A);
	guest_cq_make(rig.b, &rig.bcq, USER_B);
	guest_qp_make(rig.a, &rig.aqp, transport, &rig.acq, 0);
	guest_qp_make(rig.b, &rig.bqp, transport, &rig.bcq, 0);
	rig.akey = guest_key(rig.a, &rig.abuf, START_A, BUFFER, ALL, 0x5a);
	rig.bkey = guest_key(rig.b, &rig.bbuf, START_B, BUFFER, ALL, 0xa5);
	guest_connect(&rig.aqp, rig.b->bridge, rig.bqp.number);
	guest_connect(&rig.bqp, rig.a->bridge, rig.aqp.number);
}

/* The address that a driver would give its interface: 192.0.2.NIC+1. */
static void set_address(struct guest *guest, uint8_t nic)
{
	const uint8_t gid[16] = { [10] = 0xff, 0xff, 192, 0, 2, (uint8_t)(nic + 1) };

	if (ethernet)
		assert_int_equal(0, sn_bridge_set_gid(guest->bridge, 0, gid, 2, 0));
}

static void set_addresses(void)
{
	set_address(rig.a, 0);
	if (rig.a != rig.b)
		set_address(rig.b, 1);
}

static void start_guest(struct guest *guest, uint32_t nic)
{
	if (translated)
		guest_start_translated(guest, fabric_name, 0, nic);
	else
		guest_start(guest, fabric_name, 0, nic);
}

static void start_guests(void)
{
	memset(&rig, 0, sizeof(rig));
	rig.a = &guests[0];
	rig.b = ethernet ? &guests[1] : &guests[0];
	start_guest(rig.a, 0);
	if (rig.b != rig.a)
		start_guest(rig.b, 1);
	set_addresses();
}

static int up(void **state)
{
	start_guests();
	make_ends(SN_BRIDGE_RC);
	return 0;
}

static int up_alone(void **state)
{
	start_guests();
	return 0;
}

static int down(void **state)
{
	guest_stop(rig.a);
	if (rig.b != rig.a)
		guest_stop(rig.b);
	assert_int_equal(0, simnic_test_protocol_errors());
	return 0;
}

static struct guest_request request_of(uint8_t opcode, uint32_t bytes)
{
	return (struct guest_request){ .opcode = opcode,
				       .bytes = bytes,
				       .lkey = rig.akey,
				       .local = START_A,
				       .rkey = rig.bkey,
				       .remote = START_B };
}

static struct guest_completion expect(struct guest_cq *cq, uint8_t opcode, uint8_t syndrome)
{
	struct guest_completion wc = guest_wait(cq);

	assert_int_equal(opcode, wc.opcode);
	assert_int_equal(syndrome, wc.syndrome);
	return wc;
}

/* The region as bytes, across its scattered pages. */
static uint8_t *byte_of(struct guest *guest, struct guest_buffer *buffer, uint64_t start,
			uint64_t i)
{
	return guest_at(guest, buffer, offset_of(start) + i);
}

static void fill(uint8_t seed)
{
	for (uint64_t i = 0; i < BUFFER; i++)
		*byte_of(rig.a, &rig.abuf, START_A, i) = (uint8_t)(i * 3 + i / 257 + seed);
}

static void assert_same(uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (*byte_of(rig.a, &rig.abuf, START_A, i) !=
		    *byte_of(rig.b, &rig.bbuf, START_B, i))
			fail_msg("byte %llu differs", (unsigned long long)i);
}

/* ---- traffic -------------------------------------------------------------------------------- */

static void write_and_read_scattered_pages(void **state)
{
	static const uint32_t length[] = { 1, 100, 4096, 20000, BUFFER };
	struct guest_request request;

	for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
		fill((uint8_t)i);
		request = request_of(MLX5_OPCODE_RDMA_WRITE, length[i]);
		guest_post(&rig.aqp, &request);
		expect(&rig.acq, MLX5_CQE_REQ, 0);
		assert_same(length[i]);
		fill((uint8_t)(i + 100));
		request.opcode = MLX5_OPCODE_RDMA_READ;
		guest_post(&rig.aqp, &request);
		assert_int_equal(length[i], expect(&rig.acq, MLX5_CQE_REQ, 0).bytes);
		assert_same(length[i]);
	}
}

static void send_and_receive(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_SEND_IMM, 9000);
	struct guest_completion wc;
	uint16_t index;

	fill(1);
	request.imm = 0x12345678;
	guest_post_recv(&rig.bqp, rig.bkey, START_B, BUFFER);
	index = guest_post(&rig.aqp, &request);
	assert_int_equal(index, expect(&rig.acq, MLX5_CQE_REQ, 0).index);
	wc = expect(&rig.bcq, MLX5_CQE_RESP_SEND_IMM, 0);
	assert_int_equal(9000, wc.bytes);
	assert_int_equal(0x12345678, wc.imm);
	assert_int_equal(rig.bqp.number, wc.qpn);
	assert_same(9000);
}

/* Many requests, so that both rings wrap. */
static void sends_wrap_the_rings(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_SEND, 64);

	for (int i = 0; i < 300; i++) {
		guest_post_recv(&rig.bqp, rig.bkey, START_B, 64);
		guest_post(&rig.aqp, &request);
		expect(&rig.acq, MLX5_CQE_REQ, 0);
		expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0);
	}
}

static void atomics(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_ATOMIC_FA, 8);
	uint64_t value = 40, seen;

	memcpy(byte_of(rig.b, &rig.bbuf, START_B, 0), &value, 8);
	request.swap_add = 2;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	request.opcode = MLX5_OPCODE_ATOMIC_CS;
	request.compare = 42;
	request.swap_add = 99;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	memcpy(&seen, byte_of(rig.b, &rig.bbuf, START_B, 0), 8);
	assert_int_equal(99, seen);
}

/* The driver's own key: an address is a guest address. */
static void physical_key(void **state)
{
	uint32_t key = guest_physical_key(rig.a, 0x11);
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);

	fill(3);
	request.lkey = key;
	request.local = rig.abuf.page[0] + offset_of(START_A);
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_same(64);
}

static void key_checks(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);
	struct guest_event event;

	request.rkey ^= 1; /* another variant of the same index */
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	event = guest_event(rig.b);
	assert_int_equal(SN_BRIDGE_QP_ACCESS_ERROR, event.event);
	assert_int_equal(rig.bqp.number, event.number);
}

static void destroyed_key_is_dead(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);

	assert_int_equal(0, sn_bridge_key_destroy(rig.a->bridge, rig.akey >> 8));
	assert_int_equal(-ENOENT, sn_bridge_key_destroy(rig.a->bridge, rig.akey >> 8));
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

/* ---- keys that requests change -------------------------------------------------------------- */

enum {
	UMR_AT = 16,
	MKEY_AT = 64,
	UMR_LIST_AT = 128,
	UMR_WQE = 144,
	FREE_KEY = 1 << 29,
	MASK_ENABLE = 1 << 0 | 1 << 1 | 1 << 6 | 1 << 7 | 1 << 13 | 0x1e << 17 | FREE_KEY,
	MASK_LIST = 1 << 0 | 1 << 6 | 1 << 13 | 0x1e << 17 | FREE_KEY,
	MASK_PD = 1 << 7,
};

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

/* The guest's queue pair for such requests, and a free key with room for 64 pages. */
static struct guest_qp umr_up(uint32_t *key)
{
	const struct sn_bridge_key want = {
		.variant = 0x77, .mode = SN_BRIDGE_PAGES, .free = true, .octowords = 32
	};
	struct sn_bridge_qpc qpc = { .path.port = 1 };
	struct guest_qp qp;
	uint32_t index;

	assert_int_equal(0, sn_bridge_key_create(rig.a->bridge, &want, &index));
	*key = index << 8 | want.variant;
	guest_qp_make(rig.a, &qp, SN_BRIDGE_REG_UMR, &rig.acq, 0);
	for (uint32_t step = SN_BRIDGE_RST2INIT; step <= SN_BRIDGE_RTR2RTS; step++)
		assert_int_equal(0, sn_bridge_qp_modify(rig.a->bridge, qp.number, step, 0, &qpc));
	return qp;
}

/* Writes a list of pages into guest memory, from entry `first` on, and the request for it. */
static void put_list(uint8_t *wqe, const struct guest_buffer *pages, uint32_t first, uint32_t n,
		     uint32_t lkey)
{
	uint64_t at = guest_pages(rig.a, 1).page[0];

	for (uint32_t i = 0; i < n; i++)
		put64(guest_ram(rig.a, at) + i * 8, pages->page[first + i] | 3);
	wqe[UMR_AT] = 1 << 4 | 1 << 5; /* offset; fails unless the key is free */
	put32(wqe + UMR_AT + 4, n / 2 << 16 | first / 2);
	put32(wqe + UMR_LIST_AT, n * 8);
	put32(wqe + UMR_LIST_AT + 4, lkey);
	put64(wqe + UMR_LIST_AT + 8, at);
}

static void put_context(uint8_t *wqe, uint32_t key, uint64_t start, uint64_t bytes)
{
	put64(wqe + UMR_AT + 8, MASK_ENABLE);
	wqe[MKEY_AT + 2] = 0x3c; /* write, read, and both remotely */
	put32(wqe + MKEY_AT + 4, 0xffffff00 | (key & 0xff));
	put32(wqe + MKEY_AT + 12, GUEST_PD);
	put64(wqe + MKEY_AT + 16, start);
	put64(wqe + MKEY_AT + 24, bytes);
	wqe[MKEY_AT + 59] = 12;
}

static void change_key(struct guest_qp *qp, uint32_t key, uint8_t *wqe, uint32_t bytes)
{
	put32(wqe + 12, key);
	guest_post_raw(qp, MLX5_OPCODE_UMR, wqe, bytes);
}

/* As the driver registers memory: the list in two requests, of which the last gives the meaning. */
static void enable_key(struct guest_qp *qp, uint32_t key, uint32_t lkey)
{
	uint8_t wqe[UMR_WQE] = { 0 };

	put_list(wqe, &rig.abuf, 0, 32, lkey);
	change_key(qp, key, wqe, UMR_WQE);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	memset(wqe, 0, sizeof(wqe));
	put_list(wqe, &rig.abuf, 32, 8, lkey);
	put_context(wqe, key, START_A, BUFFER - GUEST_PAGE);
	change_key(qp, key, wqe, UMR_WQE);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
}

static void requests_fill_a_key(void **state)
{
	uint32_t key, lkey = guest_physical_key(rig.a, 0x22);
	struct guest_qp umr = umr_up(&key);
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, BUFFER - GUEST_PAGE);
	uint8_t wqe[UMR_WQE] = { 0 };

	enable_key(&umr, key, lkey);
	fill(6);
	request.lkey = key;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_same(BUFFER - GUEST_PAGE);
	/* the driver takes the key back */
	wqe[UMR_AT] = 1 << 7;
	put64(wqe + UMR_AT + 8, FREE_KEY | MASK_PD);
	wqe[MKEY_AT] = 1 << 6;
	change_key(&umr, key, wqe, UMR_LIST_AT);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	enable_key(&umr, key, lkey); /* and gives it out again */
	assert_int_equal(0, sn_bridge_key_destroy(rig.a->bridge, key >> 8));
}

/* A window or a list of a program's, over a region of the driver's cache of keys. */
static void a_list_of_keys_leads_through_a_filled_key(void **state)
{
	const struct sn_bridge_key want = {
		.mode = SN_BRIDGE_KLMS, .free = true, .octowords = 4, .pd = GUEST_PD
	};
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, BUFFER - GUEST_PAGE);
	uint32_t key, index, lkey = guest_physical_key(rig.a, 0x22);
	struct guest_qp umr = umr_up(&key);
	uint8_t wqe[UMR_LIST_AT + 64] = { 0 };

	enable_key(&umr, key, lkey);
	assert_int_equal(0, sn_bridge_key_create(rig.a->bridge, &want, &index));
	wqe[UMR_AT] = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	put32(wqe + UMR_AT + 4, 4 << 16);
	put64(wqe + UMR_AT + 8, MASK_LIST);
	wqe[MKEY_AT + 2] = 0x3c;
	put64(wqe + MKEY_AT + 16, START_A);
	put64(wqe + MKEY_AT + 24, BUFFER - GUEST_PAGE);
	put32(wqe + UMR_LIST_AT, BUFFER - GUEST_PAGE);
	put32(wqe + UMR_LIST_AT + 4, key);
	put64(wqe + UMR_LIST_AT + 8, START_A);
	change_key(&rig.aqp, index << 8, wqe, sizeof(wqe));
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	fill(8);
	request.lkey = index << 8;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_same(BUFFER - GUEST_PAGE);
}

/* A list of 4 entries takes a request of 8, as the driver pads its requests to 64 bytes. */
static void padded_list_fits_a_short_key(void **state)
{
	const struct sn_bridge_key want = { .mode = SN_BRIDGE_PAGES, .free = true, .octowords = 2 };
	uint32_t long_key, index, lkey = guest_physical_key(rig.a, 0x22);
	struct guest_qp umr = umr_up(&long_key);
	uint8_t wqe[UMR_WQE] = { 0 };

	assert_int_equal(0, sn_bridge_key_create(rig.a->bridge, &want, &index));
	put_list(wqe, &rig.abuf, 0, 8, lkey);
	put_context(wqe, index << 8, START_A, GUEST_PAGE);
	change_key(&umr, index << 8, wqe, UMR_WQE);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
}

static void a_free_key_is_no_key(void **state)
{
	uint32_t key;
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);

	umr_up(&key);
	request.lkey = key;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

/* Programs' queue pairs change no key of another protection domain. */
static void only_the_driver_changes_all_keys(void **state)
{
	uint32_t key, lkey = guest_physical_key(rig.a, 0x22);
	uint8_t wqe[UMR_WQE] = { 0 };

	umr_up(&key);
	put_list(wqe, &rig.abuf, 0, 32, lkey);
	put_context(wqe, key, START_A, GUEST_PAGE);
	change_key(&rig.aqp, key, wqe, UMR_WQE);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_MW_BIND_ERR);
}

static void a_list_beyond_the_key_is_refused(void **state)
{
	uint32_t key, lkey = guest_physical_key(rig.a, 0x22);
	struct guest_buffer pages = guest_pages(rig.a, 64);
	struct guest_qp umr = umr_up(&key);
	uint8_t wqe[UMR_WQE] = { 0 };

	put_list(wqe, &pages, 0, 64, lkey);
	put32(wqe + UMR_AT + 4, 32 << 16 | 1); /* one octoword too far */
	put_context(wqe, key, START_A, GUEST_PAGE);
	change_key(&umr, key, wqe, UMR_WQE);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_MW_BIND_ERR);
}

/* ---- events --------------------------------------------------------------------------------- */

static void completion_event_once(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 8);
	struct guest_event event;

	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_false(guest_has_event(rig.a)); /* not armed */
	guest_arm(&rig.acq);
	nap_ms(QUICK_MS);
	assert_false(guest_has_event(rig.a)); /* nothing new */
	guest_post(&rig.aqp, &request);
	event = guest_event(rig.a);
	assert_int_equal(SN_BRIDGE_COMPLETION, event.event);
	assert_int_equal(rig.acq.number, event.number);
	assert_int_equal(USER_A, event.user);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	nap_ms(QUICK_MS);
	assert_false(guest_has_event(rig.a));
}

static void arming_late_tells_at_once(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 8);
	struct sn_bridge_cq_state now = { 0 };

	guest_post(&rig.aqp, &request);
	while (!now.produced)
		assert_int_equal(0, sn_bridge_cq_query(rig.a->bridge, rig.acq.number, &now));
	assert_int_equal(0, now.consumed);
	guest_arm(&rig.acq);
	assert_int_equal(SN_BRIDGE_COMPLETION, guest_event(rig.a).event);
}

static void port_events(void **state)
{
	struct sn_nic *nic = &fabric->nic[0][0];
	struct sn_bridge_port port;

	atomic_store(&nic->port_up, 0);
	atomic_fetch_add(&nic->event_gen, 1);
	sn_proc_wake_all(fabric);
	assert_int_equal(SN_BRIDGE_PORT_DOWN, guest_event(rig.a).event);
	sn_bridge_port(rig.a->bridge, &port);
	assert_false(port.up);
	atomic_store(&nic->port_up, 1);
	atomic_fetch_add(&nic->event_gen, 1);
	sn_proc_wake_all(fabric);
	assert_int_equal(SN_BRIDGE_PORT_UP, guest_event(rig.a).event);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static void error_flushes(void **state)
{
	struct sn_bridge *bridge = rig.b->bridge;

	guest_post_recv(&rig.bqp, rig.bkey, START_B, 64);
	assert_int_equal(0, sn_bridge_qp_modify(bridge, rig.bqp.number, SN_BRIDGE_2ERR, 0, NULL));
	expect(&rig.bcq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	guest_post_recv(&rig.bqp, rig.bkey, START_B, 64); /* nothing rings, yet it is flushed */
	expect(&rig.bcq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

static void transitions_and_query(void **state)
{
	struct sn_bridge *bridge = rig.a->bridge;
	struct sn_bridge_qpc qpc, none = { .min_rnr_nak = 9, .rre = false, .rwe = false };
	uint32_t number = rig.aqp.number;

	assert_int_equal(0, sn_bridge_qp_query(bridge, number, &qpc));
	assert_int_equal(3, qpc.state); /* RTS */
	assert_int_equal(rig.bqp.number, qpc.remote_qpn);
	assert_int_equal(0xfffff0, qpc.next_send_psn);
	assert_int_equal(4, qpc.log_sra_max);
	assert_true(qpc.rre && qpc.rwe && qpc.rae);
	/* what is not named stays: the mask names the timer and one right */
	assert_int_equal(
		0, sn_bridge_qp_modify(bridge, number, SN_BRIDGE_RTS2RTS, 1 << 6 | 1 << 1, &none));
	assert_int_equal(0, sn_bridge_qp_query(bridge, number, &qpc));
	assert_int_equal(9, qpc.min_rnr_nak);
	assert_true(!qpc.rre && qpc.rwe && qpc.rae);
	assert_int_equal(7, qpc.retry_count);
	assert_int_equal(-EINVAL, sn_bridge_qp_modify(bridge, number, SN_BRIDGE_INIT2RTR, 0, &qpc));
	assert_int_equal(0, sn_bridge_qp_modify(bridge, number, SN_BRIDGE_2RST, 0, NULL));
	assert_int_equal(0, sn_bridge_qp_query(bridge, number, &qpc));
	assert_int_equal(0, qpc.state);
	assert_int_equal(-ENOENT,
			 sn_bridge_qp_modify(bridge, number + 50, SN_BRIDGE_2RST, 0, NULL));
}

/* A kernel that removes a NIC takes queue pairs away, and after them their programs' doorbells. */
static void doorbell_of_a_qp_that_was_taken_away_gets_lost(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);
	struct guest_completion wc;

	assert_int_equal(
		0, sn_bridge_qp_modify(rig.a->bridge, rig.aqp.number, SN_BRIDGE_2RST, 0, NULL));
	guest_post(&rig.aqp, &request);
	assert_int_equal(0, sn_bridge_qp_destroy(rig.a->bridge, rig.aqp.number));
	guest_post(&rig.aqp, &request);
	nap_ms(QUICK_MS);
	assert_false(guest_poll(&rig.acq, &wc));
}

static void objects_in_use_stay(void **state)
{
	assert_int_equal(-EBUSY, sn_bridge_cq_destroy(rig.a->bridge, rig.acq.number));
	assert_int_equal(0, sn_bridge_qp_destroy(rig.a->bridge, rig.aqp.number));
	if (rig.a == rig.b)
		assert_int_equal(0, sn_bridge_qp_destroy(rig.b->bridge, rig.bqp.number));
	assert_int_equal(0, sn_bridge_cq_destroy(rig.a->bridge, rig.acq.number));
	assert_int_equal(-ENOENT, sn_bridge_cq_destroy(rig.a->bridge, rig.acq.number));
}

static void resized_queue_goes_on(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 8);
	struct sn_bridge_cq attr = { .log_size = GUEST_LOG_CQ, .cqe_size = 64 };
	struct guest_completion wc;

	rig.acq.consumed = 0;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	attr.pages = guest_list(&(struct guest_buffer){ { 0 }, 0 });
	assert_int_equal(-EINVAL, sn_bridge_cq_resize(rig.a->bridge, rig.acq.number, &attr));
	struct guest_buffer ring = guest_pages(rig.a, 1);

	memset(guest_at(rig.a, &ring, 0), MLX5_CQE_INVALID << 4, GUEST_PAGE);
	attr.pages = guest_list(&ring);
	assert_int_equal(0, sn_bridge_cq_resize(rig.a->bridge, rig.acq.number, &attr));
	wc = guest_wait(&rig.acq); /* the mark in the old ring */
	assert_int_equal(MLX5_CQE_RESIZE_CQ, wc.opcode);
	rig.acq.ring = ring;
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
}

/* ---- shared receives, datagrams ------------------------------------------------------------- */

/* A receive of the shared queue: the link to the next one, then a buffer. */
static void put_shared(struct guest_buffer *ring, uint32_t i)
{
	uint8_t *wqe = guest_at(rig.b, ring, i * 64);
	struct mlx5_wqe_data_seg data = { htobe32(64), htobe32(rig.bkey), htobe64(START_B) };
	const uint16_t next = htobe16((uint16_t)((i + 1) % 64));

	memset(wqe, 0, 64);
	memcpy(wqe + 2, &next, sizeof(next));
	memcpy(wqe + 16, &data, sizeof(data));
	put32(wqe + 36, MLX5_INVALID_LKEY);
}

static uint32_t srq_up(uint32_t posted)
{
	struct guest_buffer ring = guest_pages(rig.b, 1);
	const struct sn_bridge_srq srq = { .pages = guest_list(&ring),
					   .log_size = 6,
					   .log_stride = 6,
					   .record = guest_pages(rig.b, 1).page[0],
					   .pd = GUEST_PD };
	uint32_t srqn;

	for (uint32_t i = 0; i < 64; i++)
		put_shared(&ring, i);
	put32(guest_ram(rig.b, srq.record), posted);
	assert_int_equal(0, sn_bridge_srq_create(rig.b->bridge, &srq, &srqn));
	return srqn;
}

static void shared_receives_and_their_limit(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_SEND, 64);
	uint32_t srqn = srq_up(3), limit;
	struct guest_event event;
	struct guest_qp taker;

	guest_qp_make(rig.b, &taker, SN_BRIDGE_RC, &rig.bcq, srqn);
	assert_int_equal(
		0, sn_bridge_qp_modify(rig.a->bridge, rig.aqp.number, SN_BRIDGE_2RST, 0, NULL));
	guest_connect(&taker, rig.a->bridge, rig.aqp.number);
	rig.aqp.sq_pi = 0;
	guest_connect(&rig.aqp, rig.b->bridge, taker.number);
	assert_int_equal(0, sn_bridge_srq_arm(rig.b->bridge, srqn, 2));
	fill(5);
	guest_post(&rig.aqp, &request);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_int_equal(0, expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0).index);
	assert_same(64);
	assert_false(guest_has_event(rig.b)); /* two are left */
	guest_post(&rig.aqp, &request);
	event = guest_event(rig.b);
	assert_int_equal(SN_BRIDGE_SRQ_LIMIT, event.event);
	assert_int_equal(srqn, event.number);
	assert_int_equal(0, sn_bridge_srq_limit(rig.b->bridge, srqn, &limit));
	assert_int_equal(0, limit);
	assert_int_equal(-EBUSY, sn_bridge_srq_destroy(rig.b->bridge, srqn));
	assert_int_equal(0, sn_bridge_qp_destroy(rig.b->bridge, taker.number));
	assert_int_equal(0, sn_bridge_srq_destroy(rig.b->bridge, srqn));
}

static struct mlx5_wqe_av address_of(struct guest *guest, uint32_t qpn, uint32_t qkey)
{
	struct mlx5_wqe_av av = { .dqp_dct = htobe32(qpn | MLX5_EXTENDED_UD_AV) };
	struct sn_bridge_port port;

	sn_bridge_port(guest->bridge, &port);
	av.key.qkey.qkey = htobe32(qkey);
	av.rlid = htobe16(port.lid);
	sn_bridge_gid(guest->bridge, 0, av.rgid);
	return av;
}

/* Management: datagrams to number 1 reach the QP made for that, and come from number 1. */
static void general_services(void **state)
{
	const uint32_t qkey = 0x80010000;
	struct guest_request request = request_of(MLX5_OPCODE_SEND, 256);
	struct sn_bridge_qpc qpc = { .path.port = 1, .qkey = qkey };
	struct guest_completion wc;
	struct mlx5_wqe_av av;
	struct guest_qp gsi, second, *from = &gsi;

	guest_qp_make(rig.b, &gsi, SN_BRIDGE_QP1, &rig.bcq, 0);
	if (rig.a != rig.b) {
		guest_qp_make(rig.a, &second, SN_BRIDGE_QP1, &rig.acq, 0);
		from = &second;
	}
	for (uint32_t step = SN_BRIDGE_RST2INIT; step <= SN_BRIDGE_RTR2RTS; step++) {
		assert_int_equal(0, sn_bridge_qp_modify(rig.b->bridge, gsi.number, step, 0, &qpc));
		if (from != &gsi)
			assert_int_equal(0, sn_bridge_qp_modify(rig.a->bridge, second.number, step,
								0, &qpc));
	}
	av = address_of(rig.b, 1, qkey);
	request.av = &av;
	guest_post_recv(&gsi, rig.bkey, START_B, 512);
	guest_post(from, &request);
	wc = guest_wait(&rig.bcq);
	if (wc.opcode == MLX5_CQE_REQ) /* one queue for both ends */
		wc = guest_wait(&rig.bcq);
	assert_int_equal(MLX5_CQE_RESP_SEND, wc.opcode);
	assert_int_equal(256 + 40, wc.bytes);
	assert_int_equal(gsi.number, wc.qpn);
	assert_int_equal(1, wc.source_qpn);
}

static void one_qp_of_general_services(void **state)
{
	struct guest_buffer ring = guest_pages(rig.a, 2);
	struct guest_qp first;
	const struct sn_bridge_qp qp = { .transport = SN_BRIDGE_QP1,
					 .pages = guest_list(&ring),
					 .has_sq = true,
					 .log_sq = 6,
					 .send_cq = rig.acq.number,
					 .recv_cq = rig.acq.number };
	uint32_t qpn;

	guest_qp_make(rig.a, &first, SN_BRIDGE_QP1, &rig.acq, 0);
	assert_int_equal(-EBUSY, sn_bridge_qp_create(rig.a->bridge, &qp, &qpn));
	assert_int_equal(0, sn_bridge_qp_destroy(rig.a->bridge, first.number));
	assert_int_equal(0, sn_bridge_qp_create(rig.a->bridge, &qp, &qpn));
}

/* ---- life ----------------------------------------------------------------------------------- */

/* What is posted before a reset reaches no memory after it, and all numbers are unknown. */
static void reset_forgets_everything(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);
	struct sn_bridge_cq_state now;

	assert_int_equal(0, sn_bridge_reset(rig.b->bridge));
	if (rig.a != rig.b) {
		guest_post(&rig.aqp, &request); /* to a QP that is no more */
		nap_ms(QUICK_MS);
	}
	assert_int_equal(-ENOENT, sn_bridge_qp_destroy(rig.b->bridge, rig.bqp.number));
	assert_int_equal(-ENOENT, sn_bridge_key_destroy(rig.b->bridge, rig.bkey >> 8));
	assert_int_equal(-ENOENT, sn_bridge_cq_query(rig.b->bridge, rig.bcq.number, &now));
	memset(rig.b->ram, 0xee, (size_t)GUEST_PAGES * GUEST_PAGE);
	nap_ms(QUICK_MS);
	for (size_t i = 0; i < (size_t)GUEST_PAGES * GUEST_PAGE; i++)
		if (rig.b->ram[i] != 0xee)
			fail_msg("byte %zu of guest memory was written", i);
}

static void after_reset_all_works_again(void **state)
{
	assert_int_equal(0, sn_bridge_reset(rig.a->bridge));
	if (rig.a != rig.b)
		assert_int_equal(0, sn_bridge_reset(rig.b->bridge));
	set_addresses();
	make_ends(SN_BRIDGE_RC);
	write_and_read_scattered_pages(state);
}

/* Its driver rings no second time, and waits for a completion without an end. */
static void stopped_nic_does_nothing_until_it_goes_on(void **state)
{
	struct guest_request request = request_of(MLX5_OPCODE_RDMA_WRITE, 64);
	struct guest_completion wc;

	fill(8);
	sn_bridge_stop(rig.a->bridge, true);
	guest_post(&rig.aqp, &request);
	guest_arm(&rig.acq);
	nap_ms(QUICK_MS);
	assert_false(guest_poll(&rig.acq, &wc));
	assert_false(guest_has_event(rig.a));
	sn_bridge_stop(rig.a->bridge, false);
	assert_int_equal(SN_BRIDGE_COMPLETION, guest_event(rig.a).event);
	expect(&rig.acq, MLX5_CQE_REQ, 0);
	assert_same(64);
}

/* Peers find an Ethernet NIC by the addresses that its driver has set, and by no other. */
static void driver_sets_gids(void **state)
{
	struct sn_bridge *bridge = rig.b->bridge;
	uint8_t own[16], gid[16] = { 0xfe, 0x80, [15] = 77 }, seen[16];
	int host, nic;

	memcpy(own, fabric->nic[0][1].gid, sizeof(own));
	if (!ethernet) {
		assert_int_equal(-EINVAL, sn_bridge_set_gid(bridge, 3, gid, 2, 0));
		return;
	}
	assert_int_equal(-EHOSTUNREACH, sn_fabric_find_gid(fabric, own, 0, &host, &nic));
	assert_int_equal(0, sn_bridge_set_gid(bridge, 3, gid, 2, 5));
	assert_int_equal(-EHOSTUNREACH, sn_fabric_find_gid(fabric, gid, 0, &host, &nic));
	assert_int_equal(0, sn_fabric_find_gid(fabric, gid, 5, &host, &nic));
	assert_int_equal(1, nic);
	sn_bridge_gid(bridge, 3, seen);
	assert_memory_equal(gid, seen, sizeof(gid));
	assert_int_equal(0, sn_bridge_set_gid(bridge, 3, gid, 0, 0));
	assert_int_equal(-EHOSTUNREACH, sn_fabric_find_gid(fabric, gid, 5, &host, &nic));
	assert_int_equal(-EINVAL, sn_bridge_set_gid(bridge, SN_MAX_GIDS, gid, 2, 0));
}

static void another_host_is_refused(void **state)
{
	struct sn_bridge_config config = { .fabric = fabric_name, .host = 1 };
	struct sn_bridge *bridge;

	assert_int_equal(-EXDEV, sn_bridge_new(&config, &bridge));
	config.host = 0;
	config.nic = 77;
	assert_int_equal(-ENODEV, sn_bridge_new(&config, &bridge));
}

static void pages_outside_of_memory_are_refused(void **state)
{
	uint64_t page[2] = { 0, (uint64_t)GUEST_PAGES * GUEST_PAGE };
	struct sn_bridge_pages pages = { .page = page, .n = 2, .shift = 12 };

	if (translated)
		page[1] = SN_BRIDGE_SPACE_BYTES;
	errno = 0;
	assert_null(sn_bridge_map(rig.a->bridge, &pages, 2 * GUEST_PAGE));
	assert_int_equal(EINVAL, errno);
	page[1] = GUEST_PAGE + 8;
	assert_null(sn_bridge_map(rig.a->bridge, &pages, 2 * GUEST_PAGE));
	page[1] = GUEST_PAGE;
	assert_null(sn_bridge_map(rig.a->bridge, &pages, 2 * GUEST_PAGE + 1));
	if (translated)
		return;
	assert_ptr_equal(rig.a->ram, sn_bridge_map(rig.a->bridge, &pages, 2 * GUEST_PAGE));
}

/* A map of large pages, from the middle of one on, shows what guest memory has. */
static void maps_show_guest_memory(void **state)
{
	uint64_t page[2] = { 64 * GUEST_PAGE, 16 * GUEST_PAGE };
	struct sn_bridge_pages pages = {
		.page = page, .n = 2, .shift = 14, .offset = GUEST_PAGE + 100
	};
	const struct sn_bridge_mapping same = { 0, 80 * GUEST_PAGE, 0, true };
	uint8_t *at;

	if (translated)
		assert_int_equal(0, sn_bridge_space_map(rig.a->bridge, &same));
	at = sn_bridge_map(rig.a->bridge, &pages, 4 * GUEST_PAGE);
	assert_non_null(at);
	rig.a->ram[65 * GUEST_PAGE + 100] = 1;
	rig.a->ram[16 * GUEST_PAGE + GUEST_PAGE + 99] = 2;
	assert_int_equal(1, at[0]);
	assert_int_equal(2, at[4 * GUEST_PAGE - 1]);
	at[3 * GUEST_PAGE] = 3;
	assert_int_equal(3, rig.a->ram[16 * GUEST_PAGE + 100]);
	sn_bridge_unmap(rig.a->bridge, at, 4 * GUEST_PAGE);
}

static int start(void **state)
{
	struct sn_fabric_config config = { .n_hosts = 2,
					   .n_nics = 2,
					   .link_layer = ethernet ? SN_LINK_ETH : SN_LINK_IB,
					   .joined = ethernet };

	snprintf(fabric_name, sizeof(fabric_name), "bridge-%d", (int)getpid());
	if (sn_fabric_create(fabric_name, &config))
		return -1;
	return sn_fabric_attach(fabric_name, &fabric);
}

/* The NIC's own table is back, for programs that come after the guest. */
static int stop(void **state)
{
	uint8_t gid[16];
	int host, nic;

	memcpy(gid, fabric->nic[0][1].gid, sizeof(gid));
	assert_int_equal(0, sn_fabric_find_gid(fabric, gid, 0, &host, &nic));
	return sn_fabric_destroy(fabric_name);
}

#define T(what)	    cmocka_unit_test_setup_teardown(what, up, down)
#define ALONE(what) cmocka_unit_test_setup_teardown(what, up_alone, down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(write_and_read_scattered_pages),
		T(send_and_receive),
		T(sends_wrap_the_rings),
		T(atomics),
		T(physical_key),
		T(key_checks),
		T(destroyed_key_is_dead),
		T(requests_fill_a_key),
		T(a_list_of_keys_leads_through_a_filled_key),
		T(padded_list_fits_a_short_key),
		T(a_free_key_is_no_key),
		T(only_the_driver_changes_all_keys),
		T(a_list_beyond_the_key_is_refused),
		T(completion_event_once),
		T(arming_late_tells_at_once),
		T(port_events),
		T(error_flushes),
		T(transitions_and_query),
		T(doorbell_of_a_qp_that_was_taken_away_gets_lost),
		T(objects_in_use_stay),
		T(resized_queue_goes_on),
		T(shared_receives_and_their_limit),
		T(general_services),
		T(one_qp_of_general_services),
		T(reset_forgets_everything),
		T(after_reset_all_works_again),
		T(stopped_nic_does_nothing_until_it_goes_on),
		ALONE(driver_sets_gids),
		ALONE(another_host_is_refused),
		ALONE(pages_outside_of_memory_are_refused),
		ALONE(maps_show_guest_memory),
	};

	ethernet = argc > 1 && !strcmp(argv[1], "eth");
	translated = argc > 2 && !strcmp(argv[2], "iommu");
	return cmocka_run_group_tests(tests, start, stop);
}
