/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl why: the story of one connection, NIC or process, in sentences, from the events and the
 * status of the programs that run: what happened, what SHIFT did, what it waits for, what to do.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/ctl_client.h"
#include "tools/report.h"
#include "tools/shiftctl.h"

#define NS_PER_MS 1e6

/* The word of the command line. */
struct why {
	const char *nic; /* NULL: it is a number */
	long number;	 /* of a process or a queue pair */
	bool hex;	 /* of a queue pair only */
	unsigned stories;
	unsigned troubles; /* most stories of what is not well; 0: it was named */
	const char *todo;  /* what to do, by the newest thing that has a remedy */
	bool lack;	   /* that is a lack of protection */
};

/* ---- words ---------------------------------------------------------------------------------- */

/* What is known by a cause, and what the reader can do. */
static const struct why_cause {
	const char *cause, *clause, *todo;
} why_causes[] = {
	{ "port-down", "the port of this host went down",
	  "check cable, transceiver and switch port of that NIC" },
	{ "link-lost", "the network interface of this host lost its link",
	  "check cable, transceiver and switch port of that NIC" },
	{ "retry-exceeded", "the path stopped answering",
	  "check the NICs of both ends, and the switch between them" },
	{ "transport-error", "an error completion came without a cause", "see dmesg at both ends" },
	{ "silence", "neither heartbeats nor completions came",
	  "check the NICs of both ends, and the switch between them" },
	{ "hang", "the NIC did not do what it was told", "see dmesg; reset the NIC" },
	{ "async-fatal", "the NIC reported a fatal error", "see dmesg; reset or replace the NIC" },
	{ "removed", "the device was taken away", "see dmesg; look who removed it" },
	{ "cq-error", "a completion queue overran",
	  "the program polls too late, or the backup's queue is smaller (ibv_devinfo -v)" },
	{ "peer", "the other end moved", "ask `shiftctl why` on the other host" },
	{ "drain", "an operator drained it", "shiftctl undrain, when the work on it is done" },
	{ "better-nic", "a better NIC had recovered", NULL },
	{ "no-standby", "no other NIC was ready", "bring a backup NIC up, at both ends" },
	{ "deadline", "the peer did not answer in time", "look at the other host" },
	{ "peer-fatal", "the other end could not go on", "ask `shiftctl why` on the other host" },
	{ "peer-closed", "the other end closed the connection or is gone",
	  "look at the program on the other host" },
	{ "miscount", "a NIC died with data that it had acknowledged",
	  "restart the job from its checkpoint" },
	{ "atomic", "an atomic may have run and must not run twice",
	  "restart the job from its checkpoint" },
	{ "fenced-read", "a fenced request may have run", "restart the job from its checkpoint" },
	{ "memory-key", "memory was not registered on the backup",
	  "raise the limit on locked memory (ulimit -l)" },
	{ "resource", "the backup lacks something", "see column WHY of shiftctl status" },
	{ "atomics-wait", "atomics waited too long for a NIC that runs all of them",
	  "see shiftctl status at the peer" },
	{ "application", "the error is the program's own", "no NIC is at fault: see the program" },
	{ "peer-application", "the error is a program's own, met at the other end",
	  "no NIC is at fault: see the programs at both ends" },
	{ "packet-loss", "packets are lost or damaged", "check cable and transceiver" },
	{ "slow-link", "the link carries less than it can",
	  "check cable, transceiver, seat of the card" },
	{ "slow-path", "round trips take longer than usual",
	  "look for congestion in the switches" },
	{ "paused", "the port sends nothing", "look for pause frames, and who causes them" },
	{ "no-progress", "all paths answer and the work does not",
	  "no NIC is at fault: see the program at the other end, and pause counters" },
};

static const struct why_cause *why_cause(const json_t *event)
{
	const char *cause = ctl_text(event, "cause");

	for (size_t i = 0; i < sizeof(why_causes) / sizeof(*why_causes); i++)
		if (!strcmp(cause, why_causes[i].cause))
			return &why_causes[i];
	return NULL;
}

