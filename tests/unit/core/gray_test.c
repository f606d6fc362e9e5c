/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What counters say, made up of what happens on a link. No clock runs here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "shiftlib/core/gray.h"
#include "tests/lib/random.h"

#define MS	1000000ull
#define SECOND	(1000 * MS)
#define LOOK_NS (500 * MS)
#define RUNS	100

static const struct sh_gray_config config = {
	.look_ns = LOOK_NS,
	.least = 8,
	.per_million = 100,
	.hold_min_ns = 60 * SECOND,
	.hold_max_ns = 3600 * SECOND,
	.calm_ns = 600 * SECOND,
};

static uint64_t seed;

/* In a look, on average. A share of the packets, or a number. */
struct weather {
	double packets, naks, gaps, timeouts, duplicates, damaged, marks, unready;
	uint32_t trips, slow;
};

struct nic {
	struct sh_gray gray;
	struct sh_gray_counts counts;
	uint64_t now, random;
};

static struct nic nic_new(uint32_t run)
{
	struct nic nic = { .now = SECOND, .random = seed + run };
	const struct sh_gray_trips none = { 0 };

	sh_gray_update(&nic.gray, &config, &nic.counts, &none, nic.now);
	return nic;
}

static double chance(struct nic *nic)
{
	return (double)(random_next(&nic->random) >> 11) / 9007199254740992.0;
}

/* Half of it to one and a half of it; what is below one comes now and then. */
static uint64_t about(struct nic *nic, double mean)
{
	double value = mean * (0.5 + chance(nic));
	uint64_t whole = (uint64_t)value;

	return whole + (chance(nic) < value - (double)whole);
}

static bool look(struct nic *nic, const struct weather *w)
{
	const struct sh_gray_trips trips = { w->trips, w->slow };

	nic->now += LOOK_NS;
	nic->counts.packets += about(nic, w->packets);
	nic->counts.naks += about(nic, w->naks);
	nic->counts.gaps += about(nic, w->gaps);
	nic->counts.timeouts += about(nic, w->timeouts);
	nic->counts.duplicates += about(nic, w->duplicates);
	nic->counts.damaged += about(nic, w->damaged);
	nic->counts.marks += about(nic, w->marks);
	nic->counts.unready += about(nic, w->unready);
	return sh_gray_update(&nic->gray, &config, &nic->counts, &trips, nic->now);
}

/* Looks until it is sick; 0: never. */
static uint32_t sick_after(struct nic *nic, const struct weather *w, uint32_t looks)
{
	for (uint32_t i = 1; i <= looks; i++)
		if (look(nic, w) && nic->gray.state == SH_GRAY_SICK)
			return i;
	return 0;
}

static void never(const struct weather *w, enum sh_gray_state worst)
{
	for (uint32_t run = 0; run < RUNS; run++) {
		struct nic nic = nic_new(run);

		for (uint32_t i = 0; i < 200; i++) {
			look(&nic, w);
			if (nic.gray.state > worst)
				fail_msg("state %d after %u looks, seed %llu run %u",
					 nic.gray.state, i, (unsigned long long)seed, run);
		}
	}
}

/* Packets of a second, and a link that loses one in a thousand of them, of which most are found by a gap. */
static struct weather lossy(double packets)
{
	double lost = packets / 2 * 1e-3;

	return (struct weather){ .packets = packets / 2,
				 .naks = lost * 0.7,
				 .gaps = lost * 3,
				 .timeouts = lost * 0.2,
				 .duplicates = lost * 0.2,
				 .trips = 1 };
}

static void test_a_lossy_link_is_found_in_five_seconds(void **state)
{
	for (double packets = 2e4; packets <= 2e7; packets *= 10)
		for (uint32_t run = 0; run < RUNS; run++) {
			const struct weather w = lossy(packets);
			struct nic nic = nic_new(run);
			uint32_t looks = sick_after(&nic, &w, 100);

			assert_false(nic.gray.proven); /* nor is it told apart from congestion */
			if (!looks || looks * LOOK_NS > 5 * SECOND)
				fail_msg("%g packets: %u looks, seed %llu run %u", packets, looks,
					 (unsigned long long)seed, run);
		}
}

