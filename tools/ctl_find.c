/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The search for the sockets of processes with SHIFT: in the run directories of this user, or for
 * root of all users, on this host and in its containers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shiftlib/base/run_dir.h"
#include "shiftlib/base/settings.h"
#include "tools/ctl_client.h"
#include "tools/proc.h"

#define FIND_DIRS_MAX	256u
#define FIND_MOUNTS_MAX 256u	  /* containers that are looked into */
#define FIND_ENVIRON	(1 << 20) /* bytes of an environment that are read */

struct find {
	pid_t pid; /* only that one; 0: all */
	struct ctl_processes *out;
	unsigned n_dirs, n_mounts;
	struct {
		dev_t dev;
		ino_t ino;
	} dir[FIND_DIRS_MAX];
	ino_t mount[FIND_MOUNTS_MAX]; /* mount namespaces whose usual places were looked into */
	bool inside;		      /* what is found now lies in a container */
};

/* ---- one directory -------------------------------------------------------------------------- */

/* True if the directory is there, and was not looked into yet: a container may share it. */
static bool dir_is_new(struct find *f, const char *path)
{
	struct stat st;

	if (lstat(path, &st) || f->n_dirs == FIND_DIRS_MAX)
		return false;
	for (unsigned i = 0; i < f->n_dirs; i++)
		if (f->dir[i].dev == st.st_dev && f->dir[i].ino == st.st_ino)
			return false;
	f->dir[f->n_dirs].dev = st.st_dev;
	f->dir[f->n_dirs++].ino = st.st_ino;
	return true;
}

