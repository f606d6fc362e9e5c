/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * failover_sim [--seeds N] [--seconds N] [--seed S] [--threads N] [--coverage]
 *              [--mutant NAME] [--trace | --shrink] [--zero LIST] [--labels FILE]
 *
 * Without --seed, seeds are fresh; the first is printed, and every failure prints its own. With
 * --mutant, one rule is broken on purpose and the run succeeds when a schedule catches it.
 *
 *	failover_sim --seed N --seeds 1 --trace		every event, state and action, readable
 *	failover_sim --seed N --shrink			the same, with as few decisions as possible
 *	failover_sim --seed N --zero 0-17,40-99 --trace	what --shrink found, again
 *	failover_sim --seeds 1000 --labels FILE		the runs in the words of the proof, for
 *							tests/proof/run_accept.py
 *	failover_sim --seeds 100000 --coverage		share of schedules in which each promise was
 *							at stake, and every (state, event) pair
 */
#include "sim_label.h"
#include "sim_mutants.h"
#include "sim_report.h"
#include "sim_shrink.h"
#include "sim_world.h"

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
	bool seed_given, trace, list, coverage, shrink;
	const char *mutant, *zero, *labels;
};

struct worker {
	pthread_t thread;
	const struct options *o;
	struct sim_world *world;
	struct sim_totals totals;
};

static atomic_ullong next_seed;
static atomic_bool stop;
static atomic_ullong broken_seed, out_of_room;
static char broken_text[256];
static struct timespec started;

static void usage(void)
{
	fprintf(stderr, "usage: failover_sim [--seeds N] [--seconds N] [--seed S] [--threads N]\n"
			"                    [--coverage] [--mutant NAME] [--list-mutants]\n"
			"                    [--trace | --shrink] [--zero FROM-TO,...]\n"
			"                    [--labels FILE]\n");
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
	return ((uint64_t)t.tv_sec * 1000000007ULL ^ (uint64_t)t.tv_nsec) & 0xffffffffffULL;
}

static double elapsed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)(t.tv_sec - started.tv_sec) + (double)(t.tv_nsec - started.tv_nsec) / 1e9;
}

static bool flag(struct options *o, const char *arg)
{
	bool *flags[] = { &o->trace, &o->list, &o->coverage, &o->shrink };
	static const char *const names[] = { "--trace", "--list-mutants", "--coverage",
					     "--shrink" };

	for (size_t i = 0; i < 4; i++)
		if (!strcmp(arg, names[i]))
			return *flags[i] = true;
	return false;
}

static void parse(struct options *o, char **arg)
{
	for (arg++; *arg; arg++) {
		if (flag(o, *arg))
			continue;
		if (!arg[1])
			usage();
		if (!strcmp(*arg, "--seeds")) {
			o->seeds = number(*++arg);
		} else if (!strcmp(*arg, "--seconds")) {
			o->seconds = number(*++arg);
		} else if (!strcmp(*arg, "--threads")) {
			o->threads = number(*++arg);
		} else if (!strcmp(*arg, "--seed")) {
			o->seed = number(*++arg);
			o->seed_given = true;
		} else if (!strcmp(*arg, "--mutant")) {
			o->mutant = *++arg;
		} else if (!strcmp(*arg, "--labels")) {
			o->labels = *++arg;
		} else if (!strcmp(*arg, "--zero")) {
			o->zero = *++arg;
		} else {
			usage();
		}
	}
	if (o->threads < 1 || o->threads > SIM_THREADS)
		usage();
}

/* ---- an assertion of the core is a broken promise with a seed ------------------------------- */

static _Thread_local sigjmp_buf trap;
static _Thread_local volatile bool trap_set;

static void trapped(int signal_no)
{
	if (trap_set)
		siglongjmp(trap, 1);
	signal(signal_no, SIG_DFL);
	raise(signal_no);
}

