/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Monitors the network interfaces behind NICs: their loss of link is often told before, and
 * sometimes instead of, the port's own event.
 *
 * libnl is loaded when the monitor is opened, so that SHIFT runs where it is not installed (then
 * without this monitor). One thread at a time.
 */
#ifndef SHIFTLIB_NETDEV_H
#define SHIFTLIB_NETDEV_H

#include <stdbool.h>
#include <stdint.h>

struct sh_netdev_monitor;

/* running: the interface is up and has its link. Also what has not changed may be told. */
typedef void (*sh_netdev_changed)(void *arg, int ifindex, bool running);

/* -ENOENT: no libnl here; or another -errno. */
int sh_netdev_open(sh_netdev_changed changed, void *arg, struct sh_netdev_monitor **out);
void sh_netdev_close(struct sh_netdev_monitor *monitor);
/* For epoll; non-blocking. */
int sh_netdev_fd(const struct sh_netdev_monitor *monitor);
/* Asks how all interfaces are: the answers come as changes do. */
void sh_netdev_ask(struct sh_netdev_monitor *monitor);
/* The fd is readable: calls changed(). -errno: the monitor is of no use any more. */
int sh_netdev_read(struct sh_netdev_monitor *monitor);

struct sh_netdev_state {
	bool up;	/* as its operator wants it */
	uint32_t downs; /* how often it lost its link since it was made */
};

/* As the kernel counts, also of what no monitor has heard of yet. -errno: there is none. */
int sh_netdev_state(const char *sysfs, int ifindex, struct sh_netdev_state *out);

/*
 * The interface of a NIC's port 1, as the kernel names it under sysfs ("/sys" but in tests). 0:
 * none in this network namespace, or not only one.
 */
int sh_netdev_of(const char *sysfs, const char *nic);
/* How many packets that interface has got with a wrong checksum; of a RoCE NIC's port its driver may tell it here only. */
bool sh_netdev_damaged(const char *sysfs, const char *nic, uint64_t *out);

#endif
