/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When a program counts as late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sdr/rel/pause.h"

#define MS 1000000ull

static struct sdr_pause p;
static uint64_t now;

static void rounds(int n, uint64_t apart)
{
	while (n--)
		sdr_pause_note(&p, now += apart);
}

static void begin(void)
{
	p = (struct sdr_pause){ 0 };
	now = 5000 * MS;
}

static void test_a_pause_among_short_rounds(void **state)
{
	begin();
	rounds(1, 0);
	assert_false(sdr_pause_is(&p, MS)); /* the first round comes after none */
	rounds(100, MS / 100);
	assert_false(sdr_pause_is(&p, MS));
	rounds(1, 20 * MS);
	assert_true(sdr_pause_is(&p, MS));
	assert_false(sdr_pause_is(&p, 20 * MS));
	assert_int_equal(p.last_ns, 20 * MS);
	rounds(1, MS / 100);
	assert_false(sdr_pause_is(&p, MS));
}

static void test_who_always_polls_seldom_is_not_late(void **state)
{
	begin();
	rounds(100, 20 * MS);
	assert_false(sdr_pause_is(&p, MS));
	rounds(1, 50 * MS);
	assert_false(sdr_pause_is(&p, MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pause_among_short_rounds),
		cmocka_unit_test(test_who_always_polls_seldom_is_not_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
