/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program under SHIFT does not start at all when a link beside our library is missing, so they
 * are checked before: libibverbs.so.1 (ours), libibverbs.so (what NCCL opens), and
 * libibverbs-distro.so.1, the library underneath. librdmacm.so.1 (the companion) and
 * librdmacm-distro.so.1 likewise.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/shiftctl.h"

#define OURS		 "libibverbs.so.1"
#define DEV		 "libibverbs.so"
#define DISTRO		 "libibverbs-distro.so.1"
#define COMPANION	 "librdmacm.so.1"
#define COMPANION_DISTRO "librdmacm-distro.so.1"
#define DIR_MAX		 LIBRARY_DIR_MAX

static bool library_beside_program(char dir[DIR_MAX])
{
	char exe[PATH_MAX];
	struct stat st;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = '\0';
	n = snprintf(dir, DIR_MAX, "%s/../lib/shift", dirname(exe));
	return n < DIR_MAX && !stat(dir, &st) && S_ISDIR(st.st_mode);
}

static int library_find_dir(const char *libdir, struct library *lib, char err[CTL_ERR_MAX])
{
	char dir[DIR_MAX], real[PATH_MAX];

	if (libdir) {
		if (snprintf(dir, sizeof(dir), "%s", libdir) >= DIR_MAX)
			return ctl_err(err, -ENAMETOOLONG, "--libdir is too long");
	} else if (!library_beside_program(dir)) {
		snprintf(dir, sizeof(dir), "%s", SHIFT_INSTALLED_LIBDIR);
	}
	if (!realpath(dir, real))
		return ctl_err(err, -errno,
			       "no directory %.200s with SHIFT's libibverbs.so.1 (%s); "
			       "install SHIFT or name it with --libdir",
			       dir, strerror(errno));
	if (snprintf(lib->dir, sizeof(lib->dir), "%s", real) >= DIR_MAX)
		return ctl_err(err, -ENAMETOOLONG, "the library directory's path is too long");
	/* The loader splits its lists at these, and knows no quoting. */
	if (strpbrk(lib->dir, ": ;\t"))
		return ctl_err(err, -EINVAL,
			       "%.200s has a blank, colon or semicolon in its path, which "
			       "LD_PRELOAD cannot carry; move SHIFT",
			       lib->dir);
	return 0;
}

static int library_check_ours(struct library *lib, char err[CTL_ERR_MAX])
{
	struct elf_file elf;
	int rc;

	snprintf(lib->ours, sizeof(lib->ours), "%s/" OURS, lib->dir);
	rc = elf_open(lib->ours, &elf);
	if (rc) {
		rc = ctl_err(err, rc, "%.200s: %s; build or install SHIFT again", lib->ours,
			     rc == -ENOEXEC ? "not a library of this machine" : strerror(-rc));
		lib->ours[0] = '\0';
		return rc;
	}
	if (!elf_needs(&elf, DISTRO)) {
		rc = ctl_err(err, -EINVAL, "%.200s is not SHIFT's library; check --libdir",
			     lib->ours);
		lib->ours[0] = '\0';
	}
	elf_close(&elf);
	return rc;
}

static int library_check_dev(const struct library *lib, char err[CTL_ERR_MAX])
{
	struct stat dev, ours;
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/" DEV, lib->dir);
	if (!stat(name, &dev) && !stat(lib->ours, &ours) && dev.st_ino == ours.st_ino &&
	    dev.st_dev == ours.st_dev)
		return 0;
	return ctl_err(err, -ENOENT,
		       "%.200s does not lead to " OURS " beside it, and NCCL would miss SHIFT; "
		       "run: ln -sf " OURS " %.200s",
		       name, name);
}

