/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is left of the bandwidth: by hand, and against sums in floating point for any loads. */
#include "tests/lib/kv_support.h"

#include <string.h>

#include "shiftlib/backup/left.h"
#include "tests/lib/random.h"

#define NICS   8
#define EACH   8 /* connections of a NIC */
#define ROUNDS 2000

static uint64_t rng;

static void host(struct backup_burden nics[NICS])
{
	memset(nics, 0, NICS * sizeof(*nics));
	for (uint32_t i = 0; i < NICS; i++)
		nics[i] = (struct backup_burden){ .speed = 400000, .own = EACH };
}

static void nobody_away(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	assert_int_equal(backup_left(nics, NICS), BACKUP_LEFT_WHOLE);
	assert_int_equal(backup_left(nics, 0), BACKUP_LEFT_WHOLE);
}

/* One carries two NICs' traffic; it does not matter whether this process has any of its own there. */
static void pair(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	nics[0].to[1] = EACH;
	assert_int_equal(backup_left(nics, NICS), 500);
	nics[1].own = 0;
	assert_int_equal(backup_left(nics, NICS), 500);
	nics[2].to[1] = EACH;
	assert_int_equal(backup_left(nics, NICS), 333);
}

static void spread(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	nics[0].own = NICS - 1;
	for (uint32_t i = 1; i < NICS; i++)
		nics[0].to[i] = 1;
	assert_int_equal(backup_left(nics, NICS), 875);
	nics[0].own = NICS; /* seven of eight are away: each takes an eighth */
	assert_int_equal(backup_left(nics, NICS), 888);
	nics[0].to[1] = 2;
	assert_int_equal(backup_left(nics, NICS), 800);
}

/* Both are dead: what each had goes elsewhere, and what it had taken does, too. */
static void second_fault(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	nics[0].to[2] = EACH;
	nics[1].to[2] = EACH / 2;
	nics[1].to[3] = EACH / 2;
	assert_int_equal(backup_left(nics, NICS), 400);
}

static void spare(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	nics[7].own = 0;
	nics[7].spare = true;
	nics[0].to[7] = EACH;
	assert_int_equal(backup_left(nics, NICS), BACKUP_LEFT_WHOLE);
	nics[7].speed = 100000;
	assert_int_equal(backup_left(nics, NICS), 250);
	nics[7].speed = 0; /* as fast as the fastest */
	nics[1].to[7] = EACH;
	assert_int_equal(backup_left(nics, NICS), 500);
}

/* Its connections have left it, as it is slow: they still have to carry what they did. */
static void slow(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	host(nics);
	nics[0].speed = 100000;
	nics[0].whole = 400000;
	nics[0].own = NICS - 1;
	for (uint32_t i = 1; i < NICS; i++)
		nics[0].to[i] = 1;
	assert_int_equal(backup_left(nics, NICS), 875);
	/* and it has to carry its own, beside a guest's */
	host(nics);
	nics[0].speed = 100000;
	nics[0].whole = 400000;
	nics[1].to[0] = EACH;
	assert_int_equal(backup_left(nics, NICS), 125);
}

/* ---- against another way to add it up ------------------------------------------------------- */

static double speed(const struct backup_burden nics[NICS], uint32_t i)
{
	double most = 1;

	if (nics[i].speed)
		return nics[i].speed;
	for (uint32_t k = 0; k < NICS; k++)
		most = nics[k].speed > most ? nics[k].speed : most;
	return most;
}

static double whole(const struct backup_burden nics[NICS], uint32_t i)
{
	return nics[i].whole ? nics[i].whole : speed(nics, i);
}

static double by_doubles(const struct backup_burden nics[NICS])
{
	double load[NICS] = { 0 }, least = 1;
	bool guest[NICS] = { false };

	for (uint32_t i = 0; i < NICS; i++) {
		uint32_t away = 0, all;

		for (uint32_t k = 0; k < NICS; k++)
			away += nics[i].to[k];
		all = nics[i].own > away ? nics[i].own : away;
		if (!nics[i].spare)
			load[i] += whole(nics, i) * (all ? (double)(all - away) / all : 1);
		for (uint32_t k = 0; k < NICS; k++) {
			guest[k] |= nics[i].to[k] != 0;
			load[k] += nics[i].to[k] ? whole(nics, i) * nics[i].to[k] / all : 0;
		}
	}
	for (uint32_t i = 0; i < NICS; i++)
		if (guest[i] && speed(nics, i) / load[i] < least)
			least = speed(nics, i) / load[i];
	return least;
}

static void random_loads(void **state)
{
	struct backup_burden nics[NICS];

	(void)state;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		memset(nics, 0, sizeof(nics));
		for (uint32_t i = 0; i < NICS; i++) {
			nics[i].speed = (uint32_t)random_below(&rng, 5) * 100000;
			nics[i].whole = nics[i].speed *
					(uint32_t)random_below(&rng, 3); /* 0: it is whole */
			nics[i].own = (uint32_t)random_below(&rng, 5000);
			nics[i].spare = !nics[i].own && random_below(&rng, 2);
			for (uint32_t k = 0; k < NICS; k++)
				if (k != i && !nics[i].spare && !random_below(&rng, 4))
					nics[i].to[k] = (uint32_t)random_below(&rng, 1000);
		}
		assert_float_equal(backup_left(nics, NICS) / 1e3, by_doubles(nics), 0.0011);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_away),	cmocka_unit_test(pair),	 cmocka_unit_test(spread),
		cmocka_unit_test(second_fault), cmocka_unit_test(spare), cmocka_unit_test(slow),
		cmocka_unit_test(random_loads),
	};

	rng = random_seed("left_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
