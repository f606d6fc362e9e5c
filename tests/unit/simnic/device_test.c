/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device engine in one process: two QPs of one NIC, connected to each other. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/device/testing.h"
#include "tests/lib/fork.h"
#include "tests/lib/simnic_ring.h"
#include "tests/lib/watch.h"

#define BUF (1 << 20)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define QUICK_MS       30
#define WATCHED_WRITES 4000

static struct sn_fabric *fabric;
static char fabric_name[32];
static struct sn_dev *dev;

/* Two ends; a posts, b answers. */
static struct rig {
	struct ring_cq acq, bcq;
	struct ring_qp a, b;
	uint8_t *src, *dst;
	uint32_t lkey, rkey, dummy;
} rig;

static const struct ring_qp_options rc_default = {
	.type = IBV_QPT_RC, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1
};

static void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static void rig_up_with(const struct ring_qp_options *options, uint32_t cqe_size)
{
	struct ring_qp_options a = *options, b = *options;
	const uint8_t *gid = fabric->nic[0][0].gid;

	a.uar_index = 0;
	b.uar_index = 1;
	ring_cq_make(dev, &rig.acq, cqe_size, true);
	ring_cq_make(dev, &rig.bcq, cqe_size, true);
	ring_qp_make(dev, &rig.a, &rig.acq, &rig.acq, &a);
	ring_qp_make(dev, &rig.b, &rig.bcq, &rig.bcq, &b);
	ring_qp_connect(&rig.a, gid, rig.b.qpn, &a);
	ring_qp_connect(&rig.b, gid, rig.a.qpn, &b);
	rig.src = calloc(1, BUF);
	rig.dst = calloc(1, BUF);
	assert_int_equal(0, sn_mr_reg(dev, 1, (uint64_t)rig.src, BUF, (uint64_t)rig.src, ACCESS,
				      &rig.lkey, &rig.dummy));
	assert_int_equal(0, sn_mr_reg(dev, 1, (uint64_t)rig.dst, BUF, (uint64_t)rig.dst, ACCESS,
				      &rig.rkey, &rig.dummy));
}

static int rig_up(void **state)
{
	rig_up_with(&rc_default, 64);
	return 0;
}

static int rig_down(void **state)
{
	assert_int_equal(0, simnic_test_protocol_errors());
	ring_qp_free(&rig.a);
	ring_qp_free(&rig.b);
	ring_cq_free(&rig.acq);
	ring_cq_free(&rig.bcq);
	assert_int_equal(0, sn_mr_dereg(dev, rig.lkey));
	assert_int_equal(0, sn_mr_dereg(dev, rig.rkey));
	free(rig.src);
	free(rig.dst);
	return 0;
}

static struct ring_wr wr_of(uint8_t opcode, uint32_t offset, uint32_t len)
{
	struct ring_wr wr = { .opcode = opcode,
			      .signaled = true,
			      .raddr = (uint64_t)rig.dst + offset,
			      .rkey = rig.rkey };

	if (len) {
		wr.n_sge = 1;
		wr.sge[0].addr = rig.src + offset;
		wr.sge[0].len = len;
		wr.sge[0].lkey = rig.lkey;
	}
	return wr;
}

static struct ring_wc expect(struct ring_cq *cq, uint8_t opcode, uint8_t syndrome, uint16_t index)
{
	struct ring_wc wc;

	assert_true(ring_wait(cq, &wc));
	assert_int_equal(opcode, wc.opcode);
	assert_int_equal(syndrome, wc.syndrome);
	assert_int_equal(index, wc.index);
	return wc;
}

static void expect_nothing(struct ring_cq *cq)
{
	struct ring_wc wc;

	nap_ms(QUICK_MS);
	assert_false(ring_poll(cq, &wc));
}

static uint32_t next_event(int fd)
{
	struct ib_uverbs_async_event_desc event;
	int tries;

	for (tries = 0; tries < 2000; tries++) {
		if (read(fd, &event, sizeof(event)) == sizeof(event))
			return event.event_type;
		nap_ms(1);
	}
	return UINT32_MAX;
}

/* The event follows its CQE; who has seen that may still have to wait for this. */
static uint64_t next_completion_event(int fd)
{
	uint64_t element;
	int tries;

	for (tries = 0; tries < 2000; tries++) {
		if (read(fd, &element, sizeof(element)) == sizeof(element))
			return element;
		nap_ms(1);
	}
	return 0;
}

/* ---- opcodes -------------------------------------------------------------------------------- */

