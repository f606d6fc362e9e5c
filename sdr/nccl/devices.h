/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices that NCCL is shown. Each is one or more NICs, over which libsdr spreads the packets
 * of every message. The list is made once, and does not change.
 */
#ifndef SDR_NCCL_DEVICES_H
#define SDR_NCCL_DEVICES_H

#include "settings.h"

enum { PLUG_DEVICES_MAX = 16, PLUG_NICS_MAX = 8, PLUG_NAME_MAX = 64 };

struct plug_device {
	char name[PLUG_NAME_MAX]; /* for people */
	char nics[PLUG_NICS_MAX][PLUG_NAME_MAX];
	uint32_t n_nics;
	char *pci_path; /* of the first NIC; NULL: it has none */
	uint64_t guid;
	int speed_mbps; /* the sum of all NICs */
};

/* 0; -ENODEV: there is no NIC whose port is active; -EINVAL: the settings name NICs wrongly. */
int plug_devices_find(const struct plug_settings *s);
uint32_t plug_devices_count(void);
/* NULL: there is no such device. */
const struct plug_device *plug_device_at(int i);
/*
 * Writes the names of the device's NICs that are well now, with commas between them, and returns
 * their number; all of them and 0 if none is.
 */
uint32_t plug_device_well(const struct plug_device *d, char *names, size_t size);

#endif
