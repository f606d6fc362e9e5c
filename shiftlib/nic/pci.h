/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the PCI bus says of a device: whether it can reach memory. Everybody may read the first 64 bytes of
 * its config space. A device that cannot reach memory executes nothing more of what was made on it, and the
 * answer comes behind all that it wrote before (PCI ordering rules).
 */
#ifndef SHIFTLIB_NIC_PCI_H
#define SHIFTLIB_NIC_PCI_H

#include <stdbool.h>

/* Of the device by that name below sysfs ("/sys"); -errno. To be kept: the name goes before the function. */
int sh_pci_open(const char *sysfs, const char *device);
/*
 * Nobody answers (all ones; of a virtual function the first word always is), the function is no more, or it
 * may not be master of the bus; *gone: the former two. False where that is not known. A dead device may hold
 * up who asks: not in the background thread.
 */
bool sh_pci_cut_off(int fd, bool *gone);

#endif
