/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The number of backups that get memory. With SHIFT_BACKUP=spread there may be up to seven, and
 * each region counts on each of them for RLIMIT_MEMLOCK: where there is no room for all, the last
 * ones give theirs back, rather than that some regions are here and some there and nothing is
 * protected. The first of each, the other half of its pair, stays.
 */
#ifndef SHIFTLIB_REPLICA_REACH_H
#define SHIFTLIB_REPLICA_REACH_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_ctx;

/* Returns the last path that has regions, or may get them. It becomes less, never more. */
uint8_t sh_reach(void) SH_LOCKED;
/* True if that path is among these, or connections of the context run there already. */
bool sh_reach_covers(const struct sh_ctx *ctx, uint8_t path) SH_LOCKED;
/*
 * Uses fewer backups, as a region found no place on a NIC. False: that helps no more, or the
 * error is another one.
 */
bool sh_reach_missed(int error) SH_LOCKED;
/*
 * Uses only pairs from now on, as the application itself finds no place. False: there is nothing
 * beyond them.
 */
bool sh_reach_pairs(void) SH_LOCKED;

/*
 * Stand around the giving back of what is beyond, on any thread with the lock. At the end of the
 * last, regions are tried again.
 */
void sh_reach_leaving(void) SH_LOCKED;
void sh_reach_left(void) SH_LOCKED;
bool sh_reach_is_leaving(void) SH_LOCKED;

extern const struct sh_module sh_reach_module;
extern const char sh_reach_why[];

#endif
