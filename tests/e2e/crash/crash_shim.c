/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded: once the file CRASH_FILE is there, SHIFT's thread crashes in the next system call of its
 * clock, in the way that the file names.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

__attribute__((visibility("default"))) int timerfd_settime(int fd, int flags,
							   const struct itimerspec *new_value,
							   struct itimerspec *old_value);

static int deeper(volatile char *above)
{
	volatile char here[4096];

	if (above[0] == 1)
		return 0; /* which it never is, but the compiler does not know */
	here[0] = above[0];
	return deeper(here) + here[0];
}

static void crash(const char *how)
{
	volatile char *volatile nowhere = (char *)16;
	volatile char begin[1] = { 0 };

	if (!strncmp(how, "segv", 4))
		*nowhere = 1;
	else if (!strncmp(how, "abort", 5))
		abort();
	else if (!strncmp(how, "overflow", 8))
		exit(deeper(begin));
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
		    struct itimerspec *old_value)
{
	int (*real)(int, int, const struct itimerspec *, struct itimerspec *) =
		dlsym(RTLD_NEXT, "timerfd_settime");
	const char *path = getenv("CRASH_FILE");
	FILE *file = path ? fopen(path, "r") : NULL;
	char name[17] = "", how[16] = "";

	prctl(PR_GET_NAME, name);
	if (file && !strcmp(name, "shift") && fgets(how, sizeof(how), file))
		crash(how);
	if (file)
		fclose(file);
	return real(fd, flags, new_value, old_value);
}