static void write_and_read(void **state)
{
	static const uint32_t len[] = { 1, 8, 31, 320, 321, 4096, 300000, BUF };
	struct ring_wr wr;
	size_t i, k;

	for (i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		for (k = 0; k < len[i]; k++)
			rig.src[k] = (uint8_t)(k * 7 + i);
		memset(rig.dst, 0, BUF);
		wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, len[i]);
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		assert_memory_equal(rig.src, rig.dst, len[i]);
		memset(rig.src, 0xee, len[i]);
		wr = wr_of(MLX5_OPCODE_RDMA_READ, 0, len[i]);
		assert_int_equal(len[i],
				 expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr)).bytes);
		assert_memory_equal(rig.src, rig.dst, len[i]);
	}
}

static void send_and_receive(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_SEND, 0, 1000);
	struct ring_wc wc;
	int i;

	for (i = 0; i < 1000; i++)
		rig.src[i] = (uint8_t)i;
	ring_post_recv(&rig.b, rig.dst, 2000, rig.rkey);
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	wc = expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, 0);
	assert_int_equal(1000, wc.bytes);
	assert_int_equal(rig.b.qpn, wc.qpn);
	assert_int_equal(rig.b.uidx, wc.uidx);
	assert_memory_equal(rig.src, rig.dst, 1000);

	wr = wr_of(MLX5_OPCODE_SEND_IMM, 0, 0);
	wr.imm = 0xdeadbeef;
	ring_post_recv(&rig.b, NULL, 0, 0);
	ring_post(&rig.a, &wr);
	assert_int_equal(0xdeadbeef, expect(&rig.bcq, MLX5_CQE_RESP_SEND_IMM, 0, 1).imm);

	wr = wr_of(MLX5_OPCODE_RDMA_WRITE_IMM, 4000, 5000);
	wr.imm = 42;
	memset(rig.src, 0x5a, BUF);
	ring_post_recv(&rig.b, rig.dst, 10, rig.rkey);
	ring_post(&rig.a, &wr);
	wc = expect(&rig.bcq, MLX5_CQE_RESP_WR_IMM, 0, 2);
	assert_int_equal(5000, wc.bytes);
	assert_int_equal(42, wc.imm);
	assert_memory_equal(rig.src, rig.dst + 4000, 5000);
}

static void atomics(void **state)
{
	uint64_t *at = (uint64_t *)rig.dst, *old = (uint64_t *)rig.src;
	struct ring_wr wr = wr_of(MLX5_OPCODE_ATOMIC_FA, 0, 8);

	*at = 100;
	wr.swap_add = 5;
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(100, *old);
	assert_int_equal(105, *at);
	wr.opcode = MLX5_OPCODE_ATOMIC_CS;
	wr.compare = 105;
	wr.swap_add = 7;
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(105, *old);
	assert_int_equal(7, *at);
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(7, *old);
	assert_int_equal(7, *at);
	/* whoever has its answer finds it in memory */
	wr.opcode = MLX5_OPCODE_ATOMIC_FA;
	wr.swap_add = 1;
	for (uint64_t i = 8; i < 108; i++) {
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		assert_int_equal(i, *at);
	}
}

static void inline_sges_and_wrap(void **state)
{
	uint8_t bytes[200];
	struct ring_wr wr;
	uint32_t i, k;

	for (i = 0; i < 500; i++) {
		uint32_t len = 1 + i % sizeof(bytes);

		for (k = 0; k < len; k++)
			bytes[k] = rig.src[k] = (uint8_t)(i * 3 + k);
		wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 0);
		if (i & 1) {
			wr.inline_data = bytes;
			wr.inline_len = len;
		} else {
			wr.n_sge = 1 + len % 5;
			for (k = 0; k < wr.n_sge; k++) {
				wr.sge[k].addr = rig.src + k * (len / wr.n_sge);
				wr.sge[k].len = len / wr.n_sge ? len / wr.n_sge : 1;
				wr.sge[k].lkey = rig.lkey;
			}
			len = len / wr.n_sge ? len / wr.n_sge * wr.n_sge : 0;
		}
		memset(rig.dst, 0, 256);
		wr.blueflame = i % 3 == 0;
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		assert_memory_equal(rig.src, rig.dst, len);
	}
}

