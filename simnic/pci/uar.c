/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Doorbells: what the driver and programs write into a UAR page. */
#include <string.h>

#include "simnic/pci/pci.h"

/* Registers of a page. An EQ's takes 4 bytes, all others 8: they are the data path's. */
enum { EQ_ARM = 0x40, EQ_CONSUME = 0x48 };

static void eq_doorbell(struct sn_pci *pci, uint32_t word, bool arm)
{
	sn_eq_doorbell(pci, word >> 24, word & 0xffffff, arm);
}

void sn_uar_write(struct sn_pci *pci, uint32_t page, uint32_t offset, uint64_t value, uint32_t size)
{
	uint8_t bytes[8];

	memcpy(bytes, &value, sizeof(bytes));
	if (offset == EQ_ARM || offset == EQ_CONSUME)
		eq_doorbell(pci, sn_load32(bytes), offset == EQ_ARM);
	else if (pci->bridge && size == 8)
		sn_bridge_doorbell(pci->bridge, page, offset, value);
}
