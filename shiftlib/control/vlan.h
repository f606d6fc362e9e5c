/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* VLANs of network interfaces, and so of their RoCE GIDs. */
#ifndef SHIFTLIB_CONTROL_VLAN_H
#define SHIFTLIB_CONTROL_VLAN_H

#include <stdint.h>

/*
 * Returns the VLAN. root: "", or a test's folder. 0: none, or not visible in this network
 * namespace.
 */
uint16_t sh_vlan_of(const char *root, const char *interface);

#endif
