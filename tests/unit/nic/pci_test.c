/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the first 64 bytes of a PCI config space say, of functions, virtual ones and subfunctions. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/nic/pci.h"

static bool gone;

static bool cut_off(int fd)
{
	return sh_pci_cut_off(fd, &gone);
}

static char root[] = "/tmp/shift-pci-XXXXXX";

static void make(const char *folder)
{
	char path[256];

	snprintf(path, sizeof(path), "mkdir -p %s/%s", root, folder);
	assert_int_equal(system(path), 0);
}

static void put(const char *file, const uint8_t *bytes, size_t n)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

/* A function "f", and a subfunction below it that has no config space. */
static int setup(void **state)
{
	char path[300];

	(void)state;
	assert_non_null(mkdtemp(root));
	make("class/infiniband/mlx5_0");
	make("class/infiniband/mlx5_1");
	make("f/sf.1");
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_0/device", root);
	assert_int_equal(symlink("../../../f", path), 0);
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_1/device", root);
	assert_int_equal(symlink("../../../f/sf.1", path), 0);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void header(uint8_t *bytes, uint8_t command)
{
	memset(bytes, 0, 64);
	bytes[0] = 0xb3;
	bytes[1] = 0x15;
	bytes[4] = command;
}

static void functions(void **state)
{
	uint8_t bytes[64];
	int fd, sub;

	(void)state;
	header(bytes, 0x06);
	put("f/config", bytes, sizeof(bytes));
	fd = sh_pci_open(root, "mlx5_0");
	sub = sh_pci_open(root, "mlx5_1");
	assert_true(fd >= 0 && sub >= 0);
	assert_int_equal(sh_pci_open(root, "mlx5_2"), -ENOENT);
	assert_false(cut_off(fd) || cut_off(sub));
	header(bytes, 0x02); /* memory decoding alone */
	put("f/config", bytes, sizeof(bytes));
	assert_true(cut_off(fd) && cut_off(sub) && !gone);
	memset(bytes, 0xff, sizeof(bytes));
	put("f/config", bytes, sizeof(bytes));
	assert_true(cut_off(fd) && gone);
	header(bytes, 0x06);
	memset(bytes, 0xff, 4); /* a virtual function has no name */
	put("f/config", bytes, sizeof(bytes));
	assert_false(cut_off(fd));
	put("f/config", bytes, 16); /* half of it: nothing is known */
	assert_false(cut_off(fd));
	assert_false(cut_off(-1));
	close(fd);
	close(sub);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(functions) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
