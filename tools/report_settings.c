/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of a report about settings and log: SHIFT's own settings, and the variables of others
 * on the list below; no other variable is looked at. Of a log file SHIFT's own lines are taken.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/variables.h"
#include "tools/proc.h"
#include "tools/report.h"
#include "tools/scrub.h"

#define SETTINGS_ENVIRON (2u << 20)
#define LOG_BYTES	 (256l << 10)
#define LOG_LINES	 400u
#define LOG_FILES	 32u

extern char **environ;

/* Variables of others that decide what SHIFT meets; docs/man/shiftctl.1 has this list. */
static const char *const others[] = {
	"SHIFT_CONF",
	"IBV_FORK_SAFE",
	"LD_LIBRARY_PATH",
	"LD_PRELOAD",
	"MLX5_SINGLE_THREADED",
	"NCCL_IB_ADAPTIVE_ROUTING",
	"NCCL_IB_GID_INDEX",
	"NCCL_IB_HCA",
	"NCCL_IB_QPS_PER_CONNECTION",
	"NCCL_IB_RETRY_CNT",
	"NCCL_IB_SL",
	"NCCL_IB_TC",
	"NCCL_IB_TIMEOUT",
	"NCCL_NET",
	"NCCL_NET_PLUGIN",
	"RDMAV_FORK_SAFE",
	"UCX_IB_GID_INDEX",
	"UCX_NET_DEVICES",
};

/* What these hold is the user's: a command, and files whose names only lead to secrets. */
static const char *const hidden[] = { "SHIFT_ON_EVENT", "SHIFT_KV_PASSWORD_FILE",
				      "SHIFT_SECRET_FILE" };

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

#define ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof(*(list)))

static bool setting_is_told(const char *name)
{
	for (size_t i = 0; i < SH_VARIABLES; i++)
		if (!strcmp(name, sh_variables[i].name))
			return true;
	return sh_setting_known(name) || ONE_OF(name, others);
}

/* A malformed address may hold a password anywhere. */
static bool kv_is_wellformed(const char *url)
{
	struct kv *kv;
	bool well = !kv_open(url, 1, &kv, NULL, 0);

	if (well)
		kv_close(kv);
	return well;
}

static void setting_tell(const char *name, const char *value)
{
	if (ONE_OF(name, hidden))
		printf("  %s is set (not shown)\n", name);
	else if (!strcmp(name, "SHIFT_KV") && *value && !kv_is_wellformed(value))
		printf("  %s is set, and is no address (not shown)\n", name);
	else
		printf("  %s=%s\n", name, value);
}

/* Calls fn for each variable "NAME=VALUE" on the list. */
static void variable_take(const char *variable, void (*fn)(const char *, const char *))
{
	const char *value = strchr(variable, '=');
	char name[64];

	if (!value || (size_t)(value - variable) >= sizeof(name))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(value - variable), variable);
	if (setting_is_told(name))
		fn(name, value + 1);
}

static void variables_of_process(const struct ctl_process *process,
				 void (*fn)(const char *, const char *))
{
	pid_t pid = ctl_pid_here(process->socket);
	size_t length = 0;
	char *text = pid ? proc_read(pid, "environ", SETTINGS_ENVIRON, &length) : NULL;

	for (char *at = text; text && at < text + length; at += strlen(at) + 1)
		variable_take(at, fn);
	free(text);
}

static void setting_learn(const char *name, const char *value)
{
	if (strcmp(name, "SHIFT_KV"))
		return;
	scrub_learn(value);
	if (!kv_is_wellformed(value))
		scrub_learn_all(value);
}

void report_learn(const struct report *report)
{
	const char *kv = sh_setting("SHIFT_KV");

	if (kv)
		setting_learn("SHIFT_KV", kv);
	for (unsigned i = 0; i < report->processes.n; i++)
		variables_of_process(&report->processes.all[i], setting_learn);
}

