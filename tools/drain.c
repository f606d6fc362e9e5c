/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl drain, undrain: traffic leaves a NIC in order, and comes back. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/ctl_client.h"
#include "tools/reach.h"

#define DRAIN_WAIT_S  10
#define DRAIN_POLL_MS 50
#define DRAIN_SAY_MS  1000 /* a progress line at least so often */
#define DRAIN_CALM_MS 1000 /* nothing has moved and nothing is moving: the rest stays */

struct drain_options {
	const char *device;
	pid_t pid; /* 0: all */
	long wait_s;
	bool on;
};

enum drain_fate {
	DRAIN_ASKED,
	DRAIN_GONE,	 /* ended meanwhile: it uses nothing */
	DRAIN_NO_DEVICE, /* of that name */
	DRAIN_ERROR,
};

struct drain_one {
	const struct ctl_process *process;
	pid_t pid; /* its number here; where none is shown, its own */
	enum drain_fate fate;
	json_t *answer; /* the last one */
};

struct drain_sum {
	long long connections, moving, moved, resubmitted;
};

struct drain {
	struct drain_options opt;
	struct drain_one *one;
	unsigned n;
	unsigned past; /* processes that use the device past SHIFT */
};

static int drain_value(int c, const char *text, struct drain_options *opt)
{
	long number;

	if (c == 'p' && !ctl_number(text, 1, INT_MAX, &number)) {
		opt->pid = (pid_t)number;
		return 0;
	}
	if (c == 'w' && !ctl_number(text, 0, 86400, &number)) {
		opt->wait_s = number;
		return 0;
	}
	ctl_say(c == 'p' ? "--pid takes a process id, not \"%s\""
			 : "--wait takes a number of seconds, not \"%s\"",
		text);
	return CTL_USAGE;
}

static int drain_options_parse(int argc, char **argv, struct drain_options *opt)
{
	static const struct option longopts[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "wait", required_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c != '?' && drain_value(c, optarg, opt))
			return CTL_USAGE;
		if (c == '?') {
			ctl_say("see shiftctl --help");
			return CTL_USAGE;
		}
	}
	if (optind + 1 != argc) {
		ctl_say("%s takes one device; see shiftctl --help", argv[0]);
		return CTL_USAGE;
	}
	opt->device = argv[optind];
	if (!*opt->device || strlen(opt->device) > 63 ||
	    strspn(opt->device,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") !=
		    strlen(opt->device)) {
		ctl_say("\"%s\" is no name of a device", opt->device);
		return CTL_USAGE;
	}
	return 0;
}

static void drain_ask(struct drain *d, struct drain_one *one, const char *word)
{
	char err[CTL_ERR_MAX];
	json_t *answer = NULL;
	pid_t here = 0;
	int rc;

	if (one->fate != DRAIN_ASKED)
		return;
	rc = ctl_ask(one->process, &here, &answer, err, "%s %s", word, d->opt.device);
	if (here)
		one->pid = here;
	if (rc == -ESRCH) {
		one->fate = DRAIN_GONE;
	} else if (rc) {
		one->fate = DRAIN_ERROR;
		ctl_say("process %d: %s", (int)one->pid, err);
	} else if (*ctl_text(answer, "error")) {
		one->fate = strcmp(ctl_text(answer, "error"), "no such device") ? DRAIN_ERROR
										: DRAIN_NO_DEVICE;
		if (one->fate == DRAIN_ERROR)
			ctl_say("process %d: %s", (int)one->pid, ctl_text(answer, "error"));
		json_decref(answer);
	} else {
		json_decref(one->answer);
		one->answer = answer;
	}
}

static void drain_ask_all(struct drain *d, const char *word)
{
	for (unsigned i = 0; i < d->n; i++)
		drain_ask(d, &d->one[i], word);
}

static struct drain_sum drain_sum(const struct drain *d)
{
	struct drain_sum sum = { 0 };

