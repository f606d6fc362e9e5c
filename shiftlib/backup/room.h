/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that may be locked, and what SHIFT itself locks of it before a region of the program is
 * registered: its control queue pair's buffers, on each NIC that a process opens.
 */
#ifndef SHIFTLIB_BACKUP_ROOM_H
#define SHIFTLIB_BACKUP_ROOM_H

#include <stdint.h>

#include "shiftlib/backup/map.h"

#define BACKUP_CONTROL_BYTES (2600u << 10) /* on one NIC, at most: with many peers */
#define BACKUP_CONTROL_FIRST (400u << 10)  /* on one NIC, with few */
/*
 * There is room if the buffers of all NICs together are no more than one of so many parts of what
 * may be locked.
 */
#define BACKUP_CONTROL_PART 8u

/*
 * Returns how much this process may lock: RLIMIT_MEMLOCK; UINT64_MAX: no limit, or the right to
 * pass it.
 */
uint64_t backup_lockable(void);
/* Returns what a process locks at most on its NIC and all backups of it, where these are most. */
uint64_t backup_control_bytes(const struct backup_map *map);

#endif
