/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pause in which SHIFT makes no shadow on a NIC, as the application found no place there. */
#ifndef SHIFTLIB_NIC_YIELD_H
#define SHIFTLIB_NIC_YIELD_H

#include <stdbool.h>

struct sh_nic;

/* Lock held. all: not only queue pairs. */
void sh_yield_pause(struct sh_nic *nic, bool all);
void sh_yield_pause_anew(struct sh_nic *nic); /* as long as the last one, from now on */
void sh_yield_end(struct sh_nic *nic);	      /* traffic needs it */

bool sh_yields(const struct sh_nic *nic); /* no standby is made there now; any thread */
bool sh_yields_memory(const struct sh_nic *nic);
extern const char sh_yield_why[];

/*
 * give.c: what SHIFT itself has open there is closed, in the background, until the pause is over. Lock held. False: it is
 * needed, or nothing is open. control: the control queue pair alone gives its memory back.
 */
bool sh_nic_give_back(struct sh_nic *nic);
bool sh_nic_give_control_back(struct sh_nic *nic);

#endif
