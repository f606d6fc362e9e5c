/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The network interface of a bridge's NIC: rings for frames, and its port. See bridge.h. */
#ifndef SIMNIC_PCI_BRIDGE_ETHER_H
#define SIMNIC_PCI_BRIDGE_ETHER_H

#include "simnic/pci/bridge.h"

/* A ring for frames: raw packets of Ethernet. Frames that arrive go into one ring alone. */
struct sn_bridge_frames {
	struct sn_bridge_pages pages;
	uint32_t log_size;   /* log2 of WQEBBs, or of receive WQEs */
	uint32_t log_stride; /* receive: log2 of a WQE's bytes */
	uint64_t record;     /* guest address of the doorbell records: receive, send */
	uint32_t pd, cq;
	bool keeps_vlan; /* receive: tags stay in the frames */
};
int sn_bridge_sq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *sqn);
int sn_bridge_rq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *rqn);
/* A ring begins with its first entry when it becomes ready; one that is not ready does nothing. */
int sn_bridge_sq_set_ready(struct sn_bridge *bridge, uint32_t sqn, bool ready);
int sn_bridge_rq_set_ready(struct sn_bridge *bridge, uint32_t rqn, bool ready);
int sn_bridge_sq_failed(struct sn_bridge *bridge, uint32_t sqn, bool *failed);
int sn_bridge_sq_destroy(struct sn_bridge *bridge, uint32_t sqn);
int sn_bridge_rq_destroy(struct sn_bridge *bridge, uint32_t rqn);
void sn_bridge_receive_into(struct sn_bridge *bridge, uint32_t rqn); /* no such ring: into none */
/* The driver switches the port off, or on. */
void sn_bridge_switch_off(struct sn_bridge *bridge, bool off);

#endif
