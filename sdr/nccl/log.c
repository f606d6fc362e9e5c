/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(nccl_logger) logger;

void plug_log_to(nccl_logger to)
{
	atomic_store(&logger, to);
}

void plug_log(enum nccl_log_level level, unsigned long parts, const char *where, int line,
	      const char *format, ...)
{
	nccl_logger to = atomic_load(&logger);
	char text[512];
	va_list args;

	if (!to)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	to(level, parts, where, line, "NET/SDR: %s", text);
}
