/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "shiftlib/base/settings.h"

#define SETTINGS_FILE	   "/etc/shift.conf"
#define SETTINGS_BYTES	   65536
#define SETTINGS_COMPLAINT 1024
#define SETTINGS_BLANKS	   " \t\r"

static const char *const names[] = {
	"SHIFT_ANY_VLAN",
	"SHIFT_ATOMICS",
	"SHIFT_ATOMIC_GROUP",
	"SHIFT_ATOMIC_HOME",
	"SHIFT_BACKUP",
	"SHIFT_CALM_MS",
	"SHIFT_COMMAND_MS",
	"SHIFT_CRASH_NOTE",
	"SHIFT_DEADLINE_MS",
	"SHIFT_ENGINE",
	"SHIFT_DISABLE",
	"SHIFT_ENABLE",
	"SHIFT_ENV",
	"SHIFT_EXACT",
	"SHIFT_FLUSH_WAIT_MS",
	"SHIFT_GRAY",
	"SHIFT_GRAY_HOLD_MAX_MS",
	"SHIFT_GRAY_HOLD_MS",
	"SHIFT_GRAY_LEAST",
	"SHIFT_GRAY_LOOK_MS",
	"SHIFT_GRAY_PER_MILLION",
	"SHIFT_HANG_MS",
	"SHIFT_HEARTBEAT",
	"SHIFT_HEARTBEAT_IDLE_MS",
	"SHIFT_HEARTBEAT_LOSS_MS",
	"SHIFT_HEARTBEAT_MS",
	"SHIFT_HOLDDOWN_MAX_MS",
	"SHIFT_HOLDDOWN_MS",
	"SHIFT_HOLD_HUNG",
	"SHIFT_JOB",
	"SHIFT_KV",
	"SHIFT_KV_PASSWORD_FILE",
	"SHIFT_KV_TIMEOUT_MS",
	"SHIFT_LAZY",
	"SHIFT_LEASE_MS",
	"SHIFT_LL128",
	"SHIFT_LOG",
	"SHIFT_LOG_FILE",
	"SHIFT_LOG_FORMAT",
	"SHIFT_ON_EVENT",
	"SHIFT_ON_EVENT_KINDS",
	"SHIFT_ON_EVENT_TIMEOUT_MS",
	"SHIFT_PACKET_LIFETIME_MS",
	"SHIFT_PRIORITY",
	"SHIFT_PROGRAMS",
	"SHIFT_PUSH",
	"SHIFT_RETRY_STRETCH",
	"SHIFT_RUN_DIR",
	"SHIFT_SECRET_FILE",
	"SHIFT_SILENCE_MS",
	"SHIFT_STATS",
	"SHIFT_UNPLACED",
	"SHIFT_WATCH_MS",
	"SHIFT_WQE_LOG",
	"SHIFT_YIELD_MS",
};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

static struct {
	pthread_once_t once;
	const char *path;
	bool read;
	char *text; /* the file; values point into it */
	const char *values[N_NAMES];
	char complaints[SETTINGS_COMPLAINT]; /* lines */
} settings = { .once = PTHREAD_ONCE_INIT };

/* ---- the file ------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 1, 2))) settings_complain(const char *format, ...)
{
	size_t used = strlen(settings.complaints), cap = sizeof(settings.complaints) - used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(settings.complaints + used, cap, format, args);
	va_end(args);
	/* the complaints before it are enough to begin with */
	if (n < 0 || (size_t)n + 1 >= cap)
		settings.complaints[used] = '\0';
	else
		strcat(settings.complaints + used, "\n");
}

static char *settings_trim(char *text)
{
	char *end;

	text += strspn(text, SETTINGS_BLANKS);
	end = text + strlen(text);
	while (end > text && strchr(SETTINGS_BLANKS, end[-1]))
		*--end = '\0';
	return text;
}

static void settings_line(char *line, unsigned int number)
{
	char *name = settings_trim(line), *value = strchr(name, '=');
	size_t i;

	if (!*name || *name == '#')
		return;
	if (!value) {
		settings_complain("%s:%u: not NAME = VALUE", settings.path, number);
		return;
	}
	*value++ = '\0';
	name = settings_trim(name);
	value = settings_trim(value);
	for (i = 0; i < N_NAMES; i++)
		if (!strcmp(name, names[i])) {
			settings.values[i] = *value ? value : NULL;
			return;
		}
	settings_complain("%s:%u: there is no setting %.64s", settings.path, number, name);
}

static void settings_parse(char *text)
{
	unsigned int number = 1;
	char *line = text, *end;

	for (; line; line = end, number++) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		settings_line(line, number);
	}
}

