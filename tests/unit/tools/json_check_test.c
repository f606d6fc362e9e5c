/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* json_check() says what jansson says, of objects whose strings are ASCII and whose names differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "tools/json_check.h"

static const char whole[] =
	"{\"a\": [1, -2.5e+3, 0, 0.1E-9, true, false, null, \"x\\n\\u00e4\\\"\\\\\"],\n"
	" \"b\": {\"c\": {}, \"d\": []}, \"\": \"\"}\n";

/* In memory of its own size, so that ASan sees a byte too far. */
static bool check(const char *text, size_t length)
{
	char *copy = malloc(length ? length : 1);
	bool good;

	assert_non_null(copy);
	memcpy(copy, text, length);
	good = json_check(copy, length);
	free(copy);
	return good;
}

static void test_good(void **state)
{
	static const char *const good[] = { "{}", " { } ", "{\"a\":1}", "{\"a\":\"\\/\\b\\f\"}",
					    whole };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(check(good[i], strlen(good[i])));
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"1",
		"{} {}",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{,}",
		"{\"a\":[1,]}",
		"{\"a\":01}",
		"{\"a\":1.}",
		"{\"a\":.5}",
		"{\"a\":-}",
		"{\"a\":1e}",
		"{\"a\":tru}",
		"{\"a\":\"\n\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":'b'}",
		"{a:1}",
		"{\"a\":1]",
		"{\"a\":{]}",
		"{\"a\" 1}",
	};
	char deep[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (check(bad[i], strlen(bad[i])))
			fail_msg("accepted: %s", bad[i]);
	strcpy(deep, "{\"a\":");
	memset(deep + 5, '[', sizeof(deep) - 5);
	assert_false(check(deep, sizeof(deep)));
}

/* Every beginning of a whole text is none: an answer that was cut off is noticed. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(whole) - 2; n++)
		assert_false(check(whole, n));
}

/* One byte changed, jansson decides. CHECK_SEED replays. */
static void test_changed(void **state)
{
	const char *given = getenv("CHECK_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0)
			      : (unsigned)time(NULL) * 2654435761u + (unsigned)getpid();
	static const char bytes[] = "{}[],:\"\\0123456789.-+eEtrufalsn x\n";
	char text[sizeof(whole)];
	json_error_t error;
	json_t *read;

	(void)state;
	print_message("CHECK_SEED=%u\n", seed);
	srandom(seed);
	for (int i = 0; i < 50000; i++) {
		memcpy(text, whole, sizeof(whole));
		for (long k = random() % 3; k >= 0; k--)
			text[(size_t)random() % (sizeof(whole) - 1)] =
				bytes[(size_t)random() % (sizeof(bytes) - 1)];
		/* A number without bounds is JSON, and nothing that jansson can hold; so are the
		 * numbers of halves of pairs. */
		if (strstr(text, "\\u"))
			memcpy(strstr(text, "\\u"), "\\n00e4", 6);
		read = json_loads(text, JSON_DECODE_INT_AS_REAL, &error);
		if (!read && json_error_code(&error) == json_error_numeric_overflow)
			continue;
		if (!json_is_object(read) && check(text, sizeof(whole) - 1))
			fail_msg("accepted: %s", text);
		if (json_is_object(read) && !check(text, sizeof(whole) - 1))
			fail_msg("refused: %s", text);
		json_decref(read);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
