/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/kept.h"

enum { FEWEST = 16 };

static bool grow(struct ring_kept *kept)
{
	uint32_t room = kept->room ? 2 * kept->room : FEWEST;
	struct ibv_wc *wc = realloc(kept->wc, room * sizeof(*wc));

	if (!wc)
		return false;
	kept->wc = wc;
	kept->room = room;
	return true;
}

static void to_front(struct ring_kept *kept)
{
	if (kept->n)
		memmove(kept->wc, kept->wc + kept->first, kept->n * sizeof(*kept->wc));
	kept->first = 0;
}

struct ibv_wc *ring_kept_place(struct ring_kept *kept)
{
	if (kept->first + kept->n == kept->room && kept->first)
		to_front(kept);
	if (kept->n == kept->room && !grow(kept))
		return NULL;
	return kept->wc + kept->first + kept->n;
}

void ring_kept_add(struct ring_kept *kept)
{
	kept->n++;
}

int ring_kept_take(struct ring_kept *kept, int n, struct ibv_wc *wc)
{
	uint32_t got = (uint32_t)n < kept->n ? (uint32_t)n : kept->n;

	if (!got)
		return 0;
	memcpy(wc, kept->wc + kept->first, got * sizeof(*wc));
	kept->first += got;
	kept->n -= got;
	return (int)got;
}

void ring_kept_free(struct ring_kept *kept)
{
	free(kept->wc);
	*kept = (struct ring_kept){ 0 };
}
