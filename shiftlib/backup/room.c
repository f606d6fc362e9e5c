/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shiftlib/backup/room.h"

#define ROOM_USER_NS "/proc/self/ns/user"
#define ROOM_USER_NS_INIT                                                                          \
	0xeffffffdu /* the inode of the first user namespace: PROC_USER_INIT_INO */

/* True also without /proc, where nothing else is known. */
static bool room_in_first_user_ns(void)
{
	struct stat st;

	return stat(ROOM_USER_NS, &st) || st.st_ino == ROOM_USER_NS_INIT;
}

/*
 * True for a process that the kernel lets lock all memory. When memory is registered the kernel
 * asks this capability, not the user id; and it must be one of the first user namespace: root in
 * a container that has its own has all capabilities, and cannot pass the limit.
 */
static bool room_may_lock_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return room_in_first_user_ns() && !syscall(SYS_capget, &head, data) &&
	       (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

uint64_t backup_lockable(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    room_may_lock_all())
		return UINT64_MAX;
	return limit.rlim_cur;
}

uint64_t backup_control_bytes(const struct backup_map *map)
{
	uint64_t most = 0;
	uint32_t i;

	for (i = 0; i < map->n_nics; i++)
		if (map->n_backups[i] > most)
			most = map->n_backups[i];
	return most ? (1 + most) * BACKUP_CONTROL_BYTES : 0;
}
