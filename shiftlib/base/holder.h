/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Holders: processes that hold duplicates of descriptors, so that the end of this process is not
 * the last close of them. The kernel destroys what a program has made on an RDMA device at the last
 * close of the device's file, one command after the other. Each command to a NIC that hangs takes a
 * minute, and nothing ends a process that waits for it: a holder waits in the program's place.
 *
 * A holder is /bin/sh. It reads from a pipe whose other end this process has, and ends with that.
 * Like the command of SHIFT_ON_EVENT it is cloned without a copy of the page tables, as nobody's
 * child, so neither SIGCHLD nor wait() tells the application of it (report/on_event.h). It has a
 * session of its own, no environment, all signals blocked, and no descriptors but those that it
 * holds. Where the program is the first process of its PID namespace, holders end with it.
 */
#ifndef SHIFTLIB_HOLDER_H
#define SHIFTLIB_HOLDER_H

#include <stdint.h>
#include <sys/types.h>

struct sh_holder {
	int fd;	   /* the pipe's own end; negative: no holder */
	pid_t pid; /* of the process */
};

#define SH_NO_HOLDER                                                                               \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Starts a holder of n descriptors; it has them when this returns. 0 or -errno: -EAGAIN where no
 * process may be made, -ENOENT without /bin/sh. One thread at a time.
 */
int sh_holder_start(struct sh_holder *holder, const int *fds, uint32_t n);
/* Ends a holder, if there is one. Any thread. */
void sh_holder_end(struct sh_holder *holder);

#endif
