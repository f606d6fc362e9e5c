/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The machine's own RDMA devices, which a host of the fabric may have beside its software ones. */
#ifndef SIMNIC_FABRIC_MACHINE_H
#define SIMNIC_FABRIC_MACHINE_H

#include <stdint.h>

struct sn_fabric;

/*
 * Puts @device of the machine into the host's tree. Its character device has a number there behind
 * those of all software NICs. Below @root are the machine's /sys and /dev: "" for the machine
 * itself. -ENODEV: the machine has no such device; -ENOENT: programs cannot open it; -EEXIST: a
 * software NIC has that name.
 */
int sn_machine_add(const struct sn_fabric *fabric, uint32_t host, const char *root,
		   const char *device);

#endif
