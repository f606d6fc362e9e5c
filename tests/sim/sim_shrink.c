/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shrinking: a schedule is the list of its decisions, and 0 is the dullest one. As many as possible
 * are made 0, in halves, quarters and so on, as long as the same promise stays broken.
 */
#include "sim_shrink.h"
#include "sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIM_SHRINK_DECISIONS = 1 << 20, SIM_SHRINK_RUNS = 4000 };

struct shrink {
	struct sim_world *w;
	uint64_t seed;
	uint64_t *list, *saved;
	uint32_t n, runs;
	char promise[12];
};

static bool still_broken(struct shrink *s)
{
	s->runs++;
	s->w->decisions.next = 0;
	sim_init(s->w, s->seed, false);
	sim_run(s->w);
	return s->w->violation[0] && !strncmp(s->w->violation, s->promise, sizeof(s->promise) - 1);
}

static bool all_zero(const uint64_t *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i])
			return false;
	return true;
}

static void try_zero(struct shrink *s, uint32_t from, uint32_t n)
{
	if (all_zero(s->list + from, n))
		return;
	memcpy(s->saved, s->list + from, n * sizeof(*s->list));
	memset(s->list + from, 0, n * sizeof(*s->list));
	if (!still_broken(s))
		memcpy(s->list + from, s->saved, n * sizeof(*s->list));
}

static void bisect(struct shrink *s)
{
	for (uint32_t size = s->n; size && s->runs < SIM_SHRINK_RUNS; size /= 2)
		for (uint32_t at = 0; at < s->n && s->runs < SIM_SHRINK_RUNS; at += size)
			try_zero(s, at, at + size < s->n ? size : s->n - at);
}

static uint32_t left(const struct shrink *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += s->list[i] != 0;
	return n;
}

static void print_zeroes(const struct shrink *s)
{
	const char *comma = "";

	printf("replay: --seed %llu --zero ", (unsigned long long)s->seed);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t from = i;

		while (i < s->n && !s->list[i])
			i++;
		if (i > from) {
			printf("%s%u-%u", comma, from, i - 1);
			comma = ",";
		}
	}
	printf(" --trace\n");
}

static bool record(struct sim_world *w, uint64_t seed)
{
	w->decisions.list = calloc(SIM_SHRINK_DECISIONS, sizeof(*w->decisions.list));
	w->decisions.max = SIM_SHRINK_DECISIONS;
	w->decisions.replay = false;
	if (!w->decisions.list)
		return false;
	sim_init(w, seed, false);
	sim_run(w);
	w->decisions.replay = true;
	return true;
}

/* "3-17,40-99": those decisions are 0. The next run replays the rest. */
bool sim_shrink_parse(struct sim_world *w, uint64_t seed, const char *zeroes)
{
	char *end;

	if (!record(w, seed))
		return false;
	while (*zeroes) {
		unsigned long from = strtoul(zeroes, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		for (; from <= to && from < w->decisions.n; from++)
			w->decisions.list[from] = 0;
		if (*end && *end != ',')
			return false;
		zeroes = *end ? end + 1 : end;
	}
	w->decisions.next = 0;
	return true;
}

void sim_shrink(struct sim_world *w, uint64_t seed)
{
	struct shrink s = { .w = w, .seed = seed };
	uint32_t steps, total;

	if (!record(w, seed))
		return;
	s.n = w->decisions.n;
	s.list = w->decisions.list;
	s.saved = calloc(s.n + 1, sizeof(*s.saved));
	if (!s.saved || !w->violation[0]) {
		printf("nothing to shrink\n");
		free(s.saved);
		return;
	}
	memcpy(s.promise, w->violation, sizeof(s.promise) - 1);
	steps = w->steps;
	total = left(&s);
	bisect(&s);
	w->decisions.next = 0;
	sim_init(w, seed, true);
	sim_run(w);
	printf("shrunk from %u to %u decisions (%u to %u steps) in %u runs\n", total, left(&s),
	       steps, w->steps, s.runs);
	print_zeroes(&s);
	free(s.saved);
}
