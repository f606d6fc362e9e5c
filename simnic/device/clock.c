/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <endian.h>
#include <infiniband/verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdatomic.h>
#include <time.h>

#include "simnic/device/clock.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/fabric/nic.h"

#define INFO_SHIFT  24
#define INFO_MULT   (((uint64_t)SN_CLOCK_NS_NUM << INFO_SHIFT) / SN_CLOCK_CYCLE_NUM)
#define INFO_MASK   ((1ull << 41) - 1)
#define INFO_PERIOD 10000000000ull /* ns, until it is brought up to date */
#define BILLION	    1000000000
#define PAIR_TRIES  16

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/*
 * Reads both clocks of the host at once: the best of some tries, as a thread may be taken off the
 * processor between.
 */
static void clocks_pair(uint64_t *mono_ns, uint64_t *real_ns)
{
	uint64_t before, wall, took, best = UINT64_MAX;

	for (int i = 0; i < PAIR_TRIES; i++) {
		before = sn_clock_ns();
		wall = wall_ns();
		took = sn_clock_ns() - before;
		if (took >= best)
			continue;
		best = took;
		*mono_ns = before + took / 2;
		*real_ns = wall;
	}
}

/* The multiplier of a kernel whose PTP daemon knows how fast the clock runs. */
static uint32_t info_mult(const struct sn_clock *clock)
{
	return (uint32_t)(INFO_MULT * BILLION / (uint64_t)(BILLION + atomic_load(&clock->ppb)));
}

/*
 * Updates the page. Readers look at `sign` before and after. libmlx5 gives up when it meets an
 * update twice in a row, and some releases then keep a lock of the completion queue: updates are
 * as rare here as a kernel's.
 */
static void info_write(struct mlx5_ib_clock_info *info, const struct sn_clock *clock)
{
	uint64_t mono_ns = 0, real_ns = 0;
	_Atomic uint32_t *sign = (_Atomic uint32_t *)&info->sign;
	uint32_t now = atomic_load(sign);

	clocks_pair(&mono_ns, &real_ns);
	atomic_store(sign, now | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
	info->nsec = real_ns;
	info->cycles = sn_clock_cycles(clock, mono_ns) & INFO_MASK;
	info->frac = 0;
	info->mult = info_mult(clock);
	info->shift = INFO_SHIFT;
	info->mask = INFO_MASK;
	info->overflow_period = INFO_PERIOD;
	atomic_store(sign, now + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
}

/* Writes both words at once: readers look at the high one before and after the low one. */
static void register_write(void *page, uint64_t cycles)
{
	atomic_store((_Atomic uint64_t *)page, htobe64(cycles));
}

uint64_t sn_dev_clock_tick(struct sn_dev *dev)
{
	uint64_t now_ns = sn_clock_ns(), cycles = sn_clock_cycles(&dev->nic->clock, now_ns);

	if (dev->clock.reg)
		register_write(dev->clock.reg, cycles);
	if (dev->clock.info && now_ns >= dev->clock.info_due_ns) {
		info_write(dev->clock.info, &dev->nic->clock);
		dev->clock.info_due_ns = now_ns + INFO_PERIOD;
	}
	return cycles;
}

void sn_dev_clock_show(struct sn_dev *dev, void *reg, void *info)
{
	sn_lock();
	if (reg)
		dev->clock.reg = reg;
	if (info)
		dev->clock.info = info;
	sn_dev_clock_tick(dev);
	sn_unlock();
}
