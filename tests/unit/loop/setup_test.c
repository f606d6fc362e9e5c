/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When the application's set-up pauses: against a clock that stands still until it is moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "shiftlib/loop/setup.h"
#include "shiftlib/news.h"

#define MS SH_NS_PER_MS

static uint64_t now, wakes, overs, looks;

/* In the place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	ts->tv_sec = (time_t)(now / SH_NS_PER_S);
	ts->tv_nsec = (long)(now % SH_NS_PER_S);
	return 0;
}

void sh_wake_at(uint64_t at)
{
	(void)at;
	wakes++;
}

void sh_news_setup_over(void)
{
	overs++;
}

void sh_news_setup_goes_on(void)
{
	looks++;
}

/* As the background thread: at each of its timers until then. */
static void pass(uint64_t until)
{
	uint64_t at;

	while ((at = sh_setup_module.next_timer()) && at <= until) {
		now = at > now ? at : now;
		sh_setup_module.run(now);
	}
	now = until;
}

static void commands(uint64_t every, uint64_t until)
{
	while (now < until) {
		sh_setup_command();
		pass(now + every);
	}
}

static int begin(void **state)
{
	(void)state;
	sh_setup_module.reset();
	now = 1000 * MS;
	wakes = overs = looks = 0;
	return 0;
}

static void test_one_queue_pair_waits_for_milliseconds(void **state)
{
	(void)state;
	assert_false(sh_setup_on());
	sh_setup_command();
	assert_true(sh_setup_on());
	pass(now + 4 * MS);
	assert_int_equal(overs, 0);
	pass(now + 2 * MS);
	assert_int_equal(overs, 1);
	assert_false(sh_setup_on());
	assert_int_equal(sh_setup_module.next_timer(), 0);
}

static void test_commands_wake_the_thread_once(void **state)
{
	(void)state;
	commands(MS, now + 50 * MS);
	assert_int_equal(wakes, 1);
	assert_int_equal(overs, 0);
	assert_in_range(looks, 5, 15);
}

static void test_who_set_up_for_long_may_wait_for_others(void **state)
{
	(void)state;
	commands(MS, now + 60 * MS);
	pass(now + 20 * MS);
	assert_int_equal(overs, 0);
	commands(MS, now + 1000 * MS);
	pass(now + 90 * MS);
	assert_int_equal(overs, 0);
	pass(now + 10 * MS);
	assert_int_equal(overs, 1);
}

static void test_who_never_pauses_is_protected_in_the_end(void **state)
{
	(void)state;
	commands(MS, now + 9900 * MS);
	assert_int_equal(overs, 0);
	commands(MS, now + 200 * MS);
	assert_int_equal(overs, 1);
	assert_true(sh_setup_on()); /* those that come wait again */
	commands(MS, now + 10000 * MS);
	assert_int_equal(overs, 2);
}

static void test_what_is_needed_does_not_wait(void **state)
{
	(void)state;
	sh_setup_end();
	assert_int_equal(wakes, 0);
	commands(MS, now + 50 * MS);
	sh_setup_end();
	assert_int_equal(wakes, 2);
	assert_true(sh_setup_module.next_timer() <= now);
	sh_setup_command(); /* does not hold it up */
	pass(now);
	assert_int_equal(overs, 1);
	assert_false(sh_setup_on());
}

static void test_regions_alone_are_no_set_up(void **state)
{
	(void)state;
	sh_setup_also();
	assert_false(sh_setup_on());
	sh_setup_command();
	pass(now + 4 * MS);
	sh_setup_also();
	pass(now + 4 * MS);
	assert_true(sh_setup_on());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one_queue_pair_waits_for_milliseconds, begin),
		cmocka_unit_test_setup(test_commands_wake_the_thread_once, begin),
		cmocka_unit_test_setup(test_who_set_up_for_long_may_wait_for_others, begin),
		cmocka_unit_test_setup(test_who_never_pauses_is_protected_in_the_end, begin),
		cmocka_unit_test_setup(test_what_is_needed_does_not_wait, begin),
		cmocka_unit_test_setup(test_regions_alone_are_no_set_up, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
