/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths that are slow though nothing says so: core/slow_path.h, with the pings of real ones. */
#ifndef SHIFTLIB_CONN_WATCH_SLOW_PATH_H
#define SHIFTLIB_CONN_WATCH_SLOW_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_nic;

/* Sums over a NIC's paths, at the last look. */
struct sh_slow_path_sum {
	uint32_t slow, paths;	       /* paths: that are slow, or well at times */
	uint64_t floor_ns, instead_ns; /* round trips of the slowest, and what they should be */
};

void sh_slow_paths_update(void) SH_LOCKED; /* a look at all paths; gray.c says when */
bool sh_slow_path_any(void) SH_LOCKED;	   /* some NIC has one, and its end is to be told */
bool sh_slow_path_is(const struct sh_nic *nic) SH_LOCKED;
void sh_slow_path_figures(const struct sh_nic *nic, struct sh_slow_path_sum *out) SH_LOCKED;
void sh_slow_path_reset(void);

#endif
