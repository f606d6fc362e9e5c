/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Partitions are found by value, whatever the order of a port's table. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/control/pkeys.h"

static int find(uint16_t pkey, uint16_t a, uint16_t b, uint16_t c)
{
	const struct sh_pkeys pkeys = { .n = 3, .value = { a, b, c } };

	return sh_pkeys_find(&pkeys, pkey);
}

static void found(void **state)
{
	assert_int_equal(find(0x8001, 0xffff, 0x8002, 0x8001), 2);
	assert_int_equal(find(0x0001, 0xffff, 0x8001, 0),
			 1); /* more than it was, and the same partition */
	assert_int_equal(find(0x8001, 0xffff, 0x0001, 0x8001), 2); /* the full one of two */
	assert_int_equal(find(0x8001, 0xffff, 0x0001, 0x8002), 1);
	assert_int_equal(find(0x8003, 0xffff, 0x8001, 0x8002), -ENOENT);
	assert_int_equal(find(0, 0, 0x8000, 0x8002), -ENOENT); /* an empty entry is no partition */
}

static void speaks(void **state)
{
	assert_true(sh_pkeys_speak(0x8001, 0x8001));
	assert_true(sh_pkeys_speak(0x8001, 0x0001));
	assert_false(sh_pkeys_speak(0x0001, 0x0001));
	assert_true(sh_pkeys_same(0x0001, 0x0001));
	assert_false(sh_pkeys_speak(0x8001, 0x8002));
	assert_false(sh_pkeys_speak(0x8000, 0x8000));
}

/* Of hosts that are in the default partition as limited members, as some subnet managers set up. */
static void own(void **state)
{
	struct sh_pkeys pkeys = { .n = 3, .value = { 0x8003, 0x8001, 0xffff } };

	assert_int_equal(sh_pkeys_own_index(&pkeys), 2);
	pkeys.value[2] = 0x7fff;
	assert_int_equal(sh_pkeys_own_index(&pkeys), 1);
	pkeys = (struct sh_pkeys){ .n = 2, .value = { 0x7fff, 0x0001 } };
	assert_int_equal(sh_pkeys_own_index(&pkeys), 0);
	pkeys.n = 0;
	assert_int_equal(sh_pkeys_own_index(&pkeys), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found),
		cmocka_unit_test(speaks),
		cmocka_unit_test(own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