static int find_add(struct find *f, const struct ctl_process *found, const char *dir,
		    const char *name)
{
	struct ctl_processes *out = f->out;
	struct ctl_process *grown = realloc(out->all, (out->n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	out->all = grown;
	grown[out->n] = *found;
	if (asprintf(&grown[out->n].socket, "%s/%s", dir, name) < 0)
		return -ENOMEM;
	out->n++;
	return 0;
}

/*
 * True if the socket is that of the process that was asked for, by its number here. Where the
 * kernel shows no number, as of a process of a container beside this one, its own number counts.
 */
static bool find_wants(const struct find *f, const struct ctl_process *process, const char *dir,
		       const char *name)
{
	char *socket;
	pid_t here;

	if (!f->pid)
		return true;
	if (asprintf(&socket, "%s/%s", dir, name) < 0)
		return false;
	here = ctl_pid_here(socket);
	free(socket);
	return (here ? here : process->pid) == f->pid;
}

static int dir_scan(struct find *f, const char *path, uid_t uid)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int rc = 0;

	if (!dir)
		return 0;
	while (!rc && (entry = readdir(dir))) {
		struct ctl_process found = { .uid = uid,
					     .pid = run_dir_name_pid(entry->d_name),
					     .inside = f->inside };

		if (found.pid && find_wants(f, &found, path, entry->d_name))
			rc = find_add(f, &found, path, entry->d_name);
	}
	closedir(dir);
	return rc;
}

static int dir_complain(struct ctl_processes *out, const char *path, const char *why)
{
	char *complaint;

	out->refused++;
	if (asprintf(&complaint, "%s%s%s: %s: not looked into",
		     out->complaint ? out->complaint : "", out->complaint ? "; " : "", path,
		     why) < 0)
		return -ENOMEM;
	free(out->complaint);
	out->complaint = complaint;
	return 0;
}

static int find_dir(struct find *f, const char *path, uid_t uid)
{
	const char *why;

	if (!dir_is_new(f, path))
		return 0;
	if (run_dir_check(path, uid, &why))
		return dir_complain(f->out, path, why);
	return dir_scan(f, path, uid);
}

/* ---- this host ------------------------------------------------------------------------------ */

/* The directories of one user, whatever his programs found in their environment. */
static int find_user(struct find *f, uid_t uid)
{
	char path[RUN_DIR_MAX];
	int rc = 0;

	if (uid == geteuid() && !run_dir_path(NULL, uid, path))
		rc = find_dir(f, path, uid);
	snprintf(path, sizeof(path), "/run/user/%u/shift", (unsigned)uid);
	if (!rc)
		rc = find_dir(f, path, uid);
	snprintf(path, sizeof(path), "/tmp/shift-%u", (unsigned)uid);
	return rc ? rc : find_dir(f, path, uid);
}

/* The user's number is in the name, behind @prefix. */
static int find_users(struct find *f, const char *pattern, const char *prefix)
{
	glob_t found;
	int rc = 0;

	if (glob(pattern, GLOB_NOSORT, NULL, &found))
		return 0;
	for (size_t i = 0; !rc && i < found.gl_pathc; i++) {
		const char *number = found.gl_pathv[i] + strlen(prefix);
		char *end;
		unsigned long uid = strtoul(number, &end, 10);

		if (end != number && (!*end || !strcmp(end, "/shift")))
			rc = find_user(f, (uid_t)uid);
	}
	globfree(&found);
	return rc;
}

/* ---- containers ----------------------------------------------------------------------------- */

/*
 * True if the path leads to the same directory when the container's root is never left: a
 * container's own symbolic links lead nowhere on this host. False before Linux 5.6.
 */
static bool stays_inside(pid_t pid, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	char root[PROC_PATH_MAX];
	int fd = -1, at = open(proc_path(root, pid, "root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat inside, plain;
	bool same = false;

	if (at >= 0)
		fd = (int)syscall(SYS_openat2, at, path + strlen(root), &how, sizeof(how));
	if (fd >= 0) {
		same = !fstat(fd, &inside) && !lstat(path, &plain) &&
		       inside.st_ino == plain.st_ino && inside.st_dev == plain.st_dev;
		close(fd);
	}
	if (at >= 0)
		close(at);
	return same;
}

/* Looks into a directory of a container, of any user; others than root look into their own. */
static int find_inside(struct find *f, pid_t pid, const char *path)
{
	struct stat st;
	int rc;

	if (lstat(path, &st) || (geteuid() && st.st_uid != geteuid()) || !stays_inside(pid, path))
		return 0;
	f->inside = true;
	rc = find_dir(f, path, st.st_uid);
	f->inside = false;
	return rc;
}

/* True for a directory of a user: his number ends its name, or "/shift" is behind that. */
static bool is_users(const char *path)
{
	size_t length = strlen(path);

	if (length > 6 && !strcmp(path + length - 6, "/shift"))
		return true;
	return strspn(strrchr(path, '-') + 1, "0123456789") == strlen(strrchr(path, '-') + 1);
}

static int find_inside_all(struct find *f, pid_t pid, const char *place)
{
	char name[PROC_PATH_MAX], pattern[PROC_PATH_MAX];
	glob_t found;
	int rc = 0;

	snprintf(name, sizeof(name), "root%s", place);
	if (glob(proc_path(pattern, pid, name), GLOB_NOSORT, NULL, &found))
		return 0;
	for (size_t i = 0; !rc && i < found.gl_pathc; i++)
		if (is_users(found.gl_pathv[i]))
			rc = find_inside(f, pid, found.gl_pathv[i]);
	globfree(&found);
	return rc;
}

/* The directory that the process itself was given. */
static int find_configured(struct find *f, pid_t pid)
{
	static const char variable[] = "SHIFT_RUN_DIR=";
	size_t length, skip = sizeof(variable) - 1;
	char *text = proc_read(pid, "environ", FIND_ENVIRON, &length), *at, *path;
	int rc = 0;

	for (at = text; text && at < text + length; at += strlen(at) + 1) {
		if (strncmp(at, variable, skip) || at[skip] != '/')
			continue;
		if (asprintf(&path, "/proc/%d/root%s", (int)pid, at + skip) < 0) {
			rc = -ENOMEM;
			break;
		}
		rc = find_inside(f, pid, path);
		free(path);
	}
	free(text);
	return rc;
}

static bool mount_is_new(struct find *f, ino_t mount)
{
	for (unsigned i = 0; i < f->n_mounts; i++)
		if (f->mount[i] == mount)
			return false;
	if (f->n_mounts == FIND_MOUNTS_MAX)
		return false;
	f->mount[f->n_mounts++] = mount;
	return true;
}

/* Looks into the container of a process, if it is in one. */
static int find_contained(pid_t pid, void *arg)
{
	static const char *const places[] = { "/run/shift", "/run/user/[0-9]*/shift",
					      "/tmp/shift-[0-9]*" };
	ino_t mount = proc_namespace(pid, "mnt");
	struct find *f = arg;
	int rc = 0;

	if (!mount || mount == f->mount[0])
		return 0;
	if (mount_is_new(f, mount))
		for (size_t i = 0; !rc && i < sizeof(places) / sizeof(*places); i++)
			rc = find_inside_all(f, pid, places[i]);
	return rc ? rc : find_configured(f, pid);
}

static int find_containers(struct find *f)
{
	f->mount[f->n_mounts++] = proc_namespace(getpid(), "mnt");
	return f->mount[0] ? proc_each(find_contained, f) : 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int find_all(struct find *f)
{
	const char *configured = sh_setting("SHIFT_RUN_DIR");
	struct stat st;
	int rc;

	if (configured && *configured) {
		bool any = !geteuid() && !lstat(configured, &st);

		return find_dir(f, configured, any ? st.st_uid : geteuid());
	}
	rc = find_user(f, geteuid());
	if (!rc && !geteuid())
		rc = find_users(f, "/run/user/[0-9]*/shift", "/run/user/");
	if (!rc && !geteuid())
		rc = find_users(f, "/tmp/shift-[0-9]*", "/tmp/shift-");
	return rc ? rc : find_containers(f);
}

static int find_order(const void *a, const void *b)
{
	const struct ctl_process *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strcmp(x->socket, y->socket);
}

int ctl_find(pid_t pid, struct ctl_processes *out)
{
	struct find *f = calloc(1, sizeof(*f));
	int rc;

	*out = (struct ctl_processes){ 0 };
	if (!f)
		return -ENOMEM;
	f->pid = pid;
	f->out = out;
	rc = find_all(f);
	free(f);
	if (out->n)
		qsort(out->all, out->n, sizeof(*out->all), find_order);
	return rc;
}

void ctl_processes_free(struct ctl_processes *processes)
{
	for (unsigned i = 0; i < processes->n; i++)
		free(processes->all[i].socket);
	free(processes->all);
	free(processes->complaint);
	*processes = (struct ctl_processes){ 0 };
}
