/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Creation calls that a later libibverbs has and the drop-in does not know: libibverbs/known.h. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "libibverbs/known.h"

static const char *newer; /* path of the library made from dropin_newer.c */
static const char *found[8];
static unsigned int n_found;

static void note(const char *name)
{
	assert_true(n_found < 8);
	found[n_found++] = name;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void scan(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY);

	assert_non_null(library);
	n_found = 0;
	known_scan(library, note);
	qsort(found, n_found, sizeof(found[0]), by_name);
}

static void newer_calls_are_found(void **state)
{
	scan(newer);
	assert_int_equal(n_found, 2);
	assert_string_equal(found[0], "ibv_alloc_newest");
	assert_string_equal(found[1], "ibv_reg_mr_newest");
}

static void others_are_not_creation_calls(void **state)
{
	assert_true(known_creates("ibv_create_wq_ex"));
	assert_false(known_creates("ibv_register_driver"));
	assert_false(known_creates("ibv_dealloc_pd"));
	assert_false(known_creates("verbs_open_device"));
	assert_true(known_verb("ibv_create_comp_channel"));
	assert_false(known_verb("ibv_create_"));
}

/* On the machines that CI runs on. A failure here asks for a look at what is new, then for an entry
 * in known.c. */
static void installed_library_is_known(void **state)
{
	scan("libibverbs.so.1");
	for (unsigned int i = 0; i < n_found; i++)
		print_error("not known: %s\n", found[i]);
	assert_int_equal(n_found, 0);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newer_calls_are_found),
		cmocka_unit_test(others_are_not_creation_calls),
		cmocka_unit_test(installed_library_is_known),
	};

	if (argc != 2)
		return 2;
	newer = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
