/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTS_LIB_FORK_H
#define TESTS_LIB_FORK_H

#include <stdlib.h>
#include <unistd.h>

/*
 * test_fork() - fork() for a cmocka test
 *
 * An assertion that fails in the child must end it. cmocka's would jump back into the runner, and the
 * child would go on with the remaining tests, and with the teardown of what its parent still uses.
 */
static inline pid_t test_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		setenv("CMOCKA_TEST_ABORT", "1", 1);
	return pid;
}

#endif
