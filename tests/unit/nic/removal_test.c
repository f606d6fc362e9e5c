/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which kernels say DEVICE_FATAL when the queue pairs of a file are destroyed, and which before. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "shiftlib/nic/removal.h"

static void releases(void **state)
{
	static const char *const last[] = { "5.7", "5.7.0-rc6", "5.15.0-91-generic", "6.8.0",
					    "10.0" };
	static const char *const first[] = {
		"5.6.19", "5.4.0-150-generic", "4.18.0-553.el8", "3.10.0-1160.el7", "", "linux", "6"
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		assert_true(sh_removal_tells_last(last[i]));
	for (i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		assert_false(sh_removal_tells_last(first[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(releases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
