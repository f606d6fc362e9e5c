/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames between the network interfaces of three NICs on one fabric, by the rings of a driver: the
 * bridge without a machine around it.
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
#include "simnic/device/frame.h"
#include "simnic/device/testing.h"
#include "simnic/fabric/fabric.h"
#include "simnic/pci/bridge_ether.h"

enum {
	ENDS = 3,
	LOG_RING = 4,
	RING = 1 << LOG_RING,
	WQEBB = 64,
	STRIDE = 64, /* three segments and an end */
	ROOM = 2048, /* of a receive, in two pieces */
	SIGNALED = 8,
	L3_AND_L4 = 0xc0,
	INLINE = 18,
	TCP_HEADERS = 14 + 20 + 20,
	QUICK_MS = 30,
	BUFFERS = 32, /* pages */
	L4_OK = 4,
	L3_OK = 2,
};
#define START_PADDING (1u << 31)

struct end {
	struct guest guest;
	struct guest_cq scq, rcq;
	uint32_t sqn, rqn, key;
	uint16_t sent, posted;
	struct guest_buffer sq, rq, out, in;
	uint64_t sq_record, rq_record;
	uint8_t mac[6];
};

static struct end ends[ENDS];
static struct sn_fabric *fabric;
static char fabric_name[32];

static void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

static void record(struct end *end, uint64_t at, uint32_t value)
{
	__atomic_store_n((uint32_t *)(end->guest.ram + at), htobe32(value), __ATOMIC_RELEASE);
}

/* ---- rings ---------------------------------------------------------------------------------- */

static void rings_make(struct end *end, bool keeps_vlan)
{
	struct sn_bridge_frames frames = { .log_size = LOG_RING, .pd = GUEST_PD };

	end->sq = guest_pages(&end->guest, 1);
	end->rq = guest_pages(&end->guest, 1);
	end->sq_record = guest_pages(&end->guest, 1).page[0];
	end->rq_record = guest_pages(&end->guest, 1).page[0];
	frames.pages = guest_list(&end->sq);
	frames.record = end->sq_record;
	frames.cq = end->scq.number;
	assert_int_equal(sn_bridge_sq_create(end->guest.bridge, &frames, &end->sqn), 0);
	frames.pages = guest_list(&end->rq);
	frames.record = end->rq_record;
	frames.cq = end->rcq.number;
	frames.log_stride = 6;
	frames.keeps_vlan = keeps_vlan;
	assert_int_equal(sn_bridge_rq_create(end->guest.bridge, &frames, &end->rqn), 0);
}

static void rings_start(struct end *end)
{
	end->sent = end->posted = 0;
	record(end, end->rq_record, 0);
	record(end, end->sq_record + 4, 0);
	assert_int_equal(sn_bridge_sq_set_ready(end->guest.bridge, end->sqn, true), 0);
	assert_int_equal(sn_bridge_rq_set_ready(end->guest.bridge, end->rqn, true), 0);
	sn_bridge_receive_into(end->guest.bridge, end->rqn);
}

static void end_up(struct end *end, uint32_t nic, bool keeps_vlan)
{
	memset(end, 0, sizeof(*end));
	guest_start(&end->guest, fabric_name, 0, nic);
	guest_cq_make(&end->guest, &end->scq, 1);
	guest_cq_make(&end->guest, &end->rcq, 2);
	end->out = guest_pages(&end->guest, BUFFERS);
	end->in = guest_pages(&end->guest, BUFFERS);
	end->key = guest_physical_key(&end->guest, 0x5a);
	memcpy(end->mac, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)nic }, sizeof(end->mac));
	rings_make(end, keeps_vlan);
	rings_start(end);
}

/* Two pieces of a frame's room, as mlx5e posts them: a flag in the length, and an end. */
static void post(struct end *end, uint32_t bytes)
{
	uint8_t *wqe = guest_at(&end->guest, &end->rq, end->posted % RING * STRIDE);

	for (uint32_t i = 0; i < 2; i++, wqe += 16) {
		put32(wqe, bytes / 2 | START_PADDING);
		put32(wqe + 4, end->key);
		put32(wqe + 8, 0);
		put32(wqe + 12, (uint32_t)end->in.page[2 * (end->posted % RING) + i]);
	}
	put32(wqe, 0);
	put32(wqe + 4, MLX5_INVALID_LKEY);
	record(end, end->rq_record, ++end->posted);
}

