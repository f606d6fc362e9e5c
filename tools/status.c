/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl status: what SHIFT does in the processes that run now. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/status.h"

#define STATUS_INTERVAL_S 1.0
#define NS_PER_MS	  1e6
#define MS_PER_S	  1000

/* While somebody watches: what a stopped process costs is not to stop the picture for long. */
static const struct ctl_patience status_hasty = { .idle_ms = 1000,
						  .total_ms = 5000,
						  .most = 64u << 20 };

static int status_value(int c, const char *text, struct status_options *opt)
{
	long number;
	char *end;

	if (c == 'p' && !ctl_number(text, 1, INT_MAX, &number)) {
		opt->pid = (pid_t)number;
		return 0;
	}
	if (c == 'p') {
		ctl_say("--pid takes a process id, not \"%s\"", text);
		return CTL_USAGE;
	}
	opt->interval_s = strtod(text, &end);
	if (end != text && !*end && opt->interval_s >= 0.1 && opt->interval_s <= 3600)
		return 0;
	ctl_say("--interval takes seconds from 0.1 to 3600, not \"%s\"", text);
	return CTL_USAGE;
}

static int status_options_parse(int argc, char **argv, struct status_options *opt)
{
	static const struct option longopts[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pid", required_argument, NULL, 'p' },
		{ "watch", no_argument, NULL, 'w' },
		{ "interval", required_argument, NULL, 'i' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'j': opt->json = true; break;
		case 'w': opt->watch = true; break;
		case 'p':
		case 'i':
			if (status_value(c, optarg, opt))
				return CTL_USAGE;
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

static bool status_is_pci(const json_t *nic)
{
	return !strcmp(ctl_text(nic, "slow_link"), "pci");
}

static void status_nic_words(const json_t *nic, char *out, size_t size)
{
	static const char *const flags[] = { "drained", "port_down", "sick", "fatal", "silent" };
	static const char *const words[] = { "drained", "port down", "sick", "fatal",
					     "silent: no peer answers over it" };
	size_t used = (size_t)snprintf(out, size, "%s", ctl_text(nic, "state"));

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && used < size; i++)
		if (ctl_true(nic, flags[i]))
			used += (size_t)snprintf(out + used, size - used, ", %s", words[i]);
	if (!strcmp(ctl_text(nic, "gray"), "sick") && used < size)
		used += (size_t)snprintf(out + used, size - used,
					 ", loses packets (%lld errors among %lld)",
					 ctl_int(nic, "errors"), ctl_int(nic, "packets"));
	if (!strcmp(ctl_text(nic, "gray"), "slow") && used < size)
		used += (size_t)snprintf(out + used, size - used,
					 status_is_pci(nic)
						 ? ", slow: its PCI link (%lld of %lld Mb/s)"
						 : ", slow (%lld of %lld Mb/s)",
					 ctl_int(nic, "mbps"), ctl_int(nic, "mbps_whole"));
	if (ctl_int(nic, "slow_paths") > 0 && used < size)
		used += (size_t)snprintf(
			out + used, size - used,
			", slow path (%lld of %lld; round trips of %.2f ms instead of %.2f)",
			ctl_int(nic, "slow_paths"), ctl_int(nic, "paths"),
			(double)ctl_int(nic, "trip_ns") / NS_PER_MS,
			(double)ctl_int(nic, "trip_usual_ns") / NS_PER_MS);
	if (*ctl_text(nic, "why") && used < size)
		used += (size_t)snprintf(out + used, size - used, ": %s", ctl_text(nic, "why"));
	if (*ctl_text(nic, "exact") && used < size)
		used += (size_t)snprintf(out + used, size - used, "; exact count: %s",
					 ctl_text(nic, "exact"));
	if (*ctl_text(nic, "exact_why") && used < size)
		snprintf(out + used, size - used, " (%s)", ctl_text(nic, "exact_why"));
}

static void status_nics(FILE *out, const json_t *answer)
{
	char words[256];
	size_t i;
	json_t *nic;

	json_array_foreach(json_object_get(answer, "nics"), i, nic)
	{
		status_nic_words(nic, words, sizeof(words));
		fprintf(out, "  %-12s %s\n", ctl_text(nic, "name"), words);
	}
}

static void status_foreign(FILE *out, const json_t *answer)
{
	size_t i;
	json_t *device;

	json_array_foreach(json_object_get(answer, "foreign"), i, device)
		fprintf(out, "  %-12s NOT protected: %s\n", ctl_text(device, "name"),
			ctl_text(device, "why"));
}

static void status_direct(FILE *out, const json_t *answer)
{
	size_t i;
	json_t *device;

	json_array_foreach(json_object_get(answer, "direct"), i, device) fprintf(
		out, "  %-12s NOT reached: %lld GPU-initiated or other direct queue pairs\n",
		ctl_text(device, "name"),
		(long long)json_integer_value(json_object_get(device, "qps")));
}

/* "mlx5_1 READY", or nothing. */
static void status_standby(const json_t *qp, char *out, size_t size)
{
	const json_t *standby = json_object_get(qp, "standby");

	out[0] = 0;
	if (json_is_object(standby))
		snprintf(out, size, "%s %s", ctl_text(standby, "nic"), ctl_text(standby, "phase"));
}

/* "10.0.0.2 0x000123": by the address that the application connected to. */
static void status_peer(const json_t *qp, char *out, size_t size)
{
	const char *gid = ctl_address(ctl_text(qp, "peer_gid"));
	char lid[16];

	out[0] = 0;
	if (!ctl_int(qp, "peer_qpn"))
		return;
	if (!*gid) {
		snprintf(lid, sizeof(lid), "LID %lld", ctl_int(qp, "peer_lid"));
		gid = lid;
	}
	snprintf(out, size, "%s 0x%06llx", gid, ctl_int(qp, "peer_qpn"));
}

/* Says to which better NIC traffic does not return yet, or nothing. */
static void status_held(const json_t *qp, char *out, size_t size)
{
	const json_t *held = json_object_get(qp, "held");

	out[0] = 0;
	if (json_is_object(held) && ctl_int(held, "left_ms") > 0)
		snprintf(out, size, "; %s is well, and held down for %lld s more (falls: %lld)",
			 ctl_text(held, "nic"),
			 (ctl_int(held, "left_ms") + MS_PER_S - 1) / MS_PER_S,
			 ctl_int(held, "falls"));
	else if (json_is_object(held))
		snprintf(out, size, "; %s is well, and held down by its peer",
			 ctl_text(held, "nic"));
}

/* Says what it waits for, or nothing. */
static void status_stalled(const json_t *qp, char *out, size_t size)
{
	const json_t *stalled = json_object_get(qp, "stalled");

	out[0] = 0;
	if (json_is_object(stalled))
		snprintf(out, size, "; stalled for %lld s: %s", ctl_int(stalled, "ms") / MS_PER_S,
			 ctl_text(stalled, "why"));
}

static void status_qp(FILE *out, const json_t *qp)
{
	bool moving = *ctl_text(qp, "move") && strcmp(ctl_text(qp, "move"), "NONE");
	const char *wait = ctl_text(qp, "atomics_wait");
	char standby[96], peer[96], held[160], stalled[160];

	status_standby(qp, standby, sizeof(standby));
	status_held(qp, held, sizeof(held));
	status_stalled(qp, stalled, sizeof(stalled));
	status_peer(qp, peer, sizeof(peer));
	fprintf(out,
		"  0x%06llx %-10s %-8s %-8s %4lld %5lld %-18s %-14s %-24s %5lld %6lld %7lld  "
		"%s%s%s%s%s\n",
		ctl_int(qp, "qpn"), ctl_text(qp, "level"), ctl_text(qp, "default_nic"),
		ctl_text(qp, "nic"), ctl_int(qp, "path"), ctl_int(qp, "epoch"), standby,
		moving ? ctl_text(qp, "move") : ctl_text(qp, "send"), peer, ctl_int(qp, "moves"),
		ctl_int(qp, "resubmitted"), ctl_int(qp, "settled"), ctl_text(qp, "why"), held,
		stalled, *wait ? "; its atomics wait: " : "", wait);
}

static void status_qps(FILE *out, const json_t *answer)
{
	size_t i;
	json_t *qp;

	if (!json_array_size(json_object_get(answer, "qps")))
		return;
	fprintf(out, "  %-8s %-10s %-8s %-8s %4s %5s %-18s %-14s %-24s %5s %6s %7s  %s\n", "QP",
		"LEVEL", "DEFAULT", "NIC", "PATH", "EPOCH", "STANDBY", "STATE", "PEER", "MOVES",
		"RESENT", "SETTLED", "WHY");
	json_array_foreach(json_object_get(answer, "qps"), i, qp) status_qp(out, qp);
}

/* Ends the line. */
static void status_refused(FILE *out, const json_t *answer)
{
	const char *comma = ", refused datagrams: ", *why;
	json_t *n;

	fputs(json_is_true(json_object_get(answer, "signed")) ? ", datagrams signed" : "", out);
	json_object_foreach(json_object_get(answer, "refused"), why, n)
	{
		if (!json_integer_value(n))
			continue;
		fprintf(out, "%s%lld %s", comma, (long long)json_integer_value(n), why);
		comma = ", ";
	}
	fputc('\n', out);
}

/* "1000 queue pairs: 998 protected, 2 driven" */
static void status_levels(FILE *out, const json_t *answer)
{
	static const char *const levels[] = { "protected", "driven", "foreign" };
	enum { LEVELS = sizeof(levels) / sizeof(*levels) };
	size_t i, stalled = 0, n[LEVELS] = { 0 };
	const char *comma = ": ";
	json_t *qp;

	json_array_foreach(json_object_get(answer, "qps"), i, qp) stalled +=
		json_is_object(json_object_get(qp, "stalled"));
	json_array_foreach(json_object_get(answer, "qps"), i, qp) for (int k = 0; k < LEVELS; k++)
		n[k] += !strcmp(ctl_text(qp, "level"), levels[k]);
	fprintf(out, "  %zu queue pairs", json_array_size(json_object_get(answer, "qps")));
	for (int k = 0; k < LEVELS; k++) {
		if (!n[k])
			continue;
		fprintf(out, "%s%zu %s", comma, n[k], levels[k]);
		comma = ", ";
	}
	if (stalled)
		fprintf(out, "%s%zu stalled", comma, stalled);
	fputc('\n', out);
}

static void status_degraded(FILE *out, const json_t *answer)
{
	const json_t *degraded = json_object_get(answer, "degraded");
	double left = json_number_value(json_object_get(degraded, "bandwidth_left"));

	if (json_is_object(degraded) && left <= 0)
		fprintf(out,
			"  degraded since %s: nothing passes; connections that stand still: %lld\n",
			ctl_text(degraded, "since"), ctl_int(degraded, "qps"));
	else if (json_is_object(degraded))
		fprintf(out,
			"  degraded since %s: %lld connections on other NICs, %.2f of the "
			"bandwidth left\n",
			ctl_text(degraded, "since"), ctl_int(degraded, "qps"), left);
}

/* "4711 ib_write_bw", or "4711 (7 in its container) ib_write_bw" */
static void status_head(FILE *out, const json_t *answer)
{
	long long own = ctl_int(answer, "pid"), here = ctl_int(answer, "pid_here");

	if (here && here != own)
		fprintf(out, "%lld (%lld in its container) %s\n", here, own,
			ctl_text(answer, "command"));
	else
		fprintf(out, "%lld %s\n", own, ctl_text(answer, "command"));
}

static void status_table(FILE *out, const json_t *answer)
{
	status_head(out, answer);
	fprintf(out, "  instance %s, KV %s", ctl_text(answer, "instance"), ctl_text(answer, "kv"));
	if (*ctl_text(answer, "job"))
		fprintf(out, ", job %s", ctl_text(answer, "job"));
	if (!strcmp(ctl_text(answer, "atomics"), "owner"))
		fputs(", atomics by their owners' values", out);
	if (!strcmp(ctl_text(answer, "atomics"), "uid"))
		fputs(", atomics by UIDs", out);
	if (*ctl_text(answer, "atomic_group"))
		fprintf(out, ", atomics with group %s (%lld processes)",
			ctl_text(answer, "atomic_group"), ctl_int(answer, "atomic_processes"));
	status_refused(out, answer);
	status_levels(out, answer);
	status_degraded(out, answer);
	status_nics(out, answer);
	status_foreign(out, answer);
	status_direct(out, answer);
	status_qps(out, answer);
}

static void status_unreached(FILE *out, const struct reach_process *process)
{
	fprintf(out, "%d %s\n", (int)process->pid, process->command);
	for (unsigned i = 0; i < process->n; i++)
		fprintf(out, "  %-12s NOT reached: %s\n", process->device[i].name, process->why);
}

/* ---- all processes -------------------------------------------------------------------------- */

/* True if the text is an object with members, before which another one can be put. */
static bool status_has_members(const struct ctl_question *q)
{
	size_t i = 1;

	while (i < q->length && strchr(" \n\r\t", q->text[i]))
		i++;
	return q->text[0] == '{' && i < q->length && q->text[i] == '"';
}

static void status_take_json(const struct ctl_question *q, const json_t *answer,
			     struct status *status)
{
	size_t skip;

	fputs(status->answered + status->silent > 1 ? ",\n" : "\n", status->json);
	if (!q->text) {
		json_dumpf(answer, status->json, 0);
		return;
	}
	skip = status_has_members(q);
	if (skip)
		fprintf(status->json, "{\"pid_here\": %d, ", (int)q->here);
	fwrite(q->text + skip, 1, q->length - skip - (q->text[q->length - 1] == '\n'),
	       status->json);
}

static void status_take(struct ctl_question *q, struct status *status)
{
	if (!q->rc && q->answer && *ctl_text(q->answer, "error"))
		q->rc = ctl_err(q->err, -EPROTO, "%s", ctl_text(q->answer, "error"));
	if (q->rc == -ESRCH)
		return;
	if (q->rc) {
		status->silent++;
		json_decref(q->answer);
		q->answer = json_pack("{s:i, s:s}", "pid", (int)q->process->pid, "error", q->err);
	} else {
		status->answered++;
		json_object_set_new(q->answer, "pid_here", json_integer(q->here));
	}
	if (status->json)
		status_take_json(q, q->answer, status);
	if (q->rc || !status->json)
		json_array_append(status->list, q->answer);
}

static int status_ask(const struct status_options *opt, const struct ctl_processes *processes,
		      struct status *status)
{
	struct ctl_question *questions = calloc(processes->n + 1, sizeof(*questions));
	int rc;

	if (!questions)
		return -ENOMEM;
	for (unsigned i = 0; i < processes->n; i++)
		questions[i] =
			(struct ctl_question){ .process = &processes->all[i], .raw = opt->json };
	rc = ctl_ask_all(questions, processes->n, opt->watch ? &status_hasty : &ctl_patient,
			 "status");
	for (unsigned i = 0; !rc && i < processes->n; i++) {
		status_take(&questions[i], status);
		ctl_ask_end(&questions[i]);
	}
	free(questions);
	return rc;
}

int status_gather(const struct status_options *opt, struct status *status)
{
	struct ctl_processes processes;
	int rc = ctl_find(opt->pid, &processes);

	*status = (struct status){ .refused = processes.refused, .list = json_array() };
	status->complaint = processes.complaint;
	processes.complaint = NULL;
	if (opt->json)
		status->json = open_memstream(&status->text, &status->length);
	if (!rc && (!status->list || (opt->json && !status->json)))
		rc = -ENOMEM;
	if (status->json)
		fputs("{\"processes\": [", status->json);
	if (!rc)
		rc = status_ask(opt, &processes, status);
	ctl_processes_free(&processes);
	if (!rc && !opt->pid)
		rc = reach_find(!opt->watch, &status->reach);
	return rc;
}

void status_free(struct status *status)
{
	json_decref(status->list);
	reach_free(&status->reach);
	free(status->complaint);
	if (status->json)
		fclose(status->json);
	free(status->text);
	*status = (struct status){ 0 };
}

/* Tames the text of a process, which is shown to root too: no byte of it steers the terminal. */
static void status_tame(char *text, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];

		if ((c < 0x20 && c != '\n') || c == 0x7f)
			text[i] = '?';
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* C1, in UTF-8 */
			text[i] = text[i + 1] = '?';
	}
}

