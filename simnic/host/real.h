/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The C library's functions behind our interposers of the same name. */
#ifndef SIMNIC_HOST_REAL_H
#define SIMNIC_HOST_REAL_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/utsname.h>

struct sn_real {
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int dir, const char *path, int flags, ...);
	FILE *(*fopen)(const char *path, const char *mode);
	DIR *(*opendir)(const char *path);
	int (*scandir)(const char *path, struct dirent ***list,
		       int (*filter)(const struct dirent *),
		       int (*compare)(const struct dirent **, const struct dirent **));
	int (*stat)(const char *path, struct stat *st);
	int (*lstat)(const char *path, struct stat *st);
	int (*fstat)(int fd, struct stat *st);
	int (*fstatat)(int dir, const char *path, struct stat *st, int flags);
	ssize_t (*readlink)(const char *path, char *buf, size_t len);
	ssize_t (*readlinkat)(int dir, const char *path, char *buf, size_t len);
	char *(*realpath)(const char *path, char *resolved);
	int (*chdir)(const char *path);
	int (*access)(const char *path, int mode);
	int (*faccessat)(int dir, const char *path, int mode, int flags);
	int (*ioctl)(int fd, unsigned long request, ...);
	void *(*mmap)(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
	ssize_t (*read)(int fd, void *buf, size_t n);
	ssize_t (*write)(int fd, const void *buf, size_t n);
	int (*close)(int fd);
	int (*fcntl)(int fd, int command, ...);
	int (*socket)(int domain, int type, int protocol);
	ssize_t (*sendto)(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
			  socklen_t size);
	int (*uname)(struct utsname *name);
};

/* Resolved once, at the first call; any thread. */
const struct sn_real *sn_real(void);

#endif
