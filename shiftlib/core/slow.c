/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <string.h>
#include "shiftlib/core/slow.h"

#define LOOKS_LEAST 2
#define BELOW	    950 /* thousandths of the full rate */
#define THOUSAND    1000

#ifdef SC_MUTANTS
enum sh_slow_mutant sh_slow_mutant;
#endif

/* ---- what it could -------------------------------------------------------------------------- */

static uint32_t slow_larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Returns the lesser rate of two, each of which may be unknown. */
static uint32_t slow_lesser(uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a + b;
	return a < b ? a : b;
}

static uint32_t slow_carries(uint32_t port, uint32_t bus)
{
	return SH_SLOW_MUTANT(PORT_ONLY) ? port : slow_lesser(port, bus);
}

static void slow_learn(struct sh_slow_rates *most, const struct sh_slow_rates *rates)
{
	most->port = slow_larger(most->port, rates->port);
	most->bus = slow_larger(most->bus, rates->bus);
	most->bus_most = rates->bus_most ? rates->bus_most : most->bus_most;
}

/*
 * Returns the full rate of the PCI link. Both its ends may be set below what they can: then no NIC
 * of its make reaches that.
 */
static uint32_t slow_bus_whole(const struct sh_slow_rates *most, const struct sh_slow_rates *like)
{
	uint32_t can = most->bus_most;

	if (!most->bus)
		return 0;
	if (like->bus)
		can = SH_SLOW_MUTANT(BEYOND_THE_SLOT) ? like->bus : slow_lesser(can, like->bus);
	return slow_larger(most->bus, can);
}

static uint32_t slow_whole_of(const struct sh_slow_rates *most, const struct sh_slow_rates *like)
{
	static const struct sh_slow_rates none;

	if (SH_SLOW_MUTANT(ALONE))
		like = &none;
	return slow_carries(slow_larger(most->port, like->port), slow_bus_whole(most, like));
}

/* ---- states --------------------------------------------------------------------------------- */

uint64_t sh_slow_hold_ns(const struct sh_slow *slow, const struct sh_gray_config *config)
{
	return sh_gray_hold_after(config, slow->relapses);
}

static void transition_whole_to_slow(struct sh_slow *slow, const struct sh_gray_config *config,
				     uint64_t now)
{
	assert(slow->state == SH_SLOW_WHOLE);
	slow->relapses = sh_gray_relapse(config, slow->relapses, slow->well_at, now);
	slow->state = SH_SLOW_SLOW;
}

static void transition_slow_to_whole(struct sh_slow *slow, uint64_t now)
{
	assert(slow->state == SH_SLOW_SLOW);
	slow->state = SH_SLOW_WHOLE;
	slow->well_at = now;
}

static bool slow_falls_short(struct sh_slow *slow)
{
	uint64_t now = (uint64_t)slow->now * THOUSAND;

	if (now >= (uint64_t)slow->whole * BELOW) {
		slow->accepted = 0;
		return false;
	}
	return !slow->accepted || now < (uint64_t)slow->accepted * BELOW;
}

static bool slow_judge(struct sh_slow *slow, const struct sh_gray_config *config, uint64_t now)
{
	uint64_t hold = SH_SLOW_MUTANT(NO_HOLD) ? 0 : sh_slow_hold_ns(slow, config);
	uint32_t least = SH_SLOW_MUTANT(ONE_LOOK) ? 1 : LOOKS_LEAST;

	if (slow_falls_short(slow)) {
		slow->looks++;
		slow->seen_at = now;
	} else {
		slow->looks = 0;
	}
	if (slow->state == SH_SLOW_WHOLE && slow->looks >= least) {
		transition_whole_to_slow(slow, config, now);
		return true;
	}
	if (slow->state == SH_SLOW_WHOLE || slow->looks || now - slow->seen_at < hold)
		return false;
	transition_slow_to_whole(slow, now);
	return true;
}

bool sh_slow_update(struct sh_slow *slow, const struct sh_gray_config *config,
		    const struct sh_slow_rates *rates, const struct sh_slow_rates *like,
		    uint64_t now)
{
	if (!rates->port && !SH_SLOW_MUTANT(DOWN_IS_SLOW)) {
		slow->looks = 0;
		return false;
	}
	slow_learn(&slow->most, rates);
	slow->now = rates->port ? slow_carries(rates->port, rates->bus) : 0;
	slow->whole = slow_whole_of(&slow->most, like);
	if (SH_SLOW_MUTANT(SUM_OF_PARTS) && rates->bus < slow->most.bus)
		slow->now = slow->now / 2;
	return slow_judge(slow, config, now);
}

void sh_slow_forget(struct sh_slow *slow)
{
	memset(&slow->most, 0, sizeof(slow->most));
	slow->now = slow->whole = slow->accepted = slow->looks = 0;
}

void sh_slow_accept(struct sh_slow *slow, uint64_t now)
{
	slow->accepted = slow->now;
	slow->looks = 0;
	if (slow->state == SH_SLOW_SLOW)
		transition_slow_to_whole(slow, now);
}

bool sh_slow_pays(const struct sh_slow *slow, const struct sh_slow_others *others)
{
	if (SH_SLOW_MUTANT(ALWAYS_LEAVE))
		return others->can != 0;
	return (uint64_t)slow->now * (others->own + slow->whole) < others->can * slow->whole;
}
