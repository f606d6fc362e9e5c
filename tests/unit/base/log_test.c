/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Log lines, each case in a process of its own, as the environment is read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/log.h"
#include "tests/lib/fork.h"

static char output[8192];

/* Runs body in a child with these variables; its stderr is in output. */
static void capture(const char *level, const char *file, void (*body)(void))
{
	size_t at = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = test_fork();
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		level ? setenv("SHIFT_LOG", level, 1) : unsetenv("SHIFT_LOG");
		file ? setenv("SHIFT_LOG_FILE", file, 1) : unsetenv("SHIFT_LOG_FILE");
		body();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], output + at, sizeof(output) - 1 - at)) > 0)
		at += (size_t)n;
	output[at] = 0;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void say_all(void)
{
	sh_log(SH_LOG_ERROR, "one %d", 1);
	sh_log(SH_LOG_WARN, "two %s", "2");
	sh_log(SH_LOG_INFO, "three");
	sh_log(SH_LOG_DEBUG, "four");
}

/* At level debug each line has a time behind its level: taken out, after a look at its form. */
static void take_times_out(void)
{
	char *open, *close;

	while ((open = strchr(output, '['))) {
		assert_int_equal(strspn(open + 1, "0123456789."), strcspn(open + 1, "]"));
		close = strchr(open, ']');
		assert_non_null(close);
		assert_int_equal(close[1], ' ');
		memmove(open, close + 2, strlen(close + 2) + 1);
	}
}

static void levels(void **state)
{
	capture(NULL, NULL, say_all);
	assert_string_equal(output, "shift: error: one 1\nshift: warn: two 2\n");
	capture("error", NULL, say_all);
	assert_string_equal(output, "shift: error: one 1\n");
	capture("debug", NULL, say_all);
	assert_non_null(strstr(output, "error: ["));
	take_times_out();
	assert_string_equal(output, "shift: error: one 1\nshift: warn: two 2\nshift: info: three\n"
				    "shift: debug: four\n");
	capture("loud", NULL, say_all);
	assert_string_equal(output,
			    "shift: warn: SHIFT_LOG=loud is none of error, warn, info, debug; "
			    "using warn\nshift: error: one 1\nshift: warn: two 2\n");
}

static void say_long(void)
{
	char text[3000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	sh_log(SH_LOG_ERROR, "%s", text);
}

static void long_line_is_cut(void **state)
{
	capture(NULL, NULL, say_long);
	assert_int_equal(strlen(output), SH_LOG_LINE_MAX);
	assert_int_equal(output[SH_LOG_LINE_MAX - 1], '\n');
	assert_int_equal(output[SH_LOG_LINE_MAX - 2], 'x');
}

static void say_once(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		sh_warn_once("once %d", i);
		sh_info_once("hidden");
	}
}

static void once(void **state)
{
	capture(NULL, NULL, say_once);
	assert_string_equal(output, "shift: warn: once 0\n");
}

static void keep_errno(void)
{
	close(STDERR_FILENO);
	errno = 77;
	sh_log(SH_LOG_ERROR, "nobody reads this");
	if (errno != 77)
		_exit(1);
}

static void errno_is_kept(void **state)
{
	capture(NULL, NULL, keep_errno);
}

static void to_file(void **state)
{
	char path[] = "/tmp/shift-log-test-XXXXXX", text[64] = "";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "before\n", 7), 7);
	capture(NULL, path, say_once);
	assert_string_equal(output, "");
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "before\nshift: warn: once 0\n");
	close(fd);
	unlink(path);
	capture(NULL, "/nonexistent/log", say_once);
	assert_string_equal(output,
			    "shift: warn: cannot open SHIFT_LOG_FILE /nonexistent/log: "
			    "No such file or directory; logging to stderr\nshift: warn: once 0\n");
}

static void say_what_others_say(void)
{
	sh_log(SH_LOG_ERROR, "a name: %s", "x\nshift: info: all is well\r\033[2J\t\177.");
}

/* A line is a line, whatever is named in it. */
static void one_line(void **state)
{
	capture(NULL, NULL, say_what_others_say);
	assert_string_equal(output, "shift: error: a name: x?shift: info: all is well??[2J??.\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels),	 cmocka_unit_test(long_line_is_cut),
		cmocka_unit_test(once),		 cmocka_unit_test(to_file),
		cmocka_unit_test(errno_is_kept), cmocka_unit_test(one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
