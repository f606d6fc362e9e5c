/* SPDX-License-Identifier: GPL-2.0 */
/* Surprise removal and return: what a root port tells of its slot. */
#include "simnic/pci/qemu/device.h"

#include <hw/pci/msi.h>
#include <hw/pci/msix.h>
#include <hw/pci/pci_bridge.h>
#include <hw/pci/pcie.h>

static void set_bits(uint8_t *word, uint16_t bits, bool on)
{
	if (on)
		pci_word_test_and_set_mask(word, bits);
	else
		pci_word_test_and_clear_mask(word, bits);
}

static void interrupt(PCIDevice *port)
{
	if (msix_enabled(port))
		msix_notify(port, pcie_cap_flags_get_vector(port));
	else if (msi_enabled(port))
		msi_notify(port, pcie_cap_flags_get_vector(port));
	else
		pci_set_irq(port, 1);
}

bool sn_qemu_slot(struct sn_qemu *dev, bool present)
{
	PCIDevice *port = pci_bridge_get_device(pci_get_bus(&dev->parent));
	uint8_t *cap;

	if (!port || !port->exp.exp_cap)
		return false;
	cap = port->config + port->exp.exp_cap;
	set_bits(cap + PCI_EXP_SLTSTA, PCI_EXP_SLTSTA_PDS, present);
	set_bits(cap + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_DLLLA, present);
	/*
	 * Presence changed. "Link changed" is not said: QEMU's port does not let the guest clear
	 * that bit, and the guest's handler would never come to an end.
	 */
	set_bits(cap + PCI_EXP_SLTSTA, PCI_EXP_SLTSTA_PDC, true);
	interrupt(port);
	return true;
}
