/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Stalled connections: a move, or work without a completion, that takes longer than a second. That
 * is told, with what the connection waits for; nothing is moved. Found by the look at connections
 * (watch/look.c), which goes on anyway.
 */
#ifndef SHIFTLIB_CONN_WATCH_STALL_H
#define SHIFTLIB_CONN_WATCH_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"
#include "shiftlib/report/event.h"

struct sh_conn_part;
struct sh_qp;

#define SH_STALL_NS 1000000000ull

/* What a connection waits for. */
struct sh_stall_why {
	enum sh_event_cause cause;
	const char *text; /* constant */
};

/* Returns what a stalled connection waits for; NULL: it is not stalled. */
const struct sh_stall_why *sh_stall_of(const struct sh_qp *qp, uint64_t *since) SH_LOCKED;
/* Number of connections over which nothing passes, as no NIC is left to them. */
uint32_t sh_stalls_lost(void) SH_LOCKED;
enum sh_event_cause sh_stalls_lost_cause(void) SH_LOCKED; /* cause of the last of them */

extern const struct sh_module sh_stalls_module;
extern const struct sh_conn_part sh_stall_part;

#endif
