/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "shiftlib/base/run_dir.h"

void run_dir_name(char out[RUN_DIR_NAME_MAX], pid_t pid, uint64_t instance)
{
	snprintf(out, RUN_DIR_NAME_MAX, "%d-%016" PRIx64 RUN_DIR_SUFFIX, (int)pid, instance);
}

pid_t run_dir_name_pid(const char *name)
{
	char own[RUN_DIR_NAME_MAX];
	uint64_t instance;
	int pid;

	if (sscanf(name, "%d-%" SCNx64, &pid, &instance) != 2 || pid <= 0)
		return 0;
	run_dir_name(own, pid, instance);
	return strcmp(name, own) ? 0 : pid;
}

/* XDG_RUNTIME_DIR; NULL: there is none that could be. */
static const char *runtime_dir(void)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

	return runtime && *runtime == '/' ? runtime : NULL;
}

/*
 * False where this is not there: a batch system carries a login's environment to hosts where its
 * user has no session.
 */
static bool is_usable(const char *runtime)
{
	return !access(runtime, W_OK | X_OK);
}

int run_dir_path(const char *configured, uid_t uid, char out[RUN_DIR_MAX])
{
	const char *runtime = runtime_dir();
	int n;

	if (configured && *configured)
		n = snprintf(out, RUN_DIR_MAX, "%s", configured);
	else if (!uid)
		n = snprintf(out, RUN_DIR_MAX, "/run/shift");
	else if (runtime && is_usable(runtime))
		n = snprintf(out, RUN_DIR_MAX, "%s/shift", runtime);
	else
		n = snprintf(out, RUN_DIR_MAX, "/tmp/shift-%u", (unsigned int)uid);
	return n < 0 || n >= RUN_DIR_MAX ? -ENAMETOOLONG : 0;
}

bool run_dir_is_sure(const char *configured, uid_t uid)
{
	const char *runtime = runtime_dir();

	return (configured && *configured) || !uid || !runtime || is_usable(runtime);
}

int run_dir_check(const char *path, uid_t uid, const char **why)
{
	struct stat st;

	if (lstat(path, &st)) {
		*why = strerror(errno);
		return -errno;
	}
	if (S_ISLNK(st.st_mode)) {
		*why = "it is a symbolic link";
		return -ELOOP;
	}
	if (!S_ISDIR(st.st_mode)) {
		*why = "it is not a directory";
		return -ENOTDIR;
	}
	if (st.st_uid != uid) {
		*why = "it belongs to another user";
		return -EPERM;
	}
	if (st.st_mode & 077) {
		*why = "others have access to it; its mode must be 0700";
		return -EPERM;
	}
	return 0;
}

int run_dir_make(const char *path, uid_t uid, const char **why)
{
	if (mkdir(path, 0700) && errno != EEXIST) {
		*why = strerror(errno);
		return -errno;
	}
	return run_dir_check(path, uid, why);
}
