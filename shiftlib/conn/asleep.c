/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdatomic.h>
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/heartbeat.h"

/* Calm so long, it falls asleep. A stall without work is told within this time. */
#define ASLEEP_AFTER_NS (3 * SH_NS_PER_S)

static struct {
	/*
	 * Set before the engines are asked to tell of posts, each under its queue's lock: who posts
	 * behind that sees it, and the others' work is seen.
	 */
	_Atomic bool on;
	_Atomic bool posted;
	uint64_t calm_since; /* 0: it is not calm */
} asleep;

void sh_asleep_posted(void)
{
	atomic_store(&asleep.posted, true);
	if (atomic_load(&asleep.on))
		sh_kick();
}

bool sh_asleep(void)
{
	return atomic_load_explicit(&asleep.on, memory_order_relaxed);
}

static bool asleep_fall(bool (*arm)(uint64_t now), uint64_t now) SH_LOCKED
{
	atomic_store(&asleep.on, true);
	return arm(now);
}

static void asleep_wake(void) SH_LOCKED
{
	uint64_t now = sh_now_ns();

	if (!atomic_exchange(&asleep.on, false))
		return;
	if (sh_conns.check_at)
		sh_conns.check_at = now;
	sh_heartbeat_soon();
	sh_wake_at(now);
}

void sh_asleep_judge(bool calm, bool (*arm)(uint64_t now), uint64_t now)
{
	if (calm && !asleep.calm_since)
		asleep.calm_since = now;
	if (!calm)
		asleep.calm_since = 0;
	if (calm && now - asleep.calm_since < ASLEEP_AFTER_NS)
		return;
	if (calm && asleep_fall(arm, now))
		return;
	asleep.calm_since = 0;
	asleep_wake();
}

void sh_asleep_end(void)
{
	asleep.calm_since = 0;
	asleep_wake();
}

static void asleep_run(uint64_t now) SH_LOCKED
{
	(void)now;
	if (atomic_exchange(&asleep.posted, false))
		sh_asleep_end();
}

static void asleep_reset(void)
{
	atomic_store(&asleep.on, false);
	atomic_store(&asleep.posted, false);
	asleep.calm_since = 0;
}

const struct sh_module sh_asleep_module = { .name = "asleep",
					    .reset = asleep_reset,
					    .run = asleep_run,
					    /* whether a NIC hangs is judged at looks */
					    .waits = sh_asleep_end };
