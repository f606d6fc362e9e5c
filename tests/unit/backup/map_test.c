/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The backup map's text: what it means, and what is said about text that means nothing. */
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/backup/map.h"

#define FUZZ_ROUNDS 200000

static const struct backup_nic nics[] = {
	{ .name = "mlx5_0", .link_layer = 2 }, { .name = "mlx5_1", .link_layer = 2 },
	{ .name = "ib0", .link_layer = 1 },    { .name = "mlx5_2", .link_layer = 2 },
	{ .name = "ib-1", .link_layer = 1 },   { .name = "odd" },
};
#define N_NICS (sizeof(nics) / sizeof(nics[0]))

static int parse(const char *text, struct backup_map *map)
{
	return backup_map_parse(text, nics, N_NICS, map, NULL, 0);
}

/* The text; which NIC gets which is backup_pair_test.c's matter. */
static void automatic(void **state)
{
	struct backup_map map;

	assert_int_equal(backup_map_parse("pair", nics, 5, &map, NULL, 0), 0);
	assert_int_equal(map.n_nics, 5);
	assert_true(map.automatic);
	assert_false(map.spread);
	assert_int_equal(map.n_backups[0], 1);
	assert_int_equal(map.backups[0][0], 1);
	assert_int_equal(map.backups[1][0], 0);
	assert_int_equal(map.backups[2][0], 4);
	assert_int_equal(map.backups[3][0], 0);
	assert_int_equal(map.backups[4][0], 2);
	/* Two of a kind: a pair, however it is called. */
	assert_int_equal(backup_map_parse("spread", nics, 2, &map, NULL, 0), 0);
	assert_false(map.spread);
	assert_int_equal(map.n_backups[0], 1);
	assert_int_equal(map.backups[0][0], 1);
	assert_int_equal(map.backups[1][0], 0);
}

static void too_few(void **state)
{
	struct backup_map map;

	assert_int_equal(backup_map_parse(NULL, nics, 1, &map, NULL, 0), 0);
	assert_int_equal(map.n_backups[0], 0);
	assert_int_equal(backup_map_parse("auto", NULL, 0, &map, NULL, 0), 0);
	assert_int_equal(map.n_nics, 0);
	assert_int_equal(backup_map_parse(NULL, nics + 1, 2, &map, NULL, 0), 0);
	assert_int_equal(map.n_backups[0] + map.n_backups[1], 0);
}

static void explicit_map(void **state)
{
	struct backup_map map;

	assert_int_equal(parse("mlx5_0=mlx5_1", &map), 0);
	assert_false(map.automatic);
	assert_int_equal(map.n_backups[0], 1);
	assert_int_equal(map.backups[0][0], 1);
	assert_int_equal(map.n_backups[1], 0);
	assert_int_equal(parse("mlx5_0=mlx5_2:mlx5_1,ib-1=ib0,odd=ib0:mlx5_0", &map), 0);
	assert_int_equal(map.n_backups[0], 2);
	assert_int_equal(map.backups[0][0], 3);
	assert_int_equal(map.backups[0][1], 1);
	assert_int_equal(map.backups[4][0], 2);
	assert_int_equal(map.n_backups[5], 2);
}

static void spread(void **state)
{
	static const char *const texts[] = { NULL, "", "auto", "spread" };
	struct backup_map map;

	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(backup_map_parse(texts[i], nics, 5, &map, NULL, 0), 0);
		assert_true(map.automatic && map.spread);
		assert_int_equal(map.n_backups[0], 2);
		assert_int_equal(map.n_even[0], 2);
		assert_int_equal(map.backups[0][0], 1);
		assert_int_equal(map.backups[0][1], 3);
		assert_int_equal(map.n_backups[2], 1);
		assert_int_equal(map.backups[2][0], 4);
	}
	assert_int_equal(parse("mlx5_0=mlx5_1", &map), 0);
	assert_false(map.spread);
}

