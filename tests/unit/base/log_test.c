/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Log lines, each case in a process of its own, as the environment is read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
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

/* ---- nobody reads ---------------------------------------------------------------------------- */

#define HANG_S 20

static int real_stderr, to[2]; /* of the child; what it logs to meanwhile */

static void fill(int fd)
{
	static const char some[512];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, some, sizeof(some)) > 0 || write(fd, some, 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static void drain(int fd)
{
	char some[4096];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (read(fd, some, sizeof(some)) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static void log_elsewhere(void)
{
	alarm(HANG_S);
	real_stderr = dup(STDERR_FILENO);
	dup2(to[1], STDERR_FILENO);
}

static void say_to_the_full(void)
{
	char text[1024];
	ssize_t n;

	log_elsewhere();
	fill(STDERR_FILENO);
	sh_log(SH_LOG_WARN, "one");
	sh_log(SH_LOG_ERROR, "two");
	sh_log(SH_LOG_INFO, "not at this level");
	sh_log(SH_LOG_WARN, "three");
	drain(to[0]);
	sh_log(SH_LOG_ERROR, "four");
	sh_log(SH_LOG_WARN, "five");
	n = read(to[0], text, sizeof(text));
	if (n <= 0 || write(real_stderr, text, (size_t)n) != n ||
	    fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK)
		_exit(1);
}

static void say_to_full_pipe(void)
{
	if (pipe(to))
		_exit(1);
	say_to_the_full();
}

static void say_to_full_socket(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, to))
		_exit(1);
	say_to_the_full();
}

/* What a terminal has taken is on its way for a while, so it is not drained here. */
static void say_to_full_terminal(void)
{
	char name[64];

	to[0] = posix_openpt(O_RDWR | O_NOCTTY);
	if (to[0] < 0 || grantpt(to[0]) || unlockpt(to[0]) || ptsname_r(to[0], name, sizeof(name)))
		_exit(1);
	to[1] = open(name, O_WRONLY | O_NOCTTY);
	log_elsewhere();
	for (int i = 0; i < 2000; i++)
		sh_log(SH_LOG_WARN, "a queue pair has moved, and this terminal shows it: %d", i);
	if (fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK)
		_exit(1);
}

static void full_does_not_block(void **state)
{
	static const char seen[] = "shift: warn: lines of this log that could not be written: 3\n"
				   "shift: error: four\nshift: warn: five\n";

	capture(NULL, NULL, say_to_full_pipe);
	assert_string_equal(output, seen);
	capture("error", NULL, say_to_full_pipe);
	assert_string_equal(output, "shift: warn: lines of this log that could not be written: 1\n"
				    "shift: error: four\n");
	capture(NULL, NULL, say_to_full_socket);
	assert_string_equal(output, seen);
	capture(NULL, NULL, say_to_full_terminal);
}

static bool broken_pipe_pends(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGPIPE);
}

static void say_to_closed(void)
{
	sigset_t before, after, broken;

	if (pipe(to))
		_exit(1);
	close(to[0]);
	log_elsewhere();
	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	sh_log(SH_LOG_WARN, "nobody reads this");
	sh_log_crash("nor this");
	pthread_sigmask(SIG_BLOCK, &broken, &before);
	sh_log(SH_LOG_WARN, "nor this");
	if (sigismember(&before, SIGPIPE) || broken_pipe_pends())
		_exit(1);
	raise(SIGPIPE); /* the program's own */
	sh_log(SH_LOG_WARN, "nor this");
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	if (!sigismember(&after, SIGPIPE) || !broken_pipe_pends())
		_exit(1);
}

static void closed_does_not_kill(void **state)
{
	capture(NULL, NULL, say_to_closed);
}

static void *say_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	sh_log(SH_LOG_WARN, "with a lock");
	return arg;
}

static void say_in_cancelled_thread(void)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, say_cancelled, NULL) || pthread_join(thread, &result) ||
	    result == PTHREAD_CANCELED)
		_exit(1);
}

static void no_cancellation_point(void **state)
{
	capture(NULL, NULL, say_in_cancelled_thread);
	assert_string_equal(output, "shift: warn: with a lock\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels),
		cmocka_unit_test(long_line_is_cut),
		cmocka_unit_test(once),
		cmocka_unit_test(to_file),
		cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(one_line),
		cmocka_unit_test(full_does_not_block),
		cmocka_unit_test(closed_does_not_kill),
		cmocka_unit_test(no_cancellation_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