/* From any address to any address: the whole words between are written by one store each. */
static void words_are_whole(void **state)
{
	struct watch w;
	struct ring_wr wr;

	watch_begin(&w, watch_words, rig.dst + 8, 40);
	for (uint32_t i = 0; i < WATCHED_WRITES; i++) {
		uint32_t from = i % 13, to = 4 + i % 3;

		memset(rig.src, (int)(i % 251), 512);
		wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 0);
		wr.raddr = (uint64_t)rig.dst + to;
		wr.n_sge = 1;
		wr.sge[0].addr = rig.src + from;
		wr.sge[0].len = 8 + 40 * 8 + i % 5 - to;
		wr.sge[0].lkey = rig.lkey;
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		assert_memory_equal(rig.src + from, rig.dst + to, wr.sge[0].len);
	}
	watch_end(&w);
	assert_int_equal(0, w.torn);
}

static uint64_t torn_lines_seen(bool torn)
{
	struct watch w;
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 0);
	uint64_t line = ((uint64_t)rig.dst + 127) & ~127ULL;

	memset(rig.dst, 0, 1024);
	atomic_store(&fabric->nic[0][0].posted.torn, torn);
	watch_begin(&w, watch_line, (void *)line, WATCH_LINE_WORDS);
	wr.raddr = line;
	wr.n_sge = 1;
	wr.sge[0].addr = rig.src;
	wr.sge[0].len = 128;
	wr.sge[0].lkey = rig.lkey;
	/* On a busy machine the thread seldom runs within a microsecond of a write. */
	for (uint64_t i = 1; torn ? !w.torn && i < 100 * WATCHED_WRITES : i < WATCHED_WRITES; i++) {
		for (uint32_t k = 0; k < WATCH_LINE_WORDS; k++)
			((uint64_t *)rig.src)[k] = i;
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	}
	watch_end(&w);
	atomic_store(&fabric->nic[0][0].posted.torn, 0);
	assert_memory_equal(rig.src, (void *)line, 128);
	return w.torn;
}

static void lines_tear_when_asked(void **state)
{
	assert_int_equal(0, torn_lines_seen(false));
	assert_in_range(torn_lines_seen(true), 1, UINT64_MAX);
}

/* A request of inline data with pointers behind it, cut out of one pattern. */
static struct ring_wr mixed_wr(uint8_t opcode, uint32_t inline_len, uint32_t len, uint32_t n_sge)
{
	struct ring_wr wr = wr_of(opcode, 0, 0);
	uint32_t at = inline_len;

	wr.inline_data = rig.src;
	wr.inline_len = inline_len;
	for (; wr.n_sge < n_sge; wr.n_sge++) {
		uint32_t take = wr.n_sge == n_sge - 1 ? len - at : (len - at) / n_sge;

		wr.sge[wr.n_sge].addr = rig.src + at;
		wr.sge[wr.n_sge].len = take;
		wr.sge[wr.n_sge].lkey = rig.lkey;
		at += take;
	}
	return wr;
}

/* As UCX posts: a header inline, and a pointer to the rest. Short, staged, and pulled payload. */
static void inline_before_pointers(void **state)
{
	static const uint32_t lens[] = { 65, 200, 320, 321, 5000, 300000 };
	struct ring_wr wr;

	for (uint32_t i = 0; i < 300; i++) {
		uint32_t len = lens[i % 6], first = 1 + i % 60, n_sge = 1 + i % 3;
		bool sends = i & 1;

		for (uint32_t k = 0; k < len; k++)
			rig.src[k] = (uint8_t)(i * 11 + k * 3 + (k >> 8));
		memset(rig.dst, 0, len + 1);
		wr = mixed_wr(sends ? MLX5_OPCODE_SEND : MLX5_OPCODE_RDMA_WRITE, first, len, n_sge);
		if (sends)
			ring_post_recv(&rig.b, rig.dst, BUF, rig.rkey);
		wr.blueflame = i % 5 == 0;
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		if (sends)
			assert_int_equal(len, expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, i / 2).bytes);
		assert_memory_equal(rig.src, rig.dst, len);
		assert_int_equal(0, rig.dst[len]);
	}
}

static void inline_is_no_place_for_an_answer(void **state)
{
	struct ring_wr wr = mixed_wr(MLX5_OPCODE_RDMA_READ, 8, 65, 1);

	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
	       ring_post(&rig.a, &wr));
}

