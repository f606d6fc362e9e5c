/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that polls at a real-time priority may keep SHIFT's threads from the only core that
 * they may run on. Nobody but the poller can change that: while something is withheld from it,
 * and SHIFT's thread does not get on, it naps.
 */
#ifndef SHIFTLIB_CONN_GIVE_WAY_H
#define SHIFTLIB_CONN_GIVE_WAY_H

#include <stdbool.h>
#include "shiftlib/loop/loop.h"

struct sh_qp;

/*
 * Any thread, no lock: something is withheld from pollers, or will be, until SHIFT's threads
 * have acted on it.
 */
void sh_give_way_fault(void);

/*
 * The queue pair is in RTS. Its pollers look whether SHIFT's thread runs, until that has run
 * once.
 */
void sh_give_way_expect(struct sh_qp *qp) SH_LOCKED;

/* sp_callbacks.owed and give_way. */
bool sh_give_way_owed(void);
void sh_give_way(void);

extern const struct sh_module sh_give_way_module;

#endif
