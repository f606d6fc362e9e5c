/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is cut for a NIC that can do less, both ways between two that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/nic/fit.h"

/* As libmlx5's and rxe's devices say of themselves. */
static const struct sh_limits mlx5 = {
	.qp_wr = 32768, .sge = 30, .cqe = 4194303, .reads_out = 16, .reads_in = 16
};
static const struct sh_limits rxe = {
	.qp_wr = 1048576, .sge = 32, .cqe = 32767, .reads_out = 128, .reads_in = 128
};
static const struct sh_limits small = {
	.qp_wr = 64, .sge = 2, .cqe = 127, .reads_out = 2, .reads_in = 4
};
static const struct sh_limits unknown;

static void queues(void **state)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = 65, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1
	};
	struct ibv_qp_cap more = cap;

	assert_true(sh_fit_caps(&cap, &mlx5));
	assert_true(sh_fit_caps(&cap, &rxe));
	assert_true(sh_fit_caps(&cap, &unknown));
	assert_false(sh_fit_caps(&cap, &small));
	more.max_send_wr = 64;
	assert_true(sh_fit_caps(&more, &small));
	more.max_recv_wr = 65;
	assert_false(sh_fit_caps(&more, &small));
	more = (struct ibv_qp_cap){ .max_send_sge = 3 };
	assert_false(sh_fit_caps(&more, &small));
	more = (struct ibv_qp_cap){ .max_recv_sge = 31 };
	assert_false(sh_fit_caps(&more, &mlx5));
	assert_true(sh_fit_caps(&more, &rxe));
}

static void completions(void **state)
{
	assert_int_equal(sh_fit_cqe(65535, &mlx5), 65535);
	assert_int_equal(sh_fit_cqe(65535, &rxe), 32767);
	assert_int_equal(sh_fit_cqe(127, &small), 127);
	assert_int_equal(sh_fit_cqe(128, &small), 127);
	assert_int_equal(sh_fit_cqe(65535, &unknown), 65535);
}

/* The end with the lesser NIC tells what it takes; the other one has no more under way. */
static uint8_t out(uint8_t app, const struct sh_limits *mine, uint8_t app_of_peer,
		   const struct sh_limits *peers)
{
	return sh_fit_reads_out(app, mine, sh_fit_told(sh_fit_reads(app_of_peer, peers->reads_in)));
}

static void reads(void **state)
{
	assert_int_equal(out(16, &mlx5, 16, &mlx5), 16);
	assert_int_equal(out(128, &rxe, 128, &mlx5), 16); /* rxe has a backup of mlx5 */
	assert_int_equal(out(128, &mlx5, 128, &mlx5), 16);
	assert_int_equal(out(16, &rxe, 16, &rxe),
			 16); /* and the reverse: no more than the application's */
	assert_int_equal(out(16, &mlx5, 16, &small), 4);
	assert_int_equal(out(16, &small, 16, &mlx5), 2);
	assert_int_equal(out(1, &mlx5, 16, &small), 1);
	assert_int_equal(out(255, &unknown, 255, &unknown), 254);
}

/* Without a number nothing is cut; one whose application takes none is not cut for. */
static void reads_not_told(void **state)
{
	assert_int_equal(sh_fit_reads_out(16, &mlx5, 0), 16);
	assert_int_equal(sh_fit_reads_out(16, &small, 0), 2);
	assert_int_equal(sh_fit_reads_out(1, &mlx5, sh_fit_told(0)), 1);
	assert_int_equal(sh_fit_reads_out(0, &mlx5, sh_fit_told(4)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queues),
		cmocka_unit_test(completions),
		cmocka_unit_test(reads),
		cmocka_unit_test(reads_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
