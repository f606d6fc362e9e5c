/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an application has posted and seen, for random tests of an engine: requests and receives have
 * numbers from 1 on. Whatever breaks a promise ends the program with the seed that replays it.
 */
#ifndef TESTS_LIB_RANDOM_MODEL_H
#define TESTS_LIB_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "providers/request.h"

enum { MODEL_IDS = 1 << 16 };

struct model {
	uint64_t next_send, next_recv;	   /* numbers of the next posts; 0 is none */
	uint64_t polled_send, polled_recv; /* up to which completions came */
	uint64_t received;		   /* receives that the NIC has filled */
	uint8_t kind[MODEL_IDS];	   /* enum sp_request_kind */
	uint8_t signaled[MODEL_IDS], ran[MODEL_IDS];
	uint8_t again[MODEL_IDS]; /* a move may have sent it a second time */
};
extern struct model model;
extern uint64_t model_seed;

#define MODEL_MUST(cond)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			model_broken(__FILE__, __LINE__, #cond);                                   \
	} while (0)

void model_broken(const char *file, int line, const char *cond) __attribute__((noreturn));
void model_begin(uint64_t seed);
uint32_t model_below(uint32_t n);

/* The request of number next_send was taken. */
void model_posted(enum sp_request_kind kind, bool signaled);
/* A good completion was polled: that of the next signaled one, which has run. */
void model_completed(uint64_t id);
void model_received(uint64_t id);
/* All is done that will be: is anything missing, or too much? */
void model_finish(void);

/* Requests for which a plain queue has no place free: what was not polled. */
static inline uint64_t model_used(void)
{
	return model.next_send - 1 - model.polled_send;
}

/* Rounds and first seed out of argv; each round is called with its seed. */
int model_main(int argc, char **argv, uint64_t rounds, void (*round)(uint64_t seed));

#endif
