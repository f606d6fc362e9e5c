/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* File descriptors that stand in for others: waiting as read(2) would, and finding whose they are.
 */
#ifndef SHIFTLIB_FD_H
#define SHIFTLIB_FD_H

#include <stdatomic.h>
#include <stdint.h>

/* fd -> object. Readers take no lock. Two levels, as fds go up to 2^20 where most use a few. */
#define SH_FDMAP_LEAF_BITS 10
#define SH_FDMAP_LEAVES	   1024

struct sh_fdmap {
	void *_Atomic *_Atomic leaves[SH_FDMAP_LEAVES]; /* never freed: bounded by the fd limit */
};

/* object NULL: removes. -ENOMEM, or -EMFILE for an fd beyond the map. Any thread. */
int sh_fdmap_set(struct sh_fdmap *map, int fd, void *object);
/* NULL if none. The caller knows by other means that the object stays alive. */
void *sh_fdmap_get(struct sh_fdmap *map, int fd);

/*
 * Waits until fd is readable, as a read(2) of it would wait: -EAGAIN at once if it has O_NONBLOCK;
 * -EINTR after a signal, but not if the process' handlers have SA_RESTART. poll(2) itself is never
 * restarted, and which handler ran cannot be known: if any lacks SA_RESTART, it is taken for that.
 */
int sh_fd_wait(int fd);

/* 0 or -errno. */
int sh_fd_set_nonblock(int fd, int on);

#endif