static int status_print_tables(FILE *out, const struct status *status)
{
	char *text = NULL;
	size_t i, length;
	FILE *memory = open_memstream(&text, &length);
	json_t *answer;

	if (!memory)
		return -ENOMEM;
	json_array_foreach(status->list, i, answer) if (!json_object_get(answer, "error"))
		status_table(memory, answer);
	for (i = 0; i < status->reach.n; i++)
		status_unreached(memory, &status->reach.all[i]);
	if (fclose(memory)) {
		free(text);
		return -ENOMEM;
	}
	status_tame(text, length);
	fwrite(text, 1, length, out);
	free(text);
	return 0;
}

/* one_line: newlines stand between members, never in a string. */
static int status_print_json(FILE *out, struct status *status, bool one_line)
{
	json_t *unreached;
	char *newline;
	int rc;

	fputs("],\n\"unreached\": ", status->json);
	unreached = reach_json(&status->reach);
	if (!unreached || json_dumpf(unreached, status->json, 0))
		fputs("[]", status->json);
	json_decref(unreached);
	fputs("}\n", status->json);
	rc = fclose(status->json);
	status->json = NULL;
	if (rc)
		return -ENOMEM;
	for (newline = status->text; one_line && (newline = strchr(newline, '\n')); newline++)
		*newline = newline[1] ? ' ' : '\n';
	fwrite(status->text, 1, status->length, out);
	return 0;
}

