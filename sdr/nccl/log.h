/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The plugin's words, through NCCL's logger. Any thread may call these. */
#ifndef SDR_NCCL_LOG_H
#define SDR_NCCL_LOG_H

#include "interface.h"

void plug_log_to(nccl_logger logger);

#define PLUG_WARN(...) plug_log(NCCL_LOG_WARN, NCCL_PART_ALL, __FILE__, __LINE__, __VA_ARGS__)
#define PLUG_INFO(...) plug_log(NCCL_LOG_INFO, NCCL_PART_NET, __func__, __LINE__, __VA_ARGS__)

void plug_log(enum nccl_log_level level, unsigned long parts, const char *where, int line,
	      const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