/* A SHIFT library under a SHIFT library calls itself for ever. */
static int library_check_distro_elf(struct library *lib, const char *name, char err[CTL_ERR_MAX])
{
	struct elf_file elf;
	int rc;

	rc = elf_open(lib->distro, &elf);
	if (rc)
		return ctl_err(err, rc, "%.150s leads to %.150s, no library of this machine (%s)",
			       name, lib->distro, strerror(-rc));
	if (elf_needs(&elf, DISTRO))
		rc = ctl_err(err, -ELOOP,
			     "%.150s leads to a SHIFT library, %.150s, and must lead to the "
			     "distribution's libibverbs.so.1",
			     name, lib->distro);
	else if (!elf.soname || strcmp(elf.soname, OURS))
		rc = ctl_err(err, -EINVAL, "%.150s leads to %.150s, which is not a libibverbs.so.1",
			     name, lib->distro);
	elf_close(&elf);
	return rc;
}

static int library_check_distro(struct library *lib, char err[CTL_ERR_MAX])
{
	char name[PATH_MAX];
	int rc;

	snprintf(name, sizeof(name), "%s/" DISTRO, lib->dir);
	if (!realpath(name, lib->distro)) {
		rc = -errno;
		lib->distro[0] = '\0';
		return ctl_err(err, rc,
			       "%.200s is missing or leads nowhere; make it a symlink to the "
			       "distribution's libibverbs.so.1 (ldconfig -p shows where that is)",
			       name);
	}
	rc = library_check_distro_elf(lib, name, err);
	if (rc)
		lib->distro[0] = '\0';
	return rc;
}

/*
 * Checks the companion's link. A companion whose link leads nowhere has nothing to lead to: no
 * program here can use librdmacm.
 */
static int library_check_companion(const struct library *lib, char err[CTL_ERR_MAX])
{
	char companion[PATH_MAX], name[PATH_MAX];
	struct stat st;

	snprintf(companion, sizeof(companion), "%s/" COMPANION, lib->dir);
	snprintf(name, sizeof(name), "%s/" COMPANION_DISTRO, lib->dir);
	if (stat(companion, &st) || !lstat(name, &st))
		return 0;
	return ctl_err(
		err, -ENOENT,
		"%.200s is missing, and programs that use rdma_cm would not start; make it a "
		"symlink to the distribution's librdmacm.so.1",
		name);
}

int library_find(const char *libdir, struct library *lib, char err[CTL_ERR_MAX])
{
	int rc;

	memset(lib, 0, sizeof(*lib));
	rc = library_find_dir(libdir, lib, err);
	if (!rc)
		rc = library_check_ours(lib, err);
	if (!rc)
		rc = library_check_distro(lib, err);
	if (!rc)
		rc = library_check_dev(lib, err);
	if (!rc)
		rc = library_check_companion(lib, err);
	return rc;
}

/* libibverbs.so.1.14.44.0 is that of rdma-core 44.0. */
void library_distro_version(const char *path, char *buf, size_t cap)
{
	unsigned abi, major, minor;
	const char *name = strrchr(path, '/');

	buf[0] = '\0';
	if (name && sscanf(name, "/libibverbs.so.1.%u.%u.%u", &abi, &major, &minor) == 3)
		snprintf(buf, cap, " (rdma-core %u.%u)", major, minor);
}

int library_version(const struct library *lib, char version[LIBRARY_VERSION_MAX],
		    char protocol[LIBRARY_VERSION_MAX])
{
	static const char mark[] = SHIFT_VERSION_MARK;
	struct elf_file elf;
	const char *at;
	int rc = elf_open(lib->ours, &elf);

	if (rc)
		return rc;
	at = memmem(elf.map, elf.size, mark, sizeof(mark) - 1);
	/* A 0 behind it ends the text, as behind every string of the file. */
	if (!at || !memchr(at, 0, elf.size - (size_t)(at - (const char *)elf.map)) ||
	    sscanf(at + sizeof(mark) - 1, "%31s protocol %31s", version, protocol) != 2)
		rc = -ENOENT;
	elf_close(&elf);
	return rc;
}
