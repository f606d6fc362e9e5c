/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The findings of shiftctl doctor about the environment, settings and limits of a program. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shiftlib/backup/room.h"
#include "shiftlib/base/few.h"
#include "shiftlib/base/run_dir.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/variables.h"
#include "tools/doctor.h"

#define PID_MOST (1 << 22) /* the longest number that a process can have: PID_MAX_LIMIT */

extern char **environ;

#define ENV_COMPLAINTS (16u << 10) /* bytes of complaints about settings */

/* ---- what forbids protection ---------------------------------------------------------------- */

static void env_forbids(struct doctor *d)
{
	static const char *const signatures[] = { "MLX5_QP_SIGNATURE", "MLX5_SRQ_SIGNATURE" };
	const char *disable = sh_setting("SHIFT_DISABLE"), *complaints;
	bool was_blocked = d->blocked, was_read;

	d->blocked = false;
	if (disable && strcmp(disable, "0"))
		doctor_block(
			d, "environment",
			"SHIFT_DISABLE=%s turns SHIFT off, in the environment or in %s; unset it",
			disable, sh_settings_file(&was_read, &complaints));
	for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++)
		if (getenv(signatures[i]))
			doctor_block(
				d, "environment",
				"%s is set: queues with signatures are not protected; unset it",
				signatures[i]);
	if (!d->blocked)
		doctor_say(d, "environment", FINDING_OK, "nothing in it forbids protection");
	d->blocked |= was_blocked;
}

/* ---- settings ------------------------------------------------------------------------------- */

static void env_file(struct doctor *d)
{
	const char *complaints, *end, *file;
	bool was_read;

	file = sh_settings_file(&was_read, &complaints);
	for (; *complaints; complaints = end + 1) {
		end = strchr(complaints, '\n');
		doctor_say(d, "settings", FINDING_NOTE, "%.*s", (int)(end - complaints),
			   complaints);
	}
	if (was_read)
		doctor_say(d, "settings", FINDING_OK, "%s", file);
}

static bool env_is_known(const char *name)
{
	return sh_setting_known(name) || !strcmp(name, "SHIFT_CONF");
}

/* Variables that look like settings and are none: a misspelt one would be missed in silence. */
static void env_unknown(struct doctor *d)
{
	char name[64];

	for (char **variable = environ; *variable; variable++) {
		size_t length = strcspn(*variable, "=");

		if (strncmp(*variable, "SHIFT_", strlen("SHIFT_")) || length >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)length, *variable);
		if (!env_is_known(name))
			doctor_say(d, "settings", FINDING_NOTE,
				   "there is no setting %s: it has no effect", name);
	}
}

/* Reads the settings as the library does, which says what is wrong with them, on this pipe. */
static void __attribute__((noreturn)) env_read_as_library(int out)
{
	const char *format = sh_setting("SHIFT_LOG_FORMAT");

	dup2(out, STDERR_FILENO);
	setenv("SHIFT_LOG_FILE", "/dev/stderr", 1);
	if (format && !strcmp(format, "json"))
		setenv("SHIFT_LOG_FORMAT", "text", 1);
	sh_settings_judge();
	_exit(0);
}

static void env_tell_complaints(struct doctor *d, char *text)
{
	static const char *const heads[] = { "shift: error: ", "shift: warn: " };
	char *line;

	while ((line = strsep(&text, "\n"))) {
		for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
			if (!strncmp(line, heads[i], strlen(heads[i])))
				doctor_say(d, "settings", FINDING_NOTE, "%s",
					   line + strlen(heads[i]));
	}
}

