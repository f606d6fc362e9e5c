/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT_BACKUP=spread: which of the backups a connection goes to first, and in which order to the
 * others, so that what a dying NIC carried comes to all that survive, and what comes to one of those that
 * dies too, to the rest.
 *
 * One end of a connection, its leader, draws the order when the two are introduced, and tells it with
 * each of its messages about standbys; from then on it does not change, so that a fault moves only what
 * it hits. Orders are dealt out, not diced: of the connections that one process has on one NIC, no
 * path gets two more than another, for its speed. What one process deals it cannot know of another: the
 * first of each begins somewhere else (salt). Pure; the lock of whoever owns the load is held.
 */
#ifndef SHIFTLIB_BACKUP_SPREAD_H
#define SHIFTLIB_BACKUP_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/state.h"

/* What has been dealt out of the connections on one NIC: how many go to path k first, ... */
struct backup_load {
	uint32_t first[SC_MAX_PATHS];
	uint32_t second[SC_MAX_PATHS]
		       [SC_MAX_PATHS]; /* ... and where those go if that is gone too */
};

/* Of one path. */
struct backup_way {
	uint32_t
		speed; /* of any unit, of the NIC at the end that draws; 0: not known, taken to be as fast as the fastest */
	bool last;     /* only when no other is left */
	uint32_t
		carries; /* connections whose own it is: of two that are alike, the one with fewer comes first */
	uint32_t peers; /* that went to it first, of those that lead to the same peer; likewise */
};

/*
 * backup_spread_draw() - the order of the next connection: see SC_ORDER_BITS
 * @ways: of the paths 1 to n - 1; ways[0] is not looked at
 * @n: paths, with the default; at most SC_MAX_PATHS
 *
 * Nothing is counted yet: that is backup_spread_count(), also for an order that the other end has drawn.
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
