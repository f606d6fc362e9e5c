/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shiftlib/run_dir.h"
#include "shiftlib/settings.h"
#include "tools/ctl_client.h"

#define CLIENT_WAIT_MS	  5000 /* for a word of an answer: a stopped process gives none */
#define CLIENT_ANSWER_MAX (64u << 20)
#define CLIENT_DIRS_MAX	  256u

/* ---- where the sockets are ------------------------------------------------------------------ */

struct client_dirs {
	unsigned n;
	struct {
		dev_t dev;
		ino_t ino;
	} seen[CLIENT_DIRS_MAX];
};

static bool dirs_new(struct client_dirs *dirs, const char *path)
{
	struct stat st;

	if (lstat(path, &st) || dirs->n == CLIENT_DIRS_MAX)
		return false;
	for (unsigned i = 0; i < dirs->n; i++)
		if (dirs->seen[i].dev == st.st_dev && dirs->seen[i].ino == st.st_ino)
			return false;
	dirs->seen[dirs->n].dev = st.st_dev;
	dirs->seen[dirs->n++].ino = st.st_ino;
	return true;
}

/* "123.sock" -> 123; 0: no such name. */
static pid_t client_pid(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return end != name && pid > 0 && pid <= INT_MAX && !strcmp(end, RUN_DIR_SUFFIX) ? (pid_t)pid
											: 0;
}

static int client_add(struct ctl_processes *out, const char *dir, const char *name, uid_t uid)
{
	struct ctl_process *grown = realloc(out->all, (out->n + 1) * sizeof(*grown));
	struct ctl_process *added;

	if (!grown)
		return -ENOMEM;
	out->all = grown;
	added = &grown[out->n];
	*added = (struct ctl_process){ .uid = uid, .pid = client_pid(name) };
	if (asprintf(&added->socket, "%s/%s", dir, name) < 0)
		return -ENOMEM;
	out->n++;
	return 0;
}

static int client_scan(const char *path, uid_t uid, pid_t pid, struct ctl_processes *out)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int rc = 0;

	if (!dir)
		return 0;
	while (!rc && (entry = readdir(dir))) {
		pid_t found = client_pid(entry->d_name);

		if (found && (!pid || found == pid))
			rc = client_add(out, path, entry->d_name, uid);
	}
	closedir(dir);
	return rc;
}

static int client_dir(struct client_dirs *dirs, const char *path, uid_t uid, pid_t pid,
		      struct ctl_processes *out)
{
	const char *why;
	int rc;

	if (!dirs_new(dirs, path))
		return 0;
	rc = run_dir_check(path, uid, &why);
	if (!rc)
		return client_scan(path, uid, pid, out);
	ctl_say("%s: %s: not looked into", path, why);
	out->refused++;
	return 0;
}

/* The directories of one user, whatever his programs found in their environment. */
static int client_user(struct client_dirs *dirs, uid_t uid, pid_t pid, struct ctl_processes *out)
{
	char path[RUN_DIR_MAX];
	int rc = 0;

	if (uid == geteuid() && !run_dir_path(NULL, uid, path))
		rc = client_dir(dirs, path, uid, pid, out);
	snprintf(path, sizeof(path), "/run/user/%u/shift", (unsigned)uid);
	if (!rc)
		rc = client_dir(dirs, path, uid, pid, out);
	snprintf(path, sizeof(path), "/tmp/shift-%u", (unsigned)uid);
	return rc ? rc : client_dir(dirs, path, uid, pid, out);
}

/* The user's number is in the name, behind @prefix. */
static int client_users(struct client_dirs *dirs, const char *pattern, const char *prefix,
			pid_t pid, struct ctl_processes *out)
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
			rc = client_user(dirs, (uid_t)uid, pid, out);
	}
	globfree(&found);
	return rc;
}

static int client_find(pid_t pid, struct ctl_processes *out)
{
	const char *configured = sh_setting("SHIFT_RUN_DIR");
	struct client_dirs dirs = { 0 };
	struct stat st;
	int rc;

	if (configured && *configured) {
		bool any = !geteuid() && !lstat(configured, &st);

		return client_dir(&dirs, configured, any ? st.st_uid : geteuid(), pid, out);
	}
	rc = client_user(&dirs, geteuid(), pid, out);
	if (!rc && !geteuid())
		rc = client_users(&dirs, "/run/user/[0-9]*/shift", "/run/user/", pid, out);
	if (!rc && !geteuid())
		rc = client_users(&dirs, "/tmp/shift-[0-9]*", "/tmp/shift-", pid, out);
	return rc;
}