static void env_values(struct doctor *d)
{
	char *text = calloc(1, ENV_COMPLAINTS);
	size_t used = 0;
	int pipefd[2];
	ssize_t n = 1;
	pid_t pid;

	if (!text || pipe2(pipefd, O_CLOEXEC)) {
		free(text);
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid)
		env_read_as_library(pipefd[1]);
	close(pipefd[1]);
	while (pid > 0 && n > 0 && used < ENV_COMPLAINTS - 1) {
		n = read(pipefd[0], text + used, ENV_COMPLAINTS - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(pipefd[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	env_tell_complaints(d, text);
	free(text);
}

/* 0, or why a program could not append to it. A file that is not there is not made. */
static int env_log_error(const char *path)
{
	char folder[PATH_MAX];
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (errno != ENOENT ||
	    (size_t)snprintf(folder, sizeof(folder), "%s", path) >= sizeof(folder))
		return errno;
	return access(dirname(folder), W_OK | X_OK) ? errno : 0;
}

static void env_log(struct doctor *d)
{
	const char *path = sh_setting("SHIFT_LOG_FILE");
	int error = path && *path ? env_log_error(path) : 0;

	if (error)
		doctor_say(d, "log", FINDING_NOTE,
			   "SHIFT_LOG_FILE=%s cannot be written (%s): lines go to standard error",
			   path, strerror(error));
}

/* The first program makes a directory that is not there, if it may write to the one above. */
static const char *env_run_dir_fault(const char *path)
{
	char above[RUN_DIR_MAX];
	const char *why;
	int rc = run_dir_check(path, geteuid(), &why);

	if (rc != -ENOENT)
		return rc ? why : NULL;
	snprintf(above, sizeof(above), "%s", path);
	return access(dirname(above), W_OK | X_OK) ? strerror(errno) : NULL;
}

static void env_run_dir(struct doctor *d)
{
	char path[RUN_DIR_MAX], name[RUN_DIR_NAME_MAX];
	const char *why = "its name is too long for a socket";

	run_dir_name(name, PID_MOST, 0);
	if (!run_dir_path(sh_setting("SHIFT_RUN_DIR"), geteuid(), path) &&
	    strlen(path) + strlen("/") + strlen(name) <
		    sizeof(((struct sockaddr_un *)NULL)->sun_path))
		why = env_run_dir_fault(path);
	if (why)
		doctor_say(d, "sockets", FINDING_NOTE,
			   "%s: %s: shiftctl would not see programs (SHIFT_RUN_DIR)", path, why);
}

/* Where a program may be protected without `shiftctl run`, nobody sets them for it. */
static void env_variables_of(struct doctor *d, enum sh_variable_of of)
{
	const char *library = sh_variable_library(of);
	bool alone = sh_setting("SHIFT_PROGRAMS") || sh_setting("SHIFT_ENABLE");
	char text[SH_VARIABLE_MAX];

	if (!sh_variables_missing(of, NULL, text))
		return;
	if (alone)
		doctor_say(d, "variables", FINDING_NOTE,
			   "%s, if not started by shiftctl run, needs %s in %s", library, text,
			   sh_variable_file(of));
	else
		doctor_say(d, "variables", FINDING_OK, "%s: shiftctl run sets %s", library, text);
}

void doctor_settings(struct doctor *d)
{
	env_file(d);
	env_unknown(d);
	env_values(d);
	env_log(d);
	env_run_dir(d);
	for (int of = 0; of < SH_VARIABLE_OWNERS; of++)
		env_variables_of(d, (enum sh_variable_of)of);
	env_forbids(d);
}

/* ---- limits --------------------------------------------------------------------------------- */

void doctor_limits(struct doctor *d)
{
	if (sh_few_files())
		doctor_block(d, "files", "%s", sh_few_files_why);
	if (sh_few_addresses())
		doctor_block(d, "addresses", "%s", sh_few_addresses_why);
}

/* Says that spread will use fewer NICs. */
static void room_spread(struct doctor *d, uint64_t lockable)
{
	uint64_t locks = backup_control_bytes(&d->map);

	if (d->map.spread && lockable / BACKUP_CONTROL_PART < locks)
		doctor_say(d, "backup", FINDING_NOTE,
			   "SHIFT itself locks up to %llu KiB on these NICs, of %llu KiB: raise "
			   "the limit (ulimit -l), or use pair",
			   (unsigned long long)locks / 1024, (unsigned long long)lockable / 1024);
}

/*
 * Judges by what SHIFT itself locks on a NIC and one backup, and by the program's memory, which
 * counts on both. Further backups are used where there is room.
 */
void doctor_room(struct doctor *d)
{
	uint64_t lockable = backup_lockable(), locks = 2ull * BACKUP_CONTROL_FIRST;

	if (lockable == UINT64_MAX) {
		doctor_say(d, "memlock", FINDING_OK, "no limit for this process");
		return;
	}
	room_spread(d, lockable);
	if (lockable < locks + 2 * d->memory)
		doctor_block(d, "memlock",
			     "%llu KiB may be locked (ulimit -l): SHIFT locks %llu itself on a NIC "
			     "and its backup, and %llu of the program's memory (--memory) count "
			     "twice",
			     (unsigned long long)lockable / 1024, (unsigned long long)locks / 1024,
			     (unsigned long long)d->memory / 1024);
	else
		doctor_say(d, "memlock", FINDING_NOTE,
			   "%llu KiB may be locked (ulimit -l): enough if the program registers "
			   "no more than %llu",
			   (unsigned long long)lockable / 1024,
			   (unsigned long long)(lockable - locks) / 2048);
}
