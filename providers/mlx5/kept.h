/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Kept completions: libmlx5 has given them to us, and we have not given them to the program yet.
 * First in, first out.
 */
#ifndef RING_KEPT_H
#define RING_KEPT_H

#include <infiniband/verbs.h>

#pragma GCC visibility push(hidden)

struct ring_kept {
	struct ibv_wc *wc;
	uint32_t first, n, room;
};

/* Returns the place of the next one, which is there after ring_kept_add(). NULL: no memory. */
struct ibv_wc *ring_kept_place(struct ring_kept *kept);
void ring_kept_add(struct ring_kept *kept);
/* Takes the n oldest of them, or fewer; returns how many. */
int ring_kept_take(struct ring_kept *kept, int n, struct ibv_wc *wc);
void ring_kept_free(struct ring_kept *kept);

#pragma GCC visibility pop

#endif
