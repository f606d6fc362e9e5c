/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tables by handle and QPN: any slot can be read, those that were reserved written; and a program that
 * locks its memory, before or after, does not get the whole table as memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/common/table.h"
#include "tests/lib/fork.h"

enum { MOST_KIB = 4 * 1024 /* of 128 MiB */, TROUBLE = 99 };

static struct sp_table table;

static uint64_t *slot(uint32_t at)
{
	return (uint64_t *)table.slots + at;
}

static void all_are_read(void **state)
{
	assert_int_equal(sp_table_map(&table, SP_TABLE_MAX), 0);
	for (uint32_t at = 0; at < SP_TABLE_MAX; at += 4093)
		assert_int_equal(*slot(at), 0);
	assert_int_equal(*slot(SP_TABLE_MAX - 1), 0);
	sp_table_unmap(&table);
}

static void reserved_are_written(void **state)
{
	static const uint32_t at[] = {
		0, 1, SP_TABLE_PIECE - 1, 1 << 20, 0x123456, SP_TABLE_MAX - 1
	};

	assert_int_equal(sp_table_map(&table, SP_TABLE_MAX), 0);
	for (uint32_t again = 0; again < 2; again++)
		for (uint32_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
			assert_int_equal(sp_table_reserve(&table, at[i]), 0);
			*slot(at[i]) += i + 1;
		}
	for (uint32_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		assert_int_equal(*slot(at[i]), 2 * (i + 1));
	assert_int_equal(sp_table_reserve(&table, SP_TABLE_MAX), -ERANGE);
	sp_table_unmap(&table);
}

static void small_ones_end_within_a_piece(void **state)
{
	assert_int_equal(sp_table_map(&table, SP_TABLE_PIECE + 512), 0);
	assert_int_equal(sp_table_reserve(&table, SP_TABLE_PIECE + 511), 0);
	*slot(SP_TABLE_PIECE + 511) = 1;
	assert_int_equal(sp_table_reserve(&table, SP_TABLE_PIECE + 512), -ERANGE);
	sp_table_unmap(&table);
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/* MiB that a table with two slots in use takes, rounded up; TROUBLE: this system does not let us lock. */
static int grown(bool before, bool after)
{
	long kib;

	if (before && mlockall(MCL_CURRENT | MCL_FUTURE))
		return TROUBLE;
	kib = resident_kib();
	if (sp_table_map(&table, SP_TABLE_MAX) || sp_table_reserve(&table, 5) ||
	    sp_table_reserve(&table, SP_TABLE_MAX / 2))
		return TROUBLE;
	*slot(5) = 1;
	if (after && mlockall(MCL_CURRENT | MCL_FUTURE))
		return TROUBLE;
	return (int)((resident_kib() - kib + 1023) / 1024);
}

static int grown_in_a_child(bool before, bool after)
{
	int status = -1;
	pid_t pid = test_fork();

	if (!pid)
		_exit(grown(before, after));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return TROUBLE;
	return WEXITSTATUS(status);
}

static void locked_memory_is_what_is_used(void **state)
{
	int plain = grown_in_a_child(false, false), before = grown_in_a_child(true, false);

	assert_in_range(plain, 0, MOST_KIB / 1024);
	if (before == TROUBLE) {
		print_message(
			"skipped: mlockall() or a mapping behind it failed; needs CAP_IPC_LOCK\n");
		skip();
	}
	assert_in_range(before, 0, MOST_KIB / 1024);
	/* the test program itself, locked as a whole, comes on top */
	assert_in_range(grown_in_a_child(false, true), 0, MOST_KIB / 1024 + 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_read),
		cmocka_unit_test(reserved_are_written),
		cmocka_unit_test(small_ones_end_within_a_piece),
		cmocka_unit_test(locked_memory_is_what_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
