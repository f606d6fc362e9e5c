/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "simnic/host/real.h"

static struct sn_real real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void resolve(void)
{
	real.open = dlsym(RTLD_NEXT, "open");
	real.openat = dlsym(RTLD_NEXT, "openat");
	real.fopen = dlsym(RTLD_NEXT, "fopen");
	real.opendir = dlsym(RTLD_NEXT, "opendir");
	real.scandir = dlsym(RTLD_NEXT, "scandir");
	real.stat = dlsym(RTLD_NEXT, "stat");
	real.lstat = dlsym(RTLD_NEXT, "lstat");
	real.fstat = dlsym(RTLD_NEXT, "fstat");
	real.fstatat = dlsym(RTLD_NEXT, "fstatat");
	real.readlink = dlsym(RTLD_NEXT, "readlink");
	real.readlinkat = dlsym(RTLD_NEXT, "readlinkat");
	real.realpath = dlsym(RTLD_NEXT, "realpath");
	real.access = dlsym(RTLD_NEXT, "access");
	real.faccessat = dlsym(RTLD_NEXT, "faccessat");
	real.ioctl = dlsym(RTLD_NEXT, "ioctl");
	real.mmap = dlsym(RTLD_NEXT, "mmap");
	real.write = dlsym(RTLD_NEXT, "write");
	real.close = dlsym(RTLD_NEXT, "close");
	real.fcntl = dlsym(RTLD_NEXT, "fcntl");
	real.socket = dlsym(RTLD_NEXT, "socket");
	real.uname = dlsym(RTLD_NEXT, "uname");
}

const struct sn_real *sn_real(void)
{
	pthread_once(&once, resolve);
	return &real;
}
