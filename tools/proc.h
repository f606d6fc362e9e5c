/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The processes of this host, as far as /proc shows them to this user. One thread. */
#ifndef TOOLS_PROC_H
#define TOOLS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_PATH_MAX 64 /* bytes of "/proc/PID/..." with a short name behind it */

/* Calls fn for each process but this one, until it returns non-zero. Returns that, or 0. */
int proc_each(int (*fn)(pid_t pid, void *arg), void *arg);

/* Writes "/proc/PID/name" and returns it. */
const char *proc_path(char out[PROC_PATH_MAX], pid_t pid, const char *name);

/* Returns the inode of a namespace ("mnt", "pid") of a process; 0: it is gone, or not shown. */
ino_t proc_namespace(pid_t pid, const char *kind);

/*
 * Reads a file of a process, such as environ, up to a length. The caller's to free; NULL: it is
 * gone, or not shown. A 0 is behind the last byte.
 */
char *proc_read(pid_t pid, const char *name, size_t most, size_t *length);

/* True if each number that the process may give a descriptor is taken; false also if not shown. */
bool proc_files_full(pid_t pid);

/* Returns the parent of a process; 0: it has none here, or is gone. */
pid_t proc_parent(pid_t pid);

#endif
