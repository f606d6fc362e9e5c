/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A bridge without a data path, for tests of the command side: keeps what it was last asked for,
 * and answers what the test wants. One of each object at most matters.
 */
#ifndef TESTS_PCI_FAKE_BRIDGE_H
#define TESTS_PCI_FAKE_BRIDGE_H

#include "simnic/pci/bridge_port.h"
#include "simnic/pci/bridge_ether.h"
#include "simnic/pci/bridge_space.h"

enum { FAKE_PAGES = 64, FAKE_NUMBER = 0x4321 };

struct fake_bridge {
	struct sn_bridge_config config;
	struct sn_bridge_port port;
	int answer; /* of all that may fail */
	uint32_t resets, doorbells, destroyed;
	bool stopped;
	/* the last of each */
	struct sn_bridge_key key;
	struct sn_bridge_cq cq;
	struct sn_bridge_srq srq;
	struct sn_bridge_qp qp;
	struct sn_bridge_qpc qpc;
	uint64_t page[FAKE_PAGES]; /* what the pages of the last one refer to */
	uint32_t transition, mask, limit;
	uint32_t gid_index, gid_version, gid_vlan;
	uint8_t gid[16];
	uint32_t doorbell_uar, doorbell_offset;
	uint64_t doorbell;
	struct sn_bridge_frames frames;
	bool ready, off;
	uint32_t receives; /* the ring that frames go into */
	struct sn_bridge_mapping mapping;
	uint64_t count; /* what each counter has, plus the length of its file's name */
	bool agent;	/* the NIC's agent answers */
	struct sn_bridge_stray stray; /* one to be taken, unless it has no bytes */
};
extern struct fake_bridge fake_bridge;

#endif
