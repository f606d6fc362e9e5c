/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between report.c, which makes the archive of a bug report, and the files that write its
 * parts. A part writes to the standard output, in a process of its own; what it writes is scrubbed.
 * One thread.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "tools/ctl_client.h"

/* The programs that the report is about. */
struct report {
	pid_t pid; /* 0: all of this user */
	struct ctl_processes processes;
	unsigned left_out; /* programs of other users */
};

/* ---- report_host.c: this machine ------------------------------------------------------------ */

void report_versions(struct report *report);
void report_nics(struct report *report);

/* ---- report_settings.c: settings and log ---------------------------------------------------- */

/* Learns the passwords of the addresses that these programs and this environment name. */
void report_learn(const struct report *report);
void report_settings(struct report *report);
void report_log(struct report *report);

/* ---- report_programs.c: what the programs answer -------------------------------------------- */

void report_status(struct report *report);
void report_status_json(struct report *report);
void report_events(struct report *report);
void report_events_json(struct report *report);
void report_why(struct report *report);

/* Cuts a command line down to the name of the program's file: arguments may hold anything. */
void report_hide_arguments(json_t *answer);

/* why.c: tells the stories of the NICs and connections that are not well, up to so many. */
void why_troubles(const struct ctl_process *process, unsigned most);

#endif
