/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/proc.h"

#define PROC_LIMITS 4096 /* bytes of /proc/PID/limits that are read */

/* "123" -> 123; 0: no process's folder. */
static pid_t proc_pid(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return end != name && !*end && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

int proc_each(int (*fn)(pid_t pid, void *arg), void *arg)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int rc = 0;

	while (dir && !rc && (entry = readdir(dir))) {
		pid_t pid = proc_pid(entry->d_name);

		if (pid && pid != getpid())
			rc = fn(pid, arg);
	}
	if (dir)
		closedir(dir);
	return rc;
}

const char *proc_path(char out[PROC_PATH_MAX], pid_t pid, const char *name)
{
	snprintf(out, PROC_PATH_MAX, "/proc/%d/%s", (int)pid, name);
	return out;
}

ino_t proc_namespace(pid_t pid, const char *kind)
{
	char name[16], path[PROC_PATH_MAX];
	struct stat st;

	snprintf(name, sizeof(name), "ns/%s", kind);
	return stat(proc_path(path, pid, name), &st) ? 0 : st.st_ino;
}

char *proc_read(pid_t pid, const char *name, size_t most, size_t *length)
{
	char path[PROC_PATH_MAX], *text = malloc(most + 1);
	int fd = open(proc_path(path, pid, name), O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	*length = 0;
	while (text && fd >= 0 && *length < most &&
	       (n = read(fd, text + *length, most - *length)) > 0)
		*length += (size_t)n;
	if (fd >= 0)
		close(fd);
	if (n < 0 && !*length) {
		free(text);
		return NULL;
	}
	text[*length] = '\0';
	return text;
}

/* The soft limit of descriptors; 0: it is not shown. */
static unsigned long proc_files_limit(pid_t pid)
{
	size_t length;
	char *text = proc_read(pid, "limits", PROC_LIMITS, &length), *row;
	unsigned long limit = 0;

	row = text ? strstr(text, "Max open files") : NULL;
	if (row)
		limit = strtoul(row + strlen("Max open files"), NULL, 10);
	free(text);
	return limit;
}

bool proc_files_full(pid_t pid)
{
	unsigned long limit = proc_files_limit(pid), taken = 0;
	char path[PROC_PATH_MAX];
	struct dirent *entry;
	DIR *dir = opendir(proc_path(path, pid, "fd"));

	/* SHIFT's own are above the limit */
	while (dir && (entry = readdir(dir)))
		taken += entry->d_name[0] != '.' && strtoul(entry->d_name, NULL, 10) < limit;
	if (dir)
		closedir(dir);
	return limit && taken == limit;
}

pid_t proc_parent(pid_t pid)
{
	size_t length;
	char *text = proc_read(pid, "stat", 512, &length), *end;
	int parent = 0;

	end = text ? strrchr(text, ')') : NULL; /* the name may hold blanks and brackets */
	if (end)
		sscanf(end + 1, " %*c %d", &parent);
	free(text);
	return parent;
}