static void catch_traps(void)
{
	struct sigaction action = { .sa_handler = trapped, .sa_flags = SA_NODEFER };

	sigaction(SIGILL, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
}

static void run_schedule(struct sim_world *w, uint64_t seed, bool trace)
{
	w->violation[0] = 0;
	w->out_of_room = false;
	trap_set = true;
	if (!sigsetjmp(trap, 0)) {
		sim_init(w, seed, trace);
		sim_label_schedule(w);
		sim_run(w);
	} else {
		sim_violation(w, "P7: an assertion of the core failed");
	}
	trap_set = false;
}

/* ---- many schedules ------------------------------------------------------------------------- */

/* Or is it the model's limits? */
static bool breaks_promise(const char *violation)
{
	return strchr("LOPRUWX", violation[0]);
}

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
			/* a mutant goes on too, but where its filling a table is what P7 is broken by */
			if (me->world->out_of_room &&
			    !(me->o->mutant && breaks_promise(me->world->violation)))
				atomic_fetch_add(&out_of_room, 1);
			else if (me->world->violation[0])
				report_broken(me, seed);
		}
		if (seed >= end || (me->o->seconds && elapsed() >= (double)me->o->seconds))
			break;
	}
	return NULL;
}

/* One in a thousand is the model's fault; more would be a core that makes carriers for nothing. */
static bool enough_room(uint64_t schedules)
{
	uint64_t n = atomic_load(&out_of_room);

	if (n)
		printf("schedules cut short, the model's tables being full: %llu\n",
		       (unsigned long long)n);
	return n <= 1 + schedules / 1000;
}

static int verdict(const struct options *o, uint64_t schedules)
{
	unsigned long long seed = atomic_load(&broken_seed);
	bool room = enough_room(schedules);
	bool broken = breaks_promise(broken_text);

	if (seed)
		printf("seed %llu breaks %s\n  replay: --seed %llu --seeds 1 --trace%s%s, or "
		       "--shrink\n",
		       seed, broken_text, seed, o->mutant ? " --mutant " : "",
		       o->mutant ? o->mutant : "");
	if (!o->mutant)
		return seed || !room ? 1 : 0;
	if (seed && broken)
		printf("mutant %s caught: it breaks %.2s\n", o->mutant, broken_text);
	else
		printf("mutant %s SURVIVED\n", o->mutant);
	return seed && broken ? 0 : 1;
}

static int run_all(const struct options *o, struct worker *workers)
{
	static struct sim_totals totals;
	uint64_t n = 0;

	atomic_store(&next_seed, o->seed);
	for (; n < o->threads; n++)
		if (pthread_create(&workers[n].thread, NULL, work, &workers[n]))
			break;
	for (uint64_t i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		sim_report_add(&totals, &workers[i].totals);
	}
	sim_report_print(&totals, elapsed(), o->coverage);
	return n ? verdict(o, totals.schedules) : 1;
}

static int run_one(const struct options *o, struct sim_world *w)
{
	if (o->shrink)
		sim_shrink(w, o->seed);
	else if (sim_shrink_parse(w, o->seed, o->zero))
		run_schedule(w, o->seed, o->trace);
	else
		usage();
	return w->violation[0] ? 1 : 0;
}

static bool prepare(struct worker *workers, const struct options *o)
{
	for (uint64_t i = 0; i < o->threads; i++) {
		workers[i].o = o;
		workers[i].world = calloc(1, sizeof(struct sim_world));
		if (!workers[i].world)
			return false;
		workers[i].world->totals = &workers[i].totals;
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct worker workers[SIM_THREADS];
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
	if (o.labels && !(sim_labels = fopen(o.labels, "w"))) {
		perror(o.labels);
		return 1;
	}
	if (o.trace || o.shrink || o.zero || o.labels)
		o.threads = 1;
	clock_gettime(CLOCK_MONOTONIC, &started);
	catch_traps();
	if (!prepare(workers, &o))
		return 1;
	printf("first seed %llu\n", (unsigned long long)o.seed);
	ret = o.shrink || o.zero ? run_one(&o, workers[0].world) : run_all(&o, workers);
	for (uint64_t i = 0; i < o.threads; i++) {
		free(workers[i].world->decisions.list);
		free(workers[i].world);
	}
	if (sim_labels && fclose(sim_labels))
		ret = 1;
	return ret;
}
