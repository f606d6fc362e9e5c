/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_sim [--seeds N] [--seconds N] [--seed S] [--threads N] [--mutant NAME] [--list-mutants] [--trace]
 *
 * Without --seed, seeds are fresh; the first is printed, and a failure prints its own:
 *
 *	sdr_sim --seed N --seeds 1 --trace
 *
 * With --mutant, one rule is broken on purpose, and the run succeeds when a schedule catches it.
 */
#include "sim_mutants.h"
#include "sim_world.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIM_THREADS = 16, SIM_CHUNK = 16 };

struct options {
	uint64_t seed, seeds, seconds, threads;
	bool seed_given, trace, list;
	const char *mutant;
};

struct worker {
	pthread_t thread;
	const struct options *o;
	struct sim_world *world;
	struct sim_counts counts;
};

static atomic_ullong next_seed;
static atomic_bool stop;
static atomic_ullong broken_seed;
static char broken_text[256];
static struct timespec started;

static void usage(void)
{
	fprintf(stderr, "usage: sdr_sim [--seeds N] [--seconds N] [--seed S] [--threads N]\n"
			"               [--mutant NAME] [--list-mutants] [--trace]\n");
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = text ? strtoull(text, &end, 0) : 0;

	if (!text || *end)
		usage();
	return n;
}

static uint64_t fresh_seed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return ((uint64_t)t.tv_sec * 1000000007ull ^ (uint64_t)t.tv_nsec) & 0xffffffffffull;
}

static double elapsed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)(t.tv_sec - started.tv_sec) + (double)(t.tv_nsec - started.tv_nsec) / 1e9;
}

static void parse(struct options *o, char **arg)
{
	for (arg++; *arg; arg++) {
		if (!strcmp(*arg, "--trace")) {
			o->trace = true;
		} else if (!strcmp(*arg, "--list-mutants")) {
			o->list = true;
		} else if (!strcmp(*arg, "--seeds")) {
			o->seeds = number(*++arg);
		} else if (!strcmp(*arg, "--seconds")) {
			o->seconds = number(*++arg);
		} else if (!strcmp(*arg, "--threads")) {
			o->threads = number(*++arg);
		} else if (!strcmp(*arg, "--seed")) {
			o->seed = number(*++arg);
			o->seed_given = true;
		} else if (!strcmp(*arg, "--mutant") && arg[1]) {
			o->mutant = *++arg;
		} else {
			usage();
		}
	}
	if (o->threads < 1 || o->threads > SIM_THREADS)
		usage();
}

/* ---- an assertion of core or rel is a broken promise with a seed ------------------------------ */

static _Thread_local sigjmp_buf trap;
static _Thread_local volatile bool trap_set;

static void trapped(int signal_no)
{
	if (trap_set)
		siglongjmp(trap, 1);
	signal(signal_no, SIG_DFL);
	raise(signal_no);
}

static void run_schedule(struct sim_world *w, uint64_t seed, bool trace)
{
	w->violation[0] = 0;
	trap_set = true;
	if (!sigsetjmp(trap, 1))
		sim_run(w, seed, trace);
	else
		sim_violation(w, "S9: an assertion failed");
	trap_set = false;
}

/* ---- many schedules ------------------------------------------------------------------------- */

static void report_broken(const struct worker *me, uint64_t seed)
{
	unsigned long long none = 0;

	atomic_store(&stop, true);
	if (atomic_compare_exchange_strong(&broken_seed, &none, seed ? seed : 1))
		memcpy(broken_text, me->world->violation, sizeof(broken_text));
}

static void *work(void *arg)
{
	struct worker *me = arg;
	uint64_t end = me->o->seed + me->o->seeds, seed;

	while (!atomic_load(&stop)) {
		seed = atomic_fetch_add(&next_seed, SIM_CHUNK);
		for (int i = 0; i < SIM_CHUNK && seed < end && !atomic_load(&stop); i++, seed++) {
			run_schedule(me->world, seed, me->o->trace);
			if (me->world->violation[0])
				report_broken(me, seed);
		}
		if (seed >= end || (me->o->seconds && elapsed() >= (double)me->o->seconds))
			break;
	}
	return NULL;
}

static void add(struct sim_counts *sum, const struct sim_counts *one)
{
	uint64_t *a = (uint64_t *)sum;
	const uint64_t *b = (const uint64_t *)one;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*a); i++)
		a[i] += b[i];
}

static void print(const struct sim_counts *c)
{
	printf("%" PRIu64 " schedules in %.1f s, %" PRIu64 " events, %" PRIu64
	       " Writes or messages (%" PRIu64 " Writes failed)\n"
	       "packets %" PRIu64 ": lost %" PRIu64 ", doubled %" PRIu64 ", dry %" PRIu64
	       ", late %" PRIu64 "; datagrams %" PRIu64 "\n"
	       "slots used again %" PRIu64 ", completed early %" PRIu64 ", gone %" PRIu64
	       ", chunks decoded %" PRIu64 "\n",
	       c->schedules, elapsed(), c->steps, c->writes, c->failed, c->packets, c->lost,
	       c->duplicates, c->dry, c->late, c->datagrams, c->reused, c->early, c->gone,
	       c->decoded);
}

static int verdict(const struct options *o)
{
	unsigned long long seed = atomic_load(&broken_seed);

	if (seed)
		printf("seed %llu breaks %s\n  replay: --seed %llu --seeds 1 --trace%s%s\n", seed,
		       broken_text, seed, o->mutant ? " --mutant " : "",
		       o->mutant ? o->mutant : "");
	if (!o->mutant)
		return seed ? 1 : 0;
	if (seed)
		printf("mutant %s caught: it breaks %.2s\n", o->mutant, broken_text);
	else
		printf("mutant %s SURVIVED\n", o->mutant);
	return seed ? 0 : 1;
}

static int run_all(const struct options *o, struct worker *workers)
{
	static struct sim_counts sum;
	uint64_t n = 0;

	atomic_store(&next_seed, o->seed);
	for (; n < o->threads; n++)
		if (pthread_create(&workers[n].thread, NULL, work, &workers[n]))
			break;
	for (uint64_t i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		add(&sum, &workers[i].counts);
	}
	print(&sum);
	return n ? verdict(o) : 1;
}

static bool prepare(struct worker *workers, const struct options *o)
{
	for (uint64_t i = 0; i < o->threads; i++) {
		workers[i].o = o;
		workers[i].world = calloc(1, sizeof(struct sim_world));
		if (!workers[i].world)
			return false;
		workers[i].world->counts = &workers[i].counts;
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct worker workers[SIM_THREADS];
	struct sigaction action = { .sa_handler = trapped, .sa_flags = SA_NODEFER };
	struct options o = { .seeds = 3000, .threads = 2 };
	int ret;

	(void)argc;
	parse(&o, argv);
	if (o.list) {
		sim_mutants_list();
		return 0;
	}
	if (o.mutant && !sim_mutants_choose(o.mutant))
		usage();
	if (!o.seed_given)
		o.seed = fresh_seed();
	if (o.seconds)
		o.seeds = UINT32_MAX;
	if (o.trace)
		o.threads = 1;
	clock_gettime(CLOCK_MONOTONIC, &started);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	if (!prepare(workers, &o))
		return 1;
	printf("first seed %" PRIu64 "\n", o.seed);
	ret = run_all(&o, workers);
	for (uint64_t i = 0; i < o.threads; i++)
		free(workers[i].world);
	return ret;
}