/* What happened, by the kind of the event: the NICs stand behind the first two parts. */
static const struct why_kind {
	const char *kind, *before, *between, *after;
	bool open; /* a state that lasts until an event of another kind */
} why_kinds[] = {
	{ "switch", "connections left ", " for ", "", true },
	{ "return", "connections went back from ", " to ", "", false },
	{ "failed", "connections on ", " could not be moved, and their program got errors", "",
	  true },
	{ "ended", "connections on ", " ended with an error that SHIFT does not mend", "", true },
	{ "stalled", "connections on ", " stand still", "", true },
	{ "flowing", "connections on ", " go on", "", false },
	{ "unprotected", "connections on ", " lost their protection", "", true },
	{ "protected", "connections on ", " are protected by ", "", false },
	{ "nic-down", "", " is not used for now", "", true },
	{ "nic-up", "", " is used again", "", false },
	{ "drain", "", " was drained", "", true },
	{ "undrain", "", " may be used again", "", false },
	{ "gray", "", " is not well, though nothing has failed", "", true },
	{ "gray-over", "", " is well again", "", false },
	{ "degraded", "connections of ", " run on NICs that are not their own", "", false },
	{ "whole", "no connection is away from its own NIC any more", "", "", false },
	{ "kv-lost", "the key-value store does not answer", "", "", false },
	{ "kv-back", "the key-value store answers again", "", "", false },
};

/* ---- events --------------------------------------------------------------------------------- */

static void why_sentence(const struct why_kind *kind, const json_t *event)
{
	long long qps = ctl_int(event, "qps");

	printf("  %s  ", ctl_text(event, "time"));
	if (qps && !strncmp(kind->before, "connections", strlen("connections")))
		printf("%lld ", qps);
	printf("%s%s%s%s%s", kind->before, ctl_text(event, "from"), kind->between,
	       ctl_text(event, "to"), kind->after);
	if (*ctl_text(event, "peer_gid"))
		printf(" (to %s)", ctl_address(ctl_text(event, "peer_gid")));
}

static void why_figures(const json_t *event)
{
	if (ctl_int(event, "detect_ns"))
		printf(" SHIFT saw it after %.1f ms.",
		       (double)ctl_int(event, "detect_ns") / NS_PER_MS);
	if (ctl_int(event, "switch_ns"))
		printf(" It took %.1f ms.", (double)ctl_int(event, "switch_ns") / NS_PER_MS);
	if (json_object_get(event, "resent"))
		printf(" %lld requests were sent again, %lld had run.", ctl_int(event, "resent"),
		       ctl_int(event, "settled"));
	if (ctl_int(event, "unknown"))
		printf(" Of %lld requests nobody knows whether they ran.",
		       ctl_int(event, "unknown"));
}

/* The lack of protection behind a fault is mended with the fault; that it is back mends none. */
static void why_remember(struct why *why, const struct why_kind *kind,
			 const struct why_cause *cause)
{
	bool lack = !strcmp(kind->kind, "unprotected"), back = !strcmp(kind->kind, "protected");

	if (!strcmp(kind->kind, "degraded") || (lack && why->todo) || (back && !why->lack))
		return;
	/* what this end knows itself says more than that the other one moved first */
	if (why->todo && cause && !strcmp(cause->cause, "peer"))
		return;
	why->todo = kind->open && cause ? cause->todo : NULL;
	why->lack = lack;
}

static void why_event(struct why *why, const json_t *event)
{
	const struct why_cause *cause = why_cause(event);

	for (size_t i = 0; i < sizeof(why_kinds) / sizeof(*why_kinds); i++) {
		if (strcmp(ctl_text(event, "kind"), why_kinds[i].kind))
			continue;
		why_sentence(&why_kinds[i], event);
		if (cause)
			printf(", as %s", cause->clause);
		if (*ctl_text(event, "why"))
			printf(": %s", ctl_text(event, "why"));
		putchar('.');
		why_figures(event);
		putchar('\n');
		why_remember(why, &why_kinds[i], cause);
	}
}

static bool why_is(const char *name, const json_t *event, const char *member)
{
	return *name && !strcmp(name, ctl_text(event, member));
}

/* Does the event concern the NIC, or the connection? Neither: it is of the whole process. */
static bool why_concerns(const json_t *event, const char *nic, const json_t *qp)
{
	if (nic)
		return why_is(nic, event, "from") || why_is(nic, event, "to");
	if (!qp)
		return true;
	if (*ctl_text(event, "peer") && strcmp(ctl_text(event, "peer"), ctl_text(qp, "peer")))
		return false;
	return why_is(ctl_text(qp, "default_nic"), event, "from") ||
	       why_is(ctl_text(qp, "nic"), event, "from") ||
	       why_is(ctl_text(qp, "default_nic"), event, "to");
}

