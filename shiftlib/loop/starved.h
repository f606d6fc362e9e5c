/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The time that this process had: what did not happen while it got no processor is nobody else's
 * fault.
 */
#ifndef SHIFTLIB_STARVED_H
#define SHIFTLIB_STARVED_H

#include <stdint.h>
#include "shiftlib/base/locked.h"

/* The background thread, which has slept since then, is awake; its alarm was set to rang. */
void sh_starved_note(uint64_t slept, uint64_t rang, uint64_t now) SH_LOCKED;

/* When it last went on after a time in which it did not run; 0: never. */
uint64_t sh_starved_last(void) SH_LOCKED;

/*
 * Returns how much of the time between two moments the process had: all but what was before it
 * last went on, and while its alarm had rung and it got no processor. 0 where `since` is the
 * later one: a worker may begin something while somebody judges it.
 */
uint64_t sh_starved_had_ns(uint64_t since, uint64_t now) SH_LOCKED;

void sh_starved_reset(void);

#endif
