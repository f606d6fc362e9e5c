/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_room.h"

#include "shiftlib/replica/cq_room.h"
#include "sim_end.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_world.h"

enum { HIDDEN = 2, NEIGHBOURS = 16 };

/* As shiftlib/conn/parts/room.c counts them, but for receives, which the program has all counted. */
static uint32_t movers(const struct sim_world *w, const struct sim_end *e)
{
	uint32_t depth = e->app.depth;

	return depth + HIDDEN + (w->weather.log_every ? depth : 0);
}

/* Without a random number: schedules stay what they were. */
static uint32_t reserved(const struct sim_world *w, uint32_t end)
{
	struct sh_cq_room room = { .told = 1 + (uint32_t)((w->seed + end) % NEIGHBOURS) };

	if (sim_mutant == SIM_MUTANT_FLUSH_TAKES_ROOM)
		return 0;
	return (uint32_t)sh_room_need(&room, movers(w, &w->end[end]), false) - room.told;
}

void sim_room_look(struct sim_world *w, const struct sim_qp *qp)
{
	uint32_t uncounted = 0, room = reserved(w, qp->end);

	if (qp->epoch) /* what it completes in is SHIFT's own */
		return;
	for (uint32_t i = qp->cq_head; i < qp->n_cq; i++)
		uncounted += qp->cq[i].uncounted;
	if (uncounted > room)
		sim_violation(w, "R1: %u completions that end %u has not counted, and room for %u",
			      uncounted, qp->end, room);
}
