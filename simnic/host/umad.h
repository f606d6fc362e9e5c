/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Files of /dev/infiniband/umadN, what a kernel's ib_umad does for programs that send and receive
 * management datagrams (MADs). Requests to managers of the fabric itself are answered by mad.h;
 * those of other classes go to the process that serves the class at the port they are sent to.
 *
 * A file is a datagram socket with a name in the fabric's folder, so that processes of all hosts
 * reach it, and so that it polls and blocks as the kernel's does.
 */
#ifndef SIMNIC_HOST_UMAD_H
#define SIMNIC_HOST_UMAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

int sn_umad_open(unsigned int minor, int flags); /* returns the new fd or -errno */
bool sn_umad_is(int fd);
/* The fd is a file of umad. The result is the system call's, or -errno. */
int sn_umad_ioctl(int fd, unsigned long request, void *arg);
ssize_t sn_umad_write(int fd, const void *buf, size_t n);
ssize_t sn_umad_read(int fd, void *buf, size_t n);
void sn_umad_closed(int fd); /* any fd is about to be closed */

#endif
