/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Capabilities: what the firmware can do at most, and what the driver has made of it. */
#ifndef SIMNIC_PCI_CAPS_H
#define SIMNIC_PCI_CAPS_H

#include <stdint.h>

#include "simnic/fabric/limits.h"

#define SN_CAP_TYPES	      64
#define SN_CAP_BYTES	      4096
#define SN_ROCE_ADDRESSES     ((uint32_t)SN_MAX_GIDS)
#define SN_ROCE_ADDRESS_BYTES 32u
/* Both are what 0 in the capability means. */
#define SN_IB_GIDS	8u
#define SN_PKEYS	128u
#define SN_HEALTH_BYTES 64u

struct sn_caps {
	uint8_t most[SN_CAP_TYPES][SN_CAP_BYTES];
	uint8_t current[SN_CAP_TYPES][SN_CAP_BYTES];
};

struct sn_pci_identity;

/* Both halves as after reset. */
void sn_caps_reset(struct sn_caps *caps, const struct sn_pci_identity *identity);

#endif
