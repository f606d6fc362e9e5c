/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The monitor of the network interfaces behind NICs: their loss of link is often told before, and
 * sometimes instead of, the port's own event.
 *
 * libnl is loaded when the monitor is opened, so that SHIFT runs without it (and then without this
 * monitor). One thread at a time.
 */
#ifndef SHIFTLIB_NETDEV_H
#define SHIFTLIB_NETDEV_H

#include <stdbool.h>
#include <stdint.h>

struct sh_netdev_monitor;

/* Tells of an interface, changed or not. running: the interface is up and has its link. */
typedef void (*sh_netdev_changed)(void *arg, int ifindex, bool running);

/* Opens the monitor. -ENOENT: no libnl here; or another -errno. */
int sh_netdev_open(sh_netdev_changed changed, void *arg, struct sh_netdev_monitor **out);
void sh_netdev_close(struct sh_netdev_monitor *monitor);
/* Returns the fd, non-blocking, for epoll. */
int sh_netdev_fd(const struct sh_netdev_monitor *monitor);
/* Asks for the state of all interfaces: the answers come like changes. */
void sh_netdev_ask(struct sh_netdev_monitor *monitor);
/*
 * Reads the fd, which is readable, and calls changed(). -errno: the monitor is of no use any more.
 */
int sh_netdev_read(struct sh_netdev_monitor *monitor);

struct sh_netdev_state {
	bool up;	/* set up by the operator */
	uint32_t downs; /* losses of link since the interface was made */
};

/*
 * Reads the kernel's state, also of changes that no monitor has heard of yet. -errno: no such
 * interface.
 */
int sh_netdev_state(const char *sysfs, int ifindex, struct sh_netdev_state *out);

/*
 * Returns the interface of a NIC's port 1, as the kernel names it under sysfs ("/sys" but in
 * tests). 0: none in this network namespace, or not only one.
 */
int sh_netdev_of(const char *sysfs, const char *nic);
/*
 * Reads how many packets with a wrong checksum the interface got: some drivers tell this of a RoCE
 * NIC's port only here.
 */
bool sh_netdev_damaged(const char *sysfs, const char *nic, uint64_t *out);

#endif
