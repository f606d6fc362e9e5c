/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/fabric/loss.h"

#define GOLDEN 0x9e3779b97f4a7c15ULL

enum what { LOSS, LATE, TWICE };

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* A number from 0 to below 1. */
static double draw(const struct sn_loss *l, enum what what, uint64_t n)
{
	return (double)(mix(mix(l->seed + what * GOLDEN) + n * GOLDEN) >> 11) / 9007199254740992.0;
}

/*
 * x^n by squaring; the chance below is found by halving. A packet is lost if a burst began with it
 * or with one of those before it. Bursts may overlap, so each packet begins one with such a chance
 * that none of `burst` packets does with the chance 1 - loss.
 */
static double power(double x, uint32_t n)
{
	double p = 1;

	for (; n; n >>= 1, x *= x)
		if (n & 1)
			p *= x;
	return p;
}

static double chance_of_burst(const struct sn_loss *l)
{
	double low = 0, high = 1, middle;

	if (l->burst <= 1)
		return l->loss;
	for (int i = 0; i < 60; i++) {
		middle = (low + high) / 2;
		if (power(1 - middle, l->burst) > 1 - l->loss)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static bool is_lost(const struct sn_loss *l, uint64_t n)
{
	double chance = l->loss > 0 ? chance_of_burst(l) : 0;
	uint32_t burst = l->burst ? l->burst : 1;

	for (uint32_t i = 0; chance > 0 && i < burst && i <= n; i++)
		if (draw(l, LOSS, n - i) < chance)
			return true;
	return false;
}

struct sn_fate sn_fate_of(const struct sn_loss *l, uint64_t n)
{
	return (struct sn_fate){ .lost = is_lost(l, n),
				 .late = draw(l, LATE, n) < l->reorder,
				 .twice = draw(l, TWICE, n) < l->duplicate };
}
