/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random numbers that replay: SHIFT_TEST_SEED=number, else a new seed, which is printed. */
#ifndef TESTS_LIB_RANDOM_H
#define TESTS_LIB_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shiftlib/base/util.h"

static inline uint64_t random_seed(const char *test)
{
	const char *given = getenv("SHIFT_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : sh_random_u64();

	fprintf(stderr, "%s: replay with SHIFT_TEST_SEED=%llu\n", test, (unsigned long long)seed);
	return seed;
}

/* splitmix64: any seed does. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(random_next(state) >> 32) % n;
}

#endif
