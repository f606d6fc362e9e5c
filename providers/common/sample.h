/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A sample of the memory keys in use. A shell that is about to call a connection protected can ask
 * whether it knows them, as memory may have been registered past all that it sees. A look costs the
 * application nothing; a queue that is busy now is looked at next time.
 */
#ifndef SHIFT_SAMPLE_H
#define SHIFT_SAMPLE_H

#include "providers/qp.h"

#pragma GCC visibility push(hidden)

enum {
	SP_SAMPLE_REQUESTS = 8, /* the latest of a send queue */
	SP_SAMPLE_RECEIVES = 4, /* of a receive queue, in one turn */
	SP_SAMPLE_SLOTS = 16,	/* of a shared queue, in one turn */
};

struct sp_sample {
	struct sp_key *keys;
	uint32_t n, room;
};

/* Adds a key that is not there yet, if there is room. */
void sp_sample_add(struct sp_sample *s, uint32_t key, bool remote);

/* Returns how far before the latest receive the i-th of that turn lies: the latest comes first. */
static inline uint32_t sp_sample_back(uint32_t turn, uint32_t i, uint32_t posted)
{
	return i ? (turn * SP_SAMPLE_RECEIVES + i) % posted : 0;
}

#pragma GCC visibility pop

#endif
