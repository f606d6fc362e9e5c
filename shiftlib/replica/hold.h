/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts on NICs that hang are held by another process (base/holder.h): SHIFT_HOLD_HUNG. */
#ifndef SHIFTLIB_HOLD_H
#define SHIFTLIB_HOLD_H

#include "shiftlib/loop/loop.h"

/* Holds, as the process ends, also what waits for a NIC that is not known to hang yet. */
void sh_hold_end(void) SH_LOCKED;

extern const struct sh_module sh_hold_module;

#endif
