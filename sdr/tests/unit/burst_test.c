/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Losses that come in bursts against the codes' plans: 128 MiB in chunks of 4 KiB, one in a thousand lost, eight in a row on the
 * average. Interleaved, next to no Write falls back; of neighbours that are coded together, most do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "sdr/rel/rel.h"

enum { CHUNKS = 32768, BURST = 8 };

#define LOSS 1e-3

static uint8_t lost[2 * CHUNKS]; /* in the order of sending: data, parity */

static void draw_losses(uint32_t n)
{
	bool bad = false;

	for (uint32_t i = 0; i < n; i++) {
		bad = drand48() < (bad ? 1 - 1. / BURST : LOSS / BURST);
		lost[i] = bad;
	}
}

static bool falls_back(const struct sdr_plan *p)
{
	for (uint32_t n = 0; n < sdr_plan_submessages(p); n++) {
		struct sdr_submessage s = sdr_plan_submessage(p, n);
		uint32_t here = 0;

		for (uint32_t i = 0; i < s.data; i++)
			here += !lost[s.data_first + i * s.stride];
		for (uint32_t i = 0; i < s.parity; i++)
			here += !lost[p->chunks + s.parity_first + i * s.stride];
		if (here < s.data)
			return true;
	}
	return false;
}

static struct sdr_plan lay(uint32_t depth)
{
	struct sdr_plan p = { .kind = SDR_SCHEME_EC,
			      .code = SDR_CODE_MDS,
			      .chunks = CHUNKS,
			      .k = 32,
			      .m = 8,
			      .bytes = (uint64_t)CHUNKS * 4096 };

	p.inject_ns = 82;
	p.rtt_ns = 25000000;
	p.rto_ns = 75000000;
	sdr_plan_lay(&p, 1.25);
	if (depth)
		p.depth = depth;
	assert_true(sdr_plan_valid(&p));
	assert_in_range(p.chunks + p.parity, 1, sizeof(lost));
	return p;
}

static void bursts_hurt_neighbours_alone(void **state)
{
	const char *given = getenv("SDR_BURST_SEED"), *times = getenv("SDR_BURST_ROUNDS");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	uint32_t rounds = times ? (uint32_t)atoi(times) : 400, together = 0, apart = 0;
	struct sdr_plan neighbours = lay(1), interleaved = lay(0);

	srand48((long)seed);
	for (uint32_t i = 0; i < rounds; i++) {
		draw_losses(neighbours.chunks + neighbours.parity);
		together += falls_back(&neighbours);
		apart += falls_back(&interleaved);
	}
	print_message("SDR_BURST_SEED=%llu: of %u Writes fall back: %u interleaved, %u not\n",
		      (unsigned long long)seed, rounds, apart, together);
	assert_true(100 * apart < rounds);
	assert_true(2 * together > rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_hurt_neighbours_alone),
	};

	return cmocka_run_group_tests_name("burst", tests, NULL, NULL);
}
