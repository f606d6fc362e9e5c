/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl events: what has happened in the processes that run now, and what happens. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shiftlib/base/date.h"
#include "tools/ctl_client.h"

#define EVENTS_ROUND_MS	 200  /* time between two rounds of --follow */
#define EVENTS_SILENT_MS 5000 /* time for which a process that did not answer is left alone */

/*
 * Patience of --follow: a process that stands still holds the others up for so long, now and then.
 */
static const struct ctl_patience events_hasty = { .idle_ms = 500,
						  .total_ms = 2000,
						  .most = 4u << 20 };

struct events_options {
	bool json, follow;
	pid_t pid;	     /* 0: all */
	const char *program; /* name of a program; NULL: all */
	char since[SH_DATE_MAX];
};

/* A process whose events were asked for. */
struct events_seen {
	pid_t pid;
	char instance[24];
	long long told; /* number of the last event that was shown */
	uint64_t silent_until_ms;
	unsigned round; /* last round in which it was there */
};

struct events {
	struct events_options opt;
	struct events_seen *seen;
	unsigned n_seen, round;
	unsigned answered, silent; /* in this round */
	bool head_printed;
	json_t *fresh; /* events of this round, by time */
};

/* ---- options -------------------------------------------------------------------------------- */

/* Takes "90", "90s", "15m", "2h", "1d": events that are not older than that. */
static int events_since(const char *text, char out[SH_DATE_MAX])
{
	static const char units[] = "smhd";
	static const uint64_t seconds[] = { 1, 60, 3600, 86400 };
	uint64_t now = sh_date_now_ns(), ago;
	const char *unit;
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	unit = *end ? strchr(units, *end) : units;
	if (errno || end == text || value < 0 || value > 36500 * 24l || !unit || (*end && end[1]))
		return -EINVAL;
	ago = (uint64_t)value * seconds[unit - units] * 1000000000u;
	sh_date_print(ago < now ? now - ago : 0, out);
	return 0;
}

static int events_value(int c, const char *text, struct events_options *opt)
{
	long number;

	switch (c) {
	case 'j': opt->json = true; return 0;
	case 'f': opt->follow = true; return 0;
	case 'p':
		if (!ctl_number(text, 1, INT_MAX, &number)) {
			opt->pid = (pid_t)number;
			return 0;
		}
		ctl_say("--pid takes a process id, not \"%s\"", text);
		return CTL_USAGE;
	case 's':
		if (!events_since(text, opt->since))
			return 0;
		ctl_say("--since takes a time such as 90s, 15m, 2h or 1d, not \"%s\"", text);
		return CTL_USAGE;
	default: ctl_say("see shiftctl --help"); return CTL_USAGE;
	}
}

static int events_options_parse(int argc, char **argv, struct events_options *opt)
{
	static const struct option longopts[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "follow", no_argument, NULL, 'f' },
		{ "pid", required_argument, NULL, 'p' },
		{ "since", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "f", longopts, NULL)) != -1)
		if (events_value(c, optarg, opt))
			return CTL_USAGE;
	if (optind < argc)
		opt->program = argv[optind++];
	if (optind == argc && !(opt->program && (opt->pid || !*opt->program)))
		return 0;
	ctl_say("events takes one name of a program or one --pid; see shiftctl --help");
	return CTL_USAGE;
}

/* ---- one process ---------------------------------------------------------------------------- */