static void scatter_to_cqe(void **state)
{
	struct ring_qp_options options = rc_default;
	struct ring_wr wr;
	struct ring_wc wc;

	rig_down(NULL);
	options.scatter = true;
	rig_up_with(&options, 128);
	memset(rig.src, 0x77, 64);
	wr = wr_of(MLX5_OPCODE_SEND, 0, 60);
	ring_post_recv(&rig.b, rig.dst, 100, rig.rkey);
	ring_post(&rig.a, &wr);
	wc = expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, 0);
	assert_true(wc.scattered);
	assert_memory_equal(wc.data, rig.src, 60);
	assert_int_equal(0, rig.dst[0]);
	expect(&rig.acq, MLX5_CQE_REQ, 0, 0);
	memset(rig.dst, 0x33, 64);
	wr = wr_of(MLX5_OPCODE_RDMA_READ, 0, 64);
	wc = expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_true(wc.scattered);
	assert_memory_equal(wc.data, rig.dst, 64);
	assert_int_equal(0x77, rig.src[0]);
}

/* docs/hardware.md says what speaks against it. */
static void atomic_in_the_cqe_is_the_host_s_number(void **state)
{
	struct ring_qp_options options = rc_default;
	struct ring_wr wr;
	struct ring_wc wc;
	uint64_t got;

	rig_down(NULL);
	options.scatter = true;
	rig_up_with(&options, 64);
	*(uint64_t *)rig.dst = 0x0102030405060708;
	wr = wr_of(MLX5_OPCODE_ATOMIC_FA, 0, 8);
	wr.swap_add = 1;
	wc = expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_true(wc.scattered);
	memcpy(&got, wc.data, sizeof(got));
	assert_int_equal(0x0102030405060708, got);
	assert_int_equal(0x0102030405060709, *(uint64_t *)rig.dst);
	assert_int_equal(0, *(uint64_t *)rig.src);
}

static void nop_and_fence(void **state)
{
	struct ring_wr nop = { .opcode = MLX5_OPCODE_NOP, .signaled = true, .n_sge = 3 };
	struct ring_wr rd = wr_of(MLX5_OPCODE_RDMA_READ, 0, BUF / 2);
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, BUF / 2);
	uint16_t first, second, third;

	memset(rig.dst, 1, BUF);
	memset(rig.src, 2, BUF);
	wr.fence = true; /* without it the READ could see the WRITE, or overwrite its source */
	first = ring_write_wqe(&rig.a, &rd);
	second = ring_write_wqe(&rig.a, &nop);
	third = ring_write_wqe(&rig.a, &wr);
	ring_publish_record(&rig.a);
	ring_doorbell(&rig.a, false);
	expect(&rig.acq, MLX5_CQE_REQ, 0, first);
	assert_int_equal(MLX5_OPCODE_NOP, expect(&rig.acq, MLX5_CQE_REQ, 0, second).wr_opcode);
	expect(&rig.acq, MLX5_CQE_REQ, 0, third);
	assert_int_equal(1, rig.dst[0]);
	assert_int_equal(1, rig.dst[BUF / 2 - 1]);
}

static void unsignaled_runs(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 64);
	uint16_t last = 0;
	int i;

	for (i = 0; i < 2000; i++) {
		wr.signaled = i % 20 == 19;
		last = ring_post(&rig.a, &wr);
		if (wr.signaled)
			expect(&rig.acq, MLX5_CQE_REQ, 0, last);
	}
	expect_nothing(&rig.acq);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void local_protection(void **state)
{
	struct ring_wr good = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 64), bad = good;
	uint16_t first, second, third;

	good.signaled = false;
	bad.sge[0].lkey ^= 0x100;
	first = ring_write_wqe(&rig.a, &good);
	second = ring_write_wqe(&rig.a, &bad);
	third = ring_write_wqe(&rig.a, &good);
	ring_publish_record(&rig.a);
	ring_doorbell(&rig.a, false);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, second);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, third);
	assert_int_not_equal(first, second);
	/* ... and what is posted later is flushed too, receives included. */
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	       ring_post(&rig.a, &good));
	ring_post_recv(&rig.a, rig.src, 64, rig.lkey);
	expect(&rig.acq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
}

static void remote_access(void **state)
{
	struct ring_wr bad = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 64);

	bad.raddr = (uint64_t)rig.dst + BUF - 63;
	ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,
	       ring_post(&rig.a, &bad));
	expect(&rig.bcq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
	assert_int_equal(IBV_EVENT_QP_ACCESS_ERR, next_event(rig.b.async_fd));
}