struct send {
	uint8_t opcode, flags;
	uint16_t mss, headers, vlan; /* headers: bytes that lie in the request itself */
	uint32_t key;		     /* 0: the end's own */
};

/* Sends a frame, some of it in the request and the rest in two pieces of memory. */
static void send_frame(struct end *end, const struct send *how, const uint8_t *frame,
		       uint32_t bytes)
{
	uint8_t wqe[4 * WQEBB] = { 0 };
	uint32_t key = how->key ? how->key : end->key, at = 32, rest = bytes - how->headers, ds;
	uint32_t piece[2] = { rest / 2, rest - rest / 2 };
	uint64_t value;

	put16(wqe + 28, how->vlan ? 0x8000 : how->headers);
	put16(wqe + 30, how->vlan);
	memcpy(wqe + 30, frame, how->headers);
	wqe[20] = how->flags;
	put16(wqe + 22, how->mss);
	if (how->headers > 2)
		at += (how->headers - 2 + 15u) / 16 * 16;
	frame += how->headers;
	for (uint32_t i = 0, page = 0; i < 2; i++, at += 16) {
		/* A piece begins with a page, and is in one: the guest's pages are scattered. */
		assert_true(piece[i] <= GUEST_PAGE);
		memcpy(guest_at(&end->guest, &end->out, page * GUEST_PAGE), frame, piece[i]);
		put32(wqe + at, piece[i]);
		put32(wqe + at + 4, key);
		put32(wqe + at + 12, (uint32_t)end->out.page[page++]);
		frame += piece[i];
	}
	ds = at / 16;
	put32(wqe, (uint32_t)end->sent << 8 | how->opcode);
	put32(wqe + 4, end->sqn << 8 | ds);
	wqe[11] = SIGNALED;
	for (uint32_t i = 0; i < (at + WQEBB - 1) / WQEBB; i++, end->sent++)
		memcpy(guest_at(&end->guest, &end->sq, end->sent % RING * WQEBB), wqe + i * WQEBB,
		       WQEBB);
	record(end, end->sq_record + 4, end->sent);
	memcpy(&value, wqe, sizeof(value));
	sn_bridge_doorbell(end->guest.bridge, GUEST_UAR, 0x800, value);
}

static const struct send plain = { .opcode = MLX5_OPCODE_SEND, .headers = INLINE };

/* A frame of an unknown type from one end to an address. */
static uint32_t build(uint8_t *frame, const struct end *from, const uint8_t *to, uint32_t bytes)
{
	memcpy(frame, to, 6);
	memcpy(frame + 6, from->mac, 6);
	put16(frame + 12, 0x88b5);
	for (uint32_t i = 14; i < bytes; i++)
		frame[i] = (uint8_t)(i * 13 + i / 256);
	return bytes;
}

static struct mlx5_cqe64 *last_cqe(struct guest_cq *cq)
{
	return guest_at(cq->guest, &cq->ring,
			(cq->consumed - 1) % (1u << GUEST_LOG_CQ) * sizeof(struct mlx5_cqe64));
}

/* Waits for a frame; its bytes are those. */
static struct mlx5_cqe64 *expect(struct end *end, const uint8_t *frame, uint32_t bytes)
{
	struct guest_completion wc = guest_wait(&end->rcq);

	assert_int_equal(wc.opcode, MLX5_CQE_RESP_SEND);
	assert_int_equal(wc.qpn, end->rqn);
	assert_int_equal(wc.bytes, bytes);
	for (uint32_t i = 0; i < bytes; i++) {
		uint32_t page = 2 * (wc.index % RING) + i / (ROOM / 2);

		assert_int_equal(end->guest.ram[end->in.page[page] + i % (ROOM / 2)], frame[i]);
	}
	return last_cqe(&end->rcq);
}

static void expect_sent(struct end *end, uint8_t opcode, uint8_t syndrome)
{
	struct guest_completion wc = guest_wait(&end->scq);

	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.syndrome, syndrome);
	assert_int_equal(wc.qpn, end->sqn);
}

static void expect_none(struct end *end)
{
	struct guest_completion wc;

	nap_ms(QUICK_MS);
	assert_false(guest_poll(&end->rcq, &wc));
}

