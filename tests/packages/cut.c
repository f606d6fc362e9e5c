/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * To be preloaded: ends a whole group of processes, as a power failure would, right before the CUT_AT-th
 * change of a name that has to do with the packages, counted over all of them in the file CUT_FILE.
 * Without CUT_AT it only counts.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool cut_concerns(const char *path)
{
	return path &&
	       (strstr(path, "verbs") || strstr(path, "shift") || strstr(path, "diversions"));
}

static void cut_count(const char *a, const char *b)
{
	const char *file = getenv("CUT_FILE"), *at = getenv("CUT_AT");
	atomic_long *count;
	int fd;

	if (!file || (!cut_concerns(a) && !cut_concerns(b)))
		return;
	fd = open(file, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (count == MAP_FAILED)
		return;
	if (atomic_fetch_add(count, 1) + 1 == (at ? atol(at) : 0))
		kill(0, SIGKILL);
	munmap(count, sizeof(*count));
}

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

int rename(const char *from, const char *to)
{
	cut_count(from, to);
	return REAL(rename)(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	cut_count(from, to);
	return REAL(renameat)(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags)
{
	cut_count(from, to);
	return REAL(renameat2)(from_dir, from, to_dir, to, flags);
}

int link(const char *from, const char *to)
{
	cut_count(from, to);
	return REAL(link)(from, to);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	cut_count(from, to);
	return REAL(linkat)(from_dir, from, to_dir, to, flags);
}

int symlink(const char *target, const char *path)
{
	cut_count(target, path);
	return REAL(symlink)(target, path);
}

int symlinkat(const char *target, int dir, const char *path)
{
	cut_count(target, path);
	return REAL(symlinkat)(target, dir, path);
}

int unlink(const char *path)
{
	cut_count(path, NULL);
	return REAL(unlink)(path);
}

int unlinkat(int dir, const char *path, int flags)
{
	cut_count(path, NULL);
	return REAL(unlinkat)(dir, path, flags);
}

int rmdir(const char *path)
{
	cut_count(path, NULL);
	return REAL(rmdir)(path);
}
