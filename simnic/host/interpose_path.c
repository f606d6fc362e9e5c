/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Interposers of the C library for functions that take a path: those below /sys/class/infiniband*,
 * /dev/infiniband and /proc/net/vlan lead into the simulated host's tree. Each symbol that
 * programs and libraries bind to needs its own: the large-file twins, and the functions that
 * _FORTIFY_SOURCE calls instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "simnic/cm/cm.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/host/path.h"
#include "simnic/host/port_file.h"
#include "simnic/host/real.h"
#include "simnic/host/umad.h"

#define EXPORT __attribute__((visibility("default")))
/*
 * Twins by another name. On x86-64 and arm64 off_t, struct stat, struct dirent are the 64-bit
 * ones.
 */
#define TWIN(name) __attribute__((visibility("default"), alias(#name)))

#define MAP_PATH(path) sn_path_map(path, (char[PATH_MAX]){ 0 }, PATH_MAX)

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	bool of_port = sn_port_file_named(dir, path);
	unsigned int minor;
	int fd;

	if (sn_path_rdma_cm(path)) {
		fd = sn_host_cm_open();
	} else if (sn_path_uverbs(path, &minor)) {
		fd = sn_ctx_open(minor);
	} else if (sn_path_umad(path, &minor)) {
		fd = sn_umad_open(minor, flags);
	} else {
		fd = sn_real()->openat(dir, MAP_PATH(path), flags, mode);
		return of_port ? sn_port_file_opened(fd) : fd;
	}
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

static mode_t mode_arg(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_arg(flags, args);
	va_end(args);
	return open_at(AT_FDCWD, path, flags, mode);
}
TWIN(open) int open64(const char *path, int flags, ...);

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_arg(flags, args);
	va_end(args);
	return open_at(dir, path, flags, mode);
}
TWIN(openat) int openat64(int dir, const char *path, int flags, ...);

int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}
TWIN(__open_2) int __open64_2(const char *path, int flags);

int __openat_2(int dir, const char *path, int flags);
EXPORT int __openat_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}
TWIN(__openat_2) int __openat64_2(int dir, const char *path, int flags);

EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
	FILE *file;
	int fd;

	if (mode[0] != 'r' || !sn_port_file_named(AT_FDCWD, path))
		return sn_real()->fopen(MAP_PATH(path), mode);
	fd = open_at(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	file = fd < 0 ? NULL : fdopen(fd, mode);
	if (fd >= 0 && !file)
		sn_fd_close_own(fd);
	return file;
}
TWIN(fopen) FILE *fopen64(const char *restrict path, const char *restrict mode);

/* A program finds what is in its working directory by relative names. */
EXPORT int chdir(const char *path)
{
	return sn_real()->chdir(MAP_PATH(path));
}

EXPORT DIR *opendir(const char *path)
{
	return sn_real()->opendir(MAP_PATH(path));
}

EXPORT int scandir(const char *restrict path, struct dirent ***restrict list,
		   int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	return sn_real()->scandir(MAP_PATH(path), list, filter, compare);
}

/* The device nodes are plain files in the tree; programs check type and number. */
static int as_device(struct stat *st, dev_t number)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = number;
	return 0;
}

#define UVERBS_DEV(minor) makedev(231, 192 + (minor))
#define UMAD_DEV(minor)	  makedev(231, (minor))
#define RDMA_CM_DEV	  makedev(10, 122) /* of a kernel: any free number */

/* Corrects what was found of a path. */
static int as_named(const char *path, struct stat *st)
{
	unsigned int minor;

	if (sn_path_rdma_cm(path))
		return as_device(st, RDMA_CM_DEV);
	if (sn_path_umad(path, &minor))
		return as_device(st, UMAD_DEV(minor));
	return sn_path_uverbs(path, &minor) ? as_device(st, UVERBS_DEV(minor)) : 0;
}

/*
 * No exported function calls another one: a sanitizer's interceptor may sit in between, and calls
 * the old form of the new one.
 */
static int stat_path(const char *path, struct stat *st)
{
	int ret = sn_real()->stat(MAP_PATH(path), st);

	return ret ? ret : as_named(path, st);
}

static int lstat_path(const char *path, struct stat *st)
{
	int ret = sn_real()->lstat(MAP_PATH(path), st);

	return ret ? ret : as_named(path, st);
}

static int fstat_fd(int fd, struct stat *st)
{
	struct sn_ctx *ctx = sn_ctx_get(fd);
	int ret = sn_real()->fstat(fd, st);

	if (ctx) {
		as_device(st, UVERBS_DEV(ctx->nic->uverbs_minor));
		sn_ctx_put(ctx);
	}
	return !ret && sn_cm_is(fd) ? as_device(st, RDMA_CM_DEV) : ret;
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
	int ret;

	if (!*path && flags & AT_EMPTY_PATH)
		return fstat_fd(dir, st);
	ret = sn_real()->fstatat(dir, MAP_PATH(path), st, flags);
	return ret ? ret : as_named(path, st);
}

EXPORT int stat(const char *restrict path, struct stat *restrict st)
{
	return stat_path(path, st);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict st)
{
	return lstat_path(path, st);
}

EXPORT int fstat(int fd, struct stat *st)
{
	return fstat_fd(fd, st);
}

EXPORT int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	return stat_at(dir, path, st, flags);
}

TWIN(stat) int stat64(const char *restrict path, struct stat64 *restrict st);
TWIN(lstat) int lstat64(const char *restrict path, struct stat64 *restrict st);
TWIN(fstat) int fstat64(int fd, struct stat64 *st);
TWIN(fstatat)
int fstatat64(int dir, const char *restrict path, struct stat64 *restrict st, int flags);

/* Programs built before glibc 2.33 call these; the version number has one value per platform. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);

EXPORT int __xstat(int version, const char *path, struct stat *st)
{
	return stat_path(path, st);
}

EXPORT int __lxstat(int version, const char *path, struct stat *st)
{
	return lstat_path(path, st);
}

EXPORT int __fxstat(int version, int fd, struct stat *st)
{
	return fstat_fd(fd, st);
}

EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	return stat_at(dir, path, st, flags);
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict buf, size_t len)
{
	return sn_real()->readlink(MAP_PATH(path), buf, len);
}

ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);
EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size)
{
	if (len > size)
		abort();
	return sn_real()->readlink(MAP_PATH(path), buf, len);
}

EXPORT ssize_t readlinkat(int dir, const char *restrict path, char *restrict buf, size_t len)
{
	return sn_real()->readlinkat(dir, MAP_PATH(path), buf, len);
}

EXPORT char *realpath(const char *restrict path, char *restrict resolved)
{
	return sn_real()->realpath(MAP_PATH(path), resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t size);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	if (size < PATH_MAX)
		abort();
	return sn_real()->realpath(MAP_PATH(path), resolved);
}

EXPORT char *canonicalize_file_name(const char *path)
{
	return sn_real()->realpath(MAP_PATH(path), NULL);
}

EXPORT int access(const char *path, int mode)
{
	return sn_real()->access(MAP_PATH(path), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	return sn_real()->faccessat(dir, MAP_PATH(path), mode, flags);
}
