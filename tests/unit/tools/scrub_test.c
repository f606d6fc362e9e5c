/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* scrub() cuts passwords out of addresses and of all else, and nothing more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tools/scrub.h"

static void check(const char *text, const char *wanted)
{
	char *found = scrub(text);

	assert_non_null(found);
	assert_string_equal(found, wanted);
	free(found);
}

static void test_plain(void **state)
{
	(void)state;
	check("", "");
	check("a line\nand another\n", "a line\nand another\n");
	check("redis://host:6379/0 lmdb:/path", "redis://host:6379/0 lmdb:/path");
	check("mail@host, and://", "mail@host, and://");
}

static void test_addresses(void **state)
{
	(void)state;
	check("redis://user:word@host/0", "redis://***@host/0");
	check("at 'rediss://:w@h' and \"redis+unix://u:p@/s\"",
	      "at 'rediss://***@h' and \"redis+unix://***@/s\"");
	/* a password with '@' or "://" in it: the last '@' of the word counts */
	check("redis://u:a@b://c@host", "redis://***@host");
	check("redis://u:one@h1,redis://u:two@h2", "redis://***@h2");
	check("redis://u:p@h\nredis://u:p@h", "redis://***@h\nredis://***@h");
}

static void test_learnt(void **state)
{
	(void)state;
	scrub_learn("redis://default:sec%40ret@h1,redis://:second@h2");
	check("sec@ret, sec%40ret and second", "***, *** and ***");
	check("user default is a word", "user default is a word");
	scrub_forget();
	check("second", "second");
}

/* A short one is cut out of addresses alone: it may be a part of any word. */
static void test_short(void **state)
{
	(void)state;
	scrub_learn("redis://u:abc@h");
	check("abcd redis://u:abc@h", "abcd redis://***@h");
	scrub_forget();
}

static void test_malformed(void **state)
{
	char text[80], begun[70];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	scrub_learn_all(text);
	check(text, "***");
	snprintf(begun, sizeof(begun), "%.60s...", text);
	check(begun, "***...");
	scrub_forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),	  cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_learnt),	  cmocka_unit_test(test_short),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
