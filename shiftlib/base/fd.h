/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* File descriptors that stand in for others: waiting as read(2) would, and finding whose they are.
 */
#ifndef SHIFTLIB_FD_H
#define SHIFTLIB_FD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * A map from fd, or another small number, to object. Readers take no lock. Two levels, as fds go
 * up to 2^20 where most use a few.
 */
#define SH_FDMAP_LEAF_BITS 10
#define SH_FDMAP_LEAVES	   1024

struct sh_fdmap {
	void *_Atomic *_Atomic leaves[SH_FDMAP_LEAVES]; /* not freed before the map is */
};

/* object NULL: removes. -ENOMEM, or -EMFILE for an fd beyond the map. Any thread. */
int sh_fdmap_set(struct sh_fdmap *map, int fd, void *object);
/* Removes this object if it is there. */
void sh_fdmap_drop(struct sh_fdmap *map, int fd, void *object);
/* Frees what the map has made, not the objects. */
void sh_fdmap_uninit(struct sh_fdmap *map);

static inline void *_Atomic *sh_fdmap_slot(struct sh_fdmap *map, int fd)
{
	uint32_t index = (uint32_t)fd >> SH_FDMAP_LEAF_BITS;
	void *_Atomic *leaf;

	if (index >= SH_FDMAP_LEAVES)
		return NULL;
	leaf = atomic_load_explicit(&map->leaves[index], memory_order_acquire);
	return leaf ? &leaf[fd & ((1 << SH_FDMAP_LEAF_BITS) - 1)] : NULL;
}

/* NULL if none. The caller knows by other means that the object stays alive. */
static inline void *sh_fdmap_get(struct sh_fdmap *map, int fd)
{
	void *_Atomic *slot = sh_fdmap_slot(map, fd);

	return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

/*
 * read(2) and write(2) of 8 bytes, but no cancellation points: for fds that do not block, by
 * threads that hold something. Results and errno as of those. TSan learns what happened before from
 * the library's calls only.
 */
#ifdef __SANITIZE_THREAD__
ssize_t sh_fd_take(int fd, uint64_t *value);
ssize_t sh_fd_give(int fd, uint64_t value);
#else
static inline ssize_t sh_fd_take(int fd, uint64_t *value)
{
	return syscall(SYS_read, fd, value, sizeof(*value));
}

static inline ssize_t sh_fd_give(int fd, uint64_t value)
{
	return syscall(SYS_write, fd, &value, sizeof(value));
}
#endif

/*
 * Waits until fd is readable, as a read(2) of it would wait: -EAGAIN at once if it has O_NONBLOCK;
 * -EINTR after a signal, but not if the process' handlers have SA_RESTART. poll(2) itself is never
 * restarted, and which handler ran cannot be known: if any lacks SA_RESTART, it is taken for that.
 */
int sh_fd_wait(int fd);

/* 0 or -errno. */
int sh_fd_set_nonblock(int fd, int on);

#endif
