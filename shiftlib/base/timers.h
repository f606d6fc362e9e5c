/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The heap of many timers, of which the next one matters: pointers to what its owners embed. With
 * thousands of connections, whose clocks mostly stand still, nobody is walked to find it.
 *
 * No lock inside, no time inside: instants are nanoseconds of whatever clock the caller uses.
 */
#ifndef SHIFTLIB_TIMERS_H
#define SHIFTLIB_TIMERS_H

#include <stdint.h>

/* Embedded by its owner, zeroed before first use. */
struct sh_timer {
	uint64_t at;	/* 0: not in the heap */
	uint32_t place; /* place in the heap, from 1 */
};

/* Zeroed before first use. */
struct sh_timers {
	struct sh_timer **heap; /* counted from 1; owned */
	uint32_t n, capacity;
};

/* Room for n timers at once, so that sh_timer_set() cannot fail. 0 or -ENOMEM. */
int sh_timers_reserve(struct sh_timers *timers, uint32_t n);
void sh_timers_uninit(struct sh_timers *timers);

/* Sets a timer; at 0: takes it out. The room was reserved. */
void sh_timer_set(struct sh_timers *timers, struct sh_timer *timer, uint64_t at);

/* The one that is due first, still in the heap; NULL: none. */
struct sh_timer *sh_timers_first(const struct sh_timers *timers);

#endif
