/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The choice of paths. Each side knows its own NICs and tells the other; a path serves when both
 * say so. The choice is a function of what both know, so either end could check it.
 */
#include "shiftlib/core/internal.h"

static uint8_t paths_both_up(const struct sc_conn *c)
{
	return c->paths.up & (c->peer.masks_known ? c->peer.paths.up : UINT8_MAX);
}

static uint8_t paths_both_steady(const struct sc_conn *c)
{
	return paths_both_up(c) & c->paths.steady &
	       (c->peer.masks_known ? c->peer.paths.steady : UINT8_MAX);
}

static uint8_t paths_drained(const struct sc_conn *c)
{
	return c->paths.drained | c->peer.paths.drained;
}

static uint8_t paths_bit(uint8_t path)
{
	return (uint8_t)(1u << path);
}

bool sc_paths_both_up(const struct sc_conn *c, uint8_t path)
{
	return paths_both_up(c) & paths_bit(path);
}

bool sc_paths_both_steady(const struct sc_conn *c, uint8_t path)
{
	return paths_both_steady(c) & paths_bit(path);
}

/* Returns the number of paths that a carrier could be on. */
uint32_t sc_paths_count(const struct sc_conn *c)
{
	return (uint32_t)__builtin_popcount(paths_both_up(c) | paths_bit(c->path));
}

bool sc_paths_drained(const struct sc_conn *c, uint8_t path)
{
	return paths_drained(c) & paths_bit(path);
}

bool sc_paths_before(const struct sc_conn *c, uint8_t path, uint8_t other)
{
	if (SC_MUTANT(STAMPEDE))
		return path < other;
	return sc_order_rank(c->standby.order, path) < sc_order_rank(c->standby.order, other);
}

static int paths_first(const struct sc_conn *c, uint8_t mask)
{
	int found = -1;
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (mask & paths_bit(path) &&
		    (found < 0 || sc_paths_before(c, path, (uint8_t)found)))
			found = path;
	return found;
}

/*
 * Returns the path of the next standby. Paths that stood still come before those that flap, paths
 * that failed just now come last. Only a connection that has lost its carrier goes back to the path
 * that it lost, or to one that the operator wants empty.
 */
int sc_paths_choose(const struct sc_conn *c)
{
	bool stranded = c->move == SC_MOVE_STRANDED;
	uint8_t others = (uint8_t) ~(paths_drained(c) | paths_bit(c->path));
	const uint8_t tries[] = {
		paths_both_steady(c) & others & ~c->standby.avoid,
		paths_both_up(c) & others & ~c->standby.avoid,
		paths_both_up(c) & others,
		stranded ? paths_both_up(c) & ~paths_drained(c) : 0,
		stranded && !SC_MUTANT(DRAINED_LAST) ? paths_both_up(c) : 0,
	};
	int path = -1;

	for (size_t i = 0; i < sizeof(tries) && path < 0; i++)
		path = paths_first(c, tries[i]);
	return path;
}

/* A better path need not be steady yet: its standby is ready once it is. */
bool sc_paths_better(const struct sc_conn *c)
{
	int path = paths_first(c, paths_both_up(c) & (uint8_t)~paths_drained(c));

	return path >= 0 && sc_paths_before(c, (uint8_t)path, c->path);
}

/* ---- news ----------------------------------------------------------------------------------- */

void sc_paths_changed(struct sc_frame *x)
{
	const struct sc_event *ev = x->ev;
	struct sc_conn *c = x->c;
	uint8_t came = ev->up & (uint8_t)~c->paths.up;
	bool died = ev->default_dead && !c->beyond;

	c->paths.well = ev->well; /* the peer is not told */
	if (!died && ev->up == c->paths.up && ev->steady == c->paths.steady &&
	    ev->drained == c->paths.drained && ev->homed == c->paths.homed &&
	    ev->cannot == c->paths.cannot && ev->suspicious == c->suspicious)
		return;
	c->beyond |= died;
	c->suspicious = ev->suspicious;
	c->paths.up = ev->up;
	c->paths.steady = ev->steady;
	c->paths.drained = ev->drained;
	c->paths.homed = ev->homed;
	c->paths.cannot = ev->cannot;
	c->paths.no++;
	c->standby.avoid &= (uint8_t)~came;
	if (came)
		c->standby.choose_at = 0;
	if (came & paths_bit(c->path))
		c->suspect = false;
	if (c->peer.introduced)
		sc_standby_tell(x);
}

/* Datagrams overtake each other: only newer masks count. */
bool sc_paths_heard(struct sc_frame *x, const struct sc_msg_standby *m)
{
	struct sc_conn *c = x->c;
	uint8_t came;

	c->beyond |= m->beyond;
	if (c->peer.masks_known && (int8_t)(m->masks_no - c->peer.paths.no) <= 0)
		return false;
	came = m->up & (uint8_t) ~(c->peer.masks_known ? c->peer.paths.up : UINT8_MAX);
	c->peer.paths = (struct sc_masks){
		.up = m->up,
		.steady = m->steady,
		.drained = m->drained,
		.homed = m->homed,
		.no = m->masks_no,
		.cannot = m->cannot,
	};
	c->peer.masks_known = true;
	c->peer.lazy = m->lazy;
	if (!c->leader)
		c->standby.order = m->order;
	c->standby.avoid &= (uint8_t)~came;
	if (came)
		c->standby.choose_at = 0;
	return true;
}
