/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shiftlib/core/hang.h"

#define MS 1000000ull

static const struct sh_hang_config config = { .send_ns = 200 * MS, .command_ns = 500 * MS };

static enum sh_hang_verdict judge(struct sh_hang *hang, uint64_t waiting, uint64_t busy,
				  uint64_t now)
{
	return sh_hang_judge(hang, &config, waiting * MS, busy * MS, now * MS);
}

static void test_well(void **state)
{
	struct sh_hang hang = { 0 };

	assert_int_equal(judge(&hang, 0, 0, 1000), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 900, 0, 1000), SH_HANG_NONE);
	/* Memory is being registered: long, but what is sent is sent. */
	assert_int_equal(judge(&hang, 0, 1000, 60000), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 59900, 1000, 60000), SH_HANG_NONE);
}

static void test_hangs(void **state)
{
	struct sh_hang hang = { 0 };

	assert_int_equal(judge(&hang, 1000, 0, 1199), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 1000, 0, 1200), SH_HANG_ASK);
	assert_int_equal(judge(&hang, 1000, 1200, 1250), SH_HANG_NONE); /* asked once */
	assert_int_equal(judge(&hang, 1000, 1200, 1699), SH_HANG_NONE);
	assert_int_equal(judge(&hang, 1000, 1200, 1700), SH_HANG_HUNG);
	assert_int_equal(judge(&hang, 1000, 1200, 1750), SH_HANG_HUNG);
	/* What was sent is sent, but the command is still under way. */
	assert_int_equal(judge(&hang, 0, 1200, 9000), SH_HANG_NONE);
	sh_hang_answered(&hang, &config, 9100 * MS);
	assert_int_equal(judge(&hang, 0, 0, 9200), SH_HANG_NONE);
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
		cmocka_unit_test(test_well),
		cmocka_unit_test(test_hangs),
		cmocka_unit_test(test_hangs_with_command),
		cmocka_unit_test(test_paused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
