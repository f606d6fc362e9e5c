/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/util.h"
#include "shiftlib/conn/watch/holdup.h"
#include "shiftlib/nic/counters.h"
#include "shiftlib/nic/reading.h"

#define HOLDUP_NAP_NS (SH_NS_PER_S / 5) /* least time between two readings */
#define HOLDUP_WINDOW_NS                                                                           \
	700000000ull /* a receiver that is not ready is asked again within 656 ms */
#define HOLDUP_OLD_NS (3 * SH_NS_PER_S) /* readings further apart are not compared */

static struct holdup_nic {
	bool reading, none; /* none: the port has no such counters */
	uint32_t incarnation;
	uint64_t base_at, read_at, told_at; /* told_at: of the last window; 0: no window yet */
	struct sh_counters_held base;
	unsigned held; /* kinds that the last window had */
} holdups[SH_MAX_NICS];

struct holdup_reading {
	struct sh_reading reading; /* first */
	struct sh_counters_held counts;
	bool some;
};

static struct holdup_nic *holdup_of(const struct sh_nic *nic)
{
	return &holdups[nic->index];
}

static void holdup_begin_window(struct holdup_nic *own, const struct sh_counters_held *counts,
				uint64_t now)
{
	own->base = *counts;
	own->base_at = now;
}

static unsigned holdup_compare(const struct sh_counters_held *base,
			       const struct sh_counters_held *now)
{
	unsigned kinds = 0;

	if (base->has_waits && now->has_waits && now->waits > base->waits)
		kinds |= SH_HOLDUP_PAUSED;
	if (base->has_rnr_naks && now->has_rnr_naks && now->rnr_naks > base->rnr_naks)
		kinds |= SH_HOLDUP_UNREADY;
	return kinds;
}

static void holdup_note(struct holdup_nic *own, const struct holdup_reading *task, uint64_t now)
{
	bool fresh = own->base_at && now - own->read_at < HOLDUP_OLD_NS;

	if (own->incarnation != task->reading.incarnation || !fresh) {
		own->incarnation = task->reading.incarnation;
		own->told_at = 0;
		holdup_begin_window(own, &task->counts, now);
	} else if (now - own->base_at >= HOLDUP_WINDOW_NS) {
		own->held = holdup_compare(&own->base, &task->counts);
		own->told_at = now;
		holdup_begin_window(own, &task->counts, now);
	}
	own->none = !task->some;
	own->read_at = now;
}

static void holdup_read(struct sh_reading *reading)
{
	struct holdup_reading *task = (struct holdup_reading *)reading;

	task->some = sh_counters_read_held("/sys", reading->name, &task->counts);
}

static void holdup_told(struct sh_reading *reading) SH_LOCKED
{
	holdup_note(holdup_of(reading->nic), (struct holdup_reading *)reading, sh_now_ns());
}

void sh_holdup_ask(struct sh_nic *nic, uint64_t now)
{
	struct holdup_nic *own = holdup_of(nic);
	struct holdup_reading *task;

	/* each counter of a sick NIC would wait for it, and its worker with them */
	if (own->reading || nic->state != SH_NIC_OPEN || nic->sick ||
	    (own->read_at && now - own->read_at < HOLDUP_NAP_NS))
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	task->reading.read = holdup_read;
	task->reading.told = holdup_told;
	sh_reading_begin(&task->reading, nic, &own->reading);
}

bool sh_holdup_told(const struct sh_nic *nic, uint64_t now, unsigned *kinds)
{
	const struct holdup_nic *own = holdup_of(nic);
	bool fresh = own->told_at && now - own->told_at < HOLDUP_OLD_NS &&
		     own->incarnation == nic->incarnation;

	*kinds = fresh ? own->held : 0;
	return fresh || (own->none && own->incarnation == nic->incarnation);
}

static void holdup_reset(void)
{
	memset(holdups, 0, sizeof(holdups));
}

const struct sh_module sh_holdups_module = { .name = "holdups", .reset = holdup_reset };
