/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/replica/context.h"

bool sh_user_protected(const struct sh_qp *qp)
{
	return qp->conn_id && qp->core.move != SC_MOVE_ENDED &&
	       (qp->core.guarded || qp->active->epoch || qp->core.move != SC_MOVE_NONE);
}

/* Errors change nothing: the queue pair is there until the program stops it. */
static bool user_connected(const struct sh_qp *qp)
{
	switch (qp->app.set) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE: return true;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN: break;
	}
	return false;
}

/*
 * The NIC has nothing of the connection any more: it has moved, or SHIFT has completed all its
 * requests with errors.
 */
static bool user_left(const struct sh_qp *qp)
{
	return qp->sp && (qp->core.failed || qp->active->epoch);
}

/*
 * A datagram to a dead NIC never completes, nor does a request of UC, or of an RC connection
 * that cannot move: the event is their only sign. A connection whose peer has closed it when it had
 * moved lives on where it is, and knows of nothing.
 */
static enum sh_user user_of(const struct sh_qp *qp) SH_LOCKED
{
	if (sh_user_protected(qp))
		return SH_USER_MASKED;
	if (!user_connected(qp))
		return SH_USER_NONE;
	if (!user_left(qp))
		return SH_USER_BYSTANDER;
	return qp->app.state == IBV_QPS_ERR ? SH_USER_NONE : SH_USER_MASKED;
}

/* Place 0 is of ports that are not known. */
static uint8_t user_port(const struct sh_qp *qp)
{
	uint8_t port = qp->app.attr.port_num;

	return port <= SH_HELD_PORTS ? port : 0;
}

static void users_set(struct sh_qp *qp, enum sh_user user, uint8_t port)
{
	uint32_t *before = &qp->ctx->users[qp->counted.port][qp->counted.user];

	if (qp->counted.user != SH_USER_NONE) {
		assert(*before);
		--*before;
	}
	if (user != SH_USER_NONE)
		qp->ctx->users[port][user]++;
	qp->counted.user = user;
	qp->counted.port = port;
}

void sh_users_count(struct sh_qp *qp)
{
	if (qp->ctx)
		users_set(qp, user_of(qp), user_port(qp));
}

void sh_users_forget(struct sh_qp *qp)
{
	if (qp->ctx)
		users_set(qp, SH_USER_NONE, 0);
}
