/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The seam between doctor.c, which looks at libraries and devices, and doctor_env.c. One thread. */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include "tools/shiftctl.h"

enum finding {
	FINDING_OK,
	FINDING_NOTE,
	FINDING_NO, /* nothing can be protected, or not this device */
};

struct doctor {
	const char *kv, *backup, *libdir;
	uint64_t memory; /* bytes that the program registers */
	struct library lib;
	struct device_list devices;
	struct backup_map map;
	bool blocked; /* something was found that keeps everything unprotected */
};

/* Prints a finding, one line. */
void doctor_say(struct doctor *d, const char *what, enum finding f, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Prints a finding that keeps everything unprotected. */
void doctor_block(struct doctor *d, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- doctor_env.c: the process's environment and limits ------------------------------------- */

/* Judges variables and the file of settings, the log file and the directory of sockets. */
void doctor_settings(struct doctor *d);
/* Judges the limits of files and addresses. */
void doctor_limits(struct doctor *d);
/* Judges the memory that may be locked, by the map of backups. */
void doctor_room(struct doctor *d);

/* ---- doctor_gpu.c: NICs and GPUs ------------------------------------------------------------- */

/* Says whether NCCL's LL128 is safe with the map of backups; nothing where there is no GPU. */
void doctor_gpus(struct doctor *d);

#endif
