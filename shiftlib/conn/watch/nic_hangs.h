/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* NICs that hang without an event, for the detector, which has the clock. */
#ifndef SHIFTLIB_CONN_WATCH_NIC_HANGS_H
#define SHIFTLIB_CONN_WATCH_NIC_HANGS_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/lock.h"

#define SH_NIC_HELD_PART 8 /* part of a heartbeat in which a NIC that is well sends a ping */

void sh_nic_hangs_look(void) SH_LOCKED;	    /* judges all NICs */
uint64_t sh_nic_hangs_next(void) SH_LOCKED; /* the next time to do so beside looks; 0: none */
/* True if all NICs obey, and none has a command or a datagram under way. */
bool sh_nic_hangs_calm(void) SH_LOCKED;
void sh_nic_hangs_reset(void);

#endif
