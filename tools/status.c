/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl status: what SHIFT does in the processes that run now. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl_client.h"

struct status_options {
	bool json;
	pid_t pid; /* 0: all */
};

static int status_options_parse(int argc, char **argv, struct status_options *opt)
{
	static const struct option longopts[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pid", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	long number;
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'j': opt->json = true; break;
		case 'p':
			if (ctl_number(optarg, 1, INT_MAX, &number)) {
				ctl_say("--pid takes a process id, not \"%s\"", optarg);
				return CTL_USAGE;
			}
			opt->pid = (pid_t)number;
			break;
		default: ctl_say("see shiftctl --help"); return CTL_USAGE;
		}
	}
	if (optind != argc) {
		ctl_say("status takes no argument \"%s\"; see shiftctl --help", argv[optind]);
		return CTL_USAGE;
	}
	return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

static void status_nic_words(const json_t *nic, char *out, size_t size)
{
	static const char *const flags[] = { "drained", "port_down", "sick", "fatal" };
	static const char *const words[] = { "drained", "port down", "sick", "fatal" };
	size_t used = (size_t)snprintf(out, size, "%s", ctl_text(nic, "state"));

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && used < size; i++)
		if (ctl_true(nic, flags[i]))
			used += (size_t)snprintf(out + used, size - used, ", %s", words[i]);
	if (*ctl_text(nic, "why") && used < size)
		snprintf(out + used, size - used, ": %s", ctl_text(nic, "why"));
}

static void status_nics(const json_t *answer)
{
	char words[256];
	size_t i;
	json_t *nic;

	json_array_foreach(json_object_get(answer, "nics"), i, nic)
	{
		status_nic_words(nic, words, sizeof(words));
		printf("  %-12s %s\n", ctl_text(nic, "name"), words);
	}
}

/* "mlx5_1 READY", or nothing. */
static void status_standby(const json_t *qp, char *out, size_t size)
{
	const json_t *standby = json_object_get(qp, "standby");

	out[0] = 0;
	if (json_is_object(standby))
		snprintf(out, size, "%s %s", ctl_text(standby, "nic"), ctl_text(standby, "phase"));
}

static void status_qp(const json_t *qp)
{
	bool moving = *ctl_text(qp, "move") && strcmp(ctl_text(qp, "move"), "NONE");
	char standby[96];

	status_standby(qp, standby, sizeof(standby));
	printf("  0x%06llx %-10s %-8s %4lld %5lld %-18s %-14s %5lld %6lld %7lld  %s\n",
	       ctl_int(qp, "qpn"), ctl_text(qp, "level"), ctl_text(qp, "nic"), ctl_int(qp, "path"),
	       ctl_int(qp, "epoch"), standby, moving ? ctl_text(qp, "move") : ctl_text(qp, "send"),
	       ctl_int(qp, "moves"), ctl_int(qp, "resubmitted"), ctl_int(qp, "settled"),
	       ctl_text(qp, "why"));
}

static void status_qps(const json_t *answer)
{
	size_t i;
	json_t *qp;

	if (!json_array_size(json_object_get(answer, "qps")))
		return;
	printf("  %-8s %-10s %-8s %4s %5s %-18s %-14s %5s %6s %7s  %s\n", "QP", "LEVEL", "NIC",
	       "PATH", "EPOCH", "STANDBY", "STATE", "MOVES", "RESENT", "SETTLED", "WHY");
	json_array_foreach(json_object_get(answer, "qps"), i, qp) status_qp(qp);
}

/* Ends the line. */
static void status_refused(const json_t *answer)
{
	const char *comma = ", refused datagrams: ", *why;
	json_t *n;

	printf("%s", json_is_true(json_object_get(answer, "signed")) ? ", datagrams signed" : "");
	json_object_foreach(json_object_get(answer, "refused"), why, n)
	{
		if (!json_integer_value(n))
			continue;
		printf("%s%lld %s", comma, (long long)json_integer_value(n), why);
		comma = ", ";
	}
	putchar('\n');
}

static void status_table(const json_t *answer)
{
	printf("%lld %s\n", ctl_int(answer, "pid"), ctl_text(answer, "command"));
	printf("  instance %s, KV %s", ctl_text(answer, "instance"), ctl_text(answer, "kv"));
	status_refused(answer);
	status_nics(answer);
	status_qps(answer);
}

/* ---- all processes -------------------------------------------------------------------------- */

struct status_count {
	unsigned answered, silent;
};

static void status_one(const struct ctl_process *process, json_t *list, struct status_count *count)
{
	char err[CTL_ERR_MAX];
	json_t *answer = NULL;
	int rc = ctl_ask(process, &answer, err, "status");

	if (!rc && *ctl_text(answer, "error"))
		rc = ctl_err(err, -EPROTO, "%s", ctl_text(answer, "error"));
	if (rc == -ESRCH)
		return;
	if (rc) {
		ctl_say("process %d: %s", (int)process->pid, err);
		json_decref(answer);
		count->silent++;
		answer = json_pack("{s:i, s:s}", "pid", (int)process->pid, "error", err);
		json_array_append_new(list, answer);
		return;
	}
	count->answered++;
	json_array_append_new(list, answer);
}

static void status_print(const json_t *list, bool json)
{
	size_t i;
	json_t *answer, *root;

	if (json) {
		root = json_pack("{s:O}", "processes", list);
		json_dumpf(root, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(root);
		return;
	}
	json_array_foreach(list, i, answer) if (!json_object_get(answer, "error"))
		status_table(answer);
}

int cmd_status(int argc, char **argv)
{
	struct status_options opt = { 0 };
	struct status_count count = { 0 };
	struct ctl_processes processes;
	json_t *list;
	int rc = status_options_parse(argc, argv, &opt);

	if (rc)
		return rc;
	if (ctl_find(opt.pid, &processes)) {
		ctl_say("out of memory");
		return CTL_NOT_ALL;
	}
	list = json_array();
	for (unsigned i = 0; i < processes.n; i++)
		status_one(&processes.all[i], list, &count);
	status_print(list, opt.json);
	if (!count.answered && !count.silent && !processes.refused)
		ctl_say("no process with SHIFT found%s",
			opt.pid ? " by that number" : " that has made a connection");
	ctl_processes_free(&processes);
	json_decref(list);
	return count.answered && !count.silent ? CTL_OK : CTL_NOT_ALL;
}
