/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands that a process of their own gives: whose memory, local storage and descriptors it has,
 * and what ends with what. Any character device stands for one of RDMA.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/apart.h"
#include "shiftlib/base/clone.h"

#define TRUST_MS 150 /* longer than a device is trusted for */

static _Thread_local int of_thread;

/* What a command has seen. Memory that the program's parent sees as well. */
static struct seen {
	pid_t process;
	int device_error, other_error, of_thread;
} * seen;

struct command {
	int device, other;
	bool waits;
};

static void look(void *arg)
{
	const struct command *command = arg;

	seen->process = (pid_t)syscall(SYS_getpid);
	seen->device_error = fcntl(command->device, F_GETFD) < 0 ? errno : 0;
	seen->other_error = fcntl(command->other, F_GETFD) < 0 ? errno : 0;
	seen->of_thread = ++of_thread;
	while (command->waits)
		pause();
}

static bool here(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	return !sh_clone_known();
#endif
}

static void nap(long ms)
{
	const struct timespec time = { .tv_nsec = ms * 1000000 };

	nanosleep(&time, NULL);
}

static struct command command_of(const char *device)
{
	struct command command = { .device = open(device, O_RDWR | O_CLOEXEC),
				   .other = open("/dev/null", O_RDONLY | O_CLOEXEC) };

	assert_return_code(command.device, errno);
	assert_return_code(command.other, errno);
	return command;
}

static void command_over(const struct command *command)
{
	assert_return_code(fcntl(command->device, F_GETFD), errno);
	assert_return_code(fcntl(command->other, F_GETFD), errno);
	close(command->device);
	close(command->other);
}

static void *give(void *arg)
{
	const struct command *command = arg;

	of_thread = 0;
	sh_apart_thread();
	sh_apart(command->device, look, arg);
	assert_int_equal(of_thread, seen->of_thread);
	return NULL;
}

static void give_by_thread(struct command *command)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, give, command), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void has_the_thread_and_the_device_alone(void **state)
{
	struct command command = command_of("/dev/zero");

	(void)state;
	give_by_thread(&command);
	assert_int_equal(seen->process == getpid(), here());
	assert_int_equal(seen->device_error, 0);
	assert_int_equal(seen->other_error, here() ? 0 : EBADF);
	assert_int_equal(seen->of_thread, 1);
	command_over(&command);
}

static void nobody_waits_for_it_but_the_thread(void **state)
{
	struct command command = command_of("/dev/zero");

	(void)state;
	give_by_thread(&command);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	command_over(&command);
}

static void what_is_no_device_is_asked_here(void **state)
{
	struct command command = command_of("/dev/zero");
	int ends[2];

	(void)state;
	close(command.device);
	assert_return_code(pipe2(ends, O_CLOEXEC), errno);
	command.device = ends[0];
	give_by_thread(&command);
	assert_int_equal(seen->process, getpid());
	close(ends[1]);
	command_over(&command);
}

static void the_programs_own_threads_ask_themselves(void **state)
{
	struct command command = command_of("/dev/zero");

	(void)state;
	sh_apart(command.device, look, &command);
	assert_int_equal(seen->process, getpid());
	command_over(&command);
}

static void *give_thrice(void *arg)
{
	const struct command *command = arg;
	bool apart[3];

	sh_apart_thread();
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			nap(TRUST_MS);
		sh_apart_next(command->device, look, arg);
		apart[i] = seen->process != getpid();
	}
	assert_int_equal(apart[0], !here());
	assert_false(apart[1]);
	assert_int_equal(apart[2], !here());
	return NULL;
}

static void a_device_that_answered_just_now_is_asked_here(void **state)
{
	struct command command = command_of("/dev/zero");
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, give_thrice, &command), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	command_over(&command);
}

/* A program with a command under way; returns when the command is. */
static pid_t program(struct command *command)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;

		pthread_create(&thread, NULL, give, command);
		for (;;)
			pause();
	}
	assert_return_code(pid, errno);
	while (!__atomic_load_n(&seen->process, __ATOMIC_ACQUIRE))
		nap(1);
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	return status;
}

static void it_ends_with_the_program(void **state)
{
	struct command command = command_of("/dev/zero");
	pid_t pid;

	(void)state;
	command.waits = true;
	pid = program(&command);
	kill(pid, SIGTERM);
	assert_true(WIFSIGNALED(end_of(pid)));
	if (!here())
		assert_true(WIFSIGNALED(end_of(seen->process)));
	command_over(&command);
}

static void the_program_ends_with_it(void **state)
{
	struct command command = command_of("/dev/zero");
	pid_t pid;

	(void)state;
	command.waits = true;
	pid = program(&command);
	kill(seen->process, SIGKILL);
	assert_true(WIFSIGNALED(end_of(pid)));
	command_over(&command);
}

static int setup(void **state)
{
	(void)state;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED;
}

static int teardown(void **state)
{
	(void)state;
	return munmap(seen, sizeof(*seen));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(has_the_thread_and_the_device_alone),
		CASE(nobody_waits_for_it_but_the_thread),
		CASE(what_is_no_device_is_asked_here),
		CASE(the_programs_own_threads_ask_themselves),
		CASE(a_device_that_answered_just_now_is_asked_here),
		CASE(it_ends_with_the_program),
		CASE(the_program_ends_with_it),
	};

	prctl(PR_SET_CHILD_SUBREAPER, 1); /* to see the ends of a program's processes */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
