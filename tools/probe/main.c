/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shift-probe: one check for each thing that SHIFT assumes about a NIC (shiftctl probe-hw). */
#include <dlfcn.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/probe/check.h"
#include "tools/probe/report.h"

#define MAX_CHECKS 64u

static const char help[] =
	"usage: shiftctl probe-hw --listen [-d DEVICE] [-x GID-INDEX] [-p PORT]\n"
	"       shiftctl probe-hw HOST [OPTION]...     against a host that listens\n"
	"       shiftctl probe-hw [OPTION]...          alone, to itself over one NIC\n"
	"       shiftctl probe-hw --list\n"
	"\n"
	"Tries what SHIFT and SDR assume about NICs, on the installed libibverbs and with queue "
	"pairs of\n"
	"its own, and prints a verdict for each assumption: on any vendor's NIC those of the "
	"checks "
	"verbs-*,\n"
	"uc-* and a few more, on ConnectX all. Please send us the report.\n"
	"\n"
	"  -d, --device DEVICE        such as mlx5_0; default: the only one\n"
	"  -x, --gid-index N          default: RoCE v2; on InfiniBand the LID\n"
	"  -p, --port PORT            of TCP, for what both ends say to each other (" PR_PORT ")\n"
	"  --check NAME               only this check; may be given again\n"
	"  --list                     the checks, with what each tries\n"
	"  --json                     the report as JSON\n"
	"  --link-down-command CMD    how to take the link of DEVICE down here, by sh -c\n"
	"  --link-up-command CMD      and up again\n"
	"  --by-hand                  ask the operator to do both\n"
	"\n"
	"Exit status: 0 none failed, 1 some failed, 2 usage, 3 could not be run.\n";

struct options {
	const char *host, *device, *port;
	bool listen, json, list;
	int gid_index, agent_fd;
	const char *checks[MAX_CHECKS];
	unsigned n_checks;
	const char *down, *up;
	bool by_hand;
};

volatile sig_atomic_t pr_interrupted;

static void on_signal(int number)
{
	pr_interrupted = 1;
}

static int usage(const char *what)
{
	fprintf(stderr, "shift-probe: %s; see shiftctl probe-hw --help\n", what);
	return PR_USAGE;
}

static int not_run(void)
{
	fprintf(stderr, "shift-probe: %s\n", pr_why());
	return PR_NOT_RUN;
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct pr_check *check_find(const char *name)
{
	for (unsigned i = 0; i < pr_n_checks; i++)
		if (!strcmp(pr_checks[i].name, name))
			return &pr_checks[i];
	return NULL;
}

static int option_check(struct options *o, const char *name)
{
	if (!check_find(name))
		return usage("no check of that name (--list shows them)");
	if (o->n_checks == MAX_CHECKS)
		return usage("too many checks");
	o->checks[o->n_checks++] = name;
	return 0;
}

static int option_number(const char *text, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);

	*out = (int)value;
	return *text && !*end && value >= 0 && value < 65536
		       ? 0
		       : usage("a number is wanted, not that");
}

enum { OPT_LISTEN = 256, OPT_CHECK, OPT_LIST, OPT_JSON, OPT_DOWN, OPT_UP, OPT_HAND, OPT_AGENT };

/* 0, or how to exit. */
static int option_take(struct options *o, int c)
{
	int number;

	switch (c) {
	case 'd': o->device = optarg; return 0;
	case 'x': return option_number(optarg, &o->gid_index);
	case 'p': o->port = optarg; return option_number(optarg, &number);
	case OPT_LISTEN: o->listen = true; return 0;
	case OPT_CHECK: return option_check(o, optarg);
	case OPT_LIST: o->list = true; return 0;
	case OPT_JSON: o->json = true; return 0;
	case OPT_DOWN: o->down = optarg; return 0;
	case OPT_UP: o->up = optarg; return 0;
	case OPT_HAND: o->by_hand = true; return 0;
	case OPT_AGENT: return option_number(optarg, &o->agent_fd);
	default: return usage("that option is not known, or lacks its value");
	}
}

