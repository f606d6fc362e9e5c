/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT_BACKUP=spread: which of the backups a connection goes to first, and in which order to the
 * others. What a dying NIC carried comes to all that survive; and if one of those dies too, what
 * came to it goes to the rest.
 *
 * One end of a connection, its leader, draws the order when the two are introduced, and tells it
 * with each of its messages about standbys; from then on it does not change, so that a fault
 * moves only what it hits. Orders are dealt out, not diced: of the connections that one process
 * has on one NIC, no path gets two more than another, for its speed. Processes do not know what
 * others deal: the first of each begins somewhere else (salt). Pure; the lock of whoever owns the
 * load is held.
 */
#ifndef SHIFTLIB_BACKUP_SPREAD_H
#define SHIFTLIB_BACKUP_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/state.h"

/* The connections on one NIC that have been dealt out. */
struct backup_load {
	uint32_t first[SC_MAX_PATHS]; /* connections that go to path k first */
	/* Where those go if that path is gone too. */
	uint32_t second[SC_MAX_PATHS][SC_MAX_PATHS];
};

/* The facts about one path. */
struct backup_way {
	/*
	 * Speed of the NIC at the end that draws, in any unit; 0: not known, taken to be as fast
	 * as the fastest.
	 */
	uint32_t speed;
	bool last; /* used only when no other is left */
	/* Connections whose own it is: of two that are alike, the one with fewer comes first. */
	uint32_t carries;
	/*
	 * Connections to the same peer that went to it first; the one with fewer comes first
	 * here, too.
	 */
	uint32_t peers;
};

/*
 * backup_spread_draw() - the order of the next connection: see SC_ORDER_BITS
 * @ways: of the paths 1 to n - 1; ways[0] is not looked at
 * @n: paths, with the default; at most SC_MAX_PATHS
 *
 * Nothing is counted yet: that is backup_spread_count(), also for an order that the other end has
 * drawn.
 */
uint32_t backup_spread_draw(const struct backup_load *load, const struct backup_way *ways,
			    uint32_t n, uint32_t salt);
void backup_spread_count(struct backup_load *load, uint32_t order, bool on);

/* The first choice of an order; 0: it has none. */
static inline uint8_t backup_spread_first(uint32_t order)
{
	return order & (SC_MAX_PATHS - 1);
}

#endif