static const uint8_t everybody[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

/* ---- tests ---------------------------------------------------------------------------------- */

static void a_frame_to_all_is_everybody_elses(void **state)
{
	static const uint32_t sizes[] = { 60, 320, 321, 1514, 2048 };
	uint8_t frame[ROOM];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t bytes = build(frame, &ends[0], everybody, sizes[i]);

		post(&ends[0], ROOM);
		post(&ends[1], ROOM);
		post(&ends[2], ROOM);
		send_frame(&ends[0], &plain, frame, bytes);
		expect_sent(&ends[0], MLX5_CQE_REQ, 0);
		expect(&ends[1], frame, bytes);
		expect(&ends[2], frame, bytes);
		expect_none(&ends[0]);
	}
}

static void switches_learn_addresses(void **state)
{
	uint8_t frame[ROOM];
	uint32_t bytes = build(frame, &ends[0], ends[1].mac, 100);

	post(&ends[0], ROOM);
	post(&ends[1], ROOM);
	post(&ends[2], ROOM);
	send_frame(&ends[0], &plain, frame, bytes); /* nobody knows the address: to all */
	expect(&ends[1], frame, bytes);
	expect(&ends[2], frame, bytes);
	bytes = build(frame, &ends[1], ends[0].mac, 200);
	send_frame(&ends[1], &plain, frame, bytes);
	expect(&ends[0], frame, bytes);
	post(&ends[1], ROOM);
	post(&ends[2], ROOM);
	bytes = build(frame, &ends[0], ends[1].mac, 300);
	send_frame(&ends[0], &plain, frame, bytes);
	expect(&ends[1], frame, bytes);
	expect_none(&ends[2]);
}

static void rings_wrap(void **state)
{
	uint8_t frame[ROOM];

	for (uint32_t i = 0; i < 3 * RING + 1; i++) {
		uint32_t bytes = build(frame, &ends[0], everybody, 60 + i * 20);

		post(&ends[1], ROOM);
		send_frame(&ends[0], &plain, frame, bytes);
		expect_sent(&ends[0], MLX5_CQE_REQ, 0);
		expect(&ends[1], frame, bytes);
	}
}

static void without_a_receive_a_frame_is_lost(void **state)
{
	uint8_t frame[ROOM];
	uint32_t bytes = build(frame, &ends[0], everybody, 64);

	send_frame(&ends[0], &plain, frame, bytes);
	expect_sent(&ends[0], MLX5_CQE_REQ, 0);
	expect_none(&ends[1]);
	post(&ends[1], 60); /* and where the receive is too short */
	send_frame(&ends[0], &plain, frame, bytes);
	expect_none(&ends[1]);
	bytes = build(frame, &ends[0], everybody, 60);
	send_frame(&ends[0], &plain, frame, bytes);
	assert_int_equal(guest_wait(&ends[1].rcq).bytes, 60);
}

static void a_ring_that_is_not_ready_does_nothing(void **state)
{
	uint8_t frame[ROOM];
	uint32_t bytes = build(frame, &ends[0], everybody, 64);

	post(&ends[1], ROOM);
	assert_int_equal(sn_bridge_rq_set_ready(ends[1].guest.bridge, ends[1].rqn, false), 0);
	send_frame(&ends[0], &plain, frame, bytes);
	expect_sent(&ends[0], MLX5_CQE_REQ, 0);
	expect_none(&ends[1]);
	assert_int_equal(sn_bridge_rq_set_ready(ends[1].guest.bridge, ends[1].rqn, true), 0);
	sn_bridge_receive_into(ends[1].guest.bridge, 0);
	send_frame(&ends[0], &plain, frame, bytes);
	expect_none(&ends[1]);
	sn_bridge_receive_into(ends[1].guest.bridge, ends[1].rqn);
	send_frame(&ends[0], &plain, frame, bytes);
	expect(&ends[1], frame, bytes);
}

static uint32_t build_tcp(uint8_t *frame, uint32_t data)
{
	uint32_t bytes = build(frame, &ends[0], everybody, TCP_HEADERS + data);

	put16(frame + 12, 0x0800);
	memset(frame + 14, 0, 40);
	frame[14] = 0x45;
	put16(frame + 16, bytes - 14);
	frame[23] = SN_PROTO_TCP;
	frame[46] = 5 << 4;
	return bytes;
}

