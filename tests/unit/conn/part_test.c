/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of parts: who is told and asked, in which order, and whose clock runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"

static struct sh_qp qp;
static char called[8]; /* a digit for each call */
static const char *first_why, *second_why;
static uint64_t first_at, second_at;

static void call(char who)
{
	called[strlen(called)] = who;
}

static void first_left(struct sh_qp *of)
{
	assert_ptr_equal(of, &qp);
	call('1');
}

static void second_left(struct sh_qp *of)
{
	assert_ptr_equal(of, &qp);
	call('2');
}

static const char *first_says(const struct sh_qp *of)
{
	(void)of;
	call('1');
	return first_why;
}

static const char *second_says(const struct sh_qp *of)
{
	(void)of;
	call('2');
	return second_why;
}

static bool first_caps(const struct sh_qp *of, struct ibv_qp_cap *cap)
{
	(void)of;
	cap->max_send_wr += 3;
	return true;
}

static bool second_caps(const struct sh_qp *of, struct ibv_qp_cap *cap)
{
	(void)of;
	cap->max_send_wr += 4;
	return true;
}

static uint64_t first_next_timer(const struct sh_qp *of)
{
	(void)of;
	return first_at;
}

static uint64_t second_next_timer(const struct sh_qp *of)
{
	(void)of;
	return second_at;
}

/* The second part may be due no more when its turn comes. */
static void first_run(struct sh_qp *of, uint64_t now)
{
	(void)of;
	assert_true(first_at <= now);
	call('1');
	first_at = 0;
	if (first_why)
		second_at = 0;
}

static void second_run(struct sh_qp *of, uint64_t now)
{
	(void)of;
	assert_true(second_at <= now);
	call('2');
}

static const struct sh_conn_part first = {
	.name = "first",
	.life.left = first_left,
	.clock = { .next_timer = first_next_timer, .run = first_run },
	.step.why = first_says,
	.standby.caps = first_caps,
};
static const struct sh_conn_part none = { .name = "none" };
static const struct sh_conn_part second = {
	.name = "second",
	.life.left = second_left,
	.clock = { .next_timer = second_next_timer, .run = second_run },
	.step.why = second_says,
	.standby.caps = second_caps,
};
static const struct sh_conn_part *const parts[] = { &first, &none, &second, NULL };

static int setup(void **state)
{
	(void)state;
	sh_parts_register(parts);
	memset(called, 0, sizeof(called));
	qp = (struct sh_qp){ .conn_id = 1 };
	first_why = second_why = NULL;
	first_at = second_at = 0;
	return 0;
}

static void all_are_told_in_order(void **state)
{
	(void)state;
	SH_PARTS_TELL(life.left, &qp);
	assert_string_equal(called, "12");
}

static void the_first_that_knows_answers(void **state)
{
	(void)state;
	assert_null(SH_PARTS_ASK(step.why, &qp));
	assert_string_equal(called, "12");
	second_why = "second";
	assert_string_equal(SH_PARTS_ASK(step.why, &qp), "second");
	memset(called, 0, sizeof(called));
	first_why = "first";
	assert_string_equal(SH_PARTS_ASK(step.why, &qp), "first");
	assert_string_equal(called, "1");
}

static void each_adds_what_it_needs(void **state)
{
	struct ibv_qp_cap cap = { .max_send_wr = 10 };

	(void)state;
	assert_true(sh_parts_caps(&qp, &cap));
	assert_int_equal(cap.max_send_wr, 17);
}

static void the_earliest_is_the_connections_time(void **state)
{
	(void)state;
	assert_int_equal(sh_clock_next(&qp), 0);
	second_at = 7;
	assert_int_equal(sh_clock_next(&qp), 7);
	first_at = 9;
	assert_int_equal(sh_clock_next(&qp), 7);
	qp.conn_id = 0;
	assert_int_equal(sh_clock_next(&qp), 0);
}

static void who_is_due_runs(void **state)
{
	(void)state;
	first_at = 5;
	second_at = 7;
	sh_clock_run(&qp, 4);
	assert_string_equal(called, "");
	sh_clock_run(&qp, 7);
	assert_string_equal(called, "12");
}

static void but_not_who_is_due_no_more(void **state)
{
	(void)state;
	first_why = "takes the second's reason away";
	first_at = second_at = 5;
	sh_clock_run(&qp, 5);
	assert_string_equal(called, "1");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(all_are_told_in_order),   TEST(the_first_that_knows_answers),
		TEST(each_adds_what_it_needs), TEST(the_earliest_is_the_connections_time),
		TEST(who_is_due_runs),	       TEST(but_not_who_is_due_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
