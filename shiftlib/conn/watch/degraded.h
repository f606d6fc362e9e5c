/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process is degraded while connections run on NICs that are not their own, from the first
 * move away to the last return: told as events, with what is left of the bandwidth, when it has
 * not changed for SH_EVENT_SETTLES_NS.
 */
#ifndef SHIFTLIB_CONN_WATCH_DEGRADED_H
#define SHIFTLIB_CONN_WATCH_DEGRADED_H

#include <stdint.h>
#include "shiftlib/loop/loop.h"
#include "shiftlib/report/event.h"

/* A loss of protection, or of bandwidth, that is mended sooner is none. */
#define SH_EVENT_SETTLES_NS 500000000ull

/* The degradation as it was told. */
struct sh_degraded {
	uint64_t since_ns;   /* 1970, UTC; 0: it is not */
	uint32_t left;	     /* bandwidth that is left, in thousandths */
	uint32_t qps;	     /* connections that are away */
	uint64_t seconds_ns; /* time degraded since the process began, told or not */
};

/* A connection is away, or back. */
void sh_degraded_changed(void) SH_LOCKED;
void sh_degraded_moved(const struct sh_event *event) SH_LOCKED; /* why they are */
void sh_degraded_now(struct sh_degraded *out) SH_LOCKED;

extern const struct sh_module sh_degraded_module;

#endif
