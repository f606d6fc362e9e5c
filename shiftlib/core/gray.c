/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <string.h>
#include "shiftlib/core/gray.h"

#define LOOKS_LEAST   3 /* looks with errors */
#define WITNESS_LEAST 2 /* errors of one kind */
#define RELAPSES_MAX  31
#define TRIPS_LEAST   3
#define TRIP_FACTOR   4
#define TRIP_FLOOR_NS 500000ull /* a lesser delay than this is ignored */
#define TRIP_LEARNS   64	/* weight of the usual time against a new one */

_Static_assert((SH_GRAY_LOOKS & (SH_GRAY_LOOKS - 1)) == 0, "looks wrap");

/* ---- sums ----------------------------------------------------------------------------------- */

static void gray_add_counts(struct sh_gray_counts *sum, const struct sh_gray_counts *more)
{
	sum->packets += more->packets;
	sum->naks += more->naks;
	sum->gaps += more->gaps;
	sum->timeouts += more->timeouts;
	sum->duplicates += more->duplicates;
	sum->damaged += more->damaged;
	sum->marks += more->marks;
	sum->unready += more->unready;
}

/*
 * Computes what was counted since. False: a counter has fallen, so all began anew, or a file could
 * not be read now or then.
 */
static bool gray_subtract_counts(const struct sh_gray_counts *now,
				 const struct sh_gray_counts *last, struct sh_gray_counts *out)
{
	*out = (struct sh_gray_counts){
		.packets = now->packets - last->packets,
		.naks = now->naks - last->naks,
		.gaps = now->gaps - last->gaps,
		.timeouts = now->timeouts - last->timeouts,
		.duplicates = now->duplicates - last->duplicates,
		.damaged = now->damaged - last->damaged,
		.marks = now->marks - last->marks,
		.unready = now->unready - last->unready,
	};
	return now->files == last->files && now->packets >= last->packets &&
	       now->naks >= last->naks && now->gaps >= last->gaps &&
	       now->timeouts >= last->timeouts && now->duplicates >= last->duplicates &&
	       now->damaged >= last->damaged && now->marks >= last->marks &&
	       now->unready >= last->unready;
}

/* A gap makes many packets arrive behind it: on a receiver, retransmissions count instead. */
static uint64_t gray_count_errors(const struct sh_gray_counts *counts)
{
	uint64_t errors = counts->naks + counts->timeouts + counts->damaged;

	return errors ? errors : counts->duplicates;
}

static struct sh_gray_counts gray_sum_looks(const struct sh_gray *gray)
{
	struct sh_gray_counts sum = { 0 };

	for (uint32_t i = 0; i < SH_GRAY_LOOKS; i++)
		gray_add_counts(&sum, &gray->look[i]);
	return sum;
}

static uint32_t gray_count_bad_looks(const struct sh_gray *gray)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SH_GRAY_LOOKS; i++)
		n += gray_count_errors(&gray->look[i]) != 0;
	return n;
}

enum trips { TRIPS_FEW, TRIPS_USUAL, TRIPS_SLOW };

static enum trips gray_judge_trips(const struct sh_gray *gray)
{
	uint32_t n = 0, slow = 0;

	for (uint32_t i = 0; i < SH_GRAY_LOOKS; i++) {
		n += gray->trips[i].n;
		slow += gray->trips[i].slow;
	}
	if (n < TRIPS_LEAST)
		return TRIPS_FEW;
	return slow > n / 2 ? TRIPS_SLOW : TRIPS_USUAL;
}

void sh_gray_share(const struct sh_gray *gray, uint64_t *errors, uint64_t *packets)
{
	struct sh_gray_counts sum = gray_sum_looks(gray);

	*errors = gray_count_errors(&sum);
	*packets = sum.packets;
}

/* ---- witnesses ------------------------------------------------------------------------------ */

static bool gray_has_enough(const struct sh_gray *gray, const struct sh_gray_config *config,
			    const struct sh_gray_counts *sum)
{
	uint64_t errors = gray_count_errors(sum);

	return errors >= config->least && gray_count_bad_looks(gray) >= LOOKS_LEAST &&
	       errors * 1000000 >= sum->packets * config->per_million;
}

/* Gaps behind a request that found no receive are none. */
static uint8_t gray_find_witnesses(const struct sh_gray_counts *sum, bool slow)
{
	uint8_t seen = 0;

	if (sum->naks >= WITNESS_LEAST || (sum->gaps >= WITNESS_LEAST && !sum->unready))
		seen |= SH_GRAY_GAPS;
	if (sum->timeouts + sum->duplicates >= WITNESS_LEAST)
		seen |= SH_GRAY_TIMEOUTS;
	if (sum->damaged >= WITNESS_LEAST)
		seen |= SH_GRAY_DAMAGE;
	if (slow)
		seen |= SH_GRAY_SLOW;
	return seen;
}

static bool gray_proves(uint8_t seen)
{
	return seen & SH_GRAY_DAMAGE && seen & (SH_GRAY_GAPS | SH_GRAY_TIMEOUTS | SH_GRAY_SLOW);
}

/* Gaps with timeouts suffice if no queue is to blame. */
static bool gray_suffices(const struct sh_gray *gray)
{
	const uint8_t both = SH_GRAY_GAPS | SH_GRAY_TIMEOUTS;

	return gray_proves(gray->seen) || ((gray->seen & both) == both && !gray->congested);
}

/* ---- states --------------------------------------------------------------------------------- */

uint64_t sh_gray_hold_after(const struct sh_gray_config *config, uint32_t relapses)
{
	uint64_t hold = config->hold_min_ns, max = config->hold_max_ns;

	for (uint32_t i = 1; i < relapses && hold < max; i++)
		hold = hold > max / 2 ? max : hold * 2;
	return hold;
}

