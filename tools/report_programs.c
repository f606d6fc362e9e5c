/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The parts of a report that running programs answer: status, events, stories. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/report.h"
#include "tools/status.h"

#define REPORT_STORIES 16u /* of a process */

static const char report_nobody[] = "There is no program with SHIFT that has made a connection.";

void report_hide_arguments(json_t *answer)
{
	const char *command = ctl_text(answer, "command");
	size_t end = strcspn(command, " "), from = end;

	while (from && command[from - 1] != '/')
		from--;
	json_object_set_new(answer, "command", json_stringn(command + from, end - from));
}

/* The answers of all to a question; of one that does not answer, why. NULL: no memory. */
static json_t *report_ask(const struct report *report, const char *question)
{
	json_t *list = json_array(), *answer;
	char err[CTL_ERR_MAX];
	pid_t here;

	for (unsigned i = 0; list && i < report->processes.n; i++) {
		const struct ctl_process *process = &report->processes.all[i];
		int rc = ctl_ask(process, &here, &answer, err, "%s", question);

		if (rc == -ESRCH)
			continue;
		if (rc)
			answer = json_pack("{s:i, s:s}", "pid", (int)process->pid, "error", err);
		else
			report_hide_arguments(answer);
		if (!rc)
			json_object_set_new(answer, "pid_here", json_integer(here));
		json_array_append_new(list, answer);
	}
	return list;
}

static void report_json(struct report *report, const char *question)
{
	json_t *whole = json_pack("{s:o}", "processes", report_ask(report, question));

	json_dumpf(whole, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(whole);
}

void report_status_json(struct report *report)
{
	report_json(report, "status");
}

void report_events_json(struct report *report)
{
	report_json(report, "events 0");
}

void report_status(struct report *report)
{
	const struct status_options options = { 0 };
	struct status status = { .list = report_ask(report, "status") };
	struct reach past;
	json_t *answer;
	size_t i;

	if (!json_array_size(status.list))
		puts(report_nobody);
	status_print(stdout, &options, &status);
	json_array_foreach(status.list, i, answer) if (*ctl_text(answer, "error"))
		printf("process %lld: %s\n", ctl_int(answer, "pid"), ctl_text(answer, "error"));
	json_decref(status.list);
	if (report->left_out)
		printf("%u programs of other users have SHIFT, too.\n", report->left_out);
	if (!reach_find(true, &past) && past.n)
		printf("%u processes use RDMA devices past SHIFT.\n", past.n);
	reach_free(&past);
}

void report_events(struct report *report)
{
	for (unsigned i = 0; i < report->processes.n; i++) {
		pid_t pid = ctl_pid_here(report->processes.all[i].socket);
		char number[16];
		char *argv[] = { "events", "--pid", number, NULL };

		snprintf(number, sizeof(number), "%d",
			 (int)(pid ? pid : report->processes.all[i].pid));
		optind = 0;
		cmd_events(3, argv);
	}
	if (!report->processes.n)
		puts(report_nobody);
}

void report_why(struct report *report)
{
	for (unsigned i = 0; i < report->processes.n; i++)
		why_troubles(&report->processes.all[i], REPORT_STORIES);
	if (!report->processes.n)
		puts(report_nobody);
}
