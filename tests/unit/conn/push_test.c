/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How long does a final count wait for READs of the NICs that are left, and for which of them? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/push.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"

#define BEGUN (1000 * SH_NS_PER_MS)
#define WAIT  (80 * SH_NS_PER_MS)
#define PATHS 2

enum sh_pushed __wrap_sh_push(struct sh_pd *pd, uint8_t path, uint64_t since, uint64_t now);
void __wrap_sh_push_give_up(struct sh_pd *pd, uint8_t path);

static struct ibv_qp real[PATHS];
static struct sh_carrier more[SH_MAX_CARRIERS];
static struct sh_nic nics[PATHS];
static struct sh_pd pd;
static struct sh_qp qp;
static enum sh_pushed says[PATHS];
static uint32_t asked[PATHS], given_up[PATHS];
static uint64_t asked_since;

enum sh_pushed __wrap_sh_push(struct sh_pd *of, uint8_t path, uint64_t since, uint64_t now)
{
	assert_ptr_equal(of, &pd);
	assert_true(now >= since);
	asked[path]++;
	asked_since = since;
	return says[path];
}

void __wrap_sh_push_give_up(struct sh_pd *of, uint8_t path)
{
	(void)of;
	given_up[path]++;
}

static void carrier_set(struct sh_carrier *carrier, uint8_t path, uint32_t epoch)
{
	*carrier = (struct sh_carrier){ .nic = &nics[path],
					.qp = &real[path],
					.path = path,
					.epoch = epoch,
					.in_error = true,
					.reached = true };
}

/* It has received on both NICs, and leaves for a third. */
static int setup(void **state)
{
	(void)state;
	sh.config.push = true;
	sh.config.flush_wait_ns = WAIT;
	memset(nics, 0, sizeof(nics));
	memset(more, 0, sizeof(more));
	memset(asked, 0, sizeof(asked));
	memset(given_up, 0, sizeof(given_up));
	pd = (struct sh_pd){ .foreign = 1 };
	qp = (struct sh_qp){ .pd = &pd };
	carrier_set(&qp.carriers.own, 0, 1);
	qp.carriers.more = more;
	carrier_set(&more[0], 1, 2);
	qp.active = &qp.carriers.own;
	qp.receiving = &more[0];
	qp.quiesce.epoch = 3;
	says[0] = says[1] = SH_PUSH_WAITS;
	sh_push_part.move.quiesces(&qp);
	return 0;
}

static bool delays(uint64_t now)
{
	return sh_push_part.move.delays(&qp, now);
}

static void test_it_waits_until_all_have_read(void **state)
{
	(void)state;
	assert_true(delays(BEGUN));
	assert_int_equal(asked_since, BEGUN);
	says[0] = SH_PUSHED;
	assert_true(delays(BEGUN + 1));
	says[1] = SH_PUSHED;
	assert_false(delays(BEGUN + 2));
	assert_int_equal(asked_since, BEGUN); /* an older round would not count */
	assert_int_equal(asked[0], 3);
	assert_int_equal(given_up[0] + given_up[1], 0);
}

static void test_it_waits_no_longer_than_a_share_of_the_flush(void **state)
{
	(void)state;
	says[0] = SH_PUSHED;
	assert_true(delays(BEGUN));
	assert_true(delays(BEGUN + WAIT / 8 - 1));
	assert_false(delays(BEGUN + WAIT / 8));
	assert_int_equal(given_up[0], 0);
	assert_int_equal(given_up[1], 1);
}

static void test_a_nic_that_cannot_read_is_not_waited_for(void **state)
{
	(void)state;
	says[0] = SH_PUSHED;
	says[1] = SH_PUSH_CANNOT;
	assert_false(delays(BEGUN));
	assert_int_equal(given_up[1], 0);
}

static void test_the_next_move_has_a_time_of_its_own(void **state)
{
	(void)state;
	assert_true(delays(BEGUN));
	sh_push_part.move.quiesces(&qp);
	assert_true(delays(BEGUN + WAIT));
	assert_int_equal(asked_since, BEGUN + WAIT);
}

static void test_only_nics_that_obey_are_asked(void **state)
{
	(void)state;
	nics[0].sick = true;
	more[0].lost = true;
	assert_false(delays(BEGUN));
	assert_int_equal(asked[0] + asked[1], 0);
}

static void test_a_carrier_to_come_is_not_asked(void **state)
{
	(void)state;
	qp.receiving = &qp.carriers.own;
	more[0].epoch = qp.quiesce.epoch;
	says[0] = SH_PUSHED;
	assert_false(delays(BEGUN));
	assert_int_equal(asked[1], 0);
}

static void test_without_such_memory_nobody_reads(void **state)
{
	(void)state;
	pd.foreign = 0;
	assert_false(delays(BEGUN));
	pd.foreign = 1;
	sh.config.push = false;
	assert_false(delays(BEGUN));
	assert_int_equal(asked[0] + asked[1], 0);
}

static void test_which_memory_concerns(void **state)
{
	struct sh_mr mr = { .dmabuf = true, .length = 1, .access = IBV_ACCESS_LOCAL_WRITE };

	(void)state;
	assert_true(sh_push_concerns(&mr));
	mr.access = IBV_ACCESS_REMOTE_READ;
	assert_false(sh_push_concerns(&mr));
	mr = (struct sh_mr){ .length = 1, .access = IBV_ACCESS_LOCAL_WRITE };
	assert_false(sh_push_concerns(&mr));
	mr.foreign = true;
	assert_true(sh_push_concerns(&mr));
	mr.alone = SH_ALONE_DEVICE;
	assert_false(sh_push_concerns(&mr));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_it_waits_until_all_have_read, setup),
		cmocka_unit_test_setup(test_it_waits_no_longer_than_a_share_of_the_flush, setup),
		cmocka_unit_test_setup(test_a_nic_that_cannot_read_is_not_waited_for, setup),
		cmocka_unit_test_setup(test_the_next_move_has_a_time_of_its_own, setup),
		cmocka_unit_test_setup(test_only_nics_that_obey_are_asked, setup),
		cmocka_unit_test_setup(test_a_carrier_to_come_is_not_asked, setup),
		cmocka_unit_test_setup(test_without_such_memory_nobody_reads, setup),
		cmocka_unit_test(test_which_memory_concerns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
