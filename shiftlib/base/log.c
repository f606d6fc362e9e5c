/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/base/aside.h"
#include "shiftlib/base/date.h"
#include "shiftlib/base/json.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *const level_names[SH_LOG_LEVELS] = {
	[SH_LOG_ERROR] = "error",
	[SH_LOG_WARN] = "warn",
	[SH_LOG_INFO] = "info",
	[SH_LOG_DEBUG] = "debug",
};

/* Written once by log_init, before any use. */
static enum sh_log_level log_level = SH_LOG_WARN;
static bool log_json;
static int log_fd = STDERR_FILENO;
static char log_again[48] = "/proc/thread-self/fd/2"; /* where it can be opened once more */
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t log_lost; /* lines that could not be written, and nobody was told of */

const char *sh_log_level_name(enum sh_log_level level)
{
	return (unsigned int)level < SH_LOG_LEVELS ? level_names[level] : "unknown";
}

/*
 * Writes the beginning of a line. At level debug each line says when: a move is a matter of
 * microseconds.
 */
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

static bool log_has_room(void)
{
	struct pollfd out = { .fd = log_fd, .events = POLLOUT };

	return poll(&out, 1, 0);
}

static ssize_t log_put_waiting(const char *line, size_t n)
{
	ssize_t ret;

	do {
		ret = write(log_fd, line, n);
	} while (ret < 0 && errno == EINTR);
	return ret;
}

/*
 * Writes to a terminal. A terminal with room for a byte waits for room for the rest, so a
 * description of our own that does not wait is used.
 */
