/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The kernel's counts of a port's packets, by the names of all known drivers. */
#ifndef SHIFTLIB_NIC_COUNTERS_H
#define SHIFTLIB_NIC_COUNTERS_H

#include <stdbool.h>
#include "shiftlib/core/gray.h"

/*
 * Reads the counts, which may take as long as a command of the NIC, as the driver may have to ask
 * it: on a worker. @sysfs: "/sys", but in tests. False: the port does not tell how many packets
 * passed, so the rest means nothing.
 */
bool sh_counters_read(const char *sysfs, const char *device, struct sh_gray_counts *out);

#endif
