/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* VLANs of network interfaces, which those of RoCE GIDs are. */
#ifndef SHIFTLIB_CONTROL_VLAN_H
#define SHIFTLIB_CONTROL_VLAN_H

#include <stdint.h>

/* root: "", or where a test has its files. 0: on none, or not visible in this network namespace. */
uint16_t sh_vlan_of(const char *root, const char *interface);

#endif
