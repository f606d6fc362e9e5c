/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the fabric has counted at a NIC, and what the NIC's own management agent says. Locking as in
 * bridge.h.
 */
#ifndef SIMNIC_PCI_BRIDGE_COUNT_H
#define SIMNIC_PCI_BRIDGE_COUNT_H

#include "simnic/pci/bridge.h"

/* A counter, named as its file in fabric/counters.h; 0: the fabric does not keep it. */
uint64_t sn_bridge_counter(const struct sn_bridge *bridge, const char *file);
/* The answer of the NIC's own agent to a management datagram, in place. False: none. */
bool sn_bridge_mad(const struct sn_bridge *bridge, uint8_t mad[256]);

#endif
