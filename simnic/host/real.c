/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "simnic/host/real.h"

static struct sn_real real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * Before glibc 2.33 a program had stat() and its kin in itself, and the library only what these
 * call. Their first argument names the layout of struct stat.
 */
#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

static struct {
	int (*stat)(int version, const char *path, struct stat *st);
	int (*lstat)(int version, const char *path, struct stat *st);
	int (*fstat)(int version, int fd, struct stat *st);
	int (*fstatat)(int version, int dir, const char *path, struct stat *st, int flags);
} old;

static int old_stat(const char *path, struct stat *st)
{
	return old.stat(STAT_VERSION, path, st);
}

static int old_lstat(const char *path, struct stat *st)
{
	return old.lstat(STAT_VERSION, path, st);
}

static int old_fstat(int fd, struct stat *st)
{
	return old.fstat(STAT_VERSION, fd, st);
}

static int old_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return old.fstatat(STAT_VERSION, dir, path, st, flags);
}

static void resolve_stat(void)
{
	real.stat = dlsym(RTLD_NEXT, "stat");
	real.lstat = dlsym(RTLD_NEXT, "lstat");
	real.fstat = dlsym(RTLD_NEXT, "fstat");
	real.fstatat = dlsym(RTLD_NEXT, "fstatat");
	if (real.stat)
		return;
	old.stat = dlsym(RTLD_NEXT, "__xstat");
	old.lstat = dlsym(RTLD_NEXT, "__lxstat");
	old.fstat = dlsym(RTLD_NEXT, "__fxstat");
	old.fstatat = dlsym(RTLD_NEXT, "__fxstatat");
	real.stat = old_stat;
	real.lstat = old_lstat;
	real.fstat = old_fstat;
	real.fstatat = old_fstatat;
}

static void resolve(void)
{
	real.open = dlsym(RTLD_NEXT, "open");
	real.openat = dlsym(RTLD_NEXT, "openat");
	real.fopen = dlsym(RTLD_NEXT, "fopen");
	real.opendir = dlsym(RTLD_NEXT, "opendir");
	real.scandir = dlsym(RTLD_NEXT, "scandir");
	resolve_stat();
	real.readlink = dlsym(RTLD_NEXT, "readlink");
	real.readlinkat = dlsym(RTLD_NEXT, "readlinkat");
	real.realpath = dlsym(RTLD_NEXT, "realpath");
	real.chdir = dlsym(RTLD_NEXT, "chdir");
	real.access = dlsym(RTLD_NEXT, "access");
	real.faccessat = dlsym(RTLD_NEXT, "faccessat");
	real.ioctl = dlsym(RTLD_NEXT, "ioctl");
	real.mmap = dlsym(RTLD_NEXT, "mmap");
	real.read = dlsym(RTLD_NEXT, "read");
	real.write = dlsym(RTLD_NEXT, "write");
	real.close = dlsym(RTLD_NEXT, "close");
	real.fcntl = dlsym(RTLD_NEXT, "fcntl");
	real.socket = dlsym(RTLD_NEXT, "socket");
	real.sendto = dlsym(RTLD_NEXT, "sendto");
	real.uname = dlsym(RTLD_NEXT, "uname");
}

const struct sn_real *sn_real(void)
{
	pthread_once(&once, resolve);
	return &real;
}
