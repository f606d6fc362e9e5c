/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters: what each kind of event adds to them, buckets at their bounds, time on a backup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "shiftlib/report/metrics.h"
#include "shiftlib/base/util.h"

static const struct sh_event moved = { .kind = SH_EVENT_SWITCH,
				       .cause = SH_CAUSE_PORT_DOWN,
				       .from = "mlx5_0",
				       .to = "mlx5_1",
				       .qps = 4,
				       .detect_ns = 2 * SH_NS_PER_MS,
				       .switch_ns = 30 * SH_NS_PER_MS,
				       .resent = 10,
				       .resent_bytes = 640,
				       .settled = 3 };

static int forget(void **state)
{
	(void)state;
	sh_metrics_forget();
	return 0;
}

static uint64_t observed(const struct sh_histogram *histogram)
{
	uint64_t n = 0;

	for (int i = 0; i <= SH_METRICS_BUCKETS; i++)
		n += histogram->n[i];
	return n;
}

static void test_switch(void **state)
{
	struct sh_way *way = sh_metrics_way("mlx5_0", "mlx5_1");

	(void)state;
	assert_int_equal(way->switches[SH_CAUSE_PORT_DOWN], 0);
	sh_metrics_event(&moved);
	sh_metrics_event(&moved);
	assert_ptr_equal(sh_metrics_way("mlx5_0", "mlx5_1"), way);
	assert_int_equal(way->switches[SH_CAUSE_PORT_DOWN], 2);
	assert_int_equal(way->connections, 8);
	assert_int_equal(way->resent, 20);
	assert_int_equal(way->resent_bytes, 1280);
	assert_int_equal(way->settled, 6);
	assert_int_equal(way->move.sum_ns, 60 * SH_NS_PER_MS);
	assert_int_equal(way->detect.sum_ns, 4 * SH_NS_PER_MS);
	assert_int_equal(observed(&way->move), 2);
	assert_int_equal(sh_metrics_way("mlx5_1", "mlx5_0")->connections, 0);
}

/* Nobody has detected anything where the operator, or the better NIC, moved it. */
static void test_no_detection(void **state)
{
	static const struct {
		enum sh_event_kind kind;
		enum sh_event_cause cause;
		uint64_t detect_ns;
		unsigned observed;
	} cases[] = {
		{ SH_EVENT_SWITCH, SH_CAUSE_DRAIN, 0, 0 },
		{ SH_EVENT_RETURN, SH_CAUSE_BETTER_NIC, 0, 0 },
		{ SH_EVENT_RETURN, SH_CAUSE_PEER, 0, 0 },
		{ SH_EVENT_SWITCH, SH_CAUSE_PEER, 0, 0 },
		{ SH_EVENT_SWITCH, SH_CAUSE_PEER, 5, 1 },
		{ SH_EVENT_SWITCH, SH_CAUSE_PORT_DOWN, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sh_event event = moved;

		sh_metrics_forget();
		event.kind = cases[i].kind;
		event.cause = cases[i].cause;
		event.detect_ns = cases[i].detect_ns;
		sh_metrics_event(&event);
		assert_int_equal(observed(&sh_metrics_way("mlx5_0", "mlx5_1")->detect),
				 cases[i].observed);
		assert_int_equal(observed(&sh_metrics_way("mlx5_0", "mlx5_1")->move), 1);
	}
}

/* A bound belongs to the bucket below it, as Prometheus has it. */
static void test_buckets(void **state)
{
	struct sh_way *way = sh_metrics_way("mlx5_0", "mlx5_1");
	struct sh_event event = moved;

	(void)state;
	for (int i = 0; i < SH_METRICS_BUCKETS; i++) {
		event.switch_ns = (uint64_t)(sh_metrics_bounds[i] * 1e9 + 0.5);
		sh_metrics_event(&event);
		assert_int_equal(way->move.n[i], i ? 2 : 1);
		event.switch_ns++;
		sh_metrics_event(&event);
		assert_int_equal(way->move.n[i + 1], 1);
	}
}

static void test_failed(void **state)
{
	struct sh_event event = moved;

	(void)state;
	event.kind = SH_EVENT_FAILED;
	event.cause = SH_CAUSE_ATOMIC;
	sh_metrics_event(&event);
	assert_int_equal(sh_metrics_failed("mlx5_0")->connections[SH_CAUSE_ATOMIC], 4);
	assert_true(list_empty(&sh_metrics()->ways));
}

static void test_others(void **state)
{
	struct sh_event event = moved;

	(void)state;
	for (event.kind = SH_EVENT_UNPROTECTED; event.kind < SH_EVENT_KINDS; event.kind++)
		sh_metrics_event(&event);
	assert_true(list_empty(&sh_metrics()->ways));
	assert_true(list_empty(&sh_metrics()->failed));
}

static void test_kv(void **state)
{
	(void)state;
	sh_metrics_kv(5, 1, 1000);
	sh_metrics_kv(0, 0, 0); /* nothing was asked: the last latency stays */
	sh_metrics_kv(2, 0, 3000);
	sh_metrics_kv(1, 1, 0);
	assert_int_equal(sh_metrics()->kv.operations, 8);
	assert_int_equal(sh_metrics()->kv.failures, 2);
	assert_int_equal(sh_metrics()->kv.last_ns, 3000);
}

static void test_words(void **state)
{
	(void)state;
	assert_int_equal(sh_metrics()->words.swapped + sh_metrics()->words.again, 0);
	sh_metrics_words(3, 0);
	sh_metrics_words(1, 2);
	assert_int_equal(sh_metrics()->words.swapped, 4);
	assert_int_equal(sh_metrics()->words.again, 2);
	sh_metrics_forget();
	assert_int_equal(sh_metrics()->words.swapped + sh_metrics()->words.again, 0);
}

static void test_away(void **state)
{
	struct sh_away away = { 0 };

	(void)state;
	assert_int_equal(sh_away_ns(&away, 100), 0);
	sh_away_change(&away, 1, 100);
	sh_away_change(&away, 1, 110);
	assert_int_equal(sh_away_ns(&away, 115), 20);
	sh_away_change(&away, -1, 120);
	sh_away_change(&away, -1, 121);
	assert_int_equal(sh_away_ns(&away, 500), 31);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_switch, forget),
		cmocka_unit_test_setup(test_no_detection, forget),
		cmocka_unit_test_setup(test_buckets, forget),
		cmocka_unit_test_setup(test_failed, forget),
		cmocka_unit_test_setup(test_others, forget),
		cmocka_unit_test_setup(test_kv, forget),
		cmocka_unit_test_setup(test_words, forget),
		cmocka_unit_test(test_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
