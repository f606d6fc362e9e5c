/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The translated key: a key of the application and its counterpart on a carrier. */
#ifndef RING_KEY_H
#define RING_KEY_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

/*
 * A key of the application and its counterpart on the carrier, as the NIC reads it. The tag has the
 * generation of the keys in its upper half: no tag of an earlier generation is equal to any of now.
 */
struct ring_key {
	uint64_t tag; /* 0: none */
	__be32 wire;
};

enum ring_key_kind {
	RING_LKEY,
	RING_RKEY,
	RING_KEY_KINDS,
};

/* Keys that were asked for before the last one. */
struct ring_xlat_slots {
	struct ring_key of[RING_KEY_KINDS][RING_KEY_SLOTS];
};

/* Translations of one queue, whose lock guards them. They are those of its active carrier. */
struct ring_xlat {
	struct ring_key last[RING_KEY_KINDS];
	struct ring_xlat_slots *slots; /* NULL before the queue has a carrier with other keys */
	bool missing; /* true if a request that is being written has a key that is not known */
};

#pragma GCC visibility pop

#endif
