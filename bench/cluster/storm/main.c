/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * storm: connections of many hosts get their standbys; then a rail dies, and all leave it. Prints
 * the time and the number of messages as a line of JSON. bench/cluster/storm.py runs it and says
 * what its costs are.
 *
 * usage: storm [--hosts N] [--peers N] [--channels N] [--fault nic|switch|silent]
 *              [--drop-permille N] [--seed N] [--step NS] [--datagram NS] [--wake NS]
 *              [--command NS] [--late NS] [--latency NS] [--noticed-min NS] [--noticed-max NS]
 *              [--unasked 0|1]
 */
#include "storm.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETUP_NS    (1000 * STORM_MS)
#define JITTER_NS   STORM_MS /* greatest difference between the ports of a switch that dies */
#define PATIENCE_NS (60000 * STORM_MS)

const char *const storm_fault_names[STORM_FAULTS] = { "nic", "switch", "silent" };

/* ---- what is asked for ----------------------------------------------------------------------- */

static void usage(const char *what)
{
	fprintf(stderr, "storm: %s: what is that? main.c says what can be asked for\n", what);
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end || !*text)
		usage(text);
	return value;
}

static enum storm_fault fault(const char *name)
{
	for (int i = 0; i < STORM_FAULTS; i++)
		if (!strcmp(name, storm_fault_names[i]))
			return (enum storm_fault)i;
	usage(name);
	return STORM_FAULTS;
}

static void read_arguments(struct storm_config *c, int argc, char **argv)
{
	uint64_t hosts = 2, peers = 1, channels = 1, drop = 0, which = 0, unasked = 0;
	const struct {
		const char *name;
		uint64_t *value;
	} numbers[] = {
		{ "fault", &which },
		{ "hosts", &hosts },
		{ "peers", &peers },
		{ "channels", &channels },
		{ "drop-permille", &drop },
		{ "seed", &c->seed },
		{ "step", &c->costs.step },
		{ "datagram", &c->costs.datagram },
		{ "wake", &c->costs.wake },
		{ "command", &c->costs.command },
		{ "late", &c->costs.late },
		{ "latency", &c->costs.latency },
		{ "noticed-min", &c->noticed_min },
		{ "noticed-max", &c->noticed_max },
		{ "unasked", &unasked },
	};
	enum { N = sizeof(numbers) / sizeof(numbers[0]) };
	struct option options[N + 1] = { 0 };
	int i;

	for (i = 0; i < N; i++)
		options[i] = (struct option){ numbers[i].name, required_argument, NULL, i + 1 };
	while ((i = getopt_long(argc, argv, "", options, NULL)) > 0 && i <= N)
		*numbers[i - 1].value = i == 1 ? (uint64_t)fault(optarg) : number(optarg);
	if (i > 0 || optind != argc || hosts < 2 || !peers || !channels)
		usage(optind < argc ? argv[optind] : "the command line");
	c->hosts = (uint32_t)hosts;
	c->peers = (uint32_t)peers;
	c->channels = (uint32_t)channels;
	c->drop_permille = (uint32_t)drop;
	c->fault = (enum storm_fault)which;
	c->unasked = unasked;
}

/* ---- before ---------------------------------------------------------------------------------- */

static void run_until(struct storm_world *w, uint64_t end, bool (*done)(const struct storm_world *))
{
	struct storm_event event;

	while (w->heap.n && w->heap.list[1].at <= end && !(done && done(w))) {
		storm_next(w, &event);
		storm_host_event(w, &event);
	}
	w->now = w->now < end && !done ? end : w->now;
}

static void introduce(struct storm_world *w)
{
	struct sc_event introduced = { .type = SC_EV_INTRODUCED };
	struct sc_event paths = { .type = SC_EV_PATHS, .up = 3, .steady = 3, .well = 3 };

	w->now = STORM_MS;
	for (uint32_t i = 0; i < w->config.hosts; i++)
		w->host[i].clock = w->now;
	for (uint32_t i = 0; i < w->n_ends; i++) {
		introduced.leader = !(i & 1);
		storm_end_event(w, i, &paths);
		storm_end_event(w, i, &introduced);
	}
	for (uint32_t i = 0; i < w->config.hosts; i++)
		storm_input_at(w, w->now, i, &(struct storm_input){ .type = STORM_IN_FLUSH });
}

