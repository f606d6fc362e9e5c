/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Short-lived processes in the memory of this one. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "shiftlib/base/clone.h"

bool sh_clone_known(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return !preload || !strstr(preload, "vgpreload");
}

int sh_clone_wait(int (*fn)(void *), char *stack_end, int flags, void *arg)
{
	uint64_t all = UINT64_MAX, before;
	int error = 0;
	pid_t pid;

	/* Not by the library, which leaves out the signals that it uses itself. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	pid = sh_clone(fn, stack_end, CLONE_VM | CLONE_VFORK | flags, arg);
	if (pid < 0)
		error = errno;
	else
		while (syscall(SYS_wait4, pid, NULL, __WCLONE, NULL) < 0 && errno == EINTR)
			;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return -error;
}
