// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "abuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process that the machine forgets for a second is a NIC that does not answer: no error yet. */
struct options opt = { .port = 18515,
		       .regions = 1024,
		       .rounds = 3,
		       .qps = 4,
		       .timeout = 18,
		       .dev = "mlx5_0",
		       .dev2 = "mlx5_1" };

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "churn", run_churn },
	{ "reset", run_reset },
	{ "destroy", run_destroy },
	{ "late-mr", run_late_mr },
	{ "exit", run_exit },
	{ "fork", run_fork },
	{ "cycles", run_cycles },
	{ "kill", run_kill },
	{ "abandon", run_abandon },
	{ "hung-nic", run_hung_nic },
	{ "many", run_many },
	{ "query", run_query },
	{ "bare", run_bare },
	{ "domains", run_domains },
	{ "ece", run_ece },
	{ "events", run_events },
	{ "late-rts", run_late_rts },
	{ "late-peer", run_late_peer },
	{ "late-second", run_late_second },
	{ "more-memory", run_more_memory },
	{ "on-demand", run_on_demand },
	{ "dmabuf", run_dmabuf },
	{ "teardown", run_teardown },
	{ "limits", run_limits },
	{ "resize", run_resize },
	{ "overrun", run_overrun },
	{ "regions", run_regions },
	{ "stopped-peer", run_stopped_peer },
	{ "storm", run_storm },
	{ "implicit", run_implicit },
	{ "huge", run_huge },
	{ "squeeze", run_squeeze },
	{ "bad-key", run_bad_key },
	{ "ended", run_ended },
	{ "ending", run_ending },
	{ "windows", run_windows },
	{ "tight", run_tight },
	{ "held", run_held },
	{ "tuned", run_tuned },
	{ "forks", run_forks },
	{ "bound", run_bound },
	{ "solicited", run_solicited },
	{ "armed", run_armed },
	{ "armed-foreign", run_armed_foreign },
	{ "states", run_states },
	{ "changed", run_changed },
	{ "limit", run_limit },
	{ "last", run_last },
	{ "asked", run_asked },
	{ "cancelled", run_cancelled },
};

void abuse_begin(struct nic *nic, struct conn *c)
{
	nic_open(nic, opt.dev);
	conn_make(c, nic);
	conn_connect(c);
	say("CONNECTED");
	hear("go");
}

static void usage(void)
{
	fprintf(stderr, "usage: abuse SCENARIO --server|--client [--port N] [--rounds N] [--qps N] "
			"[--rest MS] [--regions N] [--no-rereg] [--srq] [--seed N] [--dev NAME] "
			"[--dev2 NAME]\n");
	exit(2);
}

static void options_read(int argc, char **argv)
{
	int i;

	for (i = 2; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--client"))
			opt.server = false;
		else if (!strcmp(argv[i], "--no-rereg"))
			opt.no_rereg = true;
		else if (!strcmp(argv[i], "--srq"))
			opt.srq = true;
		else if (i++, !strcmp(argv[i - 1], "--port"))
			opt.port = atoi(value);
		else if (!strcmp(argv[i - 1], "--seed"))
			opt.seed = (uint64_t)atoll(value);
		else if (!strcmp(argv[i - 1], "--rounds"))
			opt.rounds = atoi(value);
		else if (!strcmp(argv[i - 1], "--regions"))
			opt.regions = atoi(value);
		else if (!strcmp(argv[i - 1], "--qps"))
			opt.qps = atoi(value);
		else if (!strcmp(argv[i - 1], "--rest"))
			opt.rest_ms = atoi(value);
		else if (!strcmp(argv[i - 1], "--timeout"))
			opt.timeout = atoi(value);
		else if (!strcmp(argv[i - 1], "--dev"))
			opt.dev = value;
		else if (!strcmp(argv[i - 1], "--dev2"))
			opt.dev2 = value;
		else
			usage();
	}
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc < 3)
		usage();
	options_read(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(argv[1], scenarios[i].name))
			continue;
		line_open();
		scenarios[i].run();
		say("OK");
		return 0;
	}
	usage();
}
