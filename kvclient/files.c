/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The files of an LMDB store, made and checked before LMDB opens them by name.
 *
 * Other users may prepare names in /dev/shm or /tmp. A file is accepted when it is a regular file
 * of this user that nobody else may open, in a directory that is ours or root's and where others,
 * if they may write at all, cannot exchange our files (the sticky bit). Then a check by name holds
 * until LMDB opens the same name.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/files.h"

#define KV_DEFAULT_ROOT "/dev/shm"

static int kv_file_check(struct kv *kv, const char *path, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return kv_fail(kv, -EACCES, "%s is a directory; name a file in it", path);
	if (!S_ISREG(st->st_mode))
		return kv_fail(kv, -EACCES, "%s is not a regular file; choose another path", path);
	if (st->st_uid != geteuid())
		return kv_fail(kv, -EACCES, "%s belongs to user %u, not to you", path,
			       (unsigned)st->st_uid);
	if (st->st_mode & 077)
		return kv_fail(kv, -EACCES, "%s is open to others; chmod it to 600", path);
	return 0;
}

static int kv_dir_check(struct kv *kv, const char *dir, const struct stat *st)
{
	bool shared = st->st_mode & (S_IWGRP | S_IWOTH);

	if (!S_ISDIR(st->st_mode))
		return kv_fail(kv, -ENOTDIR, "%s is not a directory", dir);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return kv_fail(kv, -EACCES, "%s belongs to user %u, not to you", dir,
			       (unsigned)st->st_uid);
	if (shared && !(st->st_mode & S_ISVTX))
		return kv_fail(kv, -EACCES, "%s can be written by others", dir);
	return 0;
}

static int kv_parent_check(struct kv *kv, const char *path)
{
	char copy[PATH_MAX];
	struct stat st;
	char *dir;

	snprintf(copy, sizeof(copy), "%s", path);
	dir = dirname(copy);
	if (stat(dir, &st))
		return kv_fail(kv, -errno, "directory %s: %s", dir, strerror(errno));
	return kv_dir_check(kv, dir, &st);
}

/*
 * Space is allocated before the name appears: LMDB maps its lock file, and a store to a page that a
 * full tmpfs cannot give ends the process by SIGBUS. The file is closed under its temporary name,
 * as closing any descriptor of the real one would drop this process' locks on it.
 */
static int kv_file_make(const char *path, size_t bytes)
{
	char tmp[PATH_MAX];
	int fd, rc = 0;

	snprintf(tmp, sizeof(tmp), "%s.%u", path, (unsigned)getpid());
	unlink(tmp);
	fd = open(tmp, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (bytes)
		rc = -posix_fallocate(fd, 0, (off_t)bytes);
	close(fd);
	if (!rc && link(tmp, path) && errno != EEXIST)
		rc = -errno;
	unlink(tmp);
	return rc;
}

static int kv_file_prepare(struct kv *kv, const char *path, size_t bytes)
{
	struct stat st;
	int rc;

	if (lstat(path, &st)) {
		rc = errno == ENOENT ? kv_file_make(path, bytes) : -errno;
		if (rc)
			return kv_fail(kv, rc, "cannot create %s: %s", path, strerror(-rc));
		if (lstat(path, &st))
			return kv_fail(kv, -errno, "%s: %s", path, strerror(errno));
	}
	return kv_file_check(kv, path, &st);
}

static int kv_file_prepare_beside(struct kv *kv, const char *path, const char *suffix, size_t bytes)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return kv_file_prepare(kv, name, bytes);
}

int kv_files_prepare_gate(struct kv *kv, const char *path)
{
	int rc = kv_parent_check(kv, path);

	return rc ? rc : kv_file_prepare_beside(kv, path, "-gate", 0);
}

/* A lock file whose data file is gone still counts the transactions of the old one. */
int kv_files_prepare(struct kv *kv, const char *path, size_t lock_bytes)
{
	char lock[PATH_MAX];
	struct stat st;
	int rc;

	snprintf(lock, sizeof(lock), "%s-lock", path);
	if (lstat(path, &st) && errno == ENOENT && unlink(lock) && errno != ENOENT)
		return kv_fail(kv, -errno, "cannot remove %s: %s", lock, strerror(errno));
	rc = kv_file_prepare_beside(kv, path, "-lock", lock_bytes);
	return rc ? rc : kv_file_prepare(kv, path, 0);
}

/*
 * Always the same place for a user on a machine: XDG_RUNTIME_DIR is set in a login and not in a
 * batch job, and two ends of a connection that looked in different places would never meet.
 */
static void kv_files_default_dir(char *dir, size_t cap)
{
	snprintf(dir, cap, KV_DEFAULT_ROOT "/shift-%u", (unsigned)geteuid());
}

void kv_files_default_path(char *path, size_t cap)
{
	char dir[64];

	kv_files_default_dir(dir, sizeof(dir));
	snprintf(path, cap, "%s/kv", dir);
}

int kv_files_default_make(struct kv *kv)
{
	char dir[64];
	struct stat st;

	kv_files_default_dir(dir, sizeof(dir));
	if (mkdir(dir, 0700) && errno != EEXIST)
		return kv_fail(kv, -errno, "cannot create %s: %s; set SHIFT_KV", dir,
			       strerror(errno));
	if (lstat(dir, &st))
		return kv_fail(kv, -errno, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return kv_fail(kv, -EACCES,
			       "%s is not a directory of yours alone (mode 700); set SHIFT_KV",
			       dir);
	return 0;
}

/*
 * Checks the open file, as its name may be a link, as where secrets are mounted, and may change.
 * Root's own file may be readable by a group, as mounted secrets are, and by all programs of a
 * host; root chooses who is in the group.
 */
static int kv_secret_check(struct kv *kv, const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return kv_fail(kv, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return kv_fail(kv, -EACCES, "%s is not a regular file", path);
	if (st.st_uid && st.st_uid != geteuid())
		return kv_fail(kv, -EACCES, "%s belongs to user %u, not to you; it is not used",
			       path, (unsigned)st.st_uid);
	if (st.st_mode & (st.st_uid ? 077 : 037))
		return kv_fail(kv, -EACCES, "%s is open to others; chmod it to 600", path);
	return 0;
}

static ssize_t kv_secret_line(struct kv *kv, const char *path, const char *buf, size_t n,
			      size_t cap)
{
	const char *end = memchr(buf, '\n', n);
	size_t len = end ? (size_t)(end - buf) : n;

	if (!len)
		return kv_fail(kv, -EINVAL, "the first line of %s is empty", path);
	if (len >= cap)
		return kv_fail(kv, -EINVAL, "the first line of %s has more than %zu bytes", path,
			       cap - 1);
	return (ssize_t)len;
}

ssize_t kv_files_read_secret(struct kv *kv, const char *path, char *buf, size_t cap)
{
	ssize_t n, rc;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return kv_fail(kv, -errno, "cannot open %s: %s", path, strerror(errno));
	rc = kv_secret_check(kv, path, fd);
	if (!rc) {
		n = read(fd, buf, cap);
		rc = n < 0 ? kv_fail(kv, -errno, "cannot read %s: %s", path, strerror(errno))
			   : kv_secret_line(kv, path, buf, (size_t)n, cap);
	}
	close(fd);
	return rc;
}