static void the_nic_fills_checksums_in(void **state)
{
	const struct send how = { .opcode = MLX5_OPCODE_SEND,
				  .flags = L3_AND_L4,
				  .headers = INLINE };
	uint32_t bytes;
	uint8_t frame[ROOM], sum[2];
	struct mlx5_cqe64 *cqe;
	struct sn_frame where;

	bytes = build_tcp(frame, 333);
	post(&ends[1], ROOM);
	post(&ends[1], ROOM);
	send_frame(&ends[0], &plain, frame, bytes);
	cqe = expect(&ends[1], frame, bytes); /* as it was: wrong */
	assert_int_equal(cqe->hds_ip_ext & (L3_OK | L4_OK), 0);
	send_frame(&ends[0], &how, frame, bytes);
	assert_true(sn_frame_read(frame, bytes, &where));
	sn_frame_fill_l3(frame, &where);
	sn_frame_fill_l4(frame, &where);
	cqe = expect(&ends[1], frame, bytes);
	assert_int_equal(cqe->hds_ip_ext & (L3_OK | L4_OK), L3_OK | L4_OK);
	put16(sum, sn_frame_sum(frame + 14, bytes - 14));
	assert_memory_equal((uint8_t *)cqe + 20, sum, 2);
}

static void a_long_frame_is_cut(void **state)
{
	const struct send how = {
		.opcode = MLX5_OPCODE_TSO, .flags = L3_AND_L4, .mss = 1000, .headers = TCP_HEADERS
	};
	uint8_t frame[3 * ROOM], segment[ROOM];
	struct sn_frame_long whole = { frame, build_tcp(frame, 4321), TCP_HEADERS, 1000 };

	for (uint32_t i = 0; i < 5; i++)
		post(&ends[1], ROOM);
	send_frame(&ends[0], &how, frame, whole.bytes);
	expect_sent(&ends[0], MLX5_CQE_REQ, 0);
	for (uint32_t i = 0; i < 5; i++)
		expect(&ends[1], segment, sn_frame_segment(&whole, i, segment));
	expect_none(&ends[1]);
}

static void a_vlan_tag_goes_in_and_comes_out(void **state)
{
	const struct send how = { .opcode = MLX5_OPCODE_SEND, .vlan = 0x2064 };
	uint8_t frame[ROOM], tagged[ROOM];
	uint32_t bytes = build(frame, &ends[0], everybody, 400);
	struct mlx5_cqe64 *cqe;

	post(&ends[1], ROOM); /* takes it out of the frame */
	post(&ends[2], ROOM); /* leaves it in */
	send_frame(&ends[0], &how, frame, bytes);
	cqe = expect(&ends[1], frame, bytes);
	assert_int_equal(be16toh(cqe->vlan_info), 0x2064);
	assert_int_equal(cqe->l4_hdr_type_etc & 1, 1);
	memcpy(tagged, frame, 12);
	put32(tagged + 12, 0x81002064);
	memcpy(tagged + 16, frame + 12, bytes - 12);
	cqe = expect(&ends[2], tagged, bytes + 4);
	assert_int_equal(cqe->l4_hdr_type_etc & 1, 0);
}

