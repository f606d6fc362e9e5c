/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Room in /dev/shm, taken from the kernel before pages are touched. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/fabric/room.h"

int sn_room_take_fd(int fd, size_t offset, size_t bytes)
{
	while (fallocate(fd, 0, (off_t)offset, (off_t)bytes))
		if (errno != EINTR)
			return -errno;
	return 0;
}

int sn_room_take(const struct sn_fabric *fabric, const void *at, size_t bytes)
{
	size_t offset = (size_t)((const char *)at - (const char *)fabric);
	char path[300];
	int fd, err;

	err = sn_fabric_path(fabric->name, path, sizeof(path));
	if (err)
		return err;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	err = sn_room_take_fd(fd, offset, bytes);
	sn_fd_close_own(fd);
	return err;
}

int sn_room_grow(const struct sn_fabric *fabric, _Atomic uint32_t *n_slots, uint32_t slot,
		 const void *at, size_t bytes)
{
	uint32_t n = atomic_load(n_slots);
	int err;

	if (slot < n)
		return 0;
	err = sn_room_take(fabric, at, bytes);
	if (err)
		return err;
	while (n <= slot && !atomic_compare_exchange_strong(n_slots, &n, slot + 1))
		;
	return 0;
}