static int options_check(const struct options *o)
{
	if (o->listen && (o->host || o->n_checks || o->json || o->down || o->by_hand))
		return usage("--listen obeys the client: it takes -d, -x and -p only");
	if (!o->down != !o->up)
		return usage("--link-down-command and --link-up-command want each other");
	if (o->down && o->by_hand)
		return usage("--by-hand or commands, not both");
	return 0;
}

static int options_parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "gid-index", required_argument, NULL, 'x' },
		{ "port", required_argument, NULL, 'p' },
		{ "listen", no_argument, NULL, OPT_LISTEN },
		{ "check", required_argument, NULL, OPT_CHECK },
		{ "list", no_argument, NULL, OPT_LIST },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "link-down-command", required_argument, NULL, OPT_DOWN },
		{ "link-up-command", required_argument, NULL, OPT_UP },
		{ "by-hand", no_argument, NULL, OPT_HAND },
		{ "agent-fd", required_argument, NULL, OPT_AGENT },
		{ NULL, 0, NULL, 0 },
	};
	int c, rc;

	*o = (struct options){ .port = PR_PORT, .gid_index = -1, .agent_fd = -1 };
	opterr = 0;
	while ((c = getopt_long(argc, argv, "d:x:p:", names, NULL)) != -1) {
		rc = option_take(o, c);
		if (rc)
			return rc;
	}
	if (optind < argc)
		o->host = argv[optind++];
	return optind < argc ? usage("one HOST at the most") : options_check(o);
}

/* ---- what runs ------------------------------------------------------------------------------- */

static int list_checks(void)
{
	for (unsigned i = 0; i < pr_n_checks; i++)
		printf("%-17s %s\n%-17s Otherwise: %s\n", pr_checks[i].name,
		       pr_checks[i].assumption, "", pr_checks[i].otherwise);
	return PR_ALL_HOLD;
}

static int serve(const struct options *o)
{
	struct pr_peer peer;
	struct pr_dev dev;
	int rc;

	if (pr_dev_open(&dev, o->device, o->gid_index))
		return not_run();
	if (o->agent_fd >= 0) {
		memset(&peer, 0, sizeof(peer));
		peer.fd = o->agent_fd;
		rc = 0;
	} else {
		rc = pr_peer_listen(&peer, o->port);
	}
	if (!rc)
		rc = pr_agent_serve(&peer, &dev);
	if (rc)
		rc = not_run();
	else if (o->agent_fd < 0)
		fprintf(stderr, "shift-probe: the client is done; it has the report\n");
	pr_dev_close(&dev);
	return rc;
}

/* Asks the peer for its description, or returns NULL. */
static json_t *meet(struct probe *p)
{
	json_t *said = pr_ask(&p->peer, "{s:s}", "op", "describe"), *host = NULL;
	bool ethernet = json_is_true(json_object_get(said, "ethernet"));
	const char *type = json_string_value(json_object_get(said, "gid_type"));

	if (!said)
		return NULL;
	if (pr_int(said, "protocol") != PR_PROTOCOL)
		pr_fail("the peer runs another version of shift-probe; install the same at both "
			"ends");
	else if (ethernet != pr_dev_ethernet(&p->dev))
		pr_fail("the link layer here is %s, at the peer %s: these ports cannot be "
			"connected",
			ethernet ? "InfiniBand" : "Ethernet", ethernet ? "Ethernet" : "InfiniBand");
	else if (!type || strcmp(type, p->dev.gid_type))
		pr_fail("the GID here is of type %s, at the peer of type %.20s; choose with -x",
			p->dev.gid_type, type ? type : "none");
	else
		host = json_incref(json_object_get(said, "host"));
	json_decref(said);
	return host;
}

