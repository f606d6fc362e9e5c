/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Request builders of direct verbs, with a libmlx5 as of rdma-core 35, 36 and 37: what is behind
 * the end of an older one's struct mlx5dv_qp_ex is none of them. A process has one libmlx5, and so
 * has each test.
 *
 * usage: mlx5_releases_test LIBRARY LIBRARY LIBRARY
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "providers/mlx5/libmlx5.h"
#include "tests/lib/fork.h"

static char **libraries;

#define BUILDER(name) offsetof(struct mlx5dv_qp_ex, name)

/* True if a QP counts as one of direct verbs that has something at each offset from this one on. */
static bool counts_from(size_t offset)
{
	struct mlx5dv_qp_ex direct = { 0 };

	memset((char *)&direct + offset, 0x5a, sizeof(direct) - offset);
	return ring_direct_builders((struct ibv_qp_ex *)&direct);
}

/* counts: whether QPs do that have something from these builders on. */
static void check(char *library, bool first, bool mkey, bool stream)
{
	struct ibv_device device;
	pid_t pid = test_fork();
	int status;

	if (!pid) {
		assert_non_null(dlopen(library, RTLD_NOW));
		assert_true(ring_serves(&device));
		assert_false(counts_from(sizeof(struct mlx5dv_qp_ex)));
		assert_int_equal(counts_from(BUILDER(wr_mr_list)), first);
		assert_int_equal(counts_from(BUILDER(wr_mkey_configure)), mkey);
		assert_int_equal(counts_from(BUILDER(wr_raw_wqe)), mkey);
		assert_int_equal(counts_from(BUILDER(wr_set_dc_addr_stream)), stream);
		assert_int_equal(counts_from(BUILDER(wr_memcpy)), stream);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void three_builders_until_35(void **state)
{
	check(libraries[0], true, false, false);
}

static void nine_with_36(void **state)
{
	check(libraries[1], true, true, false);
}

static void all_with_37(void **state)
{
	check(libraries[2], true, true, true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_builders_until_35),
		cmocka_unit_test(nine_with_36),
		cmocka_unit_test(all_with_37),
	};

	if (argc != 4)
		return 2;
	libraries = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
