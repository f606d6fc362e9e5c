/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptors of simnic's own. */
#ifndef SIMNIC_FABRIC_FD_H
#define SIMNIC_FABRIC_FD_H

int __close(int fd); /* glibc's other name of close(2); no header declares it */

/*
 * Closes a descriptor of simnic's own. In a program close() is libsimnic's, which takes the
 * device's lock to see whether the number was one of rdma_cm's. ThreadSanitizer sees a close by
 * this name: one that it misses leaves the number's last owner racing with the next.
 */
static inline void sn_fd_close_own(int fd)
{
	__close(fd);
}

#endif
