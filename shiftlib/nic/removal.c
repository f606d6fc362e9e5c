/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/removal.h"

bool sh_removal_tells_last(const char *release)
{
	unsigned int major, minor;

	return sscanf(release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 7));
}

static bool kernel_tells_last(void)
{
	struct utsname name;

	return !uname(&name) && sh_removal_tells_last(name.release);
}

/*
 * True if the removal has begun. The kernel alone makes completion channels: only a file without a
 * device is refused one.
 */
bool sh_removal_begun(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = sh.real->create_comp_channel(context);

	if (!channel)
		return errno == EIO;
	sh.real->destroy_comp_channel(channel);
	return false;
}

/*
 * True if the removal ends by now. Not believed after an internal error: the kernel then only plays
 * destroying, and never asks the device.
 */
bool sh_removal_ends(struct sh_removal *removal, struct ibv_context *context)
{
	if (removal->over || removal->told != 1 || !kernel_tells_last() ||
	    !sh_removal_begun(context))
		return false;
	removal->over = true;
	return true;
}
