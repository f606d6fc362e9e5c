/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Every event against everything that can be known of an id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "shiftlib/cm/rules.h"

#define LAST RDMA_CM_EVENT_TIMEWAIT_EXIT

static bool tells_of_default_path(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_ADDR_CHANGE || event == RDMA_CM_EVENT_UNREACHABLE;
}

/* As docs/rdma-cm has it, told another way round than the code. */
static enum sh_cm_verdict wanted(enum rdma_cm_event_type event, const struct sh_cm_known *k)
{
	bool masked = k->standing == SH_CM_ALIVE && k->established && !k->leaves;

	if (event == RDMA_CM_EVENT_DISCONNECTED && k->told)
		return SH_CM_TAKE;
	if (event == RDMA_CM_EVENT_DISCONNECTED && masked)
		return SH_CM_ASK;
	if (event == RDMA_CM_EVENT_TIMEWAIT_EXIT && k->orphan)
		return SH_CM_TAKE;
	if (masked && event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return SH_CM_TAKE;
	if (masked && tells_of_default_path(event))
		return k->fault ? SH_CM_TAKE : SH_CM_ASK;
	return SH_CM_PASS;
}

static void each_row(void **state)
{
	for (int event = RDMA_CM_EVENT_ADDR_RESOLVED; event <= LAST; event++)
		for (unsigned bits = 0; bits < 32; bits++)
			for (int standing = SH_CM_FOREIGN; standing <= SH_CM_ENDED; standing++) {
				const struct sh_cm_known k = {
					.standing = (enum sh_cm_standing)standing,
					.established = bits & 1,
					.leaves = bits & 2,
					.told = bits & 4,
					.orphan = bits & 8,
					.fault = bits & 16,
				};

				assert_int_equal(sh_cm_judge((enum rdma_cm_event_type)event, &k),
						 wanted((enum rdma_cm_event_type)event, &k));
			}
}

/* What was kept is forgotten in one case alone: a fault that the connection outlives, of a peer that lives. */
static void each_decision(void **state)
{
	for (unsigned bits = 0; bits < 32; bits++)
		for (int standing = SH_CM_FOREIGN; standing <= SH_CM_ENDED; standing++) {
			const struct sh_cm_known k = {
				.standing = (enum sh_cm_standing)standing,
				.established = true,
				.leaves = bits & 1,
				.orphan = bits & 2,
				.fault = bits & 4,
			};
			bool ending = bits & 8, alive = bits & 16;
			enum sh_cm_end want = SH_CM_HAND_OVER;

			if ((ending || k.leaves) && !k.orphan && !k.fault)
				want = SH_CM_WAIT;
			if (!ending && !k.leaves && standing == SH_CM_ALIVE && k.fault && alive)
				want = SH_CM_FORGET;
			assert_int_equal(sh_cm_decide(&k, ending, alive), want);
		}
}

/* Of a program that SHIFT does nothing for: all as on stock. */
static void foreign_ones_pass(void **state)
{
	const struct sh_cm_known k = { .standing = SH_CM_FOREIGN, .established = true };

	for (int event = RDMA_CM_EVENT_ADDR_RESOLVED; event <= LAST; event++)
		assert_int_equal(sh_cm_judge((enum rdma_cm_event_type)event, &k), SH_CM_PASS);
}

/* Before it is connected, the kernel alone knows of it. */
static void a_connection_may_fail(void **state)
{
	const struct sh_cm_known k = { .standing = SH_CM_ALIVE };

	for (int event = RDMA_CM_EVENT_ADDR_RESOLVED; event <= LAST; event++)
		assert_int_equal(sh_cm_judge((enum rdma_cm_event_type)event, &k), SH_CM_PASS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),
		cmocka_unit_test(each_decision),
		cmocka_unit_test(foreign_ones_pass),
		cmocka_unit_test(a_connection_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
