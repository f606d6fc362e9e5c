/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Room in /dev/shm. The fabric's file is sparse: a page of it takes room when somebody touches it
 * first, and where there is none left, that one dies of SIGBUS. So whoever takes a part of the file
 * into use takes the room for the part before, and may fail.
 */
#ifndef SIMNIC_FABRIC_ROOM_H
#define SIMNIC_FABRIC_ROOM_H

#include <stddef.h>
#include <stdint.h>

struct sn_fabric;

/*
 * Takes the room for bytes of the mapped fabric; again for the same bytes is no error. Returns 0,
 * or -errno, in particular -ENOSPC. 0 as well if the fabric has no name any more.
 */
int sn_room_take(const struct sn_fabric *fabric, const void *at, size_t bytes);
/*
 * Takes the room for a slot of a table, at bytes of the mapped fabric, unless *n_slots says that it
 * has room; then *n_slots is slot + 1 at least. Returns 0, or -errno as sn_room_take().
 */
int sn_room_grow(const struct sn_fabric *fabric, _Atomic uint32_t *n_slots, uint32_t slot,
		 const void *at, size_t bytes);
/* For the fabric's maker, who has the file open, and whose fabric is not filled in yet. */
int sn_room_take_fd(int fd, size_t offset, size_t bytes);

#endif