static void why_events(struct why *why, const json_t *events, const json_t *qp)
{
	size_t i, n = 0;
	json_t *event;

	json_array_foreach(json_object_get(events, "events"), i, event)
	{
		if (!why_concerns(event, why->nic, qp))
			continue;
		why_event(why, event);
		n++;
	}
	if (!n)
		puts("  Nothing has happened.");
}

/* ---- what is now ---------------------------------------------------------------------------- */

static void why_qp(struct why *why, const json_t *qp)
{
	const json_t *held = json_object_get(qp, "held"), *stalled = json_object_get(qp, "stalled");

	printf("  Now QP 0x%06llx runs on %s (its own is %s), to %s QP 0x%06llx; it is %s: %s.\n",
	       ctl_int(qp, "qpn"), ctl_text(qp, "nic"), ctl_text(qp, "default_nic"),
	       ctl_address(ctl_text(qp, "peer_gid")), ctl_int(qp, "peer_qpn"),
	       ctl_text(qp, "level"), ctl_text(qp, "why"));
	if (json_is_object(held))
		printf("  %s is well, and held down for %lld s more, after %lld falls: traffic "
		       "returns by itself.\n",
		       ctl_text(held, "nic"), ctl_int(held, "left_ms") / 1000,
		       ctl_int(held, "falls"));
	if (json_is_object(stalled)) {
		const struct why_cause *cause = why_cause(stalled);

		printf("  It has stood still for %lld s. It waits: %s.\n",
		       ctl_int(stalled, "ms") / 1000, ctl_text(stalled, "why"));
		if (cause && cause->todo)
			why->todo = cause->todo;
	}
}

static void why_nic(const json_t *nic)
{
	static const char *const flags[] = { "port_down", "silent", "sick", "fatal", "drained" };
	static const char *const words[] = { "its port is down", "no peer answers over it",
					     "it hangs", "it is dead", "it is drained" };
	bool well = true;

	printf("  Now %s is %s", ctl_text(nic, "name"), ctl_text(nic, "state"));
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (ctl_true(nic, flags[i])) {
			printf("%s %s", well ? ":" : ",", words[i]);
			well = false;
		}
	printf("%s%s%s.\n", well ? ", and well" : "", *ctl_text(nic, "why") ? ": " : "",
	       ctl_text(nic, "why"));
}

static void why_levels(const json_t *status)
{
	size_t i, n = 0, whole = 0, stalled = 0;
	json_t *qp;

	json_array_foreach(json_object_get(status, "qps"), i, qp)
	{
		n++;
		whole += !strcmp(ctl_text(qp, "level"), "protected");
		stalled += json_is_object(json_object_get(qp, "stalled"));
	}
	printf("  Now %zu of %zu queue pairs are protected, and %zu stand still.\n", whole, n,
	       stalled);
}

/* ---- stories -------------------------------------------------------------------------------- */

static void why_head(struct why *why, const json_t *status, const char *of)
{
	why->todo = NULL;
	printf("%s%s, process %lld (%s):\n", why->stories++ ? "\n" : "", of,
	       ctl_int(status, "pid_here") ? ctl_int(status, "pid_here") : ctl_int(status, "pid"),
	       ctl_text(status, "command"));
}

static void why_foot(const struct why *why)
{
	printf("  What to do: %s.\n", why->todo ? why->todo : "nothing");
}

static void why_tell_nic(struct why *why, const json_t *status, const json_t *events)
{
	json_t *nic;
	size_t i;

	json_array_foreach(json_object_get(status, "nics"), i, nic)
	{
		if (strcmp(ctl_text(nic, "name"), why->nic))
			continue;
		why_head(why, status, why->nic);
		why_events(why, events, NULL);
		why_nic(nic);
		why_foot(why);
	}
}

static void why_tell_qps(struct why *why, const json_t *status, const json_t *events)
{
	char of[32];
	json_t *qp;
	size_t i;

	json_array_foreach(json_object_get(status, "qps"), i, qp)
	{
		if (ctl_int(qp, "qpn") != why->number || !ctl_int(qp, "connection"))
			continue;
		snprintf(of, sizeof(of), "QP 0x%06lx", why->number);
		why_head(why, status, of);
		why_events(why, events, qp);
		why_qp(why, qp);
		why_foot(why);
	}
}

