/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Did the network interface behind a NIC go down since? Asked where a driver gives the same error for its
 * link and for a request that is wrong.
 */
#ifndef SHIFTLIB_NIC_LINK_H
#define SHIFTLIB_NIC_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct sh_nic;

/* How often it had gone down, as was known then. */
struct sh_link_mark {
	int ifindex; /* 0: not set */
	uint32_t downs;
};

/* Lock held. Sets a mark that is not set; without a look, so it may be of an earlier time. */
void sh_nic_link_mark(const struct sh_nic *nic, struct sh_link_mark *mark);
/* It is down, or was since then: the kernel is asked, which waits for nobody. No: also if it cannot be known. */
bool sh_nic_link_was_lost(const struct sh_nic *nic, const struct sh_link_mark *mark);

#endif
