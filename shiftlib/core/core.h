/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The core: the protocol of one protected connection, as a pure state machine.
 *
 *	sc_step(conn, event, now, actions)
 *
 * No clock, thread, socket, verb, allocation or lock. The shell feeds events and carries actions
 * out in the order given; the result of an action comes back as a later event. The same code runs
 * in production, in unit tables and in the deterministic simulation (tests/sim).
 *
 * Times are nanoseconds of any monotonic clock. Counts are cumulative from the connection's start,
 * modulo 2^32.
 *
 * What the core expects of the shell:
 * - Events of one connection are given one at a time; after each, timer_at says when the next
 *   SC_EV_TIMER is due (an early one does no harm).
 * - An error completion that was withheld is always followed by FAULT{TRANSPORT, epoch of its
 *   carrier}, also in the middle of a move and when the guard went off meanwhile. Of the carrier in
 *   use or to come, the core answers with a move or with SC_ACT_FAIL, never with silence.
 * - SC_ACT_FAIL comes at most once. It withholds nothing any more: the outstanding work completes
 *   or fails in order, every carrier of the connection (the one being laid too) goes to ERR,
 *   answers of actions still under way are not needed any more.
 * - An application error found while a carrier is quiesced is APP_ERROR, before its QUIESCED.
 */
#ifndef SHIFTLIB_CORE_H
#define SHIFTLIB_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/action.h"
#include "shiftlib/core/connection.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/message.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/core/state.h"

void sc_init(struct sc_conn *conn, const struct sc_config *config);

/*
 * Takes one event and writes the actions; actions->n is reset first. Never fails: an event without
 * a meaning in this state is ignored.
 */
void sc_step(struct sc_conn *conn, const struct sc_event *event, uint64_t now_ns,
	     struct sc_actions *actions);

/* True if a transport error here and now would be masked. */
bool sc_protected(const struct sc_conn *conn);
/* True if the connection is protected without a standby: both ends make one when needed. */
bool sc_rests(const struct sc_conn *conn);
/* Limit for a request to wait for something of the peer, such as a key. */
uint64_t sc_patience_ns(const struct sc_config *config);

#endif
