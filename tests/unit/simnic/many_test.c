/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an object costs where there are many: the processor's time for one of few, beside that for
 * one of many, oldest first. One argument: eth or ib.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

#define FEW    500
#define MANY   16000
#define FACTOR 4 /* that one of many may take longer: caches, not steps */

static int open_end(void **state)
{
	return rig_open(&rig, IBV_ACCESS_LOCAL_WRITE);
}

/* Of this thread, which executes its own commands: no other process counts. */
static uint64_t spent_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Makes n, and takes them away, oldest first. Returns what taking one away took. */
static uint64_t cq_destroy_ns(uint32_t n)
{
	struct ibv_cq **cq = calloc(n, sizeof(*cq));
	uint64_t begin;

	assert_non_null(cq);
	for (uint32_t i = 0; i < n; i++) {
		cq[i] = ibv_create_cq(rig.ctx, 1, NULL, NULL, 0);
		assert_non_null(cq[i]);
	}
	begin = spent_ns();
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	free(cq);
	return (spent_ns() - begin) / n;
}

static uint64_t srq_destroy_ns(uint32_t n)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq **srq = calloc(n, sizeof(*srq));
	uint64_t begin;

	assert_non_null(srq);
	for (uint32_t i = 0; i < n; i++) {
		srq[i] = ibv_create_srq(rig.pd, &init);
		assert_non_null(srq[i]);
	}
	begin = spent_ns();
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(ibv_destroy_srq(srq[i]), 0);
	free(srq);
	return (spent_ns() - begin) / n;
}

static void expect_even(uint64_t (*destroy_ns)(uint32_t n))
{
	uint64_t few = destroy_ns(FEW), many = destroy_ns(MANY);

	print_message("one of %u: %llu ns, one of %u: %llu ns\n", FEW, (unsigned long long)few,
		      MANY, (unsigned long long)many);
	assert_true(many < FACTOR * few);
}

static void completion_queues_go_as_fast_among_many(void **state)
{
	expect_even(cq_destroy_ns);
}

static void shared_receive_queues_go_as_fast_among_many(void **state)
{
	expect_even(srq_destroy_ns);
}

#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, rig_finish)

static int tests(void)
{
	const struct CMUnitTest all[] = {
		WITH(open_end, completion_queues_go_as_fast_among_many),
		WITH(open_end, shared_receive_queues_go_as_fast_among_many),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