static void a_bad_key_fails_the_ring(void **state)
{
	const struct send how = { .opcode = MLX5_OPCODE_SEND, .headers = INLINE, .key = 0xbad00 };
	uint8_t frame[ROOM];
	uint32_t bytes = build(frame, &ends[0], everybody, 64);
	bool failed;

	post(&ends[1], ROOM);
	send_frame(&ends[0], &how, frame, bytes);
	expect_sent(&ends[0], MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	assert_int_equal(sn_bridge_sq_failed(ends[0].guest.bridge, ends[0].sqn, &failed), 0);
	assert_true(failed);
	send_frame(&ends[0], &plain, frame, bytes);
	expect_none(&ends[1]);
	assert_int_equal(sn_bridge_sq_set_ready(ends[0].guest.bridge, ends[0].sqn, false), 0);
	ends[0].sent = 0;
	record(&ends[0], ends[0].sq_record + 4, 0);
	assert_int_equal(sn_bridge_sq_set_ready(ends[0].guest.bridge, ends[0].sqn, true), 0);
	send_frame(&ends[0], &plain, frame, bytes);
	expect(&ends[1], frame, bytes);
}

static void a_request_of_another_kind_fails_the_ring(void **state)
{
	const struct send how = { .opcode = MLX5_OPCODE_RDMA_WRITE, .headers = INLINE };
	uint8_t frame[ROOM];

	send_frame(&ends[0], &how, frame, build(frame, &ends[0], everybody, 64));
	expect_sent(&ends[0], MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
}

static void completion_queues_in_use_stay(void **state)
{
	struct sn_bridge *bridge = ends[0].guest.bridge;

	assert_int_equal(sn_bridge_cq_destroy(bridge, ends[0].scq.number), -EBUSY);
	assert_int_equal(sn_bridge_sq_destroy(bridge, ends[0].sqn), 0);
	assert_int_equal(sn_bridge_sq_destroy(bridge, ends[0].sqn), -ENOENT);
	assert_int_equal(sn_bridge_cq_destroy(bridge, ends[0].scq.number), 0);
	assert_int_equal(sn_bridge_rq_destroy(bridge, ends[0].rqn), 0);
	assert_int_equal(sn_bridge_rq_set_ready(bridge, ends[0].rqn, true), -ENOENT);
}

static void a_port_that_is_off_passes_nothing(void **state)
{
	uint8_t frame[ROOM];
	uint32_t bytes = build(frame, &ends[0], everybody, 64);

	post(&ends[1], ROOM);
	post(&ends[2], ROOM);
	sn_bridge_switch_off(ends[1].guest.bridge, true);
	assert_int_equal(guest_event(&ends[1].guest).event, SN_BRIDGE_PORT_DOWN);
	send_frame(&ends[0], &plain, frame, bytes);
	expect(&ends[2], frame, bytes);
	expect_none(&ends[1]);
	sn_bridge_switch_off(ends[1].guest.bridge, false);
	assert_int_equal(guest_event(&ends[1].guest).event, SN_BRIDGE_PORT_UP);
	send_frame(&ends[0], &plain, frame, bytes);
	expect(&ends[1], frame, bytes);
}

static void a_reset_forgets_the_rings(void **state)
{
	struct sn_bridge *bridge = ends[1].guest.bridge;
	uint8_t frame[ROOM];

	post(&ends[1], ROOM);
	assert_int_equal(sn_bridge_reset(bridge), 0);
	send_frame(&ends[0], &plain, frame, build(frame, &ends[0], everybody, 64));
	expect_sent(&ends[0], MLX5_CQE_REQ, 0);
	expect_none(&ends[1]);
	assert_int_equal(sn_bridge_rq_destroy(bridge, ends[1].rqn), -ENOENT);
}

/* ---- the frame of the tests ----------------------------------------------------------------- */

static int up(void **state)
{
	for (uint32_t nic = 0; nic < ENDS; nic++) {
		atomic_store(&fabric->nic[0][nic].end.mac, 0);
		end_up(&ends[nic], nic, nic == 2);
	}
	return 0;
}

static int down(void **state)
{
	for (uint32_t nic = 0; nic < ENDS; nic++)
		guest_stop(&ends[nic].guest);
	assert_int_equal(0, simnic_test_protocol_errors());
	return 0;
}

static int start(void **state)
{
	const struct sn_fabric_config config = {
		.n_hosts = 1, .n_nics = ENDS, .link_layer = SN_LINK_ETH, .joined = true
	};

	snprintf(fabric_name, sizeof(fabric_name), "ether-%d", (int)getpid());
	if (sn_fabric_create(fabric_name, &config))
		return -1;
	return sn_fabric_attach(fabric_name, &fabric);
}

static int stop(void **state)
{
	return sn_fabric_destroy(fabric_name);
}

#define T(what) cmocka_unit_test_setup_teardown(what, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_frame_to_all_is_everybody_elses),
		T(switches_learn_addresses),
		T(rings_wrap),
		T(without_a_receive_a_frame_is_lost),
		T(a_ring_that_is_not_ready_does_nothing),
		T(the_nic_fills_checksums_in),
		T(a_long_frame_is_cut),
		T(a_vlan_tag_goes_in_and_comes_out),
		T(a_bad_key_fails_the_ring),
		T(a_request_of_another_kind_fails_the_ring),
		T(completion_queues_in_use_stay),
		T(a_port_that_is_off_passes_nothing),
		T(a_reset_forgets_the_rings),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
