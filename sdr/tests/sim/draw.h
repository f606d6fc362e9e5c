/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The numbers that a simulation draws: the same from the same seed. */
#ifndef SDR_TESTS_SIM_DRAW_H
#define SDR_TESTS_SIM_DRAW_H

#include <stdint.h>

/* Draws a number below the limit (splitmix64: any seed does); 0 below 0. */
static inline uint64_t sim_draw(uint64_t *state, uint64_t below)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return below ? (z ^ z >> 31) % below : 0;
}

#endif
