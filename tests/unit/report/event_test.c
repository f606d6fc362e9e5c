/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Events: the ring that keeps them, their names, their JSON (read back by jansson), their dates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include <jansson.h>
#include "shiftlib/base/date.h"
#include "shiftlib/report/event.h"

static int setup(void **state)
{
	(void)state;
	sh_events_forget();
	return 0;
}

static void record(uint32_t qps)
{
	struct sh_event event = { .kind = SH_EVENT_PROTECTED, .qps = qps };

	sh_event_record(&event);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static void test_empty(void **state)
{
	(void)state;
	assert_int_equal(sh_event_last(), 0);
	assert_null(sh_event_after(0));
	assert_null(sh_event_after(7));
}

static void test_in_order(void **state)
{
	const struct sh_event *event;
	uint64_t number = 0;

	(void)state;
	record(1);
	record(2);
	record(3);
	while ((event = sh_event_after(number))) {
		assert_int_equal(event->number, number + 1);
		assert_int_equal(event->qps, event->number);
		assert_true(event->wall_ns > 0 && event->at_ns > 0);
		number = event->number;
	}
	assert_int_equal(number, 3);
	assert_int_equal(sh_event_last(), 3);
	assert_null(sh_event_after(UINT64_MAX));
}

/* Who was away for too long gets what is left, and sees by the numbers what he missed. */
static void test_oldest_are_forgotten(void **state)
{
	const struct sh_event *event;
	uint32_t i, n = 0;

	(void)state;
	for (i = 1; i <= 2 * SH_EVENTS_KEPT + 5; i++)
		record(i);
	event = sh_event_after(0);
	assert_non_null(event);
	assert_int_equal(event->number, SH_EVENTS_KEPT + 6);
	for (; event; event = sh_event_after(event->number), n++)
		assert_int_equal(event->qps, event->number);
	assert_int_equal(n, SH_EVENTS_KEPT);
}

/* ---- names ---------------------------------------------------------------------------------- */

static void names_differ(const char *(*name)(unsigned int), unsigned int n)
{
	unsigned int i, k;

	for (i = 0; i < n; i++) {
		assert_non_null(name(i));
		assert_string_not_equal(name(i), "unknown");
		for (k = 0; k < i; k++)
			assert_string_not_equal(name(i), name(k));
	}
	assert_string_equal(name(n), "unknown");
}

static const char *kind_name(unsigned int kind)
{
	return sh_event_kind_name((enum sh_event_kind)kind);
}

static const char *cause_name(unsigned int cause)
{
	return sh_event_cause_name((enum sh_event_cause)cause);
}

static void test_names(void **state)
{
	(void)state;
	names_differ(kind_name, SH_EVENT_KINDS);
	names_differ(cause_name, SH_CAUSES);
}

static void test_sets_of_kinds(void **state)
{
	static const char *const bad[] = {
		"",	    ",",     "switch,",	      ",switch", "switch,,failed",
		"switches", "switc", "switch failed", "All"
	};
	uint32_t kinds, i;

	(void)state;
	assert_int_equal(sh_event_kinds("all", &kinds), 0);
	assert_int_equal(kinds, (1u << SH_EVENT_KINDS) - 1);
	assert_int_equal(sh_event_kinds("switch", &kinds), 0);
	assert_int_equal(kinds, 1u << SH_EVENT_SWITCH);
	assert_int_equal(sh_event_kinds("nic-down,failed,nic-down", &kinds), 0);
	assert_int_equal(kinds, 1u << SH_EVENT_NIC_DOWN | 1u << SH_EVENT_FAILED);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(sh_event_kinds(bad[i], &kinds) < 0);
}

/* ---- told ----------------------------------------------------------------------------------- */

static const struct sh_event sample = {
	.number = 42,
	.wall_ns = 1700000000123456789ull,
	.at_ns = 5000000001ull,
	.kind = SH_EVENT_SWITCH,
	.cause = SH_CAUSE_PORT_DOWN,
	.why = "a \"clause\"\n\xff",
	.from = "mlx5_0",
	.to = "mlx5_1",
	.peer = 0xfeed,
	.peer_known = true,
	.peer_from = 2,
	.peer_to = 3,
	.peer_gid = { 0xfe, 0x80, [15] = 1 },
	.qps = 1000,
	.qpn = 0x40,
	.peer_qpn = 0x41,
	.detect_ns = 1500000,
	.switch_ns = 2500000,
	.decided_ns = 4000000000ull,
	.resent = 7,
	.resent_bytes = 1ull << 40,
	.settled = 9,
};

static json_t *parsed(const struct sh_event *event)
{
	struct sh_json text = { 0 };
	json_error_t error;
	json_t *root;

	sh_event_json(&text, event);
	assert_false(text.failed);
	root = json_loads(text.text, 0, &error);
	if (!root)
		fail_msg("%s in %s", error.text, text.text);
	sh_json_free(&text);
	return root;
}

static void is_text(const json_t *root, const char *name, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(root, name)), text);
}

static void is_number(const json_t *root, const char *name, long long value)
{
	assert_true(json_is_integer(json_object_get(root, name)));
	assert_int_equal(json_integer_value(json_object_get(root, name)), value);
}

