/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs whose links carry less than they can: core/slow.h, with the rates of real links.
 * conn/watch/gray.c looks.
 */
#ifndef SHIFTLIB_CONN_WATCH_SLOW_H
#define SHIFTLIB_CONN_WATCH_SLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/slow.h"
#include "shiftlib/nic/nic.h"

#define SH_SLOW_NAME 64

/* A look: asked with the lock held, read without, on the NIC's worker, and told with it. */
struct sh_slow_update {
	char name[SH_SLOW_NAME];
	struct sh_slow_rates rates;
};

void sh_slow_ask(const struct sh_nic *nic, struct sh_slow_update *look) SH_LOCKED;
void sh_slow_read(struct sh_slow_update *look);
void sh_slow_told(struct sh_nic *nic, const struct sh_slow_update *look) SH_LOCKED;

bool sh_slow_is(const struct sh_nic *nic) SH_LOCKED;
bool sh_slow_is_pci(const struct sh_nic *nic) SH_LOCKED; /* it is, by its PCI link */
/* Another look is to say more, traffic or not. */
bool sh_slow_in_doubt(const struct sh_nic *nic) SH_LOCKED;
/* Tells what a NIC carries, and could, in Mb/s; 0: not known. */
void sh_slow_figures(const struct sh_nic *nic, uint32_t *now, uint32_t *whole);
void sh_slow_use(struct sh_nic *nic) SH_LOCKED; /* the operator wants it to be used */
void sh_slow_reset(void);

#endif
