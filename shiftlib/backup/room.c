/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shiftlib/backup/room.h"

/* The kernel asks this capability, not the user id, when memory is registered. */
static bool room_may_lock_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return !syscall(SYS_capget, &head, data) &&
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
