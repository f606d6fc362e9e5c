/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rates of a NIC's links, as the kernel tells: its port's active lanes times their speed, and
 * its PCI link. The device need not be open. A change may come without an event, if the port does
 * not go down.
 */
#ifndef SHIFTLIB_NIC_RATES_H
#define SHIFTLIB_NIC_RATES_H

#include <stdbool.h>
#include "shiftlib/core/slow.h"

/*
 * Reads the rates. 0: not known; all are 0 if the port is not active. May take as long as a command
 * of the NIC: on a worker. @sysfs: "/sys", but in tests.
 */
void sh_rates_read(const char *sysfs, const char *device, struct sh_slow_rates *out);
/* True if two NICs are of one make: model, board and link layer, as far as these are told. */
bool sh_rates_alike(const char *sysfs, const char *a, const char *b);

#endif