/*
 * True for a file that nobody else may write: it may switch on what reads and redirects a
 * program's traffic.
 */
static bool settings_believed(const struct stat *st, bool configured)
{
	bool owned = !st->st_uid || (configured && st->st_uid == geteuid());

	if (!S_ISREG(st->st_mode))
		settings_complain("%s is ignored: not a file", settings.path);
	else if (!owned || st->st_mode & (S_IWGRP | S_IWOTH))
		settings_complain("%s is ignored: others than its owner, root, may write it; run "
				  "chown root:root and chmod 644",
				  settings.path);
	else if (st->st_size >= SETTINGS_BYTES)
		settings_complain("%s is ignored: %lld bytes are too many", settings.path,
				  (long long)st->st_size);
	else
		return true;
	return false;
}

static bool settings_load(int fd, size_t size)
{
	size_t used = 0;
	ssize_t n = 1;

	settings.text = calloc(1, size + 1);
	while (settings.text && used < size && n > 0) {
		n = read(fd, settings.text + used, size - used);
		if (n > 0)
			used += (size_t)n;
	}
	if (settings.text && n >= 0 && strlen(settings.text) == used)
		return true;
	settings_complain("%s is ignored: it cannot be read as text", settings.path);
	return false;
}

static void settings_init(void)
{
	const char *configured = secure_getenv("SHIFT_CONF");
	struct stat st;
	int fd;

	if (configured && !*configured)
		configured = NULL;
	settings.path = configured ? strdup(configured) : SETTINGS_FILE;
	if (!settings.path)
		return;
	fd = open(settings.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		if (configured || errno != ENOENT)
			settings_complain("%s is ignored: %s", settings.path, strerror(errno));
		return;
	}
	if (!fstat(fd, &st) && settings_believed(&st, configured) &&
	    settings_load(fd, (size_t)st.st_size)) {
		settings.read = true;
		settings_parse(settings.text);
	}
	close(fd);
}

const char *sh_settings_file(bool *was_read, const char **complaints)
{
	pthread_once(&settings.once, settings_init);
	*was_read = settings.read;
	*complaints = settings.complaints;
	return settings.path ? settings.path : SETTINGS_FILE;
}

const char *sh_setting(const char *name)
{
	const char *value = secure_getenv(name);
	size_t i;

	if (value && *value)
		return value;
	pthread_once(&settings.once, settings_init);
	for (i = 0; i < N_NAMES; i++)
		if (!strcmp(name, names[i]))
			return settings.values[i];
	return NULL;
}

bool sh_setting_known(const char *name)
{
	size_t i;

	for (i = 0; i < N_NAMES; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

const char *sh_setting_name(size_t i)
{
	return i < N_NAMES ? names[i] : NULL;
}

/* ---- which programs ------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool match_one(const char *pattern, const char *exe, const char *name)
{
	if (strchr(pattern, '/'))
		return !fnmatch(pattern, exe, FNM_PATHNAME);
	return !fnmatch(pattern, base_name(exe), 0) || !fnmatch(pattern, base_name(name), 0);
}

bool sh_settings_match(const char *list, const char *exe, const char *name)
{
	char *copy = strdup(list), *rest = NULL, *pattern;
	bool found = false;

	if (!copy)
		return false;
	for (pattern = strtok_r(copy, ", \t", &rest); pattern && !found;
	     pattern = strtok_r(NULL, ", \t", &rest))
		found = match_one(pattern, exe, name);
	free(copy);
	return found;
}

/*
 * True if this library is in its private directory, where the link to the library underneath lies
 * beside it. During an update of that the link may lead nowhere.
 */
static bool settings_private(void)
{
	char beside[PATH_MAX];
	struct stat st;
	Dl_info info;
	const char *slash;
	int n;

	if (!dladdr((void *)(uintptr_t)&settings_private, &info) || !info.dli_fname)
		return true;
	slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return true;
	n = snprintf(beside, sizeof(beside), "%.*s/libibverbs-distro.so.1",
		     (int)(slash - info.dli_fname), info.dli_fname);
	return n < 0 || n >= (int)sizeof(beside) || !lstat(beside, &st);
}

static bool settings_true(const char *name)
{
	const char *value = sh_setting(name);

	return value && strcmp(value, "0");
}

bool sh_settings_wanted(void)
{
	const char *programs;
	char exe[PATH_MAX];
	ssize_t n;

	if (settings_true("SHIFT_DISABLE"))
		return false;
	if (settings_private() || settings_true("SHIFT_ENABLE"))
		return true;
	programs = sh_setting("SHIFT_PROGRAMS");
	if (!programs)
		return false;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	return sh_settings_match(programs, exe, program_invocation_name);
}
