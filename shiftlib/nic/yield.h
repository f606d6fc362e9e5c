/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pause in which SHIFT makes no shadow on a NIC, as the application found no place there. */
#ifndef SHIFTLIB_NIC_YIELD_H
#define SHIFTLIB_NIC_YIELD_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_nic;

/* Begins a pause. all: not only for queue pairs. */
void sh_yield_pause(struct sh_nic *nic, bool all) SH_LOCKED;
/*
 * Lets the pause not end for so long at least. sh_yield_pause_anew() then ends this: the last pause
 * begins again. Both leave alone a pause that sh_yield_end() ended.
 */
void sh_yield_pause_hold(struct sh_nic *nic, uint64_t ns) SH_LOCKED;
void sh_yield_pause_anew(struct sh_nic *nic) SH_LOCKED;
void sh_yield_end(struct sh_nic *nic) SH_LOCKED; /* traffic needs the NIC */

bool sh_yields(const struct sh_nic *nic); /* no standby is made there now; any thread */
bool sh_yields_memory(const struct sh_nic *nic);
extern const char sh_yield_why[];

/*
 * give.c: closes SHIFT's own objects there, in the background, until the pause is over. False:
 * they are needed, or none is open. control: only the control queue pair gives its memory back.
 */
bool sh_nic_give_back(struct sh_nic *nic) SH_LOCKED;
bool sh_nic_give_control_back(struct sh_nic *nic) SH_LOCKED;

#endif
