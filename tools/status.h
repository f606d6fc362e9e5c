/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between status.c, which asks and prints once, and watch.c, which does so again and
 * again.
 */
#ifndef TOOLS_STATUS_H
#define TOOLS_STATUS_H

#include <stdio.h>

#include "tools/ctl_client.h"
#include "tools/reach.h"

struct status_options {
	bool json, watch;
	double interval_s;
	pid_t pid; /* 0: all */
};

struct status {
	json_t *list; /* answers, or {pid, error} where there was none */
	/*
	 * --json: a stream of the whole text; answers are not in the list then. It is closed when
	 * the text is printed.
	 */
	FILE *json;
	char *text;
	size_t length;
	unsigned answered, silent, refused;
	struct reach reach; /* processes that use devices past SHIFT */
	char *complaint;    /* names a refused directory, as in struct ctl_processes */
};

/* 0 or -ENOMEM; status_free() in either case. */
int status_gather(const struct status_options *opt, struct status *status);
void status_free(struct status *status);
int status_print(FILE *out, const struct status_options *opt, struct status *status);
/* The reason why there is nothing to print, or NULL. */
const char *status_nothing(const struct status_options *opt, const struct status *status);

/* watch.c: until q, control-C or a signal; the exit status. */
int status_watch(const struct status_options *opt);

#endif