/* An unreliable connection takes each message, wherever its sequence number lies (IBA 9.8.2.2.1). */
static void uc_takes_any_sequence_number(void **state)
{
	static const int32_t off[] = { 0, 1, -1, 1000, -1000, 0x7fffff, -0x7fffff, -0x800000 };
	struct ring_qp_options options = rc_default;
	struct ring_wr wr;

	options.type = IBV_QPT_UC;
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		rig_down(NULL);
		options.psn_off = off[i];
		rig_up_with(&options, 64);
		wr = wr_of(MLX5_OPCODE_SEND, 0, 64);
		for (uint16_t k = 0; k < 20; k++) {
			ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
			expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
			expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, k);
		}
	}
}

static void receive_too_short(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_SEND, 0, 65);

	ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR,
	       ring_post(&rig.a, &wr));
	expect(&rig.bcq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, 0);
}

static void rnr_waits_and_gives_up(void **state)
{
	struct ring_qp_options options = rc_default;
	struct ring_wr wr = wr_of(MLX5_OPCODE_SEND, 0, 64);

	ring_post(&rig.a, &wr); /* rnr_retry 7: for ever */
	expect_nothing(&rig.acq);
	ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
	expect(&rig.acq, MLX5_CQE_REQ, 0, 0);
	expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, 0);
	rig_down(NULL);
	options.rnr_retry = 3;
	rig_up_with(&options, 64);
	wr = wr_of(MLX5_OPCODE_SEND, 0, 64);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
	       ring_post(&rig.a, &wr));
}

static void retry_exceeded(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 64);
	struct timespec t0, t1;
	uint16_t first, second;
	double s;

	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	atomic_store(&fabric->nic[0][0].port_up, 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	first = ring_post(&rig.a, &wr);
	second = ring_post(&rig.a, &wr);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, first);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, second);
	atomic_store(&fabric->nic[0][0].port_up, 1);
	/* 4.096 us * 2^14 * (7 + 1), never less. */
	s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
	assert_true(s > 0.536);
}

static void error_and_reset_by_command(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_SEND, 0, 64);

	ring_post(&rig.a, &wr); /* nobody receives: stays outstanding */
	ring_post_recv(&rig.a, rig.src, 64, rig.lkey);
	assert_int_equal(0, ring_qp_to(&rig.a, IBV_QPS_ERR));
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
	expect(&rig.acq, MLX5_CQE_RESP_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
	assert_int_equal(0, ring_qp_to(&rig.a, IBV_QPS_RESET));
	assert_int_equal(0, ring_qp_to(&rig.b, IBV_QPS_RESET));
	ring_qp_connect(&rig.a, fabric->nic[0][0].gid, rig.b.qpn, &rc_default);
	ring_qp_connect(&rig.b, fabric->nic[0][0].gid, rig.a.qpn, &rc_default);
	wr.opcode = MLX5_OPCODE_RDMA_WRITE;
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(-EINVAL, ring_qp_to(&rig.a, IBV_QPS_INIT));
}

/* ---- doorbells, events ---------------------------------------------------------------------- */

static void record_alone_moves_nothing(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint16_t first, second;

	first = ring_write_wqe(&rig.a, &wr);
	ring_publish_record(&rig.a);
	expect_nothing(&rig.acq);
	second = ring_write_wqe(&rig.a, &wr);
	ring_publish_record(&rig.a);
	expect_nothing(&rig.acq);
	ring_doorbell(&rig.a, false);
	expect(&rig.acq, MLX5_CQE_REQ, 0, first);
	expect(&rig.acq, MLX5_CQE_REQ, 0, second);
	/* Only as far as the register said. */
	first = ring_post(&rig.a, &wr);
	second = ring_write_wqe(&rig.a, &wr);
	ring_publish_record(&rig.a);
	expect(&rig.acq, MLX5_CQE_REQ, 0, first);
	expect_nothing(&rig.acq);
	ring_doorbell(&rig.a, false);
	expect(&rig.acq, MLX5_CQE_REQ, 0, second);
}

static void wait_errors(uint64_t count)
{
	int tries;

	for (tries = 0; tries < 5000 && simnic_test_protocol_errors() < count; tries++)
		nap_ms(1);
	assert_int_equal(count, simnic_test_protocol_errors());
}

/*
 * Copies are held to the ring only on a register that the device has found quiet for a time; and what
 * differs is an error when it has stood for one.
 */
static void copy_differs(uint64_t *reg)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 0);

	wr.inline_data = "abcdefgh";
	wr.inline_len = 8;
	nap_ms(2 * QUICK_MS);
	ring_write_wqe(&rig.a, &wr);
	ring_publish_record(&rig.a);
	reg[5] = 0x1111;
	__atomic_store_n(reg, *(uint64_t *)(rig.a.sq + (rig.a.last_idx % RING_SQ_BB) * 64),
			 __ATOMIC_RELEASE);
	nap_ms(2 * QUICK_MS);
}