	for (unsigned i = 0; i < d->n; i++) {
		if (d->one[i].fate != DRAIN_ASKED)
			continue;
		sum.connections += ctl_int(d->one[i].answer, "connections");
		sum.moving += ctl_int(d->one[i].answer, "moving");
		sum.moved += ctl_int(d->one[i].answer, "moved");
	}
	return sum;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static long drain_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void drain_progress(const struct drain *d, const struct drain_sum *sum)
{
	ctl_say("%s: %lld connections on it, %lld of them on their way; %lld have moved",
		d->opt.device, sum->connections, sum->moving, sum->moved);
}

/* Waits until nothing uses the NIC, or the rest will not go, or the time is over. */
static void drain_wait(struct drain *d)
{
	const struct timespec pause = { .tv_nsec = DRAIN_POLL_MS * 1000000l };
	long begun = drain_now_ms(), said = begun, calm = begun;
	struct drain_sum sum = drain_sum(d), before = sum;

	while (sum.connections && drain_now_ms() - begun < d->opt.wait_s * 1000) {
		nanosleep(&pause, NULL);
		drain_ask_all(d, "users");
		sum = drain_sum(d);
		if (sum.moving || sum.connections != before.connections)
			calm = drain_now_ms();
		if (sum.connections != before.connections ||
		    drain_now_ms() - said >= DRAIN_SAY_MS) {
			said = drain_now_ms();
			drain_progress(d, &sum);
		}
		if (drain_now_ms() - calm >= DRAIN_CALM_MS)
			return;
		before = sum;
	}
}

/* ---- what came of it ------------------------------------------------------------------------ */

static void drain_tell_stay(const json_t *answer)
{
	long long named = 0, left;
	size_t i;
	json_t *qp;

	json_array_foreach(json_object_get(answer, "stay"), i, qp)
	{
		printf("  QP 0x%06llx stays: %s\n", ctl_int(qp, "qpn"), ctl_text(qp, "reason"));
		named++;
	}
	left = ctl_int(answer, "connections") - ctl_int(answer, "moving") - named;
	if (left > 0)
		printf("  and %lld more\n", left);
	if (ctl_int(answer, "moving"))
		printf("  %lld were still on their way\n", ctl_int(answer, "moving"));
}

static void drain_tell(const struct drain *d)
{
	for (unsigned i = 0; i < d->n; i++) {
		const json_t *answer = d->one[i].answer;

		if (d->one[i].fate != DRAIN_ASKED)
			continue;
		printf("%d: %lld connections moved, %lld stay; %lld requests sent again\n",
		       (int)d->one[i].pid, ctl_int(answer, "moved"), ctl_int(answer, "connections"),
		       ctl_int(answer, "resubmitted"));
		drain_tell_stay(answer);
	}
}

static unsigned drain_count(const struct drain *d, enum drain_fate fate)
{
	unsigned count = 0;

	for (unsigned i = 0; i < d->n; i++)
		count += d->one[i].fate == fate;
	return count;
}

/* Looks for processes that have the device open and that no order can reach. */
static void drain_look_past(struct drain *d)
{
	struct reach reach;

	if (!d->opt.on || d->opt.pid)
		return;
	(void)reach_find(true, &reach);
	for (unsigned i = 0; i < reach.n; i++) {
		if (!reach_uses(&reach.all[i], d->opt.device))
			continue;
		d->past++;
		printf("%d: uses %s past SHIFT: %s\n", (int)reach.all[i].pid, d->opt.device,
		       reach.all[i].why);
	}
	reach_free(&reach);
}

/* Nobody was asked. Then undrain has nothing to do, but a drain has moved nothing. */
static int drain_nobody(const struct drain *d)
{
	if (drain_count(d, DRAIN_NO_DEVICE))
		ctl_say("no process has a device %s", d->opt.device);
	else
		ctl_say("no process with SHIFT found%s", d->opt.pid ? " by that number" : "");
	if (d->opt.on)
		return d->past ? CTL_STAYS : CTL_NOBODY;
	return d->opt.pid || drain_count(d, DRAIN_NO_DEVICE) ? CTL_NOT_ALL : CTL_OK;
}

static int drain_result(const struct drain *d)
{
	if (drain_count(d, DRAIN_ERROR))
		return CTL_NOT_ALL;
	if (!drain_count(d, DRAIN_ASKED))
		return drain_nobody(d);
	return d->opt.on && (drain_sum(d).connections || d->past) ? CTL_STAYS : CTL_OK;
}

static int drain_run(struct drain *d)
{
	drain_ask_all(d, d->opt.on ? "drain" : "undrain");
	if (d->opt.on) {
		drain_wait(d);
		drain_tell(d);
		drain_look_past(d);
	} else {
		for (unsigned i = 0; i < d->n; i++)
			if (d->one[i].fate == DRAIN_ASKED)
				printf("%d: %s may be used again\n", (int)d->one[i].pid,
				       d->opt.device);
	}
	return drain_result(d);
}

static int drain_main(int argc, char **argv, bool on)
{
	struct drain d = { .opt = { .wait_s = DRAIN_WAIT_S, .on = on } };
	struct ctl_processes processes;
	int rc = drain_options_parse(argc, argv, &d.opt);

	if (rc)
		return rc;
	rc = ctl_find(d.opt.pid, &processes);
	d.one = rc ? NULL : calloc(processes.n + 1, sizeof(*d.one));
	if (!d.one) {
		ctl_say("out of memory");
		return CTL_NOT_ALL;
	}
	if (processes.complaint)
		ctl_say("%s", processes.complaint);
	d.n = processes.n;
	for (unsigned i = 0; i < d.n; i++) {
		d.one[i].process = &processes.all[i];
		d.one[i].pid = processes.all[i].pid;
	}
	rc = drain_run(&d);
	for (unsigned i = 0; i < d.n; i++)
		json_decref(d.one[i].answer);
	free(d.one);
	if ((!rc || rc == CTL_NOBODY) && processes.refused)
		rc = CTL_NOT_ALL;
	ctl_processes_free(&processes);
	return rc;
}

int cmd_drain(int argc, char **argv)
{
	return drain_main(argc, argv, true);
}

int cmd_undrain(int argc, char **argv)
{
	return drain_main(argc, argv, false);
}
