/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include "shiftlib/nic/pci.h"

#define PCI_HEADER	   64
#define PCI_COMMAND	   4
#define PCI_COMMAND_MASTER 0x04

/* Opens the config space; of a subfunction that of its parent, with which it lives and dies. */
int sh_pci_open(const char *sysfs, const char *device)
{
	static const char *const files[] = { "device/config", "device/../config" };
	char path[256];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sysfs, device, files[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -errno;
}

static bool all_ones(const uint8_t *header)
{
	int i;

	for (i = 0; i < PCI_HEADER; i++)
		if (header[i] != 0xff)
			return false;
	return true;
}

bool sh_pci_cut_off(int fd, bool *gone)
{
	uint8_t header[PCI_HEADER];
	ssize_t n = pread(fd, header, sizeof(header), 0);

	*gone = n < 0 ? errno == ENODEV : n == sizeof(header) && all_ones(header);
	return *gone || (n == sizeof(header) && !(header[PCI_COMMAND] & PCI_COMMAND_MASTER));
}
