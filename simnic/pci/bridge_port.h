/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The port of a NIC as the fabric has it: its state, tables and counters, and what the NIC's own
 * management agent says. Locking as in bridge.h.
 */
#ifndef SIMNIC_PCI_BRIDGE_PORT_H
#define SIMNIC_PCI_BRIDGE_PORT_H

#include "simnic/pci/bridge.h"

/* What the fabric says of the NIC. */
struct sn_bridge_port {
	bool up, ethernet;
	uint16_t lid;
	uint64_t node_guid;
};
void sn_bridge_port(const struct sn_bridge *bridge, struct sn_bridge_port *port);
/* Entries of the NIC's tables; an empty or unknown entry is zero. */
uint16_t sn_bridge_pkey(const struct sn_bridge *bridge, uint32_t index);
void sn_bridge_gid(const struct sn_bridge *bridge, uint32_t index, uint8_t gid[16]);
/*
 * Sets an entry of an Ethernet NIC's GID table (SET_ROCE_ADDRESS): peers find the NIC by it from
 * now on. roce_version: 1 or 2; 0 empties the entry. vlan: 0: none. The table is empty after
 * sn_bridge_new() and sn_bridge_reset(). -EINVAL: no such index, or not Ethernet.
 */
int sn_bridge_set_gid(struct sn_bridge *bridge, uint32_t index, const uint8_t gid[16],
		      uint32_t roce_version, uint16_t vlan);

/* A counter, named as its file in fabric/counters.h; 0: the fabric does not keep it. */
uint64_t sn_bridge_counter(const struct sn_bridge *bridge, const char *file);
/* The answer of the NIC's own agent to a management datagram, in place. False: none. */
bool sn_bridge_mad(const struct sn_bridge *bridge, uint8_t mad[256]);

#endif
