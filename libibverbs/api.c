/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* SHIFT's own functions, beside those of libibverbs (include/shift/shift_api.h). */
#include <errno.h>
#include "libibverbs/hook.h"

/* Declared here, as the public header makes the function weak. */
int shift_drain(const char *device, int on);

HOOK_EXPORT int shift_drain(const char *device, int on)
{
	int ret;

	if (!device || !*device)
		return EINVAL;
	if (!hook_start() || !hook_enter())
		return EOPNOTSUPP;
	ret = shift_drain_device(device, on);
	hook_leave();
	return -ret;
}
