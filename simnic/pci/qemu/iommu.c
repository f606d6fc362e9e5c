/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device's addresses behind an IOMMU: what QEMU's IOMMU says of its mappings, as the guest
 * makes and unmakes them, is told to the function. It must be an IOMMU that tells of mappings, too:
 * for VT-d, `caching-mode=on`. All calls hold QEMU's big lock.
 */
#include "simnic/pci/qemu/device.h"

#include <exec/address-spaces.h>
#include <hw/boards.h>
#include <qapi/error.h>
#include <qemu/error-report.h>

/* A piece of the device's addresses that the IOMMU translates. */
struct sn_qemu_translated {
	IOMMUNotifier notifier;
	QLIST_ENTRY(sn_qemu_translated) next;
	struct sn_qemu *dev;
	MemoryRegion *region;
	hwaddr shift; /* from an address in the region to the device's */
};

static void changed(IOMMUNotifier *notifier, IOMMUTLBEntry *entry)
{
	struct sn_qemu_translated *piece =
		container_of(notifier, struct sn_qemu_translated, notifier);
	struct sn_pci *pci = piece->dev->pci;
	hwaddr at = entry->iova + piece->shift, bytes = entry->addr_mask + 1;

	if (entry->perm == IOMMU_NONE)
		sn_pci_dma_unmap(pci, at, bytes);
	else
		sn_pci_dma_map(pci, at, bytes, entry->translated_addr, entry->perm & IOMMU_WO);
}

static void follow(struct sn_qemu *dev, MemoryRegionSection *section)
{
	IOMMUMemoryRegion *iommu = IOMMU_MEMORY_REGION(section->mr);
	struct sn_qemu_translated *piece = g_new0(struct sn_qemu_translated, 1);
	hwaddr from = section->offset_within_region;
	hwaddr to = from + int128_getlo(int128_sub(section->size, int128_one()));
	Error *error = NULL;

	piece->dev = dev;
	piece->region = section->mr;
	piece->shift = section->offset_within_address_space - from;
	iommu_notifier_init(&piece->notifier, changed, IOMMU_NOTIFIER_IOTLB_EVENTS, from, to,
			    memory_region_iommu_attrs_to_index(iommu, MEMTXATTRS_UNSPECIFIED));
	if (memory_region_register_iommu_notifier(section->mr, &piece->notifier, &error)) {
		error_reportf_err(error, "simnic: all of its DMA is stray: ");
		g_free(piece);
		return;
	}
	QLIST_INSERT_HEAD(&dev->translated, piece, next);
	memory_region_iommu_replay(iommu, &piece->notifier);
}

static void follow_no_more(struct sn_qemu *dev, MemoryRegionSection *section)
{
	struct sn_qemu_translated *piece;

	QLIST_FOREACH(piece, &dev->translated, next)
	{
		if (piece->region == section->mr &&
		    piece->notifier.start == section->offset_within_region)
			break;
	}
	if (!piece)
		return;
	memory_region_unregister_iommu_notifier(piece->region, &piece->notifier);
	QLIST_REMOVE(piece, next);
	g_free(piece);
}

static bool is_guest_memory(const MemoryRegionSection *section)
{
	return section->mr == MACHINE(qdev_get_machine())->ram && !section->readonly;
}

/* Addresses that are not translated: the guest has not switched its IOMMU on. */
static void added(MemoryListener *listener, MemoryRegionSection *section)
{
	struct sn_qemu *dev = container_of(listener, struct sn_qemu, listener);

	if (memory_region_is_iommu(section->mr))
		follow(dev, section);
	else if (is_guest_memory(section))
		sn_pci_dma_map(dev->pci, section->offset_within_address_space,
			       int128_get64(section->size), section->offset_within_region, true);
}

static void removed(MemoryListener *listener, MemoryRegionSection *section)
{
	struct sn_qemu *dev = container_of(listener, struct sn_qemu, listener);

	if (memory_region_is_iommu(section->mr))
		follow_no_more(dev, section);
	if (memory_region_is_iommu(section->mr) || is_guest_memory(section))
		sn_pci_dma_unmap(dev->pci, section->offset_within_address_space,
				 int128_getlo(section->size));
}

bool sn_qemu_has_iommu(struct sn_qemu *dev)
{
	return pci_device_iommu_address_space(&dev->parent) != &address_space_memory;
}

void sn_qemu_follow_iommu(struct sn_qemu *dev)
{
	QLIST_INIT(&dev->translated);
	dev->listener.name = SN_QEMU_TYPE;
	dev->listener.region_add = added;
	dev->listener.region_del = removed;
	memory_listener_register(&dev->listener, pci_device_iommu_address_space(&dev->parent));
	dev->follows = true;
}

void sn_qemu_leave_iommu(struct sn_qemu *dev)
{
	if (dev->follows)
		memory_listener_unregister(&dev->listener);
	dev->follows = false;
}

/* The IOMMU translates as for an access, and notes its fault; nothing is read or written. */
void sn_qemu_report_stray(struct sn_qemu *dev, uint64_t at, bool write)
{
	hwaddr bytes = 1, to;

	RCU_READ_LOCK_GUARD();
	address_space_translate(pci_get_address_space(&dev->parent), at, &to, &bytes, write,
				MEMTXATTRS_UNSPECIFIED);
}
