/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_owner.h"

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_limits.h"
#include "sim_world.h"

enum { FREE = 0, SOMEBODY = UINT16_MAX, THIRDS = 12 };

void sim_owner_init(struct sim_world *w)
{
	w->owned = sim_chance(w, 40);
	for (uint32_t i = 0; i < w->n_ends && w->owned; i++)
		for (uint32_t n = sim_pick(w, THIRDS); n; n--)
			sim_at(w, sim_random(w) % (w->faults_until + 20 * SIM_MS), SIM_EV_THIRD, i,
			       sim_pick(w, SIM_CELLS));
}

/* ---- the word ------------------------------------------------------------------------------- */

static uint32_t value_of(uint32_t request)
{
	return request + 1;
}

uint32_t sim_owner_execute(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_request *r = &w->end[end ^ 1].requests[request];
	uint32_t *word = &w->end[end].cell[r->cell].word, old = *word;

	if (r->swapped && !w->end[end ^ 1].laid.misled)
		sim_violation(w, "O1: atomic %u of end %u has swapped, and runs again", request,
			      end ^ 1);
	r->executed = 1;
	if (old == FREE) {
		*word = value_of(request);
		r->swapped = true;
	}
	return old;
}

void sim_owner_third(struct sim_world *w, uint32_t end, uint32_t cell)
{
	uint32_t *word = &w->end[end].cell[cell].word;

	if (!w->owned || (*word != FREE && *word != SOMEBODY))
		return;
	*word = *word == FREE ? SOMEBODY : FREE;
}

void sim_owner_seen(struct sim_world *w, uint32_t end, uint32_t request)
{
	const struct sim_request *r = &w->end[end].requests[request];
	uint32_t *word = &w->end[end ^ 1].cell[r->cell].word;

	if (!w->owned || r->low != FREE || w->end[end].laid.misled)
		return;
	if (*word != value_of(request))
		sim_violation(w, "O1: end %u was told that it has word %u by atomic %u: it is %u's",
			      end, r->cell, request, *word);
	if (sim_chance(w, 50))
		*word = FREE;
}

bool sim_owner_has_not_swapped(const struct sim_world *w, uint32_t end, uint32_t request)
{
	return w->owned && !w->end[end].requests[request].swapped;
}

/* ---- settling ------------------------------------------------------------------------------- */

void sim_owner_tell(struct sim_world *w, uint32_t end, struct sp_request *requests, uint32_t first,
		    uint32_t n)
{
	bool told = sim_chance(w, 90);

	for (uint32_t i = 0; i < n && w->owned; i++) {
		const struct sim_request *r = &w->end[end].requests[first + i];

		if (requests[i].kind != SP_REQ_ATOMIC)
			continue;
		requests[i].cas = 1;
		requests[i].addr = r->cell * sizeof(uint64_t);
		requests[i].bytes = sizeof(uint64_t);
		requests[i].compare = FREE;
		requests[i].swap = value_of(first + i);
		requests[i].told = told;
		requests[i].word = w->end[end ^ 1].cell[r->cell].word;
	}
}

void sim_owner_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < s->n && s->reason == SC_REASON_NONE; i++) {
		struct sim_request *r = &e->requests[e->retired + i];

		if (s->fates[i] == SP_FATE_WON) {
			w->figures.won++;
			r->answered = true;
			r->low = r->high = FREE;
			if (!r->swapped)
				sim_violation(w,
					      "O1: atomic %u of end %u has not swapped, and "
					      "counts as if it had",
					      e->retired + i, end);
		}
		if (s->fates[i] == SP_FATE_RESEND && s->requests[i].kind == SP_REQ_ATOMIC &&
		    r->executed)
			w->figures.lost++;
	}
}
