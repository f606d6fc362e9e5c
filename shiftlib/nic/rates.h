/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How fast the links of a NIC are, as the kernel tells: its port's active lanes times their speed, and its PCI link. The
 * device need not be open. No event tells of a change that comes without the port's going down.
 */
#ifndef SHIFTLIB_NIC_RATES_H
#define SHIFTLIB_NIC_RATES_H

#include <stdbool.h>
#include "shiftlib/core/slow.h"

/*
 * @sysfs: "/sys", but in tests. What is not known is 0; of a port that is not active, all. It may take as long as a
 * command of the NIC: on a worker.
 */
void sh_rates_read(const char *sysfs, const char *device, struct sh_slow_rates *out);
/* Of one make: model, board and link layer, as far as they are told. */
bool sh_rates_alike(const char *sysfs, const char *a, const char *b);

#endif