static void test_json(void **state)
{
	json_t *root = parsed(&sample);

	(void)state;
	is_number(root, "number", 42);
	is_text(root, "time", "2023-11-14T22:13:20.123456Z");
	is_number(root, "monotonic_ns", 5000000001);
	is_text(root, "kind", "switch");
	is_text(root, "cause", "port-down");
	is_text(root, "why", "a \"clause\"\n\xef\xbf\xbd");
	is_text(root, "from", "mlx5_0");
	is_text(root, "to", "mlx5_1");
	is_text(root, "peer", "000000000000feed");
	is_text(root, "peer_gid", "fe80::1");
	is_number(root, "peer_from", 2);
	is_number(root, "peer_to", 3);
	is_number(root, "qps", 1000);
	is_number(root, "qpn", 0x40);
	is_number(root, "peer_qpn", 0x41);
	is_number(root, "detect_ns", 1500000);
	is_number(root, "switch_ns", 2500000);
	is_number(root, "decided_ns", 4000000000);
	is_number(root, "resent", 7);
	is_number(root, "resent_bytes", 1ll << 40);
	is_number(root, "settled", 9);
	is_number(root, "unknown", 0);
	json_decref(root);
}

static void test_json_of_all_kinds(void **state)
{
	struct sh_event event = { .number = 1 };
	unsigned int kind;
	json_t *root;

	(void)state;
	for (kind = 0; kind < SH_EVENT_KINDS; kind++) {
		event.kind = (enum sh_event_kind)kind;
		root = parsed(&event);
		is_text(root, "kind", kind_name(kind));
		assert_true(json_is_null(json_object_get(root, "from")));
		assert_true(json_is_null(json_object_get(root, "peer")));
		assert_int_equal(!!json_object_get(root, "switch_ns"), kind <= SH_EVENT_FAILED);
		assert_int_equal(!!json_object_get(root, "bandwidth_left"),
				 kind == SH_EVENT_DEGRADED || kind == SH_EVENT_WHOLE);
		json_decref(root);
	}
}

static const struct sh_event degraded = {
	.number = 43,
	.wall_ns = 1700000001123456789ull,
	.kind = SH_EVENT_DEGRADED,
	.cause = SH_CAUSE_LINK_LOST,
	.from = "mlx5_0",
	.qps = 8,
	.since_ns = 1700000000123456789ull,
	.left = 875,
};

static void test_json_of_a_share(void **state)
{
	json_t *root = parsed(&degraded);

	(void)state;
	is_text(root, "since", "2023-11-14T22:13:20.123456Z");
	assert_true(json_real_value(json_object_get(root, "bandwidth_left")) == 0.875);
	json_decref(root);
}

static void test_text_of_a_share(void **state)
{
	struct sh_event whole = degraded;
	char text[512];

	(void)state;
	sh_event_text(&degraded, text, sizeof(text));
	assert_string_equal(text,
			    "degraded mlx5_0 (link-lost), 8 connections, 0.875 of the bandwidth "
			    "left since 2023-11-14T22:13:20.123456Z");
	whole.kind = SH_EVENT_WHOLE;
	whole.cause = SH_CAUSE_NONE;
	whole.from[0] = 0;
	whole.qps = 0;
	sh_event_text(&whole, text, sizeof(text));
	assert_string_equal(text,
			    "whole (none), it was degraded since 2023-11-14T22:13:20.123456Z");
}

static void test_text(void **state)
{
	char text[512], little[16];

	(void)state;
	sh_event_text(&sample, text, sizeof(text));
	assert_non_null(strstr(text,
			       "switch mlx5_0 -> mlx5_1 (port-down), 1000 connections to "
			       "fe80::1 (its NIC 2 -> 3), the first QP 0x000040 to QP "
			       "0x000041, detected in 1.5 ms, switched in 2.5 ms, 7 requests "));
	sh_event_text(&sample, little, sizeof(little));
	assert_string_equal(little, "switch mlx5_0 -");
}

/* ---- dates ---------------------------------------------------------------------------------- */

static void test_date(void **state)
{
	char date[SH_DATE_MAX];

	(void)state;
	sh_date_print(0, date);
	assert_string_equal(date, "1970-01-01T00:00:00.000000Z");
	sh_date_print(951782399999999999ull, date);
	assert_string_equal(date, "2000-02-28T23:59:59.999999Z");
	sh_date_print(951782400000000000ull, date);
	assert_string_equal(date, "2000-02-29T00:00:00.000000Z");
	sh_date_print(4107542400000000000ull, date); /* 2100 has no leap day */
	assert_string_equal(date, "2100-03-01T00:00:00.000000Z");
}

/* The C library is the other opinion. */
static void test_dates_of_all_days(void **state)
{
	char date[SH_DATE_MAX], expected[64];
	struct tm tm;
	time_t t;

	(void)state;
	for (t = 0; t < 150ll * 366 * 86400; t += 86400 - 7) {
		gmtime_r(&t, &tm);
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
		sh_date_print((uint64_t)t * 1000000000ull, date);
		assert_string_equal(date, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_empty, setup),
		cmocka_unit_test_setup(test_in_order, setup),
		cmocka_unit_test_setup(test_oldest_are_forgotten, setup),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sets_of_kinds),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_of_all_kinds),
		cmocka_unit_test(test_json_of_a_share),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_text_of_a_share),
		cmocka_unit_test(test_date),
		cmocka_unit_test(test_dates_of_all_days),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
