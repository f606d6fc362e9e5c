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
#include "tools/why_todo.h"
#include "tools/why_words.h"

#define NS_PER_MS 1e6

/* The word of the command line. */
struct why {
	const char *nic; /* NULL: it is a number */
	long number;	 /* of a process or a queue pair */
	bool hex;	 /* of a queue pair only */
	bool silent;	 /* a process does not answer */
	unsigned stories;
	unsigned troubles; /* most stories of what is not well; 0: it was named */
	struct why_todo todo;
};

/* ---- events --------------------------------------------------------------------------------- */

static bool why_is_of_connections(const json_t *event)
{
	return ctl_int(event, "qps") && *ctl_text(event, "from") &&
	       strncmp(ctl_text(event, "kind"), "nic-", 4);
}

static void why_sentence(const struct why_kind *kind, const json_t *event)
{
	bool of_connections = why_is_of_connections(event);
	long long qps = ctl_int(event, "qps");
	const char *verb = kind->verbs && qps != 1 ? kind->verbs : kind->verb;

	printf("  %s  ", ctl_text(event, "time"));
	if (of_connections && kind->verbs)
		printf("%lld connection%s %s", qps, qps == 1 ? "" : "s", kind->before);
	printf("%s%s", ctl_text(event, "from"), kind->between);
	if (*kind->between || !*ctl_text(event, "to"))
		printf("%s%s", ctl_text(event, "to"), verb);
	else
		printf("%s%s", verb, ctl_text(event, "to"));
	if (*ctl_text(event, "peer_gid"))
		printf(" (to %s, its NIC %lld)", ctl_address(ctl_text(event, "peer_gid")),
		       ctl_int(event, "peer_from"));
}

