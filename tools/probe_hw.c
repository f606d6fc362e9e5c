/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl probe-hw: runs shift-probe, which links the installed libibverbs as shiftctl must not.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/shiftctl.h"

#define PROBE "shift-probe"

/* Finds the probe beside this program, as it was built; else where it was installed. */
static void probe_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(PROBE) - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		strcpy(slash + 1, PROBE);
	if (!slash || access(path, X_OK))
		snprintf(path, PATH_MAX, "%s", SHIFT_INSTALLED_PROBE);
}

int cmd_probe_hw(int argc, char **argv)
{
	char path[PATH_MAX];

	probe_path(path);
	/* The test is of the NIC: where SHIFT's library is found, it stays out of the way. */
	setenv("SHIFT_DISABLE", "1", 1);
	argv[0] = PROBE;
	execv(path, argv);
	if (errno == ENOENT)
		ctl_say("%s is not there; install SHIFT again", path);
	else
		ctl_say("cannot run %s: %s", path, strerror(errno));
	return CTL_NOT_FOUND;
}
