/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests, JSON text and the directory of the sockets. JSON is read back by jansson. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "shiftlib/admin/admin.h"
#include "shiftlib/base/run_dir.h"

/* ---- requests ------------------------------------------------------------------------------- */

static void test_words(void **state)
{
	struct admin_request request;
	const char *why;

	(void)state;
	assert_int_equal(admin_parse("status", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_STATUS);
	assert_string_equal(request.device, "");
	assert_int_equal(admin_parse("open", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_OPEN);
	assert_string_equal(request.device, "");
	assert_int_equal(admin_parse("version", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_VERSION);
	assert_int_equal(admin_parse("drain mlx5_0", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_DRAIN);
	assert_string_equal(request.device, "mlx5_0");
	assert_int_equal(admin_parse("undrain rocep1s0f0.2-x", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_UNDRAIN);
	assert_string_equal(request.device, "rocep1s0f0.2-x");
	assert_int_equal(admin_parse("users mlx5_1", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_USERS);
	assert_int_equal(admin_parse("metrics", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_METRICS);
	assert_int_equal(admin_parse("farewell", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_FAREWELL);
	assert_int_equal(admin_parse("events 0", &request, &why), 0);
	assert_int_equal(request.word, ADMIN_EVENTS);
	assert_int_equal(request.number, 0);
	assert_int_equal(admin_parse("events 123456789012345678", &request, &why), 0);
	assert_int_equal(request.number, 123456789012345678ull);
}

static void test_no_words(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"stat",
		"statuss",
		"status ",
		"status x",
		"STATUS",
		"drain",
		"drain ",
		"drain mlx5_0 ",
		"drain a b",
		"drain ../../x",
		"drain mlx5\t0",
		"drain \"mlx5\"",
		"drai mlx5_0",
		"events",
		"events ",
		"events -1",
		"events 1x",
		"events 1 2",
		"events 1234567890123456789",
		"\n",
		"status\r",
		"{\"status\"}",
		"drain  mlx5_0",
	};
	char device[ADMIN_DEVICE_MAX + 8], line[128];
	struct admin_request request;
	const char *why;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		why = NULL;
		assert_int_equal(admin_parse(bad[i], &request, &why), -EINVAL);
		assert_non_null(why);
	}
	for (i = ADMIN_DEVICE_MAX - 2; i < ADMIN_DEVICE_MAX + 2; i++) {
		memset(device, 'a', i);
		device[i] = 0;
		snprintf(line, sizeof(line), "drain %s", device);
		assert_int_equal(admin_parse(line, &request, &why),
				 i < ADMIN_DEVICE_MAX ? 0 : -EINVAL);
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* What a reader makes of text that was written as a string. */
static char *read_back(const char *text)
{
	struct sh_json json = { 0 };
	json_t *array;
	char *out;

	sh_json_print(&json, "[");
	sh_json_string(&json, text);
	sh_json_print(&json, "]");
	assert_false(json.failed);
	assert_int_equal(strlen(json.text), json.length);
	array = json_loads(json.text, 0, NULL);
	assert_non_null(array);
	assert_int_equal(json_array_size(array), 1);
	out = strdup(json_string_value(json_array_get(array, 0)));
	json_decref(array);
	sh_json_free(&json);
	return out;
}

static void assert_read(const char *text, const char *expected)
{
	char *out = read_back(text);

	assert_string_equal(out, expected);
	free(out);
}

static void test_strings(void **state)
{
	static const char *const same[] = {
		"",
		"mlx5_0",
		"a \"b\" \\c/",
		"line\nline\ttab\r\x1b[0m\x7f",
		"\xc3\xa4\xe2\x82\xac",
		"\xf0\x9f\x98\x80",
		"\xf4\x8f\xbf\xbf",
		"\xed\x9f\xbf",
	};
	struct sh_json json = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(same) / sizeof(*same); i++)
		assert_read(same[i], same[i]);
	sh_json_string(&json, NULL);
	assert_string_equal(json.text, "null");
	sh_json_free(&json);
}

#define REPLACED "\xef\xbf\xbd"

static void test_bad_utf8(void **state)
{
	(void)state;
	assert_read("a\xff"
		    "b",
		    "a" REPLACED "b");
	assert_read("\xc3", REPLACED);				 /* cut */
	assert_read("\xe2\x82", REPLACED REPLACED);		 /* cut */
	assert_read("\xc0\xaf", REPLACED REPLACED);		 /* too long a form */
	assert_read("\xed\xa0\x80", REPLACED REPLACED REPLACED); /* half of a pair */
	assert_read("\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Whatever a process is called, a reader gets JSON. ADMIN_SEED replays. */
static void test_random_bytes(void **state)
{
	const char *given = getenv("ADMIN_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0)
			      : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
	char text[64];
	int i, n, j;

	(void)state;
	print_message("ADMIN_SEED=%llu\n", (unsigned long long)seed);
	seed |= 1;
	for (i = 0; i < 20000; i++) {
		n = (int)(next_random(&seed) % (sizeof(text) - 1));
		for (j = 0; j < n; j++)
			text[j] = (char)(next_random(&seed) >> 32);
		text[n] = 0;
		free(read_back(text));
	}
}

static void test_long_text(void **state)
{
	struct sh_json json = { 0 };
	int i;

	(void)state;
	for (i = 0; i < 10000; i++)
		sh_json_print(&json, "%s%d", i ? "," : "", i % 10);
	assert_int_equal(json.length, 19999);
	assert_int_equal(json.text[19998], '9');
	assert_int_equal(json.text[19999], 0);
	sh_json_free(&json);
	assert_null(json.text);
}

/* ---- the directory -------------------------------------------------------------------------- */

static char folder[] = "/tmp/admin-test-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static const char *in_folder(const char *name)
{
	static char path[2][PATH_MAX];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

static void test_dir_path(void **state)
{
	char path[RUN_DIR_MAX], longest[RUN_DIR_MAX + 1];

	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(run_dir_path(NULL, 0, path), 0);
	assert_string_equal(path, "/run/shift");
	assert_int_equal(run_dir_path("", 1000, path), 0);
	assert_string_equal(path, "/tmp/shift-1000");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	assert_int_equal(run_dir_path(NULL, 1000, path), 0);
	assert_string_equal(path, in_folder("shift"));
	assert_true(run_dir_is_sure(NULL, 1000));
	/* As a batch job finds it. */
	setenv("XDG_RUNTIME_DIR", in_folder("no-session"), 1);
	assert_int_equal(run_dir_path(NULL, 1000, path), 0);
	assert_string_equal(path, "/tmp/shift-1000");
	assert_int_equal(run_dir_path(NULL, 0, path), 0);
	assert_string_equal(path, "/run/shift");
	assert_false(run_dir_is_sure(NULL, 1000));
	assert_true(run_dir_is_sure(NULL, 0));
	assert_true(run_dir_is_sure("/x", 1000));
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	assert_true(run_dir_is_sure(NULL, 1000));
	assert_int_equal(run_dir_path(NULL, 1000, path), 0);
	assert_string_equal(path, "/tmp/shift-1000");
	assert_int_equal(run_dir_path("/x", 0, path), 0);
	assert_string_equal(path, "/x");
	memset(longest, 'a', RUN_DIR_MAX);
	longest[RUN_DIR_MAX] = 0;
	assert_int_equal(run_dir_path(longest, 0, path), -ENAMETOOLONG);
}

static void test_dir_made(void **state)
{
	const char *dir = in_folder("made"), *why = NULL;
	struct stat st;
	mode_t before;

	(void)state;
	before = umask(0);
	assert_int_equal(run_dir_make(dir, geteuid(), &why), 0);
	umask(before);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(run_dir_make(dir, geteuid(), &why), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(run_dir_make(in_folder("no/parent"), geteuid(), &why), -ENOENT);
	assert_non_null(why);
}

static void test_dir_refused(void **state)
{
	static const mode_t open_modes[] = { 0701, 0710, 0755, 0777, 01777, 0720 };
	const char *dir = in_folder("dir"), *link = in_folder("link"), *why = NULL;
	size_t i;
	FILE *file;

	(void)state;
	assert_int_equal(run_dir_make(dir, geteuid(), &why), 0);
	assert_int_equal(run_dir_check(dir, geteuid() + 1, &why), -EPERM);
	for (i = 0; i < sizeof(open_modes) / sizeof(*open_modes); i++) {
		assert_int_equal(chmod(dir, open_modes[i]), 0);
		assert_int_equal(run_dir_make(dir, geteuid(), &why), -EPERM);
	}
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(symlink(dir, link), 0);
	assert_int_equal(run_dir_make(link, geteuid(), &why), -ELOOP);
	assert_int_equal(unlink(link), 0);
	file = fopen(link, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(run_dir_make(link, geteuid(), &why), -ENOTDIR);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* Two processes of one number have two names; what is no such name is left alone. */
static void test_socket_names(void **state)
{
	static const char *const others[] = {
		"",
		"7",
		"7.sock",
		"-7-0123456789abcdef.sock",
		"7-0123.sock",
		"0-0123456789abcdef.sock",
		"7-0123456789abcdef",
		"7-0123456789abcdef.sock.new",
		"07-0123456789abcdef.sock",
		"7-0123456789ABCDEF.sock",
	};
	char name[RUN_DIR_NAME_MAX], other[RUN_DIR_NAME_MAX];

	run_dir_name(name, 7, 0x123456789abcdefull);
	assert_string_equal(name, "7-0123456789abcdef.sock");
	assert_int_equal(run_dir_name_pid(name), 7);
	run_dir_name(other, 7, 0x123456789abcdeeull);
	assert_string_not_equal(name, other);
	run_dir_name(name, INT_MAX, UINT64_MAX);
	assert_int_equal(run_dir_name_pid(name), INT_MAX);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_int_equal(run_dir_name_pid(others[i]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),	     cmocka_unit_test(test_no_words),
		cmocka_unit_test(test_strings),	     cmocka_unit_test(test_bad_utf8),
		cmocka_unit_test(test_random_bytes), cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_dir_path),     cmocka_unit_test(test_dir_made),
		cmocka_unit_test(test_dir_refused),  cmocka_unit_test(test_socket_names),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
