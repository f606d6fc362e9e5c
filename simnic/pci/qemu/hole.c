/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Addresses of the bus at which nobody answers. On PCI Express a read there comes back as ones,
 * and a driver knows by that that its device is gone, or was reset and has lost its BAR. QEMU gives
 * zeros, by which mlx5_core takes a NIC for a living one whose health counter stands.
 */
#include "simnic/pci/qemu/device.h"

#include <hw/pci/pci_bus.h>

#define BEHIND_ALL (-1000) /* whoever has the address answers */

static uint64_t hole_read(void *opaque, hwaddr offset, unsigned size)
{
	return size < 8 ? (1ull << 8 * size) - 1 : UINT64_MAX;
}

static void hole_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
}

static const MemoryRegionOps hole_ops = {
	.read = hole_read,
	.write = hole_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8 },
	.impl = { .min_access_size = 1, .max_access_size = 8 },
};

void sn_qemu_fill_hole(struct sn_qemu *dev)
{
	static MemoryRegion hole; /* of the machine, which outlives its cards */
	static bool filled;

	if (filled)
		return;
	filled = true;
	memory_region_init_io(&hole, NULL, &hole_ops, NULL, "simnic-hole", UINT64_MAX);
	memory_region_add_subregion_overlap(pci_device_root_bus(&dev->parent)->address_space_mem, 0,
					    &hole, BEHIND_ALL);
}
