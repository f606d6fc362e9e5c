/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/diff/diff.h"

static uint64_t state;

void diff_seed(uint64_t seed)
{
	state = seed;
}

/* splitmix64 */
uint64_t diff_random(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint32_t diff_below(uint32_t n)
{
	return diff_random() % n;
}

bool diff_chance(uint32_t percent)
{
	return diff_below(100) < percent;
}
