/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shadows of regions that the application has deregistered, on NICs that no peer can reach them
 * through: it does not wait for these. They have no key any more, here or at a peer that follows
 * our journal, and no queue pair that a peer may send to could be told one: a connection that
 * moves to such a NIC waits (sh_late_over) before it says so to its peer, as all that is left
 * there is deregistered first. The background thread is woken once for all of them.
 */
#ifndef SHIFTLIB_REPLICA_LATE_H
#define SHIFTLIB_REPLICA_LATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_ctx;
struct sh_pd;

/*
 * True if shadows there may go behind the application's back. Not while a connection of this
 * context moves, which would wait for ever more of them; nor where a queue pair of a connection
 * is, or may be still, that its peer was let send to; nor where fork is made safe by marks on
 * memory, which would be on what the application has there next.
 */
bool sh_late_may(const struct sh_ctx *ctx, uint8_t path) SH_LOCKED;
/* Leaves a shadow, which has been taken, to be deregistered. False: it is the caller's to do. */
bool sh_late_defer(struct sh_pd *pd, uint8_t path, struct ibv_mr *shadow,
		   uint32_t incarnation) SH_LOCKED;
/* True if nothing of that context is left there to be deregistered; else it is hurried. */
bool sh_late_over(const struct sh_ctx *ctx, uint8_t path) SH_LOCKED;
/*
 * Hurries all that is left now, of any context, as somebody waits for it. False: there is
 * nothing.
 */
bool sh_late_hurry(void) SH_LOCKED;
/*
 * Notes that a region found no place while some were left: all that failed is tried again when
 * they are gone. False: it is not for that.
 */
bool sh_late_missed(int error) SH_LOCKED;
/* Count something else that goes behind the application's back, and takes room until then. */
void sh_late_begin_other(void) SH_LOCKED;
void sh_late_end_other(void) SH_LOCKED;
/* Return how many were left so far, and how many of these are gone. */
uint64_t sh_late_left(void) SH_LOCKED;
uint64_t sh_late_gone(void) SH_LOCKED;

extern const struct sh_module sh_late_module;

#endif
