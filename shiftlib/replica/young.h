/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions that have just been registered. A fresh one has no shadow at all: a program that
 * registers each message, and frees it, pays for no other NIC. Regions that peers may name are
 * fresh only while the peers have heard of their key lately. Then a region gets its shadow on the
 * nearest backup, and where a NIC has several on the others when it has lived for a while. When a
 * connection of their context begins a move they get all of them. A region registered while one
 * moves gets all at once, and so do regions on NICs that connections have come to. A move waits
 * for a key that it needs, as for each that is on its way.
 */
#ifndef SHIFTLIB_REPLICA_YOUNG_H
#define SHIFTLIB_REPLICA_YOUNG_H

#include <stdbool.h>
#include "shiftlib/loop/loop.h"

struct sh_ctx;
struct sh_mr;

/* Makes the shadows of a region that is new in its PD, now or later. */
void sh_young_add(struct sh_mr *mr) SH_LOCKED;
void sh_young_forget(struct sh_mr *mr) SH_LOCKED;
bool sh_young_is(const struct sh_mr *mr) SH_LOCKED;
/* Notes that peers are told of that key now. */
void sh_young_told(uint32_t rkey) SH_LOCKED;
/* Called when a connection of the context begins a move. */
void sh_young_move(struct sh_ctx *ctx) SH_LOCKED;

extern const struct sh_module sh_young_module;

#endif
