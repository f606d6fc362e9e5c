/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The processes that run with SHIFT, and questions to them (docs/man/shiftctl.1). */
#ifndef TOOLS_CTL_CLIENT_H
#define TOOLS_CTL_CLIENT_H

#include <jansson.h>
#include <limits.h>
#include <sys/types.h>
#include "tools/shiftctl.h"

struct ctl_process {
	char *socket;
	uid_t uid; /* owner that the socket must have */
	/* number in the socket's name: its own; in a container that is not its number here */
	pid_t pid;
	bool inside; /* found in a container that does not share this host's directories */
};

struct ctl_processes {
	struct ctl_process *all;
	unsigned n;
	unsigned refused; /* directories that were not looked into */
	char *complaint;  /* names a refused directory, and why; NULL: none */
};

/*
 * Finds this user's processes, or, for root, everybody's, those of containers included; pid: only
 * that one, by its number here, 0: all. In the order of their own numbers. Sockets that killed
 * processes left are included: only a question tells. 0 or -ENOMEM.
 */
int ctl_find(pid_t pid, struct ctl_processes *out);
void ctl_processes_free(struct ctl_processes *processes);

/* The time that an answer may take, without a byte of it and in all, and its greatest length. */
struct ctl_patience {
	int idle_ms, total_ms;
	size_t most;
};
/* shiftctl's patience: a stopped process gives no word */
extern const struct ctl_patience ctl_patient;

/* A question. The caller sets process and raw; all else is 0. */
struct ctl_question {
	const struct ctl_process *process;
	bool raw;	/* a long answer as text: reading it takes longer than to write it */
	int rc;		/* 0, or -errno; -ESRCH: the process is gone (its socket was removed) */
	json_t *answer; /* 0: an object, the caller's to release by json_decref(); or, if raw: */
	/* checked to be JSON, the caller's to free; NULL: the answer is in answer */
	char *text;
	size_t length;	       /* length of text, which has no 0 behind it */
	char err[CTL_ERR_MAX]; /* otherwise: a sentence */
	pid_t here;	       /* the process's number here; 0: not asked yet, or none is shown */
	/* ctl_ask_all()'s own */
	int fd;
	size_t room;
	long heard_ms;
};

/* Asks all processes the same, at the same time: a slow one holds up no other. 0 or -ENOMEM. */
int ctl_ask_all(struct ctl_question *questions, unsigned n, const struct ctl_patience *patience,
		const char *request);

/*
 * Asks one question whose answer may be long in coming: rc is -EINPROGRESS until it is there. The
 * fd is the caller's to wait on. ctl_ask_end() is allowed at any time, and leaves all 0 but
 * process.
 */
void ctl_ask_begin(struct ctl_question *question, const char *request);
void ctl_ask_readable(struct ctl_question *question, size_t most);
void ctl_ask_end(struct ctl_question *question);

/*
 * Asks one question, as ctl_ask_all(). here: the process's number here, 0 where the kernel shows
 * none. 0, or -errno with a sentence.
 */
int ctl_ask(const struct ctl_process *process, pid_t *here, json_t **answer, char err[CTL_ERR_MAX],
	    const char *request, ...) __attribute__((format(printf, 5, 6)));

/* Asks the kernel who listens on a socket, by the number here. 0: nobody, or no number is shown. */
pid_t ctl_pid_here(const char *socket);

/* A number from an option: 0 or -EINVAL. */
int ctl_number(const char *text, long min, long max, long *out);

/* Members of an answer that may be missing: 0, false, or "". */
long long ctl_int(const json_t *object, const char *name);
bool ctl_true(const json_t *object, const char *name);
const char *ctl_text(const json_t *object, const char *name);
/* A GID of an answer as people know it: "10.0.0.2" where it stands for that. Within @gid. */
const char *ctl_address(const char *gid);

#endif