static void refused(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *said;
	} cases[] = {
		{ "mlx5_0", -EINVAL, "character 7: expected DEFAULT=BACKUP" },
		{ "mlx5_0=", -EINVAL, "character 8: a device name is missing" },
		{ "=mlx5_0", -EINVAL, "character 1: a device name is missing" },
		{ ",", -EINVAL, "character 1: a device name" },
		{ " auto", -EINVAL, "character 1: a device name" },
		{ "Auto", -EINVAL, "character 5: expected DEFAULT=BACKUP" },
		{ "nix=nix,", -EINVAL, "character 9: a device name" },
		{ "mlx5_0=mlx5_1,", -EINVAL, "character 15: a device name" },
		{ "mlx5_0=mlx5_1 ,", -EINVAL, "character 14: expected a comma" },
		{ "mlx5_0=mlx5_1=mlx5_2", -EINVAL, "character 14: expected a comma" },
		{ "mlx5_0=mlx5_9", -ENODEV,
		  "character 8: no device mlx5_9; there are mlx5_0, mlx5_1, ib0, mlx5_2, ib-1" },
		{ "mlx5=mlx5_1", -ENODEV, "character 1: no device mlx5;" },
		{ "mlx5_0=mlx5_0", -EINVAL, "its own backup" },
		{ "mlx5_0=mlx5_1:mlx5_1", -EINVAL, "character 15: mlx5_1 is listed twice" },
		{ "mlx5_0=mlx5_1,mlx5_0=mlx5_2", -EINVAL, "character 15: mlx5_0 has an entry" },
		{ "mlx5_0=mlx5_1,mlx5_1=ib0", -EPROTOTYPE, "different link layers" },
	};
	struct backup_map map;
	char err[BACKUP_MAP_ERR_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			backup_map_parse(cases[i].text, nics, N_NICS, &map, err, sizeof(err)),
			cases[i].rc);
		if (!strstr(err, cases[i].said))
			fail_msg("\"%s\" gave: %s", cases[i].text, err);
		for (size_t n = 0; n < N_NICS; n++)
			assert_int_equal(map.n_backups[n], 0);
		assert_int_equal(backup_map_parse(cases[i].text, nics, N_NICS, &map, err, 4),
				 cases[i].rc);
		assert_int_equal(strlen(err), 3);
	}
	assert_int_equal(backup_map_parse("a=b", NULL, 0, &map, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "no RDMA device here"));
}

static void many_nics(void **state)
{
	struct backup_nic many[40];
	char names[40][8], text[64] = "n0=n1";
	struct backup_map map;

	for (int i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		many[i] = (struct backup_nic){ .name = names[i], .link_layer = 2 };
	}
	assert_int_equal(backup_map_parse("auto", many, 40, &map, NULL, 0), 0);
	assert_int_equal(map.n_nics, BACKUP_MAP_MAX_NICS);
	assert_int_equal(map.backups[31][0], 30);
	assert_int_equal(backup_map_parse("n0=n39", many, 40, &map, NULL, 0), -ENODEV);
	for (int i = 2; i < 10; i++)
		sprintf(text + strlen(text), ":n%d", i);
	assert_int_equal(backup_map_parse(text, many, 40, &map, NULL, 0), -EINVAL);
}

/* Random texts of likely pieces: an accepted map names devices that exist, never a NIC itself. */
static void fuzz(void **state)
{
	static const char *const pieces[] = { "mlx5_0", "mlx5_1", "mlx5_2", "ib0", "ib-1", "odd",
					      "=",	"=",	  "=",	    ",",   ":",	   "x",
					      "auto",	"spread", "pair",   "\xff" };
	unsigned seed = kv_test_seed();
	struct backup_map map;
	char text[128], err[64];

	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		text[0] = '\0';
		for (int n = 1 + rand_r(&seed) % 12; n > 0; n--)
			strcat(text, pieces[(size_t)rand_r(&seed) %
					    (sizeof(pieces) / sizeof(pieces[0]))]);
		if (backup_map_parse(text, nics, N_NICS, &map, err, sizeof(err)))
			continue;
		for (size_t i = 0; i < N_NICS; i++)
			for (size_t j = 0; j < map.n_backups[i]; j++)
				assert_true(map.backups[i][j] < N_NICS && map.backups[i][j] != i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(automatic), cmocka_unit_test(explicit_map),
		cmocka_unit_test(too_few),   cmocka_unit_test(spread),
		cmocka_unit_test(refused),   cmocka_unit_test(many_nics),
		cmocka_unit_test(fuzz),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
