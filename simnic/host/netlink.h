/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA netlink for iproute2's `rdma`: what a kernel answers to RDMA_NLDEV_CMD_GET and
 * RDMA_NLDEV_CMD_PORT_GET. All other programs find no RDMA netlink, as libibverbs reads sysfs only
 * then.
 */
#ifndef SIMNIC_HOST_NETLINK_H
#define SIMNIC_HOST_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

int sn_netlink_open(int type); /* a new fd, or -1 with errno */
bool sn_netlink_is(int fd);
/* The result of send() with a request: its length, or -errno. The answer can be received then. */
ssize_t sn_netlink_send(int fd, const void *buf, size_t n);

#endif