/* Behind the sentence: the cause and the reason, where one of both does not say the other. */
static void why_because(const struct why *why, const struct why_kind *kind, const json_t *event)
{
	const struct why_cause *cause = why_cause(kind, ctl_text(event, "cause"));
	const char *reason = ctl_text(event, "why");
	bool opens = kind->opens || kind->group == WHY_NONE;
	bool reason_says_all =
		*reason && strcmp(ctl_text(event, "kind"), "ended") && kind->group != WHY_GRAY;

	if (why_is_peers_drain(kind, event, why->todo.drained))
		printf(", as an operator drained the NIC of the other end");
	else if (cause && *cause->clause && opens && !reason_says_all)
		printf(", as %s", cause->clause);
	if (json_object_get(event, "since") && kind->verbs)
		printf(", and %.2f of the bandwidth is left",
		       json_number_value(json_object_get(event, "bandwidth_left")));
	if (*reason && kind->group != WHY_STALL)
		printf(": %s", reason);
	else if (*reason && kind->opens)
		printf(": %s", reason);
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

static bool why_is_loss(const json_t *event)
{
	return !strcmp(ctl_text(event, "kind"), "degraded") &&
	       json_number_value(json_object_get(event, "bandwidth_left")) <= 0;
}

static void why_event(struct why *why, const json_t *event)
{
	const struct why_kind *kind = why_kind(ctl_text(event, "kind"));

	if (!kind)
		return;
	if (why_is_loss(event)) {
		printf("  %s  nothing passes: %lld connection%s.\n", ctl_text(event, "time"),
		       ctl_int(event, "qps"),
		       ctl_int(event, "qps") == 1 ? " stands still" : "s stand still");
		return;
	}
	why_sentence(kind, event);
	why_because(why, kind, event);
	putchar('.');
	why_figures(event);
	putchar('\n');
	why_todo_event(&why->todo, kind, event);
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

static void why_held(const json_t *qp)
{
	const json_t *held = json_object_get(qp, "held");

	if (!json_is_object(held))
		return;
	printf("  %s is well, and held down", ctl_text(held, "nic"));
	if (ctl_int(held, "left_ms") > 0 && ctl_int(held, "falls"))
		printf(" for %lld s more, after %lld falls: traffic returns by itself. If it falls "
		       "again, drain it and repair it.\n",
		       ctl_int(held, "left_ms") / 1000, ctl_int(held, "falls"));
	else
		puts(" for its peer's NIC, which fell: traffic returns by itself.");
}

/* A reason that is there now, as events of it may be long gone. */
static void why_reason(struct why *why, const json_t *qp)
{
	const json_t *stalled = json_object_get(qp, "stalled");
	bool well = !strcmp(ctl_text(qp, "level"), "protected");

	if (json_is_object(stalled))
		why_todo_reason(&why->todo, ctl_text(stalled, "why"), true);
	else if (!well && *ctl_text(qp, "why"))
		why_todo_reason(&why->todo, ctl_text(qp, "why"), false);
}

static void why_qp(struct why *why, const json_t *qp)
{
	const json_t *stalled = json_object_get(qp, "stalled");

	printf("  Now QP 0x%06llx runs on %s (its own is %s), to %s QP 0x%06llx; it is %s: %s.\n",
	       ctl_int(qp, "qpn"), ctl_text(qp, "nic"), ctl_text(qp, "default_nic"),
	       ctl_address(ctl_text(qp, "peer_gid")), ctl_int(qp, "peer_qpn"),
	       ctl_text(qp, "level"), ctl_text(qp, "why"));
	why_held(qp);
	if (json_is_object(stalled))
		printf("  It has stood still for %lld s. It waits: %s.\n",
		       ctl_int(stalled, "ms") / 1000, ctl_text(stalled, "why"));
	why_reason(why, qp);
}

static void why_nic_qps(struct why *why, const json_t *status, const char *nic)
{
	bool held = false;
	json_t *qp;
	size_t i;

	json_array_foreach(json_object_get(status, "qps"), i, qp)
	{
		if (!strcmp(ctl_text(json_object_get(qp, "held"), "nic"), nic) && !held) {
			why_held(qp);
			held = true;
		}
		if (!strcmp(ctl_text(qp, "default_nic"), nic))
			why_reason(why, qp);
	}
}

/* A NIC that was drained, and that connections cannot leave: who takes it away ends them. */
static void why_stays(struct why *why, const json_t *status, const json_t *nic)
{
	const char *reason = "", *name = ctl_text(nic, "name");
	size_t i, n = 0;
	json_t *qp;

	if (!ctl_true(nic, "drained"))
		return;
	json_array_foreach(json_object_get(status, "qps"), i, qp)
	{
		if (strcmp(ctl_text(qp, "nic"), name) || !ctl_int(qp, "connection") ||
		    !strcmp(ctl_text(qp, "level"), "protected"))
			continue;
		reason = n++ ? reason : ctl_text(qp, "why");
	}
	if (!n)
		return;
	printf("  %zu connection%s still on %s, and cannot leave it: %s. Do not take it away.\n", n,
	       n == 1 ? " is" : "s are", name, *reason ? reason : "there is no other NIC");
	why_todo_stays(&why->todo, reason);
}

static bool why_gray_is_well(const char *gray)
{
	return !strcmp(gray, "healthy") || !strcmp(gray, "off");
}

static void why_nic(const json_t *nic)
{
	static const char *const flags[] = { "port_down", "silent", "sick", "fatal", "drained" };
	static const char *const words[] = { "its port is down", "no peer answers over it",
					     "it hangs", "it is dead", "it is drained" };
	const char *state = ctl_text(nic, "state"), *gray = ctl_text(nic, "gray");
	bool first = true, open = !strcmp(state, "open");

	printf("  Now %s: ", ctl_text(nic, "name"));
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (ctl_true(nic, flags[i])) {
			printf("%s%s", first ? "" : ", ", words[i]);
			first = false;
		}
	if (first)
		fputs(!open ? state : why_gray_is_well(gray) ? "well" : gray, stdout);
	printf("%s%s.\n", *ctl_text(nic, "why") ? ": " : "", ctl_text(nic, "why"));
}

/* NICs that cannot be used, or left. */
static void why_nics(struct why *why, const json_t *status)
{
	json_t *nic;
	size_t i;

	json_array_foreach(json_object_get(status, "nics"), i, nic)
	{
		if (!strcmp(ctl_text(nic, "state"), "failed"))
			why_nic(nic);
		why_stays(why, status, nic);
	}
}

/* Has an earlier queue pair the same level and reason? */
static bool why_is_told(const json_t *qps, size_t before)
{
	const json_t *qp = json_array_get(qps, before);
	json_t *other;
	size_t i;

	json_array_foreach(qps, i, other)
	{
		if (i == before)
			return false;
		if (!strcmp(ctl_text(other, "level"), ctl_text(qp, "level")) &&
		    !strcmp(ctl_text(other, "why"), ctl_text(qp, "why")))
			return true;
	}
	return false;
}

static void why_lacks(struct why *why, const json_t *qps)
{
	json_t *qp;
	size_t i;

	json_array_foreach(qps, i, qp)
	{
		why_reason(why, qp);
		if (!strcmp(ctl_text(qp, "level"), "protected") || !*ctl_text(qp, "why") ||
		    why_is_told(qps, i))
			continue;
		printf("  QP 0x%06llx (%s) on %s is %s: %s.\n", ctl_int(qp, "qpn"),
		       ctl_text(qp, "type"), ctl_text(qp, "nic"), ctl_text(qp, "level"),
		       ctl_text(qp, "why"));
	}
}

static void why_levels(struct why *why, const json_t *status)
{
	const json_t *qps = json_object_get(status, "qps");
	size_t i, n = 0, whole = 0, stalled = 0;
	json_t *qp;

	json_array_foreach(qps, i, qp)
	{
		n++;
		whole += !strcmp(ctl_text(qp, "level"), "protected");
		stalled += json_is_object(json_object_get(qp, "stalled"));
	}
	printf("  Now %zu of %zu queue pairs are protected, and %zu stand still.\n", whole, n,
	       stalled);
	why_lacks(why, qps);
}

/* ---- stories -------------------------------------------------------------------------------- */

static void why_head(struct why *why, const json_t *status, const char *of)
{
	memset(&why->todo, 0, sizeof(why->todo));
	printf("%s%s, process %lld (%s)%s%s:\n", why->stories++ ? "\n" : "", of,
	       ctl_int(status, "pid_here") ? ctl_int(status, "pid_here") : ctl_int(status, "pid"),
	       ctl_text(status, "command"), *ctl_text(status, "job") ? " of job " : "",
	       ctl_text(status, "job"));
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
		why_stays(why, status, nic);
		why_nic_qps(why, status, why->nic);
		why_todo_print(&why->todo);
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
		why_todo_print(&why->todo);
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
		why_levels(why, status);
		why_nics(why, status);
		why_todo_print(&why->todo);
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
	if (rc && rc != -ESRCH) {
		ctl_say("process %d: %s", (int)process->pid, err);
		why->silent = true;
	}
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
	if (!why.stories && why.silent)
		ctl_say("no program that answers has \"%s\"", argv[argc - 1]);
	else if (!why.stories)
		ctl_say("no program with SHIFT has \"%s\"", argv[argc - 1]);
	return why.stories ? CTL_OK : CTL_NOT_ALL;
}
