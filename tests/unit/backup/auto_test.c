/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* SHIFT_BACKUP=auto: spread where there is room for it, else pair. */
#include "tests/lib/kv_support.h"

#include <stdio.h>

#include "shiftlib/backup/auto.h"
#include "shiftlib/backup/room.h"

#define MANY 12

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

static void what_counts_as_auto(void **state)
{
	(void)state;
	assert_true(backup_is_auto(NULL));
	assert_true(backup_is_auto(""));
	assert_true(backup_is_auto("auto"));
	assert_false(backup_is_auto("autos"));
	assert_false(backup_is_auto("pair"));
}

static void with_room_it_is_spread(void **state)
{
	static const char *const texts[] = { NULL, "", "auto" };

	(void)state;
	for (int i = 0; i < 3; i++)
		for (uint32_t n = 3; n <= MANY; n++)
			assert_string_equal(
				backup_auto(texts[i], backup_auto_wants(nics, n), UINT64_MAX),
				"spread");
}

/* To the byte, and by the number of NICs that a process would open. */
static void with_little_it_is_pair(void **state)
{
	(void)state;
	for (uint32_t n = 3; n <= MANY; n++) {
		uint32_t opened = n < 1 + BACKUP_MAP_MAX_BACKUPS ? n : 1 + BACKUP_MAP_MAX_BACKUPS;
		uint64_t wants = backup_auto_wants(nics, n);

		assert_true(wants == (uint64_t)opened * BACKUP_CONTROL_BYTES * BACKUP_CONTROL_PART);
		assert_string_equal(backup_auto("auto", wants, wants), "spread");
		assert_string_equal(backup_auto("auto", wants, wants - 1), "pair");
		assert_string_equal(backup_auto(NULL, wants, 0), "pair");
	}
}

static void of_two_nics_it_is_pair(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 3; n++) {
		assert_true(backup_auto_wants(nics, n) == 0);
		assert_string_equal(backup_auto("auto", backup_auto_wants(nics, n), UINT64_MAX),
				    "pair");
	}
}

/* Who says it has it. */
static void what_is_said_stays(void **state)
{
	static const char *const texts[] = { "pair", "spread", "mlx5_0=mlx5_1", "nonsense" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_ptr_equal(backup_auto(texts[i], backup_auto_wants(nics, MANY), 0), texts[i]);
		assert_ptr_equal(backup_auto(texts[i], backup_auto_wants(nics, MANY), UINT64_MAX),
				 texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_counts_as_auto),	  cmocka_unit_test(with_room_it_is_spread),
		cmocka_unit_test(with_little_it_is_pair), cmocka_unit_test(of_two_nics_it_is_pair),
		cmocka_unit_test(what_is_said_stays),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
