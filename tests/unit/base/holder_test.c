/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Processes that hold descriptors in this one's place: what they have, and who notices them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/holder.h"

#define PATIENCE_MS 20000

/* True once nobody has the other end any more; waits so long for that. */
static bool ended(int fd, int ms)
{
	struct pollfd pfd = { .fd = fd };

	return poll(&pfd, 1, ms) == 1 && pfd.revents & POLLHUP;
}

/* A holder of the writing end of a pipe, which this process has not any more. */
static struct sh_holder hold(int ends[2])
{
	struct sh_holder holder = SH_NO_HOLDER;

	assert_return_code(pipe2(ends, O_CLOEXEC), errno);
	assert_int_equal(sh_holder_start(&holder, &ends[1], 1), 0);
	close(ends[1]);
	return holder;
}

static void holds_until_it_is_ended(void **state)
{
	int ends[2];
	struct sh_holder holder = hold(ends);

	assert_false(ended(ends[0], 200));
	sh_holder_end(&holder);
	assert_true(ended(ends[0], PATIENCE_MS));
	assert_int_equal(holder.fd, -1);
	sh_holder_end(&holder);
	close(ends[0]);
}

/* The program's end, however it comes, is the holder's. */
static void ends_with_the_program(void **state)
{
	int ends[2], status;
	pid_t pid;

	assert_return_code(pipe2(ends, O_CLOEXEC), errno);
	pid = fork();
	if (!pid) {
		struct sh_holder holder = SH_NO_HOLDER;

		_exit(sh_holder_start(&holder, &ends[1], 1) || raise(SIGKILL));
	}
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_true(ended(ends[0], PATIENCE_MS));
	close(ends[0]);
}

static void is_nobodys_child(void **state)
{
	int ends[2];
	struct sh_holder holder = hold(ends);

	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(kill(holder.pid, 0), 0);
	assert_int_not_equal(getsid(holder.pid), getsid(0));
	sh_holder_end(&holder);
	close(ends[0]);
}

static void stays_when_it_is_told_to_end(void **state)
{
	int ends[2];
	struct sh_holder holder = hold(ends);

	assert_int_equal(kill(holder.pid, SIGTERM), 0);
	assert_int_equal(kill(holder.pid, SIGHUP), 0);
	assert_false(ended(ends[0], 200));
	sh_holder_end(&holder);
	assert_true(ended(ends[0], PATIENCE_MS));
	close(ends[0]);
}

/* A pipeline must end with the program, and not with its holder. */
static void has_nothing_else(void **state)
{
	int ends[2], other[2];
	struct sh_holder holder;

	assert_return_code(pipe2(other, 0), errno); /* inherited by what is executed */
	holder = hold(ends);
	close(other[1]);
	assert_true(ended(other[0], PATIENCE_MS));
	assert_false(ended(ends[0], 0));
	sh_holder_end(&holder);
	close(other[0]);
	close(ends[0]);
}

static void leaves_the_signal_mask(void **state)
{
	sigset_t before, after;
	int ends[2];
	struct sh_holder holder;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	holder = hold(ends);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int i = 1; i < SIGRTMIN; i++)
		assert_int_equal(sigismember(&after, i), i == SIGUSR1);
	sh_holder_end(&holder);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_until_it_is_ended),
		cmocka_unit_test(ends_with_the_program),
		cmocka_unit_test(is_nobodys_child),
		cmocka_unit_test(stays_when_it_is_told_to_end),
		cmocka_unit_test(has_nothing_else),
		cmocka_unit_test(leaves_the_signal_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
