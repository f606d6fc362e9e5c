/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Log lines: "shift: LEVEL: ...", each with one write(2), so that lines of several processes do
 * not mix. They go to stderr, or are appended to SHIFT_LOG_FILE. SHIFT_LOG=error|warn|info|debug,
 * default warn. SHIFT_LOG_FORMAT=json: an object on each line, with time, monotonic_ns, level,
 * pid and message.
 *
 * Any thread; errno is preserved. Never from the data path: it formats and makes system calls. A
 * line is left out where a pipe, socket or terminal has no room for it, or the disk is full; the
 * next line that is written says how many were.
 */
#ifndef SHIFTLIB_LOG_H
#define SHIFTLIB_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

enum sh_log_level { SH_LOG_ERROR, SH_LOG_WARN, SH_LOG_INFO, SH_LOG_DEBUG, SH_LOG_LEVELS };

#define SH_LOG_LINE_MAX 1024 /* bytes of a line with its newline; longer ones are cut */
#define SH_LOG_JSON_MAX 4096 /* a line of JSON; a message that is cut stays a string */

void sh_log(enum sh_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Logs with fields: members of the object that a line is, with a comma between them; a line of
 * text has none. They are left out where they do not fit.
 */
void sh_log_fields(enum sh_log_level level, const char *fields, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Logs at level error from a signal handler: async-signal-safe. */
void sh_log_crash(const char *message);
int sh_log_fd(void);	/* where lines go */
bool sh_log_json(void); /* fields are shown */
bool sh_log_enabled(enum sh_log_level level);
const char *sh_log_level_name(enum sh_log_level level);

/* Once per process and place in the source. */
#define sh_log_once(level, ...)                                                                    \
	do {                                                                                       \
		static atomic_flag sh_log_said_ = ATOMIC_FLAG_INIT;                                \
		if (sh_log_enabled(level) &&                                                       \
		    !atomic_flag_test_and_set_explicit(&sh_log_said_, memory_order_relaxed))       \
			sh_log(level, __VA_ARGS__);                                                \
	} while (0)

#define sh_error_once(...) sh_log_once(SH_LOG_ERROR, __VA_ARGS__)
#define sh_warn_once(...)  sh_log_once(SH_LOG_WARN, __VA_ARGS__)
#define sh_info_once(...)  sh_log_once(SH_LOG_INFO, __VA_ARGS__)

#endif