static void test_what_is_well_is_left_alone(void **state)
{
	const struct weather busy = { .packets = 5e6, .naks = 3, .timeouts = 1, .trips = 1 };
	const struct weather idle = { .packets = 2, .trips = 1 };

	never(&busy, SH_GRAY_HEALTHY);
	never(&idle, SH_GRAY_HEALTHY);
}

/* Switches that drop: their queues are long, or they mark what passes. */
static void test_incast_is_left_alone(void **state)
{
	struct weather w = lossy(1e5);

	w.slow = 1;
	never(&w, SH_GRAY_SUSPECT);
	w.slow = 0;
	w.marks = 40;
	never(&w, SH_GRAY_SUSPECT);
	w.marks = 0;
	w.trips = 0; /* who knows? */
	never(&w, SH_GRAY_SUSPECT);
}

static void test_a_pause_is_left_alone(void **state)
{
	const struct weather paused = {
		.packets = 10, .timeouts = 30, .duplicates = 30, .trips = 1
	};
	const struct weather late = {
		.packets = 10, .timeouts = 30, .duplicates = 30, .trips = 1, .slow = 1
	};

	never(&paused, SH_GRAY_SUSPECT);
	never(&late, SH_GRAY_SUSPECT);
}

static void test_a_slow_receiver_is_left_alone(void **state)
{
	const struct weather at_the_sender = { .packets = 1e4, .unready = 200, .trips = 1 };
	const struct weather at_the_receiver = {
		.packets = 1e4, .unready = 200, .gaps = 3000, .duplicates = 100, .trips = 1
	};

	never(&at_the_sender, SH_GRAY_HEALTHY);
	never(&at_the_receiver, SH_GRAY_SUSPECT);
}

static void test_packets_on_several_ways_are_left_alone(void **state)
{
	const struct weather w = { .packets = 1e6, .naks = 5000, .gaps = 50000, .trips = 1 };

	never(&w, SH_GRAY_SUSPECT);
}

/* A switch went down for a moment: all that is found out then. */
static void test_what_happens_once_is_left_alone(void **state)
{
	const struct weather fine = { .packets = 1e5, .trips = 1 };
	const struct weather once = { .packets = 1e5, .naks = 500, .timeouts = 500, .trips = 1 };

	for (uint32_t run = 0; run < RUNS; run++) {
		struct nic nic = nic_new(run);

		for (uint32_t i = 0; i < 400; i++) {
			look(&nic, i % 40 < 2 ? &once : &fine);
			assert_int_not_equal(nic.gray.state, SH_GRAY_SICK);
		}
	}
}

static void test_damage_is_believed_in_congestion(void **state)
{
	struct weather w = lossy(1e5);
	struct nic nic = nic_new(0);

	w.slow = 1;
	w.marks = 1000;
	w.damaged = 50;
	assert_int_not_equal(sick_after(&nic, &w, 10), 0);
	assert_true(nic.gray.proven);
}

static void test_a_bad_cable_is_proven_in_five_seconds(void **state)
{
	for (uint32_t run = 0; run < RUNS; run++) {
		struct weather w = lossy(1e5);
		struct nic nic = nic_new(run);
		uint32_t looks;

		w.timeouts = w.duplicates = 0;
		w.damaged = 25;
		looks = sick_after(&nic, &w, 100);
		assert_true(looks && looks * LOOK_NS <= 5 * SECOND);
		assert_true(nic.gray.proven);
	}
}

/* It is found out later, too. */
static void test_what_is_proven_stays_so(void **state)
{
	struct weather w = lossy(1e5);
	struct nic nic = nic_new(0);

	assert_int_not_equal(sick_after(&nic, &w, 10), 0);
	assert_false(nic.gray.proven);
	w.damaged = 25;
	look(&nic, &w);
	assert_true(nic.gray.proven);
	w.damaged = 0;
	for (uint32_t i = 0; i < 20; i++)
		look(&nic, &w);
	assert_true(nic.gray.proven);
}

