/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/rel/ctrl_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct sdr_ctrl in, out;
static uint8_t bytes[SDR_CTRL_MAX + 64];
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return below ? (seed >> 33) % below : 0;
}

static void fill_plan(struct sdr_plan *p)
{
	*p = (struct sdr_plan){
		.kind = SDR_SCHEME_EC, .code = SDR_CODE_XOR, .chunks = 1000, .k = 32, .m = 8
	};
	p->inject_ns = 81;
	p->rtt_ns = 25000000;
	p->reorder_ns = 3;
	p->rto_ns = 75000000;
	p->fto_ns = 25000000;
	p->imm = 0xdeadbeef;
	p->bytes = 1 << 30;
	sdr_plan_lay(p, 1.25);
}

static void fill(enum sdr_ctrl_type type)
{
	memset(&in, 0, sizeof(in));
	in.head = (struct sdr_ctrl_head){ type, SDR_CTRL_ASKS,	   0x01020304, 5, 6, 7, 1ull << 40,
					  9,	{ 0x81, [7] = 3 }, 2 };
	in.join = (struct sdr_ctrl_join){ .nic = 7,
					  .life = 251,
					  .stage = SDR_STAGE_MADE,
					  .lid = 0xffff,
					  .gid = { 1, [15] = 2 },
					  .n_controls = 8,
					  .n_channels = 64 };
	for (uint32_t i = 0; i < SDR_CTRL_QPS; i++)
		in.join.qpn[i] = in.join.control_qpn[i % SDR_CTRL_NICS] = 0xfffff0 + i;
	in.n = 1ull << 33 | 5;
	in.count = 64;
	in.status = -5;
	in.keys = 4;
	for (uint32_t i = 0; i < SDR_CTS_MAX; i++)
		in.cts[i] = (struct sdr_cts){
			i, 2 * i, { 3 * i, ~i, 5 * i, 7 }, i % 2, ~(uint64_t)i << 7
		};
	for (uint32_t i = 0; i < SDR_CTRL_WORDS; i++) {
		in.have[i] = i * 0x0123456789abcdefull;
		in.wanted[i] = ~in.have[i];
	}
	in.ack = (struct sdr_ack){ in.n, 77, 128, SDR_WINDOW_BITS, true, true, in.have, in.wanted };
	fill_plan(&in.plan);
}

static void test_there_and_back(void **state)
{
	for (int type = SDR_CTRL_CTS; type <= SDR_CTRL_JOIN; type++) {
		int size;

		fill((enum sdr_ctrl_type)type);
		size = sdr_ctrl_write(&in, bytes, sizeof(bytes));
		assert_in_range(size, SDR_CTRL_HEAD, SDR_CTRL_MAX);
		assert_int_equal(sdr_ctrl_read(&out, bytes, (size_t)size), 0);
		assert_memory_equal(&in.head, &out.head, sizeof(in.head));
		if (type == SDR_CTRL_JOIN)
			assert_memory_equal(&in.join, &out.join, sizeof(in.join));
		else if (type != SDR_CTRL_KNOWN)
			assert_true(out.n == in.n);
		if (type == SDR_CTRL_CTS)
			for (int i = 0; i < 64; i++)
				assert_true(in.cts[i].addr == out.cts[i].addr &&
					    in.cts[i].length == out.cts[i].length &&
					    !memcmp(in.cts[i].rkeys, out.cts[i].rkeys,
						    sizeof(in.cts[i].rkeys)) &&
					    in.cts[i].gone == out.cts[i].gone &&
					    in.cts[i].word == out.cts[i].word);
		if (type == SDR_CTRL_ACK) {
			assert_memory_equal(in.have, out.have, sizeof(in.have));
			assert_memory_equal(in.wanted, out.wanted, sizeof(in.wanted));
			assert_true(out.ack.want && out.ack.decoded && out.ack.base == 128);
		}
		if (type == SDR_CTRL_OFFER)
			assert_memory_equal(&in.plan, &out.plan, sizeof(in.plan));
		/* One byte less or more is another message. */
		for (int n = 0; n < size; n++)
			assert_true(sdr_ctrl_read(&out, bytes, (size_t)n) < 0);
		assert_int_equal(sdr_ctrl_read(&out, bytes, (size_t)size + 1), -EBADMSG);
	}
}

