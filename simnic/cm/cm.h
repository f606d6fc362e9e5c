/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam to the host: files of /dev/infiniband/rdma_cm, found by file descriptor. Every function
 * may be called by any thread and takes the device's lock inside.
 */
#ifndef SIMNIC_CM_CM_H
#define SIMNIC_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sn_fabric;

/* Opens the device. Returns the new file descriptor or -errno. */
int sn_cm_open(struct sn_fabric *fabric, uint32_t host);
bool sn_cm_is(int fd); /* true if the file descriptor is one of ours; quick if not */
/*
 * Runs what was written. Returns len, or -errno. GET_EVENT blocks until there is an event, unless
 * the file descriptor has O_NONBLOCK. -EACCES: the file descriptor is from before a fork.
 */
ssize_t sn_cm_write(int fd, const void *command, size_t len);
void sn_cm_closed(int fd);		   /* before the real close */
void sn_cm_duplicated(int fd, int number); /* number is the same open file as fd */
void sn_cm_forget_after_fork(void);	   /* in the child */

#endif