int status_print(FILE *out, const struct status_options *opt, struct status *status)
{
	return opt->json ? status_print_json(out, status, opt->watch)
			 : status_print_tables(out, status);
}

const char *status_nothing(const struct status_options *opt, const struct status *status)
{
	if (status->answered || status->silent || status->refused)
		return NULL;
	return opt->pid ? "no process with SHIFT found by that number"
			: "no process with SHIFT found that has made a connection";
}

static void status_complain(const struct status *status)
{
	size_t i;
	json_t *answer;

	if (status->complaint)
		ctl_say("%s", status->complaint);
	json_array_foreach(status->list, i, answer) if (*ctl_text(answer, "error"))
		ctl_say("process %lld: %s", ctl_int(answer, "pid"), ctl_text(answer, "error"));
}

static int status_once(const struct status_options *opt)
{
	struct status status;
	int rc = status_gather(opt, &status);

	if (!rc)
		rc = status_print(stdout, opt, &status);
	if (rc)
		ctl_say("out of memory");
	status_complain(&status);
	if (!rc && status.reach.n)
		ctl_say("%u processes use RDMA devices past SHIFT", status.reach.n);
	if (!rc && status_nothing(opt, &status))
		ctl_say("%s", status_nothing(opt, &status));
	if (!rc && (!status.answered || status.silent))
		rc = -EAGAIN;
	status_free(&status);
	return rc ? CTL_NOT_ALL : CTL_OK;
}

int cmd_status(int argc, char **argv)
{
	struct status_options opt = { .interval_s = STATUS_INTERVAL_S };
	int rc = status_options_parse(argc, argv, &opt);

	if (rc)
		return rc;
	return opt.watch ? status_watch(&opt) : status_once(&opt);
}
