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

/* What may hold up requests that are not lost; 0 for a count that the port does not have. */
struct sh_counters_held {
	uint64_t waits;	   /* ticks in which the port had something to send and could not */
	uint64_t rnr_naks; /* requester: answers "receiver not ready" */
	bool has_waits, has_rnr_naks;
};

/* The same for these counts. False: the port has none of them. */
bool sh_counters_read_held(const char *sysfs, const char *device, struct sh_counters_held *out);

#endif
