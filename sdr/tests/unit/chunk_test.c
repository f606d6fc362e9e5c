/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The default chunk: what sdr/include/sdr/sdr.h promises of it, and that `sdr_perf model` reckons with the library's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sdr/rel/rel.h"
#include "sdr/tools/perf.h"

enum { PACKET = 4096, CHUNKS_MAX = 15872, PACKETS_MAX = 16 };

/* What else is in that file prints. */
void complain(const char *format, ...)
{
}

const char *sdr_scheme_name(int kind)
{
	return "";
}

/* Sizes at which it changes, and those beside them. */
static void each_size(void (*check)(uint64_t size))
{
	for (uint64_t n = 1; n <= 4 * PACKETS_MAX; n++)
		for (int64_t off = -1; off <= 1; off++)
			check((uint64_t)((int64_t)(n * PACKET * CHUNKS_MAX) + off));
	for (unsigned int bit = 0; bit < 64; bit++)
		check(1ull << bit);
	check(UINT64_MAX);
}

static void is_the_librarys(uint64_t size)
{
	assert_int_equal(model_chunk(size, PACKET), sdr_choose_chunk(size, PACKET));
	assert_int_equal(model_chunk(size, 1024), sdr_choose_chunk(size, 1024));
}

static void the_model_has_the_librarys(void **state)
{
	each_size(is_the_librarys);
}

static void is_as_promised(uint64_t size)
{
	uint32_t chunk = sdr_choose_chunk(size, PACKET), packets = chunk / PACKET;

	assert_int_equal(chunk % PACKET, 0);
	assert_in_range(packets, 1, PACKETS_MAX);
	assert_int_equal(packets & (packets - 1), 0);
	assert_true(packets == PACKETS_MAX || size <= (uint64_t)chunk * CHUNKS_MAX);
	assert_true(packets == 1 || size > (uint64_t)chunk / 2 * CHUNKS_MAX);
}

static void the_librarys_is_as_promised(void **state)
{
	each_size(is_as_promised);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_model_has_the_librarys),
		cmocka_unit_test(the_librarys_is_as_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
