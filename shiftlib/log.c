/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/log.h"
#include "shiftlib/settings.h"
#include "shiftlib/util.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[SH_LOG_LEVELS] = {
	[SH_LOG_ERROR] = "error",
	[SH_LOG_WARN] = "warn",
	[SH_LOG_INFO] = "info",
	[SH_LOG_DEBUG] = "debug",
};

/* Written once by log_init, before any use. */
static enum sh_log_level log_level = SH_LOG_WARN;
static int log_fd = STDERR_FILENO;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

const char *sh_log_level_name(enum sh_log_level level)
{
	return (unsigned int)level < SH_LOG_LEVELS ? level_names[level] : "unknown";
}

/* At level debug each line says when: a move is a matter of microseconds. */
static size_t log_head(char *line, size_t size, enum sh_log_level level)
{
	uint64_t now;

	if (log_level < SH_LOG_DEBUG)
		return (size_t)snprintf(line, size, "shift: %s: ", sh_log_level_name(level));
	now = sh_now_ns();
	return (size_t)snprintf(line, size, "shift: %s: [%llu.%06llu] ", sh_log_level_name(level),
				(unsigned long long)(now / SH_NS_PER_S),
				(unsigned long long)(now % SH_NS_PER_S / SH_NS_PER_US));
}

/* Names and sentences of others are in it: they may not look like a line of ours. */
static void log_one_line(char *line, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
}

static void log_write(enum sh_log_level level, const char *format, va_list args)
{
	char line[SH_LOG_LINE_MAX];
	size_t at = log_head(line, sizeof(line), level);
	int n = vsnprintf(line + at, sizeof(line) - at, format, args);

	if (n < 0)
		return;
	at += (size_t)n;
	if (at > sizeof(line) - 1)
		at = sizeof(line) - 1;
	log_one_line(line, at);
	line[at++] = '\n';
	while (write(log_fd, line, at) < 0 && errno == EINTR)
		;
}

static void __attribute__((format(printf, 2, 3)))
log_line(enum sh_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_write(level, format, args);
	va_end(args);
}

static void log_init_level(void)
{
	const char *wanted = sh_setting("SHIFT_LOG");
	int level;

	if (!wanted || !*wanted)
		return;
	for (level = 0; level < SH_LOG_LEVELS; level++) {
		if (!strcmp(wanted, level_names[level])) {
			log_level = (enum sh_log_level)level;
			return;
		}
	}
	log_line(SH_LOG_WARN, "SHIFT_LOG=%s is none of error, warn, info, debug; using %s", wanted,
		 level_names[log_level]);
}

static void log_init_file(void)
{
	const char *path = sh_setting("SHIFT_LOG_FILE");
	int fd;

	if (!path || !*path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		log_line(SH_LOG_WARN, "cannot open SHIFT_LOG_FILE %s: %s; logging to stderr", path,
			 strerror(errno));
	else
		log_fd = fd;
}

static void log_init(void)
{
	log_init_file();
	log_init_level();
}

bool sh_log_enabled(enum sh_log_level level)
{
	int saved = errno;

	pthread_once(&log_once, log_init);
	errno = saved;
	return level <= log_level;
}

void sh_log(enum sh_log_level level, const char *format, ...)
{
	int saved = errno;
	va_list args;

	if (!sh_log_enabled(level))
		return;
	va_start(args, format);
	log_write(level, format, args);
	va_end(args);
	errno = saved;
}
