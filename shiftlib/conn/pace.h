/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How long messages about moves are waited for where many connections move at once. */
#ifndef SHIFTLIB_CONN_PACE_H
#define SHIFTLIB_CONN_PACE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_pace {
	uint32_t waiting;  /* connections that repeat STATE until the peer has answered */
	uint32_t answered; /* connections that got an answer since the first began to wait */
	uint64_t since;
};

/* Counts a connection that begins to wait, or ends to. */
void sh_pace_wait(struct sh_pace *pace, bool on, uint64_t now) SH_LOCKED;
/*
 * Returns the time until all that wait have their answers, at the rate of those that came; at
 * most max_ns.
 */
uint64_t sh_pace_ns(const struct sh_pace *pace, uint64_t now, uint64_t max_ns) SH_LOCKED;

#endif
