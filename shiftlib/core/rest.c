/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rest: the time without a standby, where both ends are lazy and none is needed. The connection
 * is protected all the same, as the loss of the path also ends the rest. Each end tells in STANDBY
 * whether it is lazy, with its masks and under their number, until the other has seen it.
 */
#include "shiftlib/core/internal.h"

/*
 * True if the path in use is well, another one is there for later, and no preferred path waits to
 * have the connection back. What only one end knows (suspect, suspicious), its word tells the
 * other.
 */
bool sc_rest_possible(const struct sc_conn *c)
{
	bool willing = c->config.lazy && !c->suspect && !c->suspicious &&
		       (c->peer.lazy || SC_MUTANT(REST_ALONE));

	return willing && c->peer.introduced && c->move == SC_MOVE_NONE &&
	       sc_paths_both_up(c, c->path) && !sc_paths_drained(c, c->path) &&
	       (!sc_paths_better(c) || SC_MUTANT(REST_AWAY)) && sc_paths_choose(c) >= 0;
}

/* Begins or ends the rest. Errors are withheld in it: they make the standby. */
void sc_rest_update(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	bool rests = sc_rest_possible(c);

	if (c->standby.rests == rests)
		return;
	c->standby.rests = rests;
	c->standby.rest_until = 0;
	if (rests) {
		c->reason = SC_REASON_NONE;
		sc_guard(x, true);
	}
	sc_report(x);
}

/*
 * True while it is open, at first, whether the connection will rest. Paths come up one after
 * another, and the peer has not said yet whether it is lazy: a standby made meanwhile would stay.
 * So a lazy leader speaks without a standby, and waits for the peer's word and, for a limited time,
 * for the path in use.
 */
bool sc_rest_awaited(const struct sc_conn *c)
{
	if (!c->config.lazy || c->guarded || c->move != SC_MOVE_NONE)
		return false;
	return !c->peer.masks_known || (c->peer.lazy && !c->suspicious && c->standby.rest_until);
}
