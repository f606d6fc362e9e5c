/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs that lose or damage packets though nothing has failed: core/gray.h, with the counters of
 * real ports.
 */
#ifndef SHIFTLIB_CONN_WATCH_GRAY_H
#define SHIFTLIB_CONN_WATCH_GRAY_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_nic;

/* "off", or what the last looks say of it. */
const char *sh_gray_word(const struct sh_nic *nic) SH_LOCKED;
/* Tells the errors of the last looks, and the packets they are among. */
void sh_gray_figures(const struct sh_nic *nic, uint64_t *errors, uint64_t *packets);
/*
 * Has its port counted gaps in the last looks, as where a switch's queue overflows? Where the
 * answer is needed before the next look, a peek asks, and comes back some milliseconds later.
 */
void sh_gray_peek(struct sh_nic *nic, uint64_t now) SH_LOCKED;
bool sh_gray_gaps(const struct sh_nic *nic, uint64_t now) SH_LOCKED;
/* The operator wants it to be used. */
void sh_gray_use(struct sh_nic *nic) SH_LOCKED;
/*
 * NICs, as bits by their index, that connections which run there, or have left it, could use
 * instead, itself included.
 */
uint32_t sh_gray_choices(const struct sh_nic *nic) SH_LOCKED;
/* True if connections could leave: enough of these NICs are well. */
bool sh_gray_drain_allowed(const struct sh_nic *nic) SH_LOCKED;

extern const struct sh_module sh_gray_module;

#endif
