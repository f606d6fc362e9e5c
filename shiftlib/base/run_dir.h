/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The directory of the sockets through which shiftctl talks to processes: SHIFT_RUN_DIR, or one
 * of the user. Shared by the library, which makes it, and by shiftctl, which looks into it.
 */
#ifndef SHIFTLIB_RUN_DIR_H
#define SHIFTLIB_RUN_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_DIR_MAX	 PATH_MAX
#define RUN_DIR_SUFFIX	 ".sock" /* end of a socket's name */
#define RUN_DIR_NAME_MAX 48	 /* bytes of a socket's name, with its 0 */

/*
 * Writes the name of a process's socket: its process id, and the random number of its instance.
 * Two containers that share the directory may both have a process 7, but no instance twice.
 */
void run_dir_name(char out[RUN_DIR_NAME_MAX], pid_t pid, uint64_t instance);
/* Returns the process id in a socket's name, as that process itself sees it; 0: no such name. */
pid_t run_dir_name_pid(const char *name);

/*
 * Writes where a process of user @uid puts its socket. configured: SHIFT_RUN_DIR, NULL for the
 * default: /run/shift of root; of others shift in XDG_RUNTIME_DIR, and without that, or where it
 * cannot be written to, /tmp/shift-UID. 0 or -ENAMETOOLONG.
 */
int run_dir_path(const char *configured, uid_t uid, char out[RUN_DIR_MAX]);

/*
 * Will another process of the same user and environment find the same directory? Not where
 * XDG_RUNTIME_DIR is set and cannot be used now: it comes and goes with the user's sessions.
 */
bool run_dir_is_sure(const char *configured, uid_t uid);

/*
 * Nobody but @uid (and root) may be able to put a socket there or to exchange one: a directory, no
 * symlink, of @uid, mode 0700. 0, or -errno and a clause that says what is wrong.
 */
int run_dir_check(const char *path, uid_t uid, const char **why);

/* Makes it where it is missing (not its parents), then checks. */
int run_dir_make(const char *path, uid_t uid, const char **why);

#endif
