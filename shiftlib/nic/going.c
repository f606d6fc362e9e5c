/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The end of a device that is removed while SHIFT alone has it open. Linux takes its character
 * device away first. If the driver cannot take the rest from under its users (soft-RoCE, qedr), the
 * removal then waits for them, and tells them nothing: no event, no error. So SHIFT gives the
 * device up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"

#define GOING_EMPTY_NS (200 * SH_NS_PER_MS) /* pause between tries to leave */

/*
 * Returns 0 if its character device is there. A process without a free file descriptor (-EMFILE)
 * cannot tell.
 */
static int going_find(const struct sh_nic *nic)
{
	char path[IBV_SYSFS_PATH_MAX + sizeof("/ibdev")];
	int fd;

	snprintf(path, sizeof(path), "%s/ibdev", nic->ctx->device->dev_path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Watches the character device; one that never was there says nothing. */
void sh_nic_going_watch(struct sh_nic *nic)
{
	nic->removal.leaving = false;
	nic->removal.look_at = going_find(nic) == -ENOENT ? 0 : sh_rare_next(sh_now_ns());
}

/* Empties the NIC; more than once, as lost standbys go by their own jobs. */
static void going_empty(struct sh_nic *nic) SH_LOCKED
{
	nic->removal.look_at = sh_now_ns() + GOING_EMPTY_NS;
	sh_news_nic_empty(nic);
}

void sh_nic_going_poll(struct sh_nic *nic)
{
	nic->removal.look_at = sh_rare_next(sh_now_ns());
	if (nic->removal.leaving) {
		going_empty(nic);
	} else if (nic->fatal || !nic->ctx) {
		nic->removal.look_at = 0;
	} else if (going_find(nic) == -ENOENT && !sh_news_nic_used(nic)) {
		nic->removal.leaving = true;
		sh_nic_taken(nic);
		going_empty(nic);
	}
}
