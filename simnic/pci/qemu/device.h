/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The QEMU device around a PCI function. Compiled with QEMU's headers, so this folder's objects are
 * under the GPL-2.0.
 */
#ifndef SIMNIC_PCI_QEMU_DEVICE_H
#define SIMNIC_PCI_QEMU_DEVICE_H

#include <qemu/osdep.h>

#include <hw/pci/pci.h>
#include <qemu/timer.h>

#include "simnic/pci/function.h"

#define SN_QEMU_TYPE "simnic"

struct sn_qemu_translated;

/* A device of QEMU: `-device simnic`. */
struct sn_qemu {
	PCIDevice parent; /* first, as QEMU's object model wants it */
	MemoryRegion bar, iseg, uars;
	QEMUTimer *beat, *work;
	QEMUBH *deliver;
	struct sn_pci *pci;
	FILE *log;
	/* the listener of the mappings, behind an IOMMU */
	MemoryListener listener;
	bool follows;
	QLIST_HEAD(, sn_qemu_translated) translated;
	/* properties */
	char *fabric; /* SIMNIC_FABRIC of the environment, if it is not said */
	uint32_t host, nic;
	char *log_name;
	bool fw_reset;
};

/*
 * Takes the card out of its slot without a word to the driver, or puts it back: the root port's
 * presence bit and interrupt. False: the device is behind no port that can tell of it.
 */
bool sn_qemu_slot(struct sn_qemu *dev, bool present);

/* Whether an IOMMU stands between the device and memory, be it on or off. */
bool sn_qemu_has_iommu(struct sn_qemu *dev);
/* Tells the function what the IOMMU maps and unmaps, from now on until sn_qemu_leave_iommu(). */
void sn_qemu_follow_iommu(struct sn_qemu *dev);
void sn_qemu_leave_iommu(struct sn_qemu *dev);
/* Has the IOMMU note an access of the data path that the data path was not let make. */
void sn_qemu_report_stray(struct sn_qemu *dev, uint64_t at, bool write);

/* Lets reads of the bus that nobody answers give ones, as on PCI Express. Once for all cards. */
void sn_qemu_fill_hole(struct sn_qemu *dev);

#endif
