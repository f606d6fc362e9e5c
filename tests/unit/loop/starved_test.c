/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The time that a process had, where it got no processor for some of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shiftlib/base/util.h"
#include "shiftlib/loop/starved.h"

#define MS SH_NS_PER_MS

static uint64_t had(uint64_t since, uint64_t now)
{
	return sh_starved_had_ns(since * MS, now * MS) / MS;
}

static void woke(uint64_t slept, uint64_t rang, uint64_t now)
{
	sh_starved_note(slept * MS, rang * MS, now * MS);
}

static int begin(void **state)
{
	(void)state;
	sh_starved_reset();
	return 0;
}

static void test_in_time(void **state)
{
	(void)state;
	assert_int_equal(had(1000, 1200), 200);
	woke(1000, 1100, 1101);
	assert_int_equal(had(1000, 1200), 200);
	assert_int_equal(sh_starved_last(), 0);
}

/* What began behind the look at the clock has had no time, and not all there is. */
static void test_begun_meanwhile(void **state)
{
	(void)state;
	assert_int_equal(sh_starved_had_ns(1000 * MS + 1, 1000 * MS), 0);
	assert_int_equal(had(1000, 1000), 0);
}

/* Each a little: none by itself tells that it did not run, together they are most of the time. */
static void test_a_little_late_each_time(void **state)
{
	uint64_t at;

	(void)state;
	for (at = 1000; at < 1500; at += 50)
		woke(at, at + 10, at + 50);
	assert_int_equal(sh_starved_last(), 0);
	assert_int_equal(had(1000, 1500), 100);
	assert_int_equal(had(1250, 1500), 50);
	assert_int_equal(had(1275, 1500), 40); /* from the middle of one on */
	assert_int_equal(had(1500, 1500), 0);
	assert_int_equal(had(1000, 1490), 100);
	assert_int_equal(had(1500, 1600), 100);
}

static void test_far_too_late(void **state)
{
	(void)state;
	woke(1000, 1100, 11000);
	assert_int_equal(sh_starved_last(), 11000 * MS);
	assert_int_equal(had(1000, 11100), 100);
	assert_int_equal(had(11050, 11100), 50);
}

/* It was busy when its alarm rang, which is its own time; only what it slept behind that is not. */
static void test_rang_while_it_worked(void **state)
{
	(void)state;
	woke(1030, 1000, 1040);
	assert_int_equal(had(1000, 1100), 90);
	woke(1130, 1100, 1131);
	assert_int_equal(had(1000, 1200), 190);
}

/* The last ones count. */
static void test_many(void **state)
{
	uint64_t at;

	(void)state;
	for (at = 1000; at < 11000; at += 10)
		woke(at, at + 5, at + 10);
	assert_int_equal(had(10800, 11000), 100);
	assert_int_equal(had(1000, 11000), 10000 - 64 * 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_in_time, begin),
		cmocka_unit_test_setup(test_begun_meanwhile, begin),
		cmocka_unit_test_setup(test_a_little_late_each_time, begin),
		cmocka_unit_test_setup(test_far_too_late, begin),
		cmocka_unit_test_setup(test_rang_while_it_worked, begin),
		cmocka_unit_test_setup(test_many, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
