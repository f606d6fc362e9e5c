/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The addresses by which ends meet over TCP, before their NICs know each other. */
#ifndef SDR_NCCL_ADDRESS_H
#define SDR_NCCL_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Finds an address of this host, of an interface that is named: "eth,ib" stands for all whose names
 * begin so, "=eth0" for this one, "^docker" for all others. Empty: any but loopback and docker's,
 * and loopback if there is no other. 0 or -ENODEV.
 */
int plug_address_own(const char *ifname, struct sockaddr_storage *address);
socklen_t plug_address_size(const struct sockaddr_storage *address);
/* True if an interface's name is one of those that are named. */
bool plug_interface_named(const char *ifname, const char *name);

#endif
