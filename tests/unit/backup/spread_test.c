/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Orders of paths as they are dealt out: how even they come out, and who moves when NICs die. */
#include "tests/lib/kv_support.h"

#include <string.h>

#include "shiftlib/backup/spread.h"
#include "tests/lib/random.h"

#define MOST   512
#define ROUNDS 2000

static uint64_t rng;

struct deal {
	struct backup_load load;
	struct backup_way ways[SC_MAX_PATHS];
	uint32_t n, salt;
	uint32_t orders[MOST], n_orders;
};

static void deal_one(struct deal *d)
{
	uint32_t order = backup_spread_draw(&d->load, d->ways, d->n, d->salt);

	assert_true(sc_order_valid(order));
	backup_spread_count(&d->load, order, true);
	d->orders[d->n_orders++] = order;
}

static void deal(struct deal *d, uint32_t connections)
{
	while (connections--)
		deal_one(d);
}

/* Where a connection goes, of what is left. */
static uint8_t goes(uint32_t order, uint32_t alive, uint32_t n)
{
	uint8_t best = 0, k;

	for (k = 1; k < n; k++)
		if (alive >> k & 1 &&
		    (!best || sc_order_rank(order, k) < sc_order_rank(order, best)))
			best = k;
	return best;
}

static void carried(const struct deal *d, uint32_t alive, uint32_t out[SC_MAX_PATHS])
{
	memset(out, 0, SC_MAX_PATHS * sizeof(*out));
	for (uint32_t i = 0; i < d->n_orders; i++)
		out[goes(d->orders[i], alive, d->n)]++;
}

/* The most and the least of those that are left. */
static uint32_t unevenness(const struct deal *d, uint32_t alive)
{
	uint32_t out[SC_MAX_PATHS], most = 0, least = UINT32_MAX;

	carried(d, alive, out);
	for (uint32_t k = 1; k < d->n; k++) {
		if (!(alive >> k & 1))
			continue;
		most = out[k] > most ? out[k] : most;
		least = out[k] < least ? out[k] : least;
	}
	return most - least;
}

static uint32_t all_of(uint32_t n)
{
	return (1u << n) - 2;
}

/* Any number of connections over any number of paths: they differ by one at most. */
static void even(void **state)
{
	for (uint32_t n = 2; n <= SC_MAX_PATHS; n++) {
		for (uint32_t connections = 1; connections <= 100; connections++) {
			struct deal d = { .n = n, .salt = random_below(&rng, 1000) };

			deal(&d, connections);
			assert_true(unevenness(&d, all_of(n)) <= 1);
		}
	}
}

/* Each path is named once, so that there is a way while any NIC lives. */
static void whole(void **state)
{
	struct deal d = { .n = SC_MAX_PATHS };

	deal(&d, MOST);
	for (uint32_t i = 0; i < MOST; i++) {
		uint32_t seen = 0;

		for (uint8_t k = 1; k < SC_MAX_PATHS; k++)
			seen |= 1u << sc_order_rank(d.orders[i], k);
		assert_int_equal(seen, all_of(SC_MAX_PATHS));
	}
}

/* A second NIC dies: only what was on it moves, and comes to all that are left. */
static void second(void **state)
{
	for (uint32_t n = 3; n <= SC_MAX_PATHS; n++) {
		struct deal d = { .n = n, .salt = random_below(&rng, 1000) };
		uint32_t per = 2 * (n - 2), all = all_of(n);

		deal(&d, per * (n - 1));
		for (uint32_t dead = 1; dead < n; dead++) {
			uint32_t alive = all & ~(1u << dead);

			for (uint32_t i = 0; i < d.n_orders; i++)
				if (goes(d.orders[i], all, n) != dead)
					assert_int_equal(goes(d.orders[i], all, n),
							 goes(d.orders[i], alive, n));
			assert_int_equal(unevenness(&d, alive), 0);
		}
	}
}

/*
 * More of them are dead, since before the job began say: then it is as diced, which is less even, but no NIC gets what all of
 * those had. The most that one of the three that live has, over all such threes, of what each should have.
 */