static void test_damage_alone_is_not(void **state)
{
	const struct weather w = { .packets = 1e5, .damaged = 50, .trips = 1 };
	struct weather slow = w;
	struct nic nic = nic_new(0);

	never(&w, SH_GRAY_SUSPECT);
	slow.slow = 1; /* a second one */
	assert_int_not_equal(sick_after(&nic, &slow, 10), 0);
}

/* ---- hold-down ------------------------------------------------------------------------------ */

static uint64_t sick_for(struct nic *nic, const struct weather *w)
{
	uint64_t since = nic->now;

	for (uint32_t i = 0; i < 100000; i++)
		if (look(nic, w))
			break;
	assert_int_equal(nic->gray.state, SH_GRAY_HEALTHY);
	return nic->now - since;
}

static void test_a_link_that_flaps_stays_away_ever_longer(void **state)
{
	const struct weather fine = { .packets = 1e5, .trips = 1 }, bad = lossy(1e5);
	struct nic nic = nic_new(0);
	uint64_t before = 0, hold;

	for (uint32_t i = 0; i < 5; i++) {
		assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
		hold = sick_for(&nic, &fine);
		assert_true(hold >= config.hold_min_ns << i);
		assert_true(hold > before);
		before = hold;
	}
	/* Calm: it is forgotten. */
	for (uint64_t t = 0; t < 8 * config.calm_ns; t += LOOK_NS)
		look(&nic, &fine);
	assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
	assert_int_equal(sh_gray_hold_ns(&nic.gray, &config), config.hold_min_ns);
}

static void test_the_longest_hold_down(void **state)
{
	const struct weather fine = { .packets = 1e5, .trips = 1 }, bad = lossy(1e5);
	struct nic nic = nic_new(0);

	for (uint32_t i = 0; i < 12; i++) {
		assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
		sick_for(&nic, &fine);
	}
	assert_int_equal(sh_gray_hold_ns(&nic.gray, &config), config.hold_max_ns);
}

/* It is watched only, and its traffic goes on: it is sick as long as that. */
static void test_it_is_sick_while_it_shows(void **state)
{
	const struct weather bad = lossy(1e5);
	struct nic nic = nic_new(0);

	assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
	for (uint32_t i = 0; i < 1000; i++)
		assert_false(look(&nic, &bad));
	assert_int_equal(nic.gray.state, SH_GRAY_SICK);
}

/* ---- what is not its own -------------------------------------------------------------------- */

static void test_counters_that_begin_anew(void **state)
{
	const struct weather fine = { .packets = 1e5, .trips = 1 };
	struct nic nic = nic_new(0);

	for (uint32_t i = 0; i < 50; i++) {
		nic.counts = (struct sh_gray_counts){ .packets = i % 2 ? 1000000 : 0,
						      .naks = i % 2 ? 5000 : 0,
						      .timeouts = i % 2 ? 5000 : 0 };
		look(&nic, &fine);
		assert_int_equal(nic.gray.state, SH_GRAY_HEALTHY);
	}
}

static void test_what_is_forgotten_does_not_count(void **state)
{
	const struct weather bad = lossy(1e5);
	struct nic nic = nic_new(0);

	for (uint32_t i = 0; i < 100; i++) {
		look(&nic, &bad);
		look(&nic, &bad);
		assert_int_not_equal(nic.gray.state, SH_GRAY_SICK);
		sh_gray_forget(&nic.gray);
	}
}

static void test_it_is_absolved(void **state)
{
	const struct weather fine = { .packets = 1e5, .trips = 1 }, bad = lossy(1e5);
	struct nic nic = nic_new(0);

	assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
	sh_gray_absolve(&nic.gray, nic.now);
	assert_int_equal(nic.gray.state, SH_GRAY_HEALTHY);
	assert_false(look(&nic, &fine));
	assert_int_not_equal(sick_after(&nic, &bad, 10), 0);
	assert_int_equal(sh_gray_hold_ns(&nic.gray, &config), 2 * config.hold_min_ns);
}

