/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Losses of link of the network interface behind a NIC, since a mark. Asked where a driver gives
 * the same error for its link and for a wrong request.
 */
#ifndef SHIFTLIB_NIC_LINK_H
#define SHIFTLIB_NIC_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_nic;

/* The number of its losses, as known at the time of the mark. */
struct sh_link_mark {
	int ifindex; /* 0: not set */
	uint32_t downs;
};

/* Sets a mark that is not set, without a look, so it may be of an earlier time. */
void sh_nic_link_mark(const struct sh_nic *nic, struct sh_link_mark *mark) SH_LOCKED;
/*
 * True if the link is down, or was since the mark: the kernel is asked, which waits for nobody.
 * False also if that cannot be known.
 */
bool sh_nic_link_was_lost(const struct sh_nic *nic, const struct sh_link_mark *mark);

#endif