static void several(void **state)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t round = 0; round < 20; round++) {
		struct deal d = { .n = SC_MAX_PATHS, .salt = (uint32_t)random_next(&rng) };

		deal(&d, 56);
		for (uint32_t alive = 0; alive < all_of(SC_MAX_PATHS); alive += 2) {
			uint32_t out[SC_MAX_PATHS], most = 0;

			if (__builtin_popcount(alive) != 3)
				continue;
			carried(&d, alive, out);
			for (uint32_t k = 1; k < SC_MAX_PATHS; k++)
				most = out[k] > most ? out[k] : most;
			sum += most * 3.0 / 56;
			n++;
		}
	}
	if (sum / n > 1.2)
		fail_msg("%.2f times its share on average", sum / n);
	print_message("%.2f times its share on average\n", sum / n);
}

/* Twice as fast: twice as many. */
static void by_speed(void **state)
{
	struct deal d = { .n = 4,
			  .ways = { { 0 }, { .speed = 400 }, { .speed = 200 }, { .speed = 200 } } };
	uint32_t out[SC_MAX_PATHS];

	deal(&d, 16);
	carried(&d, all_of(4), out);
	assert_int_equal(out[1], 8);
	assert_int_equal(out[2], 4);
	assert_int_equal(out[3], 4);
	d.ways[1].speed = 0; /* not known: as the fastest */
	d.n_orders = 0;
	memset(&d.load, 0, sizeof(d.load));
	deal(&d, 15);
	assert_int_equal(unevenness(&d, all_of(4)), 0);
}

/* A port of the same card gets nothing while there is another NIC. */
static void last(void **state)
{
	struct deal d = { .n = 4, .ways = { { 0 }, { .last = true } } };
	uint32_t out[SC_MAX_PATHS];

	deal(&d, 9);
	carried(&d, all_of(4), out);
	assert_int_equal(out[1], 0);
	assert_true(unevenness(&d, 1 << 2 | 1 << 3) <= 1);
	carried(&d, 1 << 1, out);
	assert_int_equal(out[1], 9);
}

/* Of two that are alike, the one that carries less; then the one with fewer of that peer. */
static void ties(void **state)
{
	struct backup_way ways[3] = { { 0 }, { .carries = 5 }, { .carries = 4 } };
	struct backup_load load = { 0 };

	for (uint32_t salt = 0; salt < 4; salt++)
		assert_int_equal(backup_spread_first(backup_spread_draw(&load, ways, 3, salt)), 2);
	ways[2].carries = 5;
	ways[1].peers = 1;
	for (uint32_t salt = 0; salt < 4; salt++)
		assert_int_equal(backup_spread_first(backup_spread_draw(&load, ways, 3, salt)), 2);
	backup_spread_count(&load, 2, true); /* but not against the count */
	assert_int_equal(backup_spread_first(backup_spread_draw(&load, ways, 3, 0)), 1);
}

/* Processes that know nothing of each other do not all begin with the same path. */
static void salted(void **state)
{
	struct backup_way ways[SC_MAX_PATHS] = { { 0 } };
	struct backup_load load = { 0 };
	uint32_t seen = 0;

	for (uint32_t salt = 0; salt < SC_MAX_PATHS - 1; salt++)
		seen |= 1u << backup_spread_first(
				backup_spread_draw(&load, ways, SC_MAX_PATHS, salt));
	assert_int_equal(seen, all_of(SC_MAX_PATHS));
}

/* Connections come and go: what is counted is what is there, and gaps are filled. */
static void come_and_go(void **state)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct deal d = { .n = 2 + random_below(&rng, SC_MAX_PATHS - 1) };
		static const struct backup_load none;
		uint32_t i;

		d.salt = random_below(&rng, 1000);
		deal(&d, 1 + random_below(&rng, 40));
		while (d.n_orders > d.n) {
			i = random_below(&rng, d.n_orders);
			backup_spread_count(&d.load, d.orders[i], false);
			d.orders[i] = d.orders[--d.n_orders];
		}
		deal(&d, (d.n - 1) * d.n); /* more than one path could have been ahead by */
		assert_true(unevenness(&d, all_of(d.n)) <= 1);
		while (d.n_orders)
			backup_spread_count(&d.load, d.orders[--d.n_orders], false);
		assert_memory_equal(&d.load, &none, sizeof(none));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(even),	    cmocka_unit_test(whole),  cmocka_unit_test(second),
		cmocka_unit_test(by_speed), cmocka_unit_test(last),   cmocka_unit_test(ties),
		cmocka_unit_test(several),  cmocka_unit_test(salted), cmocka_unit_test(come_and_go),
	};

	rng = random_seed("spread_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
