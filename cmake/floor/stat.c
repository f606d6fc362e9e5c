/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stat() and its kin, which glibc exports since 2.33; before, each program had them in itself. They
 * are linked into each library and program that is shipped, and hidden there.
 */
#include <sys/stat.h>

/* The layout of struct stat that the caller has: the kernel's, on each of our platforms. */
#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);

int stat(const char *restrict path, struct stat *restrict st)
{
	return __xstat(STAT_VERSION, path, st);
}

int lstat(const char *restrict path, struct stat *restrict st)
{
	return __lxstat(STAT_VERSION, path, st);
}

int fstat(int fd, struct stat *st)
{
	return __fxstat(STAT_VERSION, fd, st);
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	return __fxstatat(STAT_VERSION, dir, path, st, flags);
}
