/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/rel/rel.h"

#include <stdlib.h>
#include <string.h>

static struct sdr_plan make(enum sdr_scheme_kind kind, uint32_t chunks, uint32_t k, uint32_t m)
{
	struct sdr_plan p = { .kind = kind, .chunks = chunks, .k = k, .m = m, .bytes = 1 };

	p.inject_ns = 1000;
	p.rtt_ns = 100000;
	p.rto_ns = 300000;
	sdr_plan_lay(&p, 1.25);
	return p;
}

/* Every chunk and every parity is in one submessage, none above k and m, all of a block as even as can be. */
static void check(const struct sdr_plan *p)
{
	uint32_t coded = p->chunks - p->coded_from, n = sdr_plan_submessages(p), data = 0,
		 parity = 0;
	uint8_t *seen = calloc(1, coded + p->parity + 1);

	assert_true(sdr_plan_valid(p));
	for (uint32_t s = 0; s < n; s++) {
		struct sdr_submessage m = sdr_plan_submessage(p, s);

		assert_in_range(m.data, 1, p->k);
		assert_in_range(m.parity, 1, p->m);
		data += m.data;
		parity += m.parity;
		for (uint32_t i = 0; i < m.data; i++) {
			assert_int_equal(sdr_plan_of_data(p, m.data_first + i * m.stride), s);
			assert_int_equal(seen[m.data_first + i * m.stride]++, 0);
		}
		for (uint32_t i = 0; i < m.parity; i++) {
			assert_int_equal(sdr_plan_of_parity(p, m.parity_first + i * m.stride), s);
			assert_int_equal(seen[coded + m.parity_first + i * m.stride]++, 0);
		}
	}
	assert_int_equal(data, coded);
	assert_int_equal(parity, p->parity);
	free(seen);
}

static void test_lays(void **state)
{
	static const uint32_t codes[][2] = { { 32, 8 }, { 32, 2 }, { 8, 3 },
					     { 1, 1 },	{ 5, 5 },  { 200, 55 } };

	for (size_t c = 0; c < 6; c++)
		for (uint32_t chunks = 1; chunks < 5000;
		     chunks = chunks < 300 ? chunks + 1 : chunks * 3 / 2) {
			struct sdr_plan p = make(SDR_SCHEME_EC, chunks, codes[c][0], codes[c][1]);

			assert_int_equal(p.coded_from, 0);
			check(&p);
			p = make(SDR_SCHEME_HYBRID, chunks, codes[c][0], codes[c][1]);
			assert_int_equal(p.chunks - p.coded_from, chunks < 126 ? chunks : 126);
			check(&p);
		}
}

/* A burst no longer than there are submessages in a block takes one chunk of each. */
static void test_interleaves(void **state)
{
	struct sdr_plan p = make(SDR_SCHEME_EC, 64 * 32 * 2, 32, 8);

	for (uint32_t first = 0; first + 64 < 64 * 32; first++) {
		uint64_t seen = 0;

		for (uint32_t i = first; i < first + 64; i++)
			seen |= 1ull << sdr_plan_of_data(&p, i);
		assert_true(seen == ~0ull);
	}
}

static void test_nonsense(void **state)
{
	struct sdr_plan p = make(SDR_SCHEME_EC, 100, 32, 8), q = p;

	assert_true(sdr_plan_valid(&p));
	q.chunks = 0;
	assert_false(sdr_plan_valid(&q));
	q = p;
	q.k = 250;
	assert_false(sdr_plan_valid(&q));
	q = p;
	q.parity++;
	assert_false(sdr_plan_valid(&q));
	q = p;
	q.depth = 65;
	assert_false(sdr_plan_valid(&q));
	q = p;
	q.coded_from = 101;
	assert_false(sdr_plan_valid(&q));
	q = p;
	q.rtt_ns = UINT64_MAX;
	assert_false(sdr_plan_valid(&q));
	q = make(SDR_SCHEME_NACK, 100, 32, 8);
	assert_true(sdr_plan_valid(&q));
	assert_int_equal(q.parity, 0);
	q.parity = 1;
	assert_false(sdr_plan_valid(&q));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lays),
		cmocka_unit_test(test_interleaves),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
