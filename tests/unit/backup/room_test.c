/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What SHIFT locks on the NICs of a map, and what may be locked. */
#include "tests/lib/kv_support.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shiftlib/backup/room.h"
#include "shiftlib/control/control_qp.h"

#define MANY	  12
#define GRH_BYTES 64 /* in front of a receive, on a cache line */

static char names[MANY][16];
static struct backup_nic nics[MANY];

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "mlx5_%d", i);
		nics[i] = (struct backup_nic){ .name = names[i], .link_layer = 2 };
	}
	return 0;
}

static void locks(const char *text, uint32_t n, uint64_t opened)
{
	struct backup_map map;

	assert_int_equal(backup_map_parse(text, nics, n, &map, NULL, 0), 0);
	assert_true(backup_control_bytes(&map) == opened * BACKUP_CONTROL_BYTES);
}

static void by_the_number_of_nics(void **state)
{
	(void)state;
	locks("pair", 1, 0);
	locks("pair", 8, 2);
	locks("spread", 2, 2);
	locks("spread", 4, 4);
	locks("spread", 8, 8);
	locks("spread", MANY, 1 + BACKUP_MAP_MAX_BACKUPS);
	locks("mlx5_0=mlx5_1,mlx5_1=mlx5_0:mlx5_2", 8, 3);
}

static void not_less_than_a_control_queue_pair_has(void **state)
{
	(void)state;
	assert_true(SH_CONTROL_RECEIVES_FIRST * (SH_CONTROL_MTU_MAX + GRH_BYTES) +
			    SH_CONTROL_SEND_BYTES_FIRST <=
		    BACKUP_CONTROL_FIRST);
	assert_true(SH_CONTROL_RECEIVES * (SH_CONTROL_MTU_MAX + GRH_BYTES) +
			    SH_CONTROL_SEND_BYTES_FIRST + SH_CONTROL_SEND_BYTES <=
		    BACKUP_CONTROL_BYTES);
	assert_true(BACKUP_CONTROL_FIRST <= 512 << 10); /* the aim, with the rings */
}

/* The limit counts, but for who may pass it. */
static void the_limit_of_this_process(void **state)
{
	struct rlimit limit, before;
	uint64_t lockable;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit = before;
	limit.rlim_cur = before.rlim_max < 4096 ? before.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	lockable = backup_lockable();
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	assert_true(lockable == limit.rlim_cur || lockable == UINT64_MAX);
}

/* In the child: 0: it is the limit; 77: there are no user namespaces here. */
static int of_a_roots_container(void)
{
	struct rlimit limit;

	if (unshare(CLONE_NEWUSER) || getrlimit(RLIMIT_MEMLOCK, &limit))
		return 77;
	if (limit.rlim_max > 4096)
		limit.rlim_max = 4096;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_MEMLOCK, &limit) || backup_lockable() != limit.rlim_cur;
}

/* It has all capabilities, but none of the host's: the kernel holds it to the limit. */
static void the_limit_of_a_container(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(of_a_roots_container());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_number_of_nics),
		cmocka_unit_test(not_less_than_a_control_queue_pair_has),
		cmocka_unit_test(the_limit_of_this_process),
		cmocka_unit_test(the_limit_of_a_container),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
