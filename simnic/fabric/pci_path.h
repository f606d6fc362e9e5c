/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The places of NICs and GPUs on the PCI buses of their host: for sysfs.c. */
#ifndef SIMNIC_FABRIC_PCI_PATH_H
#define SIMNIC_FABRIC_PCI_PATH_H

#include <stddef.h>

struct sn_nic;

/*
 * The place of the NIC's PCI function below /sys/devices. Each card is behind a root port of its
 * own, or below a switch.
 */
void sn_pci_path(char *buf, size_t len, const struct sn_nic *nic);
/* The place of the GPU beside the NIC's card: only where hosts have GPUs. */
void sn_pci_gpu_path(char *buf, size_t len, const struct sn_nic *nic);

#endif
