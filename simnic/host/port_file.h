/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Files of a port below /sys for which the driver asks the NIC. Each opening finds the values of
 * its moment, and waits for a NIC that hangs as the kernel's read does.
 */
#ifndef SIMNIC_HOST_PORT_FILE_H
#define SIMNIC_HOST_PORT_FILE_H

#include <stdbool.h>

bool sn_port_file_named(int dir, const char *path); /* may it be one? */
/*
 * Takes a file that was just opened. Returns one with the value instead, if it is a counter; else
 * the same; -1 and errno: the NIC did not answer, and the file is closed.
 */
int sn_port_file_opened(int fd);

#endif