static void wrong_doorbells_are_counted(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 0);
	uint64_t *reg = (uint64_t *)(rig.a.uar + 0x800), before = simnic_test_protocol_errors();
	int tries;

	wr.inline_data = "abcdefgh";
	wr.inline_len = 8;
	ring_write_wqe(&rig.a, &wr);
	ring_doorbell(&rig.a, false); /* register before record */
	wait_errors(before + 1);
	ring_publish_record(&rig.a);
	__atomic_store_n(reg, htobe64((uint64_t)rig.a.qpn << 8 | 4 | 77ULL << 40 | 8ULL << 32),
			 __ATOMIC_RELEASE); /* index of no WQE */
	wait_errors(before + 2);
	for (tries = 0; tries < 100 && simnic_test_protocol_errors() < before + 3; tries++)
		copy_differs(reg);
	assert_true(simnic_test_protocol_errors() >= before + 3);
}

static void arming(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint64_t element;

	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(-1, read(rig.acq.event_fd, &element, 8));
	ring_arm(&rig.acq, &rig.a, 0, false);
	nap_ms(QUICK_MS);
	assert_int_equal(-1, read(rig.acq.event_fd, &element, 8)); /* nothing new */
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal((uint64_t)&rig.acq, next_completion_event(rig.acq.event_fd));
	assert_int_equal(-1, read(rig.acq.event_fd, &element, 8)); /* once */
	/* Behind the consumer at arming: fires at once. */
	ring_post(&rig.a, &wr);
	nap_ms(QUICK_MS);
	ring_arm(&rig.acq, &rig.a, 1, false);
	assert_int_equal((uint64_t)&rig.acq, next_completion_event(rig.acq.event_fd));
}

static void arming_solicited(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_SEND, 0, 8);
	uint64_t element;

	ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
	ring_post_recv(&rig.b, rig.dst, 64, rig.rkey);
	ring_arm(&rig.bcq, &rig.b, 0, true);
	nap_ms(QUICK_MS);
	ring_post(&rig.a, &wr);
	expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, 0);
	nap_ms(QUICK_MS);
	assert_int_equal(-1, read(rig.bcq.event_fd, &element, 8));
	wr.solicited = true;
	ring_post(&rig.a, &wr);
	expect(&rig.bcq, MLX5_CQE_RESP_SEND, 0, 1);
	assert_int_equal((uint64_t)&rig.bcq, next_completion_event(rig.bcq.event_fd));
}

static void frozen_consumes_nothing(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint64_t value;
	uint32_t uar;

	simnic_test_freeze(true);
	ring_post(&rig.a, &wr);
	expect_nothing(&rig.acq);
	memcpy(&value, rig.a.uar + 0x800, 8);
	assert_memory_equal(&value, rig.a.sq, 8);
	assert_ptr_equal(rig.b.uar, simnic_test_uar(0, &uar));
	assert_int_equal(1, uar);
	simnic_test_freeze(false);
	expect(&rig.acq, MLX5_CQE_REQ, 0, 0);
}

static void injected_cqe(void **state)
{
	struct mlx5_cqe64 cqe = { .wqe_counter = htobe16(77), .op_own = MLX5_CQE_RESP_SEND << 4 };

	assert_int_equal(0, simnic_test_inject_cqe(rig.acq.cqn, &cqe, NULL));
	expect(&rig.acq, MLX5_CQE_RESP_SEND, 0, 77);
	assert_int_equal(-ENOENT, simnic_test_inject_cqe(999999, &cqe, NULL));
}

static void datagrams(void **state)
{
	struct ring_qp_options options = { .type = IBV_QPT_UD };
	struct mlx5_wqe_av av = { .key.qkey.qkey = htobe32(0x1234) };
	struct ring_wr wr;
	struct ring_wc wc;
	uint32_t len;

	rig_down(NULL);
	rig_up_with(&options, 64);
	av.dqp_dct = htobe32(0x80000000u | rig.b.qpn);
	memcpy(av.rgid, fabric->nic[0][0].gid, 16);
	for (len = 4; len <= 4096; len *= 32) {
		memset(rig.src, (int)len + 1, len);
		wr = wr_of(MLX5_OPCODE_SEND, 0, len);
		wr.av = &av;
		ring_post_recv(&rig.b, rig.dst, 5000, rig.rkey);
		expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
		assert_true(ring_wait(&rig.bcq, &wc));
		assert_int_equal(len + 40, wc.bytes);
		assert_memory_equal(rig.src, rig.dst + 40, len);
	}
	av.key.qkey.qkey = htobe32(0x4321); /* refused, silently */
	ring_post_recv(&rig.b, rig.dst, 5000, rig.rkey);
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	expect_nothing(&rig.bcq);
}