/* ---- round trips, and who may be drained ---------------------------------------------------- */

static uint32_t slow(struct sh_gray_trip *trip, uint64_t ns, bool calm)
{
	struct sh_gray_trips sum = { 0 };

	sh_gray_trip_add(trip, ns);
	sh_gray_trip_update(trip, calm, &sum);
	assert_int_equal(sum.n, 1);
	return sum.slow;
}

static void test_trips(void **state)
{
	struct sh_gray_trip trip = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(slow(&trip, 50000 + i * 1000, true), 0);
	assert_int_equal(slow(&trip, 400000, true), 0); /* nothing, in time */
	for (uint32_t i = 0; i < 1000; i++) /* something is wrong: that is never usual */
		assert_int_equal(slow(&trip, 2 * MS, false), 1);
	for (uint32_t i = 0; i < 1000; i++) /* the way is a longer one */
		n += slow(&trip, 2 * MS, true);
	assert_in_range(n, 5, 100);
	assert_int_equal(slow(&trip, 2 * MS, false), 0);
}

/* The first ones, when nothing passes yet, are not all that is usual. */
static void test_trips_under_a_load_that_begins(void **state)
{
	struct sh_gray_trip trip = { 0 };
	struct sh_gray_trips sum = { 0 };

	slow(&trip, 50000, true);
	for (uint32_t i = 0; i < 8; i++)
		slow(&trip, 2 * MS, true);
	assert_int_equal(slow(&trip, 3 * MS, true), 0);
	for (uint32_t i = 0; i < 100; i++) /* between two looks */
		sh_gray_trip_add(&trip, 60 * MS);
	sh_gray_trip_update(&trip, false, &sum);
	assert_int_equal(sum.n, SH_GRAY_TRIPS);
	assert_int_equal(sum.slow, SH_GRAY_TRIPS);
}

static void test_who_may_be_drained(void **state)
{
	assert_true(sh_gray_may_drain(2, 1, 1));
	assert_false(sh_gray_may_drain(1, 1, 0)); /* the only one */
	assert_false(sh_gray_may_drain(2, 2, 0)); /* which of them? */
	assert_false(sh_gray_may_drain(2, 1, 0)); /* the other one is drained */
	assert_false(sh_gray_may_drain(4, 2, 0)); /* two are drained, and the third is no better */
	assert_true(sh_gray_may_drain(8, 4, 4));
	assert_false(sh_gray_may_drain(8, 5, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lossy_link_is_found_in_five_seconds),
		cmocka_unit_test(test_what_is_well_is_left_alone),
		cmocka_unit_test(test_incast_is_left_alone),
		cmocka_unit_test(test_a_pause_is_left_alone),
		cmocka_unit_test(test_a_slow_receiver_is_left_alone),
		cmocka_unit_test(test_packets_on_several_ways_are_left_alone),
		cmocka_unit_test(test_what_happens_once_is_left_alone),
		cmocka_unit_test(test_damage_is_believed_in_congestion),
		cmocka_unit_test(test_damage_alone_is_not),
		cmocka_unit_test(test_a_bad_cable_is_proven_in_five_seconds),
		cmocka_unit_test(test_what_is_proven_stays_so),
		cmocka_unit_test(test_a_link_that_flaps_stays_away_ever_longer),
		cmocka_unit_test(test_the_longest_hold_down),
		cmocka_unit_test(test_it_is_sick_while_it_shows),
		cmocka_unit_test(test_counters_that_begin_anew),
		cmocka_unit_test(test_what_is_forgotten_does_not_count),
		cmocka_unit_test(test_it_is_absolved),
		cmocka_unit_test(test_trips),
		cmocka_unit_test(test_trips_under_a_load_that_begins),
		cmocka_unit_test(test_who_may_be_drained),
	};

	seed = random_seed("gray_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