static uint64_t events_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static struct events_seen *events_seen(struct events *e, pid_t pid)
{
	struct events_seen *grown;
	unsigned i;

	for (i = 0; i < e->n_seen; i++)
		if (e->seen[i].pid == pid)
			return &e->seen[i];
	grown = realloc(e->seen, (e->n_seen + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	e->seen = grown;
	grown[e->n_seen] = (struct events_seen){ .pid = pid };
	return &grown[e->n_seen++];
}

/* True if the program's file has the name wanted; the command line begins with that file. */
static bool events_wanted(const struct events *e, const char *command)
{
	size_t length = strcspn(command, " "), from = length;

	if (!e->opt.program)
		return true;
	while (from && command[from - 1] != '/')
		from--;
	return strlen(e->opt.program) == length - from &&
	       !strncmp(command + from, e->opt.program, length - from);
}

static void events_take(struct events *e, const json_t *answer, struct events_seen *seen)
{
	const char *command = ctl_text(answer, "command");
	long long number;
	json_t *event;
	size_t i;

	json_array_foreach(json_object_get(answer, "events"), i, event)
	{
		number = ctl_int(event, "number");
		if (seen->told && number > seen->told + 1)
			ctl_say("process %d: %lld events came too fast to be shown", (int)seen->pid,
				number - seen->told - 1);
		seen->told = number;
		if (strcmp(ctl_text(event, "time"), e->opt.since) < 0)
			continue;
		json_object_set_new(event, "pid", json_integer(seen->pid));
		json_object_set_new(event, "command", json_string(command));
		json_array_append(e->fresh, event);
	}
}

/* Said once, until it answers. */
static void events_silent(struct events *e, struct events_seen *seen, const char *err)
{
	if (!seen->silent_until_ms)
		ctl_say("process %d: %s", (int)seen->pid, err);
	seen->silent_until_ms = events_now_ms() + EVENTS_SILENT_MS;
	e->silent++;
}

static void events_answered(struct events *e, const json_t *answer, struct events_seen *seen)
{
	const char *instance = ctl_text(answer, "instance");

	seen->silent_until_ms = 0;
	if (!events_wanted(e, ctl_text(answer, "command"))) {
		seen->told = ctl_int(answer, "last");
		return;
	}
	e->answered++;
	/* another of its number: it begins anew, and is asked from there in the next round */
	if (*seen->instance && strcmp(seen->instance, instance))
		seen->told = 0;
	else
		events_take(e, answer, seen);
	snprintf(seen->instance, sizeof(seen->instance), "%s", instance);
}

static void events_ask(struct events *e, const struct ctl_process *process)
{
	const struct ctl_patience *patience = e->opt.follow ? &events_hasty : &ctl_patient;
	struct events_seen *seen = events_seen(e, process->pid);
	struct ctl_question question = { .process = process };
	char request[32];

	if (!seen)
		return;
	seen->round = e->round;
	if (seen->silent_until_ms > events_now_ms())
		return;
	snprintf(request, sizeof(request), "events %lld", seen->told);
	if (ctl_ask_all(&question, 1, patience, request))
		question.rc = ctl_err(question.err, -ENOMEM, "out of memory");
	if (!question.rc && *ctl_text(question.answer, "error"))
		question.rc =
			ctl_err(question.err, -EPROTO, "%s", ctl_text(question.answer, "error"));
	if (question.rc && question.rc != -ESRCH)
		events_silent(e, seen, question.err);
	if (!question.rc)
		events_answered(e, question.answer, seen);
	json_decref(question.answer);
}

/* ---- shown ---------------------------------------------------------------------------------- */

static int events_order(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int by_time = strcmp(ctl_text(x, "time"), ctl_text(y, "time"));
	long long numbers = ctl_int(x, "number") - ctl_int(y, "number");

	return by_time ? by_time : numbers < 0 ? -1 : numbers > 0;
}

static void events_ms(const json_t *event, const char *name, char out[16])
{
	out[0] = 0;
	if (json_object_get(event, name))
		snprintf(out, 16, "%.1f", (double)ctl_int(event, name) / 1e6);
}

/* Of `whole` only since when it was not: its connections may have ended. */
static void events_share(const json_t *event)
{
	double left = json_number_value(json_object_get(event, "bandwidth_left"));
	const char *since = ctl_text(event, "since");

	fputs(*ctl_text(event, "why") ? ", " : "", stdout);
	if (!strcmp(ctl_text(event, "kind"), "whole"))
		printf("it was degraded since %s", since);
	else if (left > 0)
		printf("%.2f of the bandwidth since %s", left, since);
	else
		printf("nothing passes since %s", since);
}

static void events_row(struct events *e, const json_t *event)
{
	char nics[136], detect[16], took[16];

	if (!e->head_printed)
		printf("%-27s %8s %-11s %-15s %-18s %-15s %5s %9s %9s %6s %7s %7s  %s\n", "TIME",
		       "PID", "EVENT", "CAUSE", "NIC", "PEER", "QPS", "DETECT ms", "SWITCH ms",
		       "RESENT", "SETTLED", "UNKNOWN", "WHY");
	e->head_printed = true;
	snprintf(nics, sizeof(nics), "%s%s%s", ctl_text(event, "from"),
		 *ctl_text(event, "to") ? " -> " : "", ctl_text(event, "to"));
	events_ms(event, "detect_ns", detect);
	events_ms(event, "switch_ns", took);
	printf("%-27s %8lld %-11s %-15s %-18s %-15s %5lld %9s %9s", ctl_text(event, "time"),
	       ctl_int(event, "pid"), ctl_text(event, "kind"), ctl_text(event, "cause"), nics,
	       ctl_address(ctl_text(event, "peer_gid")), ctl_int(event, "qps"), detect, took);
	if (json_object_get(event, "resent"))
		printf(" %6lld %7lld %7lld", ctl_int(event, "resent"), ctl_int(event, "settled"),
		       ctl_int(event, "unknown"));
	else
		printf(" %6s %7s %7s", "", "", "");
	printf("  %s", ctl_text(event, "why"));
	if (json_object_get(event, "since"))
		events_share(event);
	putchar('\n');
}

/* 0, or -errno if nobody reads it any more. */
static int events_show(struct events *e)
{
	size_t i, n = json_array_size(e->fresh);
	json_t **sorted = calloc(n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		sorted[i] = json_array_get(e->fresh, i);
	qsort(sorted, n, sizeof(*sorted), events_order);
	for (i = 0; i < n; i++) {
		if (!e->opt.json) {
			events_row(e, sorted[i]);
			continue;
		}
		json_dumpf(sorted[i], stdout, JSON_COMPACT);
		putchar('\n');
	}
	free(sorted);
	json_array_clear(e->fresh);
	return fflush(stdout) ? -errno : 0;
}

/* ---- all processes -------------------------------------------------------------------------- */

/* Numbers of processes come back: who is gone is forgotten. */
static void events_forget_gone(struct events *e)
{
	unsigned i, kept = 0;

	for (i = 0; i < e->n_seen; i++)
		if (e->seen[i].round == e->round)
			e->seen[kept++] = e->seen[i];
	e->n_seen = kept;
}

static int events_round(struct events *e)
{
	struct ctl_processes processes;
	unsigned i;

	e->round++;
	e->answered = e->silent = 0;
	if (ctl_find(e->opt.pid, &processes)) {
		ctl_say("out of memory");
		return -ENOMEM;
	}
	if (processes.complaint && e->round == 1)
		ctl_say("%s", processes.complaint);
	for (i = 0; i < processes.n; i++)
		events_ask(e, &processes.all[i]);
	ctl_processes_free(&processes);
	events_forget_gone(e);
	return events_show(e);
}

static int events_follow(struct events *e)
{
	const struct timespec pause = { .tv_nsec = EVENTS_ROUND_MS * 1000000l };
	int rc;

	while (!(rc = events_round(e)))
		nanosleep(&pause, NULL);
	return rc == -EPIPE ? CTL_OK : CTL_NOT_ALL;
}

static int events_once(struct events *e)
{
	int rc = events_round(e);

	if (!rc && !e->answered && !e->silent)
		ctl_say("no process with SHIFT found%s%s%s", e->opt.program ? " of the name " : "",
			e->opt.program ? e->opt.program : "", e->opt.pid ? " by that number" : "");
	return !rc && e->answered && !e->silent ? CTL_OK : CTL_NOT_ALL;
}

int cmd_events(int argc, char **argv)
{
	struct events e = { 0 };
	int rc = events_options_parse(argc, argv, &e.opt);

	if (rc)
		return rc;
	e.fresh = json_array();
	rc = e.opt.follow ? events_follow(&e) : events_once(&e);
	json_decref(e.fresh);
	free(e.seen);
	return rc;
}
