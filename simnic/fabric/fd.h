/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptors that simnic closes with the device's lock held. */
#ifndef SIMNIC_FABRIC_FD_H
#define SIMNIC_FABRIC_FD_H

#include <sys/syscall.h>
#include <unistd.h>

/*
 * close(2) itself. In a program close() is libsimnic's own, which takes the device's lock to see
 * whether the number was one of rdma_cm's.
 */
static inline void sn_fd_close(int fd)
{
	syscall(SYS_close, fd);
}

#endif
