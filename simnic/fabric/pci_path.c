/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The places of NICs and GPUs on the PCI buses of their host. */
#include <stdio.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/pci_path.h"

#define PCI_GPU_PORT 8 /* ports of a switch from here on lead to GPUs, those before it to cards */

/*
 * The place below a switch: host bridge, root port, the switch's upstream port, a port of it, and
 * what is plugged in there.
 */
static void pci_below_switch(char *buf, size_t len, const struct sn_nic *nic, uint32_t port,
			     uint32_t function)
{
	uint32_t bus = 0x10 + nic->slot.card / nic->slot.gpu_cards * 0x10;

	snprintf(buf, len,
		 "pci0000:%02x/0000:%02x:00.0/0000:%02x:00.0/0000:%02x:%02x.0/0000:%02x:00.%u", bus,
		 bus, bus + 1, bus + 2, port,
		 bus + 3 + port % PCI_GPU_PORT + (port >= PCI_GPU_PORT ? SN_MAX_GPU_CARDS : 0),
		 function);
}

void sn_pci_path(char *buf, size_t len, const struct sn_nic *nic)
{
	uint32_t bus = 0x10 + nic->slot.card * 0x10;

	if (nic->slot.gpu_cards)
		pci_below_switch(buf, len, nic, nic->slot.card % nic->slot.gpu_cards,
				 nic->slot.function);
	else
		snprintf(buf, len, "pci0000:%02x/0000:%02x:00.0/0000:%02x:00.%u", bus, bus, bus + 1,
			 nic->slot.function);
}

void sn_pci_gpu_path(char *buf, size_t len, const struct sn_nic *nic)
{
	pci_below_switch(buf, len, nic, PCI_GPU_PORT + nic->slot.card % nic->slot.gpu_cards, 0);
}
