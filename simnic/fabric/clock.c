/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/fabric/clock.h"

#define OFFSET_STEP 0x51000000000ull /* cycles: many hours */
#define PPB_STEP    3700

void sn_clock_begin(struct sn_clock *clock, uint32_t host, uint32_t index)
{
	/*
	 * the second NIC's clock is behind the first one's, so that a step from one to the other is
	 * seen each way
	 */
	uint64_t far = host * 16 + (index ^ 1) + 1;

	atomic_init(&clock->offset, far * OFFSET_STEP);
	atomic_init(&clock->ppb, (int32_t)(host + 2 * index) * PPB_STEP - 4 * PPB_STEP);
}

uint64_t sn_clock_cycles(const struct sn_clock *clock, uint64_t now_ns)
{
	uint64_t cycles = now_ns / SN_CLOCK_NS_NUM * SN_CLOCK_CYCLE_NUM +
			  now_ns % SN_CLOCK_NS_NUM * SN_CLOCK_CYCLE_NUM / SN_CLOCK_NS_NUM;
	/* taken in steps of at most a cycle, so that the clock never goes back */
	int64_t more = (int64_t)(cycles / 1000) * atomic_load(&clock->ppb) / 1000000;

	return atomic_load(&clock->offset) + cycles + (uint64_t)more;
}
