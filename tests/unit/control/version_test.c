/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is said of a peer with another protocol: both numbers, and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kvclient/kv.h"
#include "shiftlib/control/version.h"

static void the_refusal_has_both_numbers(void **state)
{
	char both[64];

	for (unsigned theirs = 0; theirs <= UINT8_MAX; theirs++) {
		const char *why = sh_version_refusal((uint8_t)theirs);

		snprintf(both, sizeof(both),
			 "the other end has protocol %u, this end has protocol %u:", theirs,
			 KV_PROTOCOL);
		assert_memory_equal(why, both, strlen(both));
		assert_non_null(strstr(why, "run the same version of SHIFT at both ends"));
	}
}

/* The status keeps it beyond the lock, and a level is news if its reason is another pointer. */
static void the_refusal_is_a_constant(void **state)
{
	const char *first = sh_version_refusal(KV_PROTOCOL + 1);

	assert_ptr_not_equal(first, sh_version_refusal(KV_PROTOCOL - 1));
	assert_ptr_equal(first, sh_version_refusal(KV_PROTOCOL + 1));
}

/* tools/library.c reads it from the file. */
static void the_library_names_its_protocol(void **state)
{
	char want[32];

	snprintf(want, sizeof(want), " protocol %d", KV_PROTOCOL);
	assert_memory_equal(sh_version, SHIFT_VERSION_MARK, sizeof(SHIFT_VERSION_MARK) - 1);
	assert_string_equal(strstr(sh_version, " protocol "), want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_refusal_has_both_numbers),
		cmocka_unit_test(the_refusal_is_a_constant),
		cmocka_unit_test(the_library_names_its_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