static bool why_nic_is_well(const json_t *nic)
{
	return !ctl_true(nic, "port_down") && !ctl_true(nic, "silent") && !ctl_true(nic, "sick") &&
	       !ctl_true(nic, "fatal") && !ctl_true(nic, "drained") && !*ctl_text(nic, "why") &&
	       !strcmp(ctl_text(nic, "state"), "open");
}

static bool why_qp_is_well(const json_t *qp)
{
	return !ctl_int(qp, "connection") || (!strcmp(ctl_text(qp, "level"), "protected") &&
					      !json_is_object(json_object_get(qp, "stalled")));
}

static void why_tell_troubles(struct why *why, json_t *status, const json_t *events)
{
	json_t *one;
	size_t i;

	report_hide_arguments(status);
	json_array_foreach(json_object_get(status, "nics"), i, one)
	{
		if (why_nic_is_well(one) || why->stories >= why->troubles)
			continue;
		why->nic = ctl_text(one, "name");
		why_tell_nic(why, status, events);
	}
	why->nic = NULL;
	json_array_foreach(json_object_get(status, "qps"), i, one)
	{
		if (why_qp_is_well(one) || why->stories >= why->troubles)
			continue;
		why->number = (long)ctl_int(one, "qpn");
		why_tell_qps(why, status, events);
	}
	if (!why->stories)
		printf("Process %lld (%s): its NICs and connections are well.\n",
		       ctl_int(status, "pid_here"), ctl_text(status, "command"));
}

static void why_tell(struct why *why, json_t *status, const json_t *events)
{
	if (why->troubles) {
		why_tell_troubles(why, status, events);
	} else if (why->nic) {
		why_tell_nic(why, status, events);
	} else if (!why->hex && (ctl_int(status, "pid_here") == why->number ||
				 ctl_int(status, "pid") == why->number)) {
		why_head(why, status, "all connections");
		why_events(why, events, NULL);
		why_levels(status);
		why_foot(why);
	} else {
		why_tell_qps(why, status, events);
	}
}

static void why_ask(struct why *why, const struct ctl_process *process)
{
	json_t *status = NULL, *events = NULL;
	char err[CTL_ERR_MAX];
	pid_t here = 0;
	int rc;

	rc = ctl_ask(process, &here, &status, err, "status");
	if (!rc)
		rc = ctl_ask(process, &here, &events, err, "events 0");
	if (rc && rc != -ESRCH)
		ctl_say("process %d: %s", (int)process->pid, err);
	if (!rc) {
		json_object_set_new(status, "pid_here", json_integer(here));
		why_tell(why, status, events);
	}
	json_decref(status);
	json_decref(events);
}

void why_troubles(const struct ctl_process *process, unsigned most)
{
	struct why why = { .troubles = most };

	why_ask(&why, process);
	putchar('\n');
}

static int why_parse(int argc, char **argv, struct why *why)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	char *end;

	if (getopt_long(argc, argv, "", none, NULL) != -1 || optind + 1 != argc) {
		ctl_say("why takes one queue pair, process or device; see shiftctl --help");
		return CTL_USAGE;
	}
	errno = 0;
	why->number = strtol(argv[optind], &end, 0);
	why->hex = !strncmp(argv[optind], "0x", 2);
	if (end == argv[optind] || *end || errno || why->number < 1)
		why->nic = argv[optind];
	return 0;
}

int cmd_why(int argc, char **argv)
{
	struct ctl_processes processes;
	struct why why = { 0 };
	int rc = why_parse(argc, argv, &why);

	if (rc)
		return rc;
	if (ctl_find(0, &processes)) {
		ctl_say("out of memory");
		return CTL_NOT_ALL;
	}
	if (processes.complaint)
		ctl_say("%s", processes.complaint);
	for (unsigned i = 0; i < processes.n; i++)
		why_ask(&why, &processes.all[i]);
	ctl_processes_free(&processes);
	if (!why.stories)
		ctl_say("no program with SHIFT has \"%s\"", argv[argc - 1]);
	return why.stories ? CTL_OK : CTL_NOT_ALL;
}