static void settings_file_tell(void)
{
	const char *complaints, *file;
	bool was_read;

	file = sh_settings_file(&was_read, &complaints);
	printf("%s was %s. What holds for a new program here, by it and this environment:\n", file,
	       was_read ? "read" : "not read");
	fputs(complaints, stdout);
}

void report_settings(struct report *report)
{
	settings_file_tell();
	for (size_t i = 0; sh_setting_name(i); i++)
		if (sh_setting(sh_setting_name(i)))
			setting_tell(sh_setting_name(i), sh_setting(sh_setting_name(i)));
	puts("Environment of shiftctl:");
	for (char **variable = environ; *variable; variable++)
		variable_take(*variable, setting_tell);
	for (unsigned i = 0; i < report->processes.n; i++) {
		printf("Environment of process %d when it was started:\n",
		       (int)report->processes.all[i].pid);
		variables_of_process(&report->processes.all[i], setting_tell);
	}
}

/* ---- the log --------------------------------------------------------------------------------- */

static struct {
	char *path[LOG_FILES];
	unsigned n;
	pid_t pid; /* whose variables are looked at; 0: our own */
} logs;

static void log_note(const char *name, const char *value)
{
	char *path = NULL;
	int n;

	if (strcmp(name, "SHIFT_LOG_FILE") || !*value || logs.n == LOG_FILES)
		return;
	if (!logs.pid)
		n = asprintf(&path, "%s", value);
	else
		n = asprintf(&path, "/proc/%d/%s/%s", (int)logs.pid, *value == '/' ? "root" : "cwd",
			     value);
	if (n >= 0)
		logs.path[logs.n++] = path;
}

/* True for a line that SHIFT wrote: another's in the same file is none of ours. */
static bool log_is_ours(const char *line)
{
	return !strncmp(line, "shift: ", strlen("shift: ")) ||
	       (!strncmp(line, "{\"time\": ", strlen("{\"time\": ")) &&
		strstr(line, "\"monotonic_ns\": "));
}

static void log_lines_tell(char *text)
{
	unsigned ours = 0, of_others = 0, skip;
	char *line, *rest = text;

	for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		ours += log_is_ours(at);
	skip = ours > LOG_LINES ? ours - LOG_LINES : 0;
	while ((line = strsep(&rest, "\n"))) {
		if (!log_is_ours(line))
			of_others += !!*line;
		else if (skip)
			skip--;
		else
			puts(line);
	}
	if (of_others)
		printf("(%u lines of others are left out)\n", of_others);
}

static void log_tell(const char *path, dev_t dev[], ino_t ino[], unsigned i)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	ssize_t n = 0;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		goto close_file;
	for (unsigned k = 0; k < i; k++)
		if (dev[k] == st.st_dev && ino[k] == st.st_ino)
			goto close_file;
	dev[i] = st.st_dev;
	ino[i] = st.st_ino;
	text = malloc(LOG_BYTES + 1);
	if (text)
		n = pread(fd, text, LOG_BYTES, st.st_size > LOG_BYTES ? st.st_size - LOG_BYTES : 0);
	if (n > 0) {
		text[n] = '\0';
		printf("---- log file %u\n", i + 1);
		log_lines_tell(text);
	}
close_file:
	free(text);
	if (fd >= 0)
		close(fd);
}

void report_log(struct report *report)
{
	dev_t dev[LOG_FILES] = { 0 };
	ino_t ino[LOG_FILES] = { 0 };

	if (!report->pid && sh_setting("SHIFT_LOG_FILE"))
		log_note("SHIFT_LOG_FILE", sh_setting("SHIFT_LOG_FILE"));
	for (unsigned i = 0; i < report->processes.n; i++) {
		logs.pid = ctl_pid_here(report->processes.all[i].socket);
		if (logs.pid)
			variables_of_process(&report->processes.all[i], log_note);
	}
	if (!logs.n)
		puts("No SHIFT_LOG_FILE is set: the log is on the standard error of the programs.");
	for (unsigned i = 0; i < logs.n; i++) {
		log_tell(logs.path[i], dev, ino, i);
		free(logs.path[i]);
	}
	logs.n = 0;
}