static void test_head_on_the_wire(void **state)
{
	static const uint8_t head[SDR_CTRL_HEAD] = { 4,	   SDR_CTRL_PROBE,
						     1,	   0,
						     4,	   3,
						     2,	   1,
						     5,	   0,
						     0,	   0,
						     6,	   0,
						     0,	   0,
						     7,	   0,
						     0,	   0,
						     0,	   0,
						     0,	   0,
						     0,	   1,
						     0,	   0,
						     9,	   0,
						     0,	   0,
						     0x81, 0,
						     0,	   0,
						     0,	   0,
						     0,	   3,
						     2,	   0,
						     0,	   0 };

	fill(SDR_CTRL_PROBE);
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), SDR_CTRL_HEAD + 8);
	assert_memory_equal(bytes, head, sizeof(head));
}

static void test_versions(void **state)
{
	fill(SDR_CTRL_KNOWN);
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), SDR_CTRL_HEAD);
	bytes[0] = SDR_CTRL_VERSION + 1;
	assert_int_equal(sdr_ctrl_read(&out, bytes, SDR_CTRL_HEAD), -EPROTONOSUPPORT);
	bytes[0] = SDR_CTRL_VERSION;
	bytes[1] = 99;
	assert_int_equal(sdr_ctrl_read(&out, bytes, SDR_CTRL_HEAD), -EBADMSG);
	assert_string_equal(sdr_ctrl_name(SDR_CTRL_OFFER), "OFFER");
}

static void test_nonsense(void **state)
{
	int size;

	fill(SDR_CTRL_CTS);
	in.count = 0;
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), -EINVAL);
	fill(SDR_CTRL_CTS);
	in.keys = SDR_RKEYS_MAX + 1;
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), -EINVAL);
	fill(SDR_CTRL_ACK);
	in.ack.nbits = SDR_WINDOW_BITS + 1;
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), -EINVAL);
	fill(SDR_CTRL_ACK);
	in.ack.base = 1;
	assert_int_equal(sdr_ctrl_write(&in, bytes, sizeof(bytes)), -EINVAL);
	fill(SDR_CTRL_DONE);
	in.status = 1; /* would be success and failure */
	size = sdr_ctrl_write(&in, bytes, sizeof(bytes));
	assert_int_equal(sdr_ctrl_read(&out, bytes, (size_t)size), -EBADMSG);
	fill(SDR_CTRL_OFFER);
	in.plan.parity = 1;
	size = sdr_ctrl_write(&in, bytes, sizeof(bytes));
	assert_int_equal(sdr_ctrl_read(&out, bytes, (size_t)size), -EBADMSG);
	assert_int_equal(sdr_ctrl_write(&in, bytes, 44), -EINVAL); /* no room */
}

/* Whatever comes is refused, or is what would have been written. */
static void test_random_changes(void **state)
{
	const char *given = getenv("SDR_WIRE_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("SDR_WIRE_SEED=%llu\n", (unsigned long long)seed);
	for (int round = 0; round < 60000; round++) {
		static uint8_t again[SDR_CTRL_MAX];
		int size, changes = 1 + (int)draw(4);

		fill((enum sdr_ctrl_type)(1 + draw(SDR_CTRL_KNOWN)));
		in.ack.nbits = (uint32_t)draw(300);
		in.count = 1 + (uint32_t)draw(4);
		in.keys = 1 + (uint32_t)draw(SDR_RKEYS_MAX);
		size = sdr_ctrl_write(&in, bytes, sizeof(bytes));
		assert_true(size > 0);
		for (int i = 0; i < changes; i++)
			bytes[draw((uint64_t)size)] ^= (uint8_t)(1 << draw(8));
		if (sdr_ctrl_read(&out, bytes, (size_t)size))
			continue;
		assert_int_equal(sdr_ctrl_write(&out, again, sizeof(again)), size);
		assert_memory_equal(bytes, again, (size_t)size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_head_on_the_wire),
		cmocka_unit_test(test_versions),       cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_random_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