/* NCCL's flush: a QP connected to itself reads its own memory. */
static void connected_to_itself(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_READ, 0, 4096);

	assert_int_equal(0, ring_qp_to(&rig.a, IBV_QPS_RESET));
	ring_qp_connect(&rig.a, fabric->nic[0][0].gid, rig.a.qpn, &rc_default);
	memset(rig.dst, 0x42, 4096);
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_memory_equal(rig.src, rig.dst, 4096);
	wr.opcode = MLX5_OPCODE_SEND;
	ring_post_recv(&rig.a, rig.dst, 4096, rig.rkey);
	ring_post(&rig.a, &wr);
	expect(&rig.acq, MLX5_CQE_RESP_SEND, 0, 0);
	expect(&rig.acq, MLX5_CQE_REQ, 0, 1);
}

/* The N-th message itself is lost, and the one before it is not. */
static void fault_at_message(void **state)
{
	struct sn_fault fault = { .kind = SN_FAULT_PORT_DOWN };
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint64_t *src = (uint64_t *)rig.src, *dst = (uint64_t *)rig.dst;
	uint16_t index[4];
	int i;

	fault.at_message = atomic_load(&fabric->nic[0][0].count.tx_messages) + 3;
	assert_int_equal(0, sn_fault_arm(fabric, &fault));
	for (i = 0; i < 4; i++) {
		wr.sge[0].addr = &src[i];
		wr.raddr = (uint64_t)&dst[i];
		src[i] = (uint64_t)i + 1;
		index[i] = ring_write_wqe(&rig.a, &wr);
	}
	ring_publish_record(&rig.a);
	ring_doorbell(&rig.a, false);
	/* The port is down before the first two are acknowledged: all four fail ... */
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, index[0]);
	/* ... and as the link was down when the receiver looked, none has landed. */
	assert_int_equal(0, dst[2]);
	for (i = 1; i < 4; i++)
		expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, index[i]);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
}

/* At the end of a packet, which the responder's expected number tells. */
static void message_cut_in_the_middle(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 10 * 4096);
	struct ib_uverbs_query_qp_resp before, after;
	uint32_t packets;

	memset(rig.src, 0x99, 10 * 4096);
	assert_int_equal(0, sn_qp_query(rig.b.qp, &before));
	sn_fault_apply(fabric, SN_FAULT_CUT_MESSAGE, 0, 0, 0);
	expect(&rig.acq, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
	       ring_post(&rig.a, &wr));
	assert_int_equal(0, sn_qp_query(rig.b.qp, &after));
	packets = (after.rq_psn - before.rq_psn) & 0xffffff;
	assert_in_range(packets, 1, 9);
	assert_int_equal(0x99, rig.dst[packets * 4096 - 1]);
	assert_int_equal(0, rig.dst[packets * 4096]);
	assert_int_equal(0, atomic_load(&fabric->nic[0][0].port_up));
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
}

/* A NIC with an internal error flushes nothing and writes no CQE, and stays so for this context. */
static void internal_error(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	int fd[2];

	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd));
	sn_dev_set_async_fd(dev, fd[1]);
	sn_fault_apply(fabric, SN_FAULT_NIC_INTERNAL_ERROR, 0, 0, 0);
	ring_post(&rig.a, &wr);
	assert_int_equal(IBV_EVENT_DEVICE_FATAL, next_event(fd[0]));
	assert_int_equal(0, sn_qp_modify_dead(rig.a.qp, IBV_QPS_ERR));
	expect_nothing(&rig.acq);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
	expect_nothing(&rig.acq);
	sn_dev_set_async_fd(dev, -1);
	close(fd[0]);
	close(fd[1]);
}