static int client_order(const void *a, const void *b)
{
	const struct ctl_process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int ctl_find(pid_t pid, struct ctl_processes *out)
{
	int rc;

	*out = (struct ctl_processes){ 0 };
	rc = client_find(pid, out);
	if (out->n)
		qsort(out->all, out->n, sizeof(*out->all), client_order);
	return rc;
}

void ctl_processes_free(struct ctl_processes *processes)
{
	for (unsigned i = 0; i < processes->n; i++)
		free(processes->all[i].socket);
	free(processes->all);
	*processes = (struct ctl_processes){ 0 };
}

/* ---- asking --------------------------------------------------------------------------------- */

/* Is it the user's own program that listens there? */
static bool client_trusts(int fd, uid_t uid)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == uid;
}

/* What a killed process has left; a name that is no socket stays. */
static void client_remove(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
		unlink(path);
}

static int client_connect(const struct ctl_process *process, char err[CTL_ERR_MAX])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, rc;

	if (strlen(process->socket) >= sizeof(address.sun_path))
		return ctl_err(err, -ENAMETOOLONG, "its name is too long");
	strcpy(address.sun_path, process->socket);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return ctl_err(err, -errno, "no socket: %s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		rc = -errno;
		close(fd);
		if (rc == -ECONNREFUSED)
			client_remove(process->socket);
		if (rc == -ECONNREFUSED || rc == -ENOENT)
			rc = -ESRCH;
		return ctl_err(err, rc, "%s", rc == -ESRCH ? "it is gone" : strerror(-rc));
	}
	if (!client_trusts(fd, process->uid)) {
		close(fd);
		return ctl_err(err, -EPERM, "another user listens there");
	}
	return fd;
}

/* 0: readable or at its end. */
static int client_wait(int fd, char err[CTL_ERR_MAX])
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int n = poll(&pfd, 1, CLIENT_WAIT_MS);

	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	return ctl_err(err, -ETIMEDOUT, "it does not answer");
}

static int client_grow(char **text, size_t *room, char err[CTL_ERR_MAX])
{
	size_t wanted = *room ? *room * 2 : 65536;
	char *grown = wanted <= CLIENT_ANSWER_MAX ? realloc(*text, wanted) : NULL;

	if (!grown)
		return ctl_err(err, -ENOMEM, "its answer is too long");
	*text = grown;
	*room = wanted;
	return 0;
}

/* All that comes until the other end closes. */
static int client_receive(int fd, char **text, size_t *length, char err[CTL_ERR_MAX])
{
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	for (*length = 0; !rc;) {
		if (*length == room)
			rc = client_grow(text, &room, err);
		if (!rc)
			rc = client_wait(fd, err);
		if (rc)
			break;
		n = recv(fd, *text + *length, room - *length, MSG_DONTWAIT);
		if (!n)
			return 0;
		if (n > 0)
			*length += (size_t)n;
		else if (errno != EAGAIN && errno != EINTR)
			rc = ctl_err(err, -errno, "%s", strerror(errno));
	}
	return rc;
}

static int client_parse(const char *text, size_t length, json_t **answer, char err[CTL_ERR_MAX])
{
	json_error_t error;

	if (!length)
		return ctl_err(err, -EBUSY, "it closed the connection without an answer");
	*answer = json_loadb(text, length, 0, &error);
	if (!json_is_object(*answer)) {
		json_decref(*answer);
		return ctl_err(err, -EPROTO, "its answer is not understood: %s", error.text);
	}
	return 0;
}

static int client_exchange(int fd, const char *request, json_t **answer, char err[CTL_ERR_MAX])
{
	char *text = NULL;
	size_t length;
	int rc;

	/* One short line into an empty socket: it fits, or the other end is gone. */
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return ctl_err(err, -ESRCH, "it is gone");
	rc = client_receive(fd, &text, &length, err);
	if (!rc)
		rc = client_parse(text, length, answer, err);
	free(text);
	return rc;
}

int ctl_ask(const struct ctl_process *process, json_t **answer, char err[CTL_ERR_MAX],
	    const char *request, ...)
{
	char line[256];
	va_list ap;
	int fd, rc;

	va_start(ap, request);
	vsnprintf(line, sizeof(line) - 1, request, ap);
	va_end(ap);
	strcat(line, "\n");
	fd = client_connect(process, err);
	if (fd < 0)
		return fd;
	rc = client_exchange(fd, line, answer, err);
	close(fd);
	return rc;
}

/* ---- small things --------------------------------------------------------------------------- */

int ctl_number(const char *text, long min, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno || end == text || *end || *out < min || *out > max ? -EINVAL : 0;
}

long long ctl_int(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

bool ctl_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

const char *ctl_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}
