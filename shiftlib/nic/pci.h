/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The PCI bus's word about a device: whether it can reach memory. Everybody may read the first 64
 * bytes of its config space. A device that cannot reach memory executes nothing more for its
 * objects, and the answer comes after all that the device wrote before (PCI ordering rules).
 */
#ifndef SHIFTLIB_NIC_PCI_H
#define SHIFTLIB_NIC_PCI_H

#include <stdbool.h>

/*
 * Opens the config space of the device by that name below sysfs ("/sys"); -errno. To be kept open:
 * the name goes before the function.
 */
int sh_pci_open(const char *sysfs, const char *device);
/*
 * True if the device is cut off: nobody answers (all ones; of a virtual function the first word
 * always is), the function is no more, or it may not be master of the bus; *gone: the former two.
 * False if that is not known. A dead device may hold up the caller: not in the background thread.
 */
bool sh_pci_cut_off(int fd, bool *gone);

#endif
