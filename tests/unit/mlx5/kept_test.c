/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions that are kept come out in their order, each once, however they were put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "providers/mlx5/kept.h"

enum { ROUNDS = 20000, MOST = 40 };

static uint64_t put, taken;

static void put_some(struct ring_kept *kept, uint32_t n)
{
	while (n--) {
		struct ibv_wc *wc = ring_kept_place(kept);

		assert_non_null(wc);
		wc->wr_id = put++;
		ring_kept_add(kept);
	}
}

static void take_some(struct ring_kept *kept, uint32_t n)
{
	struct ibv_wc wc[MOST];
	uint32_t got = (uint32_t)ring_kept_take(kept, (int)n, wc);

	assert_int_equal(got, n < put - taken ? n : put - taken);
	for (uint32_t i = 0; i < got; i++)
		assert_int_equal(wc[i].wr_id, taken++);
}

static void first_in_first_out(void **state)
{
	unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : (unsigned)time(NULL);
	struct ring_kept kept = { 0 };

	print_message("SEED=%u\n", seed);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		put_some(&kept, (uint32_t)rand_r(&seed) % MOST);
		take_some(&kept, (uint32_t)rand_r(&seed) % MOST);
		if (i % 100 == 99)
			while (put != taken)
				take_some(&kept, MOST);
	}
	assert_int_equal(kept.n, 0);
	ring_kept_free(&kept);
	assert_int_equal(ring_kept_take(&kept, 1, &(struct ibv_wc){ 0 }), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_in_first_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
