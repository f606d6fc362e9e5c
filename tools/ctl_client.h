/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The processes that run with SHIFT, and questions to them (docs/man/shiftctl.1). */
#ifndef TOOLS_CTL_CLIENT_H
#define TOOLS_CTL_CLIENT_H

#include <jansson.h>
#include <sys/types.h>
#include "tools/shiftctl.h"

struct ctl_process {
	char *socket;
	uid_t uid; /* whose it must be */
	pid_t pid; /* by its name; of another PID namespace it may be another */
};

struct ctl_processes {
	struct ctl_process *all;
	unsigned n;
	unsigned refused; /* directories that were not looked into, each said */
};

/*
 * This user's processes, root's look: everybody's; pid: only that one, 0: all. In the order of their
 * numbers. What is left of killed ones is among them, until it is asked. 0 or -ENOMEM.
 */
int ctl_find(pid_t pid, struct ctl_processes *out);
void ctl_processes_free(struct ctl_processes *processes);

/*
 * Asks one question and gives the answer, an object, to be released by json_decref(). 0, or -errno
 * with a sentence; -ESRCH: the process is gone (its socket was removed).
 */
int ctl_ask(const struct ctl_process *process, json_t **answer, char err[CTL_ERR_MAX],
	    const char *request, ...) __attribute__((format(printf, 4, 5)));

/* A number from an option: 0 or -EINVAL. */
int ctl_number(const char *text, long min, long max, long *out);

/* Members of an answer that may be missing: 0, false, or "". */
long long ctl_int(const json_t *object, const char *name);
bool ctl_true(const json_t *object, const char *name);
const char *ctl_text(const json_t *object, const char *name);

#endif
