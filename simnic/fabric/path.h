/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reachability between NICs now. */
#ifndef SIMNIC_FABRIC_PATH_H
#define SIMNIC_FABRIC_PATH_H

#include "simnic/fabric/packet.h"

struct sn_fabric;

/* True if a packet from this NIC may reach that one now. Counts a drop where not. */
bool sn_path_open(struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic, uint32_t dst_host,
		  uint32_t dst_nic, enum sn_pkt_op op);
/*
 * True if a packet that has left its NIC would reach the other one: the ports, the cables and the
 * switches are well. The state of the sending NIC does not matter.
 */
bool sn_path_wire_open(struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic,
		       uint32_t dst_host, uint32_t dst_nic);
/* sn_path_open() for a packet that the fabric held: its sender does not matter any more. */
bool sn_path_open_late(struct sn_fabric *fabric, const struct sn_pkt *pkt);
/* True if connections between these two NICs stand still. */
bool sn_path_paused(const struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic,
		    uint32_t dst_host, uint32_t dst_nic);

#endif