static ssize_t log_put_terminal(const char *line, size_t n)
{
	int fd = open(log_again, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return log_put_waiting(line, n);
	ret = write(fd, line, n);
	close(fd);
	return ret;
}

/*
 * Writes a line without waiting. Others may have taken the room since, so a pipe or socket is
 * asked not to wait, if this kernel knows how to; O_NONBLOCK would be for all who share it. A
 * file that grows would refuse.
 */
static ssize_t log_put(const char *line, size_t n)
{
	struct iovec whole = { .iov_base = (char *)line, .iov_len = n };
	struct stat st;
	ssize_t ret;

	if (fstat(log_fd, &st) || S_ISREG(st.st_mode))
		return log_put_waiting(line, n);
	ret = pwritev2(log_fd, &whole, 1, -1, RWF_NOWAIT);
	if (ret >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
		return ret;
	return S_ISCHR(st.st_mode) ? log_put_terminal(line, n) : log_put_waiting(line, n);
}

/*
 * Writes a line, from a thread that may hold a lock, in a program that on stock writes nothing.
 * So nobody waits here for a reader, dies of one that has gone, or by pthread_cancel(). A SIGPIPE
 * that comes of it is taken back; one that was pending is the program's. Async-signal-safe.
 */
static bool log_out(const char *line, size_t n)
{
	const struct timespec at_once = { 0 };
	sigset_t broken, pending, before;
	ssize_t ret = -1;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &broken, &before);
	sigpending(&pending);
	errno = 0;
	if (log_has_room())
		ret = log_put(line, n);
	if (ret < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&broken, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(state, NULL);
	return ret == (ssize_t)n;
}

static bool log_write_text(enum sh_log_level level, const char *message)
{
	char line[SH_LOG_LINE_MAX];
	size_t at = log_head(line, sizeof(line), level);
	size_t n = strlen(message), room = sizeof(line) - 1 - at;

	n = n < room ? n : room;
	memcpy(line + at, message, n);
	at += n;
	log_one_line(line, at);
	line[at++] = '\n';
	return log_out(line, at);
}

/* The message is what may be too long: room for the fields is kept, if there are not too many. */
static bool log_write_json(enum sh_log_level level, const char *message, const char *fields)
{
	size_t behind = fields ? strlen(fields) + 2 : 0, at;
	char line[SH_LOG_JSON_MAX], date[SH_DATE_MAX];
	uint64_t now = sh_now_ns();

	if (behind > sizeof(line) / 2)
		behind = 0;
	sh_date_print(sh_date_now_ns(), date);
	at = (size_t)snprintf(line, sizeof(line),
			      "{\"time\": \"%s\", \"monotonic_ns\": %llu, \"level\": \"%s\", "
			      "\"pid\": %d, \"message\": \"",
			      date, (unsigned long long)now, sh_log_level_name(level),
			      (int)getpid());
	at += sh_json_escape(message, line + at, sizeof(line) - at - behind - 4);
	line[at++] = '"';
	if (behind)
		at += (size_t)snprintf(line + at, behind + 1, ", %s", fields);
	line[at++] = '}';
	line[at++] = '\n';
	return log_out(line, at);
}

static bool log_write_line(enum sh_log_level level, const char *message, const char *fields)
{
	return log_json ? log_write_json(level, message, fields) : log_write_text(level, message);
}

/* Tells the number of lost lines, at any level: it stands for lines that would have been there. */
static bool log_tell_lost(void)
{
	uint64_t lost = atomic_exchange(&log_lost, 0);
	char message[SH_LOG_LINE_MAX];

	if (!lost)
		return true;
	snprintf(message, sizeof(message), "lines of this log that could not be written: %llu",
		 (unsigned long long)lost);
	if (log_write_line(SH_LOG_WARN, message, NULL))
		return true;
	atomic_fetch_add(&log_lost, lost);
	return false;
}

static void log_write(enum sh_log_level level, const char *fields, const char *format, va_list args)
{
	char message[SH_LOG_LINE_MAX];

	if (vsnprintf(message, sizeof(message), format, args) < 0)
		return;
	if (!log_tell_lost() || !log_write_line(level, message, fields))
		atomic_fetch_add(&log_lost, 1);
}

static void __attribute__((format(printf, 2, 3)))
log_line(enum sh_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_write(level, NULL, format, args);
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
	if (fd >= 0)
		sh_aside_one(&log_fd);
	snprintf(log_again, sizeof(log_again), "/proc/thread-self/fd/%d", log_fd);
}

static void log_init_format(void)
{
	const char *wanted = sh_setting("SHIFT_LOG_FORMAT");

	log_json = wanted && !strcmp(wanted, "json");
	if (wanted && *wanted && !log_json && strcmp(wanted, "text"))
		log_line(SH_LOG_WARN, "SHIFT_LOG_FORMAT=%s is neither text nor json; using text",
			 wanted);
}

static void log_init(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	log_init_format();
	log_init_file();
	log_init_level();
	pthread_setcancelstate(state, NULL);
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
	log_write(level, NULL, format, args);
	va_end(args);
	errno = saved;
}

void sh_log_fields(enum sh_log_level level, const char *fields, const char *format, ...)
{
	int saved = errno;
	va_list args;

	if (!sh_log_enabled(level))
		return;
	va_start(args, format);
	log_write(level, fields, format, args);
	va_end(args);
	errno = saved;
}

bool sh_log_json(void)
{
	return sh_log_enabled(SH_LOG_ERROR) && log_json;
}

static size_t log_append(char *line, size_t at, const char *text)
{
	while (*text)
		line[at++] = *text++;
	return at;
}

/*
 * Writes a line without the C library's printf, and without numbers that only a program would
 * want.
 */
void sh_log_crash(const char *message)
{
	char line[SH_LOG_JSON_MAX], date[SH_DATE_MAX];
	size_t at = 0;

	if (log_json) {
		sh_date_print(sh_date_now_ns(), date);
		at = log_append(line, at, "{\"time\": \"");
		at = log_append(line, at, date);
		at = log_append(line, at, "\", \"level\": \"error\", \"message\": \"");
		at += sh_json_escape(message, line + at, sizeof(line) - at - 4);
		at = log_append(line, at, "\"}\n");
	} else {
		at = log_append(line, at, "shift: error: ");
		at += sh_json_escape(message, line + at, sizeof(line) - at - 4);
		at = log_append(line, at, "\n");
	}
	(void)log_out(line, at);
}

int sh_log_fd(void)
{
	(void)sh_log_enabled(SH_LOG_ERROR);
	return log_fd;
}
