/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The trial: does a NIC tell, of a QP in ERR, which packet that would have taken next? */
#ifndef SHIFTLIB_REPLICA_PROVE_H
#define SHIFTLIB_REPLICA_PROVE_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"

struct sh_nic;

/*
 * prove: starts the trial, once for each life of the NIC, in the background, on a QP of its own
 * that is connected to itself. proven: the NIC has told the truth in this life; until that is
 * known, and where it has not, what it says of other QPs is not believed.
 */
void sh_nic_prove(struct sh_nic *nic) SH_LOCKED;
bool sh_nic_proven(const struct sh_nic *nic) SH_LOCKED;
/*
 * Returns the word for status: "yes", "no", "unasked" (no connection needs it yet, or the trial
 * is under way) or "off". *why: NULL, or why not; a constant.
 */
const char *sh_nic_exact(const struct sh_nic *nic, const char **why);

#endif