static void set_up(struct storm_world *w)
{
	w->costs = (struct storm_costs){ .latency = STORM_US };
	introduce(w);
	run_until(w, SETUP_NS, NULL);
	for (uint32_t i = 0; i < w->n_ends; i++) {
		if (sc_protected(&w->end[i].conn))
			continue;
		fprintf(stderr, "storm: end %u has no standby: %s\n", i,
			sc_reason_text(w->end[i].conn.reason));
		exit(1);
	}
}

/* ---- the storm ------------------------------------------------------------------------------- */

static void begin_nic(struct storm_world *w)
{
	storm_input_at(w, w->now, 1, &(struct storm_input){ .type = STORM_IN_PORT_DOWN });
}

static void begin_switch(struct storm_world *w)
{
	for (uint32_t i = 0; i < w->config.hosts; i++)
		storm_input_at(w, w->now + storm_pick(w, JITTER_NS), i,
			       &(struct storm_input){ .type = STORM_IN_PORT_DOWN });
}

/* Each host finds out by itself of each peer, unless that tells it first. */
static void begin_silent(struct storm_world *w)
{
	uint64_t range = w->config.noticed_max - w->config.noticed_min + 1;

	for (uint32_t host = 0; host < w->config.hosts; host++)
		for (uint32_t peer = 0; peer < w->config.hosts; peer++)
			storm_input_at(
				w, w->now + w->config.noticed_min + storm_pick(w, range), host,
				&(struct storm_input){ .type = STORM_IN_SILENT,
						       .peer = peer == host ? UINT32_MAX : peer });
}

static void begin(struct storm_world *w)
{
	static void (*const begins[])(struct storm_world *) = { begin_nic, begin_switch,
								begin_silent };

	w->costs = w->config.costs;
	w->started = true;
	w->rail_dead = w->config.fault != STORM_NIC;
	w->n_leaving = w->rail_dead ? w->n_ends : 2 * w->host[1].n_ends;
	memset(&w->sum, 0, sizeof(w->sum));
	begins[w->config.fault](w);
}

static bool all_settled(const struct storm_world *w)
{
	for (uint32_t i = 0; i < w->n_ends && w->n_settled == w->n_leaving; i++)
		if (w->end[i].conn.move != SC_MOVE_NONE)
			return false;
	return w->n_settled == w->n_leaving;
}

/* Settled at both ends, then the first request goes and its acknowledgement comes. */
static void report(const struct storm_world *w, uint64_t begun)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (uint32_t i = 0; i < w->n_ends; i += 2) {
		uint64_t a = w->end[i].settled_at, b = w->end[i + 1].settled_at;
		uint64_t flows = (a > b ? a : b) + 2 * w->costs.latency;

		if (!a || !b)
			continue;
		first = flows < first ? flows : first;
		last = flows > last ? flows : last;
	}
	printf("{\"hosts\": %u, \"peers\": %u, \"channels\": %u, \"fault\": \"%s\", "
	       "\"connections\": %u, "
	       "\"qps\": %u, \"ms\": %.4f, \"first_ms\": %.4f, \"since_fault_ms\": %.4f, "
	       "\"messages\": %llu, \"standby_messages\": %llu, \"datagrams\": %llu, \"steps\": "
	       "%llu}\n",
	       w->config.hosts, w->config.peers, w->config.channels,
	       storm_fault_names[w->config.fault], w->n_leaving / 2, w->host[1].n_ends,
	       (double)(last - w->sum.noticed_at) / 1e6, (double)(first - w->sum.noticed_at) / 1e6,
	       (double)(last - begun) / 1e6, (unsigned long long)w->sum.states,
	       (unsigned long long)w->sum.standbys, (unsigned long long)w->sum.datagrams,
	       (unsigned long long)w->sum.steps);
}

int main(int argc, char **argv)
{
	struct storm_world w = { 0 };
	uint64_t begun;
	bool settled;

	read_arguments(&w.config, argc, argv);
	w.random = w.config.seed;
	storm_build(&w);
	set_up(&w);
	begun = w.now;
	begin(&w);
	run_until(&w, begun + PATIENCE_NS, all_settled);
	settled = all_settled(&w);
	if (settled)
		report(&w, begun);
	else
		fprintf(stderr, "storm: %u of %u ends flow again\n", w.n_settled, w.n_leaving);
	storm_destroy(&w);
	return settled ? 0 : 1;
}
