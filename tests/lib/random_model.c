/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/random_model.h"

#include <string.h>
#include <time.h>

struct model model;
uint64_t model_seed;
static uint64_t state;

void model_broken(const char *file, int line, const char *cond)
{
	fprintf(stderr, "%s:%d: %s; replay with seed %llu\n", file, line, cond,
		(unsigned long long)model_seed);
	abort();
}

uint32_t model_below(uint32_t n)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % n;
}

void model_begin(uint64_t seed)
{
	model_seed = state = seed;
	memset(&model, 0, sizeof(model));
	model.next_send = model.next_recv = 1;
}

void model_posted(enum sp_request_kind kind, bool signaled)
{
	MODEL_MUST(model.next_send < MODEL_IDS);
	model.kind[model.next_send] = kind;
	model.signaled[model.next_send++] = signaled;
}

void model_completed(uint64_t id)
{
	uint64_t next = model.polled_send + 1;

	while (next < model.next_send && !model.signaled[next])
		next++;
	if (id != next)
		fprintf(stderr, "completion of %llu, expected %llu\n", (unsigned long long)id,
			(unsigned long long)next);
	MODEL_MUST(id == next && id < model.next_send);
	for (next = model.polled_send + 1; next <= id; next++)
		MODEL_MUST(model.ran[next]); /* and all before it, signaled or not */
	model.polled_send = id;
}

void model_received(uint64_t id)
{
	MODEL_MUST(id == model.polled_recv + 1 && id <= model.received);
	model.polled_recv = id;
}

static bool ran_right(uint64_t id)
{
	return model.ran[id] == 1 ||
	       (model.ran[id] && (model.kind[id] == SP_REQ_READ ||
				  (model.kind[id] == SP_REQ_WRITE && model.again[id])));
}

void model_finish(void)
{
	for (uint64_t id = 1; id < model.next_send; id++) {
		MODEL_MUST(id <= model.polled_send || !model.signaled[id]);
		if (!ran_right(id))
			fprintf(stderr, "request %llu of kind %u ran %u times\n",
				(unsigned long long)id, model.kind[id], model.ran[id]);
		MODEL_MUST(ran_right(id));
	}
	MODEL_MUST(model.polled_recv == model.received);
}

int model_main(int argc, char **argv, uint64_t rounds, void (*round)(uint64_t seed))
{
	uint64_t first = (uint64_t)time(NULL) * 1000;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		first = strtoull(argv[2], NULL, 0);
	printf("seeds %llu to %llu\n", (unsigned long long)first,
	       (unsigned long long)(first + rounds - 1));
	fflush(stdout);
	for (uint64_t i = 0; i < rounds; i++)
		round(first + i);
	return 0;
}
