/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The DMA addresses of a bridge behind an IOMMU. The machine tells which of them lead to guest
 * memory, and the bridge lays that memory out by DMA address in one range of this process: the
 * processor's own page tables are the cache of translations. Rings, records and payload are
 * reached through that range alone, so an unmapped address is unreachable as soon as the machine
 * has said so, for every access of the data path.
 *
 * A bridge is behind an IOMMU if its config has the call "stray": all its guest addresses are then
 * DMA addresses. The call says that there are stray accesses to take; any thread makes it, in a
 * signal handler.
 *
 * An access to an address that leads nowhere, or a write where only reads are let through, is
 * stray: a read gives zeros, a write gets lost, and the bridge tells the machine. Reads where only
 * writes are let through are not seen: no processor maps memory that way.
 */
#ifndef SIMNIC_PCI_BRIDGE_SPACE_H
#define SIMNIC_PCI_BRIDGE_SPACE_H

#include "simnic/pci/bridge.h"

#define SN_BRIDGE_SPACE_BITS  39 /* of a DMA address */
#define SN_BRIDGE_SPACE_BYTES (1ull << SN_BRIDGE_SPACE_BITS)

/* Whole pages of 4 KiB. */
struct sn_bridge_mapping {
	uint64_t at, bytes; /* DMA addresses */
	uint64_t ram;	    /* guest address of the first byte */
	bool writable;
};

/*
 * Lets DMA addresses lead to guest memory, whatever they led to before. For a bridge whose config
 * says that it is behind an IOMMU. -EINVAL: not guest memory, or no DMA addresses.
 */
int sn_bridge_space_map(struct sn_bridge *bridge, const struct sn_bridge_mapping *mapping);
/*
 * Lets DMA addresses lead nowhere. When the call returns, nothing is written by way of them any
 * more, and all that was written before is in memory. Addresses that lead nowhere already may be
 * among them.
 */
void sn_bridge_space_unmap(struct sn_bridge *bridge, uint64_t at, uint64_t bytes);

/* A stray access. Neighbouring pages that were met one after the other are one. */
struct sn_bridge_stray {
	uint64_t at; /* the page of the first byte */
	uint64_t bytes;
	bool write;
};
/* Takes the oldest stray access that has not been taken yet; false: there is none. */
bool sn_bridge_space_take(struct sn_bridge *bridge, struct sn_bridge_stray *stray);
/*
 * True while a read has gone astray that has not been taken: what the data path has read since may
 * be zeros. With the engine's lock held.
 */
bool sn_bridge_space_unread(const struct sn_bridge *bridge);

/*
 * Has the data path access 8 bytes at a DMA address that no key and no ring names, as a NIC that
 * is broken does: a write stores ones. Without an IOMMU that is guest memory. -EINVAL: no such
 * address, or not a multiple of 8.
 */
int sn_bridge_go_astray(struct sn_bridge *bridge, uint64_t at, bool write);

#endif