static void port_events(void **state)
{
	struct ring_wr wr = wr_of(MLX5_OPCODE_RDMA_WRITE, 0, 8);
	int fd[2];

	/* the device has been round once, and seen how the last test left the port */
	expect(&rig.acq, MLX5_CQE_REQ, 0, ring_post(&rig.a, &wr));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd));
	sn_dev_set_async_fd(dev, fd[1]);
	sn_fault_apply(fabric, SN_FAULT_PORT_DOWN, 0, 0, 0);
	assert_int_equal(IBV_EVENT_PORT_ERR, next_event(fd[0]));
	sn_fault_apply(fabric, SN_FAULT_PORT_UP, 0, 0, 0);
	assert_int_equal(IBV_EVENT_PORT_ACTIVE, next_event(fd[0]));
	sn_dev_set_async_fd(dev, -1);
	close(fd[0]);
	close(fd[1]);
}

static int start(void **state)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1
	};

	snprintf(fabric_name, sizeof(fabric_name), "unit-dev-%d", getpid());
	if (sn_fabric_create(fabric_name, &config) || sn_fabric_attach(fabric_name, &fabric))
		return -1;
	return sn_device_start(fabric, 0) || sn_dev_open(0, &dev) ? -1 : 0;
}

static int stop(void **state)
{
	sn_dev_close(dev);
	return sn_fabric_destroy(fabric_name);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_up, rig_down)

/* Ends its own rig: it provokes protocol errors on purpose, which rig_down minds. */
static int rig_down_last(void **state)
{
	ring_qp_free(&rig.a);
	ring_qp_free(&rig.b);
	free(rig.src);
	free(rig.dst);
	return 0;
}

/* ---- whose buffers are being read ------------------------------------------------------------ */

static _Atomic uint64_t *pulls_of(const struct ring_qp *qp)
{
	return &fabric->nic[0][0].qpn_gen[qp->qpn];
}

static _Atomic bool pull_is_over;

static void *end_pull_later(void *ms)
{
	nap_ms((long)(intptr_t)ms);
	atomic_store(&pull_is_over, true);
	atomic_fetch_sub(pulls_of(&rig.a), 1);
	return NULL;
}

/* A pull by the process of the other end, which lasts so long, while the QP goes to ERR: had it ended by then? */
static bool waits_for_pull(long ms)
{
	pthread_t thread;
	bool over;

	atomic_store(&pull_is_over, false);
	atomic_fetch_add(pulls_of(&rig.a), 1);
	assert_int_equal(0, pthread_create(&thread, NULL, end_pull_later, (void *)(intptr_t)ms));
	assert_int_equal(0, ring_qp_to(&rig.a, IBV_QPS_ERR));
	over = atomic_load(&pull_is_over);
	assert_int_equal(0, pthread_join(thread, NULL));
	return over;
}

/* It may get no processor for long in the middle of it. */
static void who_reads_slowly_is_waited_for(void **state)
{
	assert_true(waits_for_pull(800));
}

static void who_is_stopped_is_not_waited_for(void **state)
{
	_Atomic uint16_t *owner = &fabric->nic[0][0].qpn_owner[rig.b.qpn];
	struct sn_proc *proc = &fabric->proc[SN_MAX_PROCS - 1];
	uint16_t before = atomic_load(owner);
	pid_t pid = test_fork();
	bool waited;

	if (!pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(pid, waitpid(pid, NULL, WUNTRACED));
	atomic_store(&proc->pid, pid);
	atomic_store(owner, SN_MAX_PROCS);
	waited = waits_for_pull(5000);
	atomic_store(owner, before);
	atomic_store(&proc->pid, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(waited);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(write_and_read),
		T(send_and_receive),
		T(atomics),
		T(inline_sges_and_wrap),
		T(words_are_whole),
		T(lines_tear_when_asked),
		T(inline_before_pointers),
		T(inline_is_no_place_for_an_answer),
		T(scatter_to_cqe),
		T(atomic_in_the_cqe_is_the_host_s_number),
		T(nop_and_fence),
		T(unsignaled_runs),
		T(local_protection),
		T(remote_access),
		T(uc_takes_any_sequence_number),
		T(receive_too_short),
		T(rnr_waits_and_gives_up),
		T(retry_exceeded),
		T(error_and_reset_by_command),
		T(record_alone_moves_nothing),
		T(arming),
		T(arming_solicited),
		T(frozen_consumes_nothing),
		T(injected_cqe),
		T(datagrams),
		T(connected_to_itself),
		T(fault_at_message),
		T(message_cut_in_the_middle),
		T(port_events),
		T(who_reads_slowly_is_waited_for),
		T(who_is_stopped_is_not_waited_for),
		cmocka_unit_test_setup_teardown(wrong_doorbells_are_counted, rig_up, rig_down_last),
		cmocka_unit_test_setup_teardown(internal_error, rig_up, rig_down_last),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