static void run_one(struct probe *p, struct pr_result *r)
{
	uint64_t began = pr_now_ns();

	pr_fail("%s", "");
	r->evidence = json_object();
	r->verdict = p->peer.gone     ? pr_cannot_tell(r, "the peer is gone")
		     : pr_interrupted ? pr_cannot_tell(r, "interrupted")
		     : !p->dev.rings && !r->check->any_nic
			     ? pr_cannot_tell(r, "it reads rings as libmlx5 has them, and this NIC "
						 "has another provider")
			     : r->check->run(p, r);
	if (r->verdict == PR_FAILS && p->peer.gone)
		r->verdict = pr_cannot_tell(r, "the peer went away meanwhile");
	if (r->verdict == PR_CANNOT_TELL && !*r->reason)
		pr_cannot_tell(r, "%s", pr_why());
	r->seconds = (double)(pr_now_ns() - began) / 1e9;
}

static void run_all(struct probe *p, struct pr_report *report)
{
	for (unsigned i = 0; i < report->n; i++) {
		struct pr_result *r = &report->results[i];

		fprintf(stderr, "%2u/%u %-17s ", i + 1, report->n, r->check->name);
		run_one(p, r);
		fprintf(stderr, "%s%s%s (%.1f s)\n", pr_verdict_name(r->verdict),
			r->verdict == PR_HOLDS ? "" : ": ", r->verdict == PR_HOLDS ? "" : r->reason,
			r->seconds);
		if (i + 1 == report->n || !r[1].check->link)
			pr_link_restore(p);
	}
}

static void choose(const struct options *o, struct pr_report *report)
{
	for (unsigned i = 0; i < pr_n_checks; i++) {
		bool wanted = !o->n_checks;

		for (unsigned k = 0; k < o->n_checks; k++)
			wanted |= !strcmp(o->checks[k], pr_checks[i].name);
		if (wanted)
			report->results[report->n++].check = &pr_checks[i];
	}
}

static int report_give(const struct options *o, const struct pr_report *report)
{
	bool failed = false;

	if (o->json)
		pr_report_json(report);
	else
		pr_report_table(report);
	for (unsigned i = 0; i < report->n; i++) {
		failed |= report->results[i].verdict == PR_FAILS;
		json_decref(report->results[i].evidence);
	}
	return failed ? PR_SOME_FAIL : PR_ALL_HOLD;
}

static int probe_run(const struct options *o, struct probe *p)
{
	struct pr_result results[MAX_CHECKS] = { { .check = NULL } };
	struct pr_report report = { .results = results, .loopback = p->loopback };
	uint64_t began = pr_now_ns();
	int rc;

	report.there = meet(p);
	if (!report.there)
		return not_run();
	report.here = pr_dev_describe(&p->dev);
	choose(o, &report);
	run_all(p, &report);
	report.seconds = (double)(pr_now_ns() - began) / 1e9;
	pr_send(&p->peer, json_pack("{s:b}", "bye", 1));
	rc = report_give(o, &report);
	json_decref(report.here);
	json_decref(report.there);
	return rc;
}

static int drive(const struct options *o)
{
	static struct probe p;
	int rc;

	p.link = (struct pr_link){ .down_command = o->down,
				   .up_command = o->up,
				   .by_hand = o->by_hand };
	p.loopback = !o->host;
	if (pr_dev_open(&p.dev, o->device, o->gid_index))
		return not_run();
	rc = o->host ? pr_peer_connect(&p.peer, o->host, o->port) : pr_peer_spawn(&p.peer, &p.dev);
	rc = rc ? not_run() : probe_run(o, &p);
	pr_link_free(&p);
	pr_peer_end(&p.peer);
	pr_dev_close(&p.dev);
	return rc;
}

/* Starts anew without SHIFT, if its library stands in: the test is of the NIC. */
static void without_shift(char **argv)
{
	const char *disabled = getenv("SHIFT_DISABLE");

	if (!dlsym(RTLD_DEFAULT, "shift_drain") || (disabled && !strcmp(disabled, "1")))
		return;
	setenv("SHIFT_DISABLE", "1", 1);
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct options o;
	int rc;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(help, stdout);
		return PR_ALL_HOLD;
	}
	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		puts("shift-probe " SHIFT_VERSION);
		return PR_ALL_HOLD;
	}
	rc = options_parse(argc, argv, &o);
	if (rc)
		return rc;
	if (o.list)
		return list_checks();
	without_shift(argv);
	if (o.listen || o.agent_fd >= 0)
		return serve(&o);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return drive(&o);
}