uint32_t sh_gray_relapse(const struct sh_gray_config *config, uint32_t relapses, uint64_t well_at,
			 uint64_t now)
{
	uint64_t calm = config->calm_ns ? (now - well_at) / config->calm_ns : 0;

	relapses -= calm < relapses ? (uint32_t)calm : relapses;
	return relapses < RELAPSES_MAX ? relapses + 1 : relapses;
}

uint64_t sh_gray_hold_ns(const struct sh_gray *gray, const struct sh_gray_config *config)
{
	return sh_gray_hold_after(config, gray->relapses);
}

static void transition_healthy_to_suspect(struct sh_gray *gray, uint64_t now)
{
	assert(gray->state == SH_GRAY_HEALTHY);
	gray->state = SH_GRAY_SUSPECT;
	gray->since = now;
}

static void transition_any_to_healthy(struct sh_gray *gray, uint64_t now)
{
	assert(gray->state != SH_GRAY_HEALTHY);
	if (gray->state == SH_GRAY_SICK)
		gray->well_at = now;
	gray->state = SH_GRAY_HEALTHY;
	gray->since = now;
}

static void transition_any_to_sick(struct sh_gray *gray, const struct sh_gray_config *config,
				   uint64_t now)
{
	assert(gray->state != SH_GRAY_SICK);
	gray->relapses = sh_gray_relapse(config, gray->relapses, gray->well_at, now);
	gray->seen_at = now;
	gray->proven = gray_proves(gray->seen);
	gray->state = SH_GRAY_SICK;
	gray->since = now;
}

/*
 * A sick NIC is so until the hold-down is over: without traffic nothing else can show that it is
 * well.
 */
static bool gray_judge(struct sh_gray *gray, const struct sh_gray_config *config, bool believed,
		       uint64_t now)
{
	if (gray->state == SH_GRAY_SICK) {
		if (believed)
			gray->seen_at = now;
		gray->proven |= gray_proves(gray->seen);
		if (now - gray->seen_at < sh_gray_hold_ns(gray, config))
			return false;
		transition_any_to_healthy(gray, now);
		return true;
	}
	if (believed) {
		transition_any_to_sick(gray, config, now);
		return true;
	}
	if (gray->state == SH_GRAY_HEALTHY && gray->seen & ~SH_GRAY_SLOW)
		transition_healthy_to_suspect(gray, now);
	else if (gray->state == SH_GRAY_SUSPECT && !(gray->seen & ~SH_GRAY_SLOW))
		transition_any_to_healthy(gray, now);
	return false;
}

bool sh_gray_update(struct sh_gray *gray, const struct sh_gray_config *config,
		    const struct sh_gray_counts *counts, const struct sh_gray_trips *trips,
		    uint64_t now)
{
	uint32_t place = gray->next++ % SH_GRAY_LOOKS;
	struct sh_gray_counts sum;
	enum trips trips_are;
	bool counted;

	if (!gray->known || !gray_subtract_counts(counts, &gray->last, &gray->look[place])) {
		sh_gray_forget(gray);
		gray->last = *counts;
		gray->known = true;
		return gray_judge(gray, config, false, now);
	}
	gray->last = *counts;
	gray->trips[place] = *trips;
	sum = gray_sum_looks(gray);
	trips_are = gray_judge_trips(gray);
	counted = gray_has_enough(gray, config, &sum);
	gray->congested = trips_are != TRIPS_USUAL || sum.marks > gray_count_errors(&sum) / 8;
	gray->seen = counted ? gray_find_witnesses(&sum, trips_are == TRIPS_SLOW) : 0;
	return gray_judge(gray, config, gray_suffices(gray), now);
}

void sh_gray_forget(struct sh_gray *gray)
{
	memset(gray->look, 0, sizeof(gray->look));
	memset(gray->trips, 0, sizeof(gray->trips));
	gray->known = gray->congested = false;
	gray->seen = 0;
}

void sh_gray_absolve(struct sh_gray *gray, uint64_t now)
{
	sh_gray_forget(gray);
	if (gray->state != SH_GRAY_HEALTHY)
		transition_any_to_healthy(gray, now);
}

/* ---- round trips ---------------------------------------------------------------------------- */

void sh_gray_trip_add(struct sh_gray_trip *trip, uint64_t ns)
{
	if (trip->n < SH_GRAY_TRIPS)
		trip->ns[trip->n++] = ns;
}

/* Learns the mean at first and follows slowly later: a load that lasts is usual. */
static void gray_trip_learn(struct sh_gray_trip *trip, uint64_t ns)
{
	if (trip->learned < TRIP_LEARNS)
		trip->learned++;
	if (ns < trip->usual_ns)
		trip->usual_ns -= (trip->usual_ns - ns) / trip->learned;
	else
		trip->usual_ns += (ns - trip->usual_ns) / trip->learned;
}

static bool gray_trip_is_slow(const struct sh_gray_trip *trip, uint64_t ns)
{
	return trip->learned && ns > TRIP_FACTOR * trip->usual_ns &&
	       ns - trip->usual_ns > TRIP_FLOOR_NS;
}

void sh_gray_trip_update(struct sh_gray_trip *trip, bool calm, struct sh_gray_trips *sum)
{
	for (uint32_t i = 0; i < trip->n; i++) {
		sum->n++;
		sum->slow += gray_trip_is_slow(trip, trip->ns[i]);
		if (calm)
			gray_trip_learn(trip, trip->ns[i]);
	}
	trip->n = 0;
}

bool sh_gray_may_drain(uint32_t n, uint32_t sick, uint32_t well)
{
	return well && sick * 2 <= n;
}
