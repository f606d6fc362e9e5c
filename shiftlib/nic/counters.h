/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the kernel tells of a port's packets, by the names of whichever driver it is. */
#ifndef SHIFTLIB_NIC_COUNTERS_H
#define SHIFTLIB_NIC_COUNTERS_H

#include <stdbool.h>
#include "shiftlib/core/gray.h"

/*
 * @sysfs: "/sys", but in tests. It may take as long as a command of the NIC, which the driver may have to ask: on a
 * worker. False: the port does not tell how many packets passed, so nothing can be said of the rest.
 */
bool sh_counters_read(const char *sysfs, const char *device, struct sh_gray_counts *out);

#endif
