/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* SP_ASSERT, where it is on: a condition that holds passes, one that does not ends the program. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/fork.h"

#define SP_ASSERTIONS
#include "providers/common/lock.h"

static void unlock_twice(void)
{
	const struct rlimit no_core = { 0 };
	struct sp_lock lock = { 0 };

	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)signal(SIGILL, SIG_DFL); /* cmocka's would go on with the next test */
	(void)signal(SIGTRAP, SIG_DFL);
	sp_lock(&lock);
	sp_unlock(&lock);
	sp_unlock(&lock);
	_exit(0);
}

static void a_lock_that_is_held_is_unlocked(void **state)
{
	struct sp_lock lock = { 0 };

	sp_lock(&lock);
	sp_unlock(&lock);
	assert_true(sp_trylock(&lock));
}

static void a_lock_that_is_not_held_ends_the_program(void **state)
{
	pid_t child = test_fork();
	int status;

	assert_int_not_equal(child, -1);
	if (!child)
		unlock_twice();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_that_is_held_is_unlocked),
		cmocka_unit_test(a_lock_that_is_not_held_ends_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
