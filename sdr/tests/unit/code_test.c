/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/code/code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, LEN = 2 * SDR_COLUMN + 100 };

static uint8_t store[MOST][LEN], copy[MOST][LEN];
static _Alignas(64) uint8_t scratch[MOST * SDR_COLUMN];
static struct sdr_piece pieces[MOST];
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

/* So many of data, of parity; the last of data is short. */
static void encode(const struct sdr_code *c, uint32_t k, uint32_t m, size_t len, size_t last)
{
	for (uint32_t i = 0; i < k + m; i++) {
		pieces[i] = (struct sdr_piece){ store[i], i == k - 1 ? last : len, false };
		for (size_t b = 0; b < LEN; b++)
			store[i][b] = i < k ? (uint8_t)draw(256) : 0x55;
	}
	assert_int_equal(sdr_code_encode(c, pieces, k, pieces + k, m, scratch), 0);
	memcpy(copy, store, sizeof(copy));
}

/* Loses what the mask says, and gets it back or says that it cannot. */
static int lose(const struct sdr_code *c, uint32_t k, uint32_t m, uint64_t mask)
{
	int ret;

	for (uint32_t i = 0; i < k + m; i++) {
		pieces[i].missing = mask >> i & 1;
		if (pieces[i].missing)
			memset(store[i], 0xaa, pieces[i].len);
	}
	ret = sdr_code_decode(c, pieces, k, pieces + k, m, scratch);
	for (uint32_t i = 0; !ret && i < k; i++)
		assert_memory_equal(store[i], copy[i], LEN);
	memcpy(store, copy, sizeof(store));
	return ret;
}

static bool xor_can(uint32_t k, uint32_t m, uint64_t mask)
{
	for (uint32_t g = 0; g < m; g++) {
		uint32_t lost = 0;

		for (uint32_t i = g; i < k; i += m)
			lost += mask >> i & 1;
		if (lost > 1 || (lost && mask >> (k + g) & 1))
			return false;
	}
	return true;
}

static bool mds_can(uint32_t k, uint32_t m, uint64_t mask)
{
	uint32_t data = (uint32_t)__builtin_popcountll(mask & ((1ull << k) - 1));

	return data <= m - (uint32_t)__builtin_popcountll(mask >> k);
}

/* All patterns of (8,3). */
static void test_every_loss(void **state)
{
	for (int is_xor = 0; is_xor < 2; is_xor++) {
		struct sdr_code c;

		assert_int_equal(sdr_code_init(&c, is_xor, 8, 3), 0);
		encode(&c, 8, 3, 300, 111);
		for (uint64_t mask = 0; mask < 1 << 11; mask++) {
			bool can = is_xor ? xor_can(8, 3, mask) : mds_can(8, 3, mask);

			assert_int_equal(lose(&c, 8, 3, mask), can ? 0 : -ENODATA);
		}
	}
}

/* Short submessages of (32,8) too, and lengths around a column. */
static void test_random_losses(void **state)
{
	static const size_t lengths[] = { 1, 63, SDR_COLUMN - 1, SDR_COLUMN, SDR_COLUMN + 1, LEN };

	for (int round = 0; round < 150; round++) {
		uint32_t k = 1 + (uint32_t)draw(32), m = 1 + (uint32_t)draw(8);
		size_t len = lengths[draw(6)], last = 1 + draw(len);
		bool is_xor = draw(2);
		struct sdr_code c;
		uint64_t mask = 0;

		assert_int_equal(sdr_code_init(&c, is_xor, 32, 8), 0);
		encode(&c, k, m, len, last);
		for (uint32_t n = (uint32_t)draw(m + 3); n; n--)
			mask |= 1ull << draw(k + m);
		assert_int_equal(lose(&c, k, m, mask),
				 (is_xor ? xor_can(k, m, mask) : mds_can(k, m, mask)) ? 0
										      : -ENODATA);
	}
}

/* With and without ISA-L, by columns and where the pieces lie: the same bytes. */
static void test_same_bytes(void **state)
{
	struct sdr_code best, plain;

	assert_int_equal(sdr_code_init(&best, false, 32, 8), 0);
	plain = best;
	plain.kernel = &sdr_kernel_plain;
	encode(&best, 32, 8, LEN, LEN);
	assert_int_equal(sdr_code_encode(&plain, pieces, 32, pieces + 32, 8, scratch), 0);
	assert_memory_equal(store, copy, sizeof(copy));
	assert_int_equal(sdr_code_encode_in_place(&best, pieces, 32, pieces + 32, 8), 0);
	assert_memory_equal(store, copy, sizeof(copy));
	print_message("MDS kernel: %s\n", best.kernel == &sdr_kernel_plain ? "plain C" : "ISA-L");
}

static void test_field(void **state)
{
	uint8_t m[9] = { 1, 2, 3, 4, 5, 6, 5, 7, 5 }, inverse[9];

	assert_int_equal(sdr_gf_mul(2, 0x80), 0x1d);
	for (unsigned int a = 1; a < 256; a++)
		assert_int_equal(sdr_gf_mul((uint8_t)a, sdr_gf_inverse((uint8_t)a)), 1);
	assert_int_equal(sdr_gf_inverse(0), 0);
	assert_false(sdr_gf_invert(m, inverse, 3)); /* the third row is the sum of the others */
}

static void test_nonsense(void **state)
{
	struct sdr_code c;

	assert_int_equal(sdr_code_init(&c, false, 0, 8), -EINVAL);
	assert_int_equal(sdr_code_init(&c, false, 32, 0), -EINVAL);
	assert_int_equal(sdr_code_init(&c, false, 200, 56), -EINVAL);
	assert_int_equal(sdr_code_init(&c, false, UINT32_MAX, 2), -EINVAL);
	assert_int_equal(sdr_code_init(&c, true, 200, 55), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_loss), cmocka_unit_test(test_random_losses),
		cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_field),
		cmocka_unit_test(test_nonsense),
	};
	const char *given = getenv("SDR_CODE_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	printf("SDR_CODE_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
