/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Work completions that libmlx5 has given to us, and we have not given to the program yet: first in, first out. */
#ifndef RING_KEPT_H
#define RING_KEPT_H

#include <infiniband/verbs.h>

#pragma GCC visibility push(hidden)

struct ring_kept {
	struct ibv_wc *wc;
	uint32_t first, n, room;
};

/* Where the next one goes; it is there after ring_kept_add(). NULL: no memory. */
struct ibv_wc *ring_kept_place(struct ring_kept *kept);
void ring_kept_add(struct ring_kept *kept);
/* The n oldest of them, or fewer; returns how many. */
int ring_kept_take(struct ring_kept *kept, int n, struct ibv_wc *wc);
void ring_kept_free(struct ring_kept *kept);

#pragma GCC visibility pop

#endif
