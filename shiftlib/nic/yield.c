/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pause in which SHIFT makes no shadow on a NIC, as the application found no place there. */
#include <stdatomic.h>
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"

#define YIELD_LONGEST 16 /* longest pause, as a multiple of the first */

const char sh_yield_why[] = "its place on the NIC of the standby was given back to the job";

bool sh_yields(const struct sh_nic *nic)
{
	uint64_t until = atomic_load_explicit(&nic->yield.until, memory_order_relaxed);

	return until && sh_now_ns() < until;
}

bool sh_yields_memory(const struct sh_nic *nic)
{
	return atomic_load_explicit(&nic->yield.all, memory_order_relaxed) && sh_yields(nic);
}

void sh_yield_end(struct sh_nic *nic)
{
	atomic_store_explicit(&nic->yield.until, 0, memory_order_relaxed);
}

static void yield_pause_from(struct sh_nic *nic, uint64_t now)
{
	atomic_store_explicit(&nic->yield.until, now + nic->yield.interval, memory_order_relaxed);
}

/* Begins a pause: twice as long as the last one, if that has hardly ended. */
void sh_yield_pause(struct sh_nic *nic, bool all)
{
	uint64_t now = sh_now_ns(), first = sh.config.yield_ns;
	uint64_t interval = nic->yield.interval, until = nic->yield.until;

	if (!until || now > until + interval)
		interval = first;
	else if (now >= until)
		interval = sh_min_ns(2 * interval, YIELD_LONGEST * first);
	atomic_store_explicit(&nic->yield.all, all || sh_yields_memory(nic), memory_order_relaxed);
	nic->yield.interval = interval;
	yield_pause_from(nic, now);
}

/* Sets the end of a pause that still stands. A closed NIC is looked at then. */
static void yield_pause_for(struct sh_nic *nic, uint64_t ns)
{
	uint64_t until = sh_now_ns() + ns;

	if (!nic->yield.until)
		return;
	atomic_store_explicit(&nic->yield.until, until, memory_order_relaxed);
	if (nic->yield.closed)
		nic->look_at = until;
}

void sh_yield_pause_hold(struct sh_nic *nic, uint64_t ns)
{
	yield_pause_for(nic, ns + nic->yield.interval);
}

void sh_yield_pause_anew(struct sh_nic *nic)
{
	yield_pause_for(nic, nic->yield.interval);
}
