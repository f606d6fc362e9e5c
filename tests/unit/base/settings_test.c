/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Settings: what the file says, what is wrong in it, which of it and the environment counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/settings.h"
#include "tests/lib/fork.h"

static char path[] = "/tmp/shift-settings-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0 || fchmod(fd, 0644) || close(fd))
		return -1;
	return setenv("SHIFT_CONF", path, 1);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Settings are read once in a process: each case has its own. */
static void in_child(void (*check)(void))
{
	int status;
	pid_t pid = test_fork();

	assert_true(pid >= 0);
	if (!pid) {
		check();
		_exit(0); /* a failed assertion ends it otherwise */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect(const char *name, const char *value)
{
	const char *is = sh_setting(name);

	if (value ? !is || strcmp(is, value) : is != NULL) {
		fprintf(stderr, "%s is %s\n", name, is ? is : "not set");
		_exit(1);
	}
}

static void expect_complaint(const char *text)
{
	const char *complaints;
	bool was_read;

	sh_settings_file(&was_read, &complaints);
	if (text ? !strstr(complaints, text) : *complaints != '\0') {
		fprintf(stderr, "complaints are: %s\n", complaints);
		_exit(1);
	}
}

static void check_lines(void)
{
	setenv("SHIFT_LOG", "debug", 1);
	setenv("SHIFT_JOB", "", 1);
	expect("SHIFT_KV", "redis://kv:6379");
	expect("SHIFT_BACKUP", "mlx5_0=mlx5_1, mlx5_2 = mlx5_3");
	expect("SHIFT_LOG", "debug"); /* the environment counts more */
	expect("SHIFT_JOB", "j");     /* if it is not empty */
	expect("SHIFT_STATS", NULL);
	expect("SHIFT_HANG_MS", "2"); /* the last one */
	expect_complaint(NULL);
}

static void lines_are_read(void **state)
{
	(void)state;
	write_file("# a comment\n\n  SHIFT_KV = redis://kv:6379  \r\n"
		   "SHIFT_BACKUP=mlx5_0=mlx5_1, mlx5_2 = mlx5_3\nSHIFT_LOG=info\nSHIFT_JOB=j\n"
		   "SHIFT_STATS =\nSHIFT_HANG_MS=1\nSHIFT_HANG_MS=2");
	in_child(check_lines);
}

static void check_wrong(void)
{
	expect("SHIFT_KV", "k");
	expect_complaint(":1: there is no setting SHIFT_BAKCUP\n");
	expect_complaint(":2: not NAME = VALUE\n");
}

static void wrong_lines_are_named(void **state)
{
	(void)state;
	write_file("SHIFT_BAKCUP=auto\nSHIFT_KV\nSHIFT_KV=k\n");
	in_child(check_wrong);
}

static void check_many(void)
{
	expect("SHIFT_KV", "k");
	expect_complaint(":1: not NAME = VALUE\n");
}

static void many_wrong_lines_fit(void **state)
{
	static char text[5000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	for (size_t i = 7; i < sizeof(text) - 1; i += 8)
		text[i] = '\n';
	strcpy(text + 4000, "\nSHIFT_KV=k\n");
	write_file(text);
	in_child(check_many);
}

static void check_not_believed(void)
{
	expect("SHIFT_KV", NULL);
	expect_complaint("others than its owner");
}

static void others_must_not_write_it(void **state)
{
	(void)state;
	write_file("SHIFT_KV=k\n");
	assert_int_equal(chmod(path, 0664), 0);
	in_child(check_not_believed);
	assert_int_equal(chmod(path, 0644), 0);
}

static void check_too_large(void)
{
	expect("SHIFT_KV", NULL);
	expect_complaint("bytes are too many");
}

static void too_large_is_ignored(void **state)
{
	(void)state;
	write_file("SHIFT_KV=k\n");
	assert_int_equal(truncate(path, 1 << 20), 0);
	in_child(check_too_large);
}

static void check_no_text(void)
{
	expect("SHIFT_KV", NULL);
	expect_complaint("cannot be read as text");
}

static void no_text_is_ignored(void **state)
{
	(void)state;
	write_file("SHIFT_KV=k\n");
	assert_int_equal(truncate(path, 100), 0);
	in_child(check_no_text);
}

static void check_missing(void)
{
	setenv("SHIFT_CONF", "/nowhere/shift.conf", 1);
	expect("SHIFT_KV", NULL);
	expect_complaint("No such file");
}

static void missing_is_said_if_named(void **state)
{
	(void)state;
	in_child(check_missing);
}

static void programs_match(void **state)
{
	(void)state;
	assert_true(sh_settings_match("ib_write_bw", "/usr/bin/ib_write_bw", "ib_write_bw"));
	assert_true(sh_settings_match("a,ib_*  b", "/usr/bin/ib_write_bw", "x"));
	assert_true(sh_settings_match("trainer", "/usr/bin/python3.11", "/opt/bin/trainer"));
	assert_true(sh_settings_match("/opt/*/bin/*", "/opt/x/bin/y", "y"));
	assert_false(sh_settings_match("/opt/*", "/opt/x/bin/y", "y"));
	assert_false(sh_settings_match("", "/usr/bin/ib_write_bw", "ib_write_bw"));
	assert_false(sh_settings_match("ib_write", "/usr/bin/ib_write_bw", "ib_write_bw"));
	assert_false(sh_settings_match("/usr/bin/a", "/usr/local/bin/a", "/usr/bin/a"));
	assert_true(sh_settings_match("*", "", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_read),
		cmocka_unit_test(wrong_lines_are_named),
		cmocka_unit_test(many_wrong_lines_fit),
		cmocka_unit_test(others_must_not_write_it),
		cmocka_unit_test(too_large_is_ignored),
		cmocka_unit_test(no_text_is_ignored),
		cmocka_unit_test(missing_is_said_if_named),
		cmocka_unit_test(programs_match),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
