/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shiftlib/core/hang.h"

#define MS 1000000ull

static const struct sh_hang_config config = { .ask_ns = 50 * MS,
					      .send_ns = 200 * MS,
					      .command_ns = 500 * MS };

static enum sh_hang_verdict judge(struct sh_hang *hang, uint64_t waiting, uint64_t busy,
				  uint64_t now)
{
	return sh_hang_judge(hang, &config, waiting * MS, busy * MS, now * MS);
}

static void test_well(void **state)
{
	struct sh_hang hang = { 0 };

	assert_int_equal(judge(&hang, 0, 0, 1000), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 951, 0, 1000), SH_HANG_NONE);
	/* Memory is being registered: long, but what is sent is sent. */
	assert_int_equal(judge(&hang, 0, 1000, 60000), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 59801, 1000, 60000), SH_HANG_NONE);
}

static void test_hangs(void **state)
{
	struct sh_hang hang = { 0 };

	assert_int_equal(judge(&hang, 1000, 0, 1049), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 1000, 0, 1050), SH_HANG_ASK);
	assert_int_equal(judge(&hang, 1000, 1050, 1100), SH_HANG_NONE); /* asked once */
	assert_int_equal(judge(&hang, 1000, 1050, 1549), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 1000, 1050, 1550), SH_HANG_HUNG);
	assert_int_equal(judge(&hang, 1000, 1050, 1750), SH_HANG_HUNG);
	/* What was sent is sent, but the command is still under way. */
	assert_int_equal(judge(&hang, 0, 1200, 9000), SH_HANG_NONE);
	sh_hang_answered(&hang, &config, 9100 * MS);
	assert_int_equal(judge(&hang, 0, 0, 9200), SH_HANG_NONE);
}

/* Each time at which only the clock changes the verdict is known before. */
static void test_next(void **state)
{
	struct sh_hang hang = { 0 };
	uint64_t now = 1001 * MS, busy = 0;
	enum sh_hang_verdict verdict = SH_HANG_NONE;
	uint32_t looks = 0;

	assert_int_equal(sh_hang_next(&hang, &config, 0, 0, now), 0);
	for (; verdict != SH_HANG_HUNG; looks++) {
		verdict = sh_hang_judge(&hang, &config, 1000 * MS, busy, now);
		busy = verdict == SH_HANG_ASK ? now : busy;
		if (verdict != SH_HANG_HUNG)
			now = sh_hang_next(&hang, &config, 1000 * MS, busy, now);
		assert_true(now && looks < 10);
	}
	assert_int_equal(now, 1550 * MS);
}

/* A command of somebody else's that hangs already tells as much as ours would. */
static void test_hangs_with_command(void **state)
{
	struct sh_hang hang = { 0 };

	assert_int_equal(judge(&hang, 1000, 500, 1200), SH_HANG_HUNG);
	assert_int_equal(hang.asked_at, 0);
	assert_int_equal(judge(&hang, 0, 0, 1300), SH_HANG_NONE);
}

/* A port that is paused for long: its NIC is asked now and then, and answers. */
static void test_paused(void **state)
{
	struct sh_hang hang = { 0 };
	uint64_t now;
	int asked = 0;

	for (now = 1000; now < 11000; now += 50) {
		enum sh_hang_verdict verdict = judge(&hang, 1000, 0, now);

		assert_int_not_equal(verdict, SH_HANG_HUNG);
		if (verdict != SH_HANG_ASK)
			continue;
		asked++;
		sh_hang_answered(&hang, &config, (now + 1) * MS);
	}
	assert_in_range(asked, 15, 20);
	assert_int_equal(judge(&hang, 0, 0, now), SH_HANG_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well),   cmocka_unit_test(test_hangs),
		cmocka_unit_test(test_next),   cmocka_unit_test(test_hangs_with_command),
		cmocka_unit_test(test_paused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
