// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bench/txn/txn.h"

/* splitmix64 (Vigna, public domain) */
uint64_t worker_random(struct worker *w, uint64_t below)
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

bool worker_chance(struct worker *w, uint32_t percent)
{
	return worker_random(w, 100) < percent;
}
