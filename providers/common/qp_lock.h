/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* All locks of a queue pair: while they are held, nothing of it moves. */
#ifndef SHIFT_QP_LOCK_H
#define SHIFT_QP_LOCK_H

#include "providers/common/lock.h"

#pragma GCC visibility push(hidden)

/* The locks, in the order in which they are taken; the two CQs' by address. They may be one. */
struct sp_qp_locks {
	struct sp_lock *scq, *rcq, *sq, *rq;
};

/*
 * An application holds sq_lock from wr_start to wr_complete, and may poll in between: a thread that
 * waits for sq_lock must not hold a CQ.
 */
void sp_qp_lock_all(const struct sp_qp_locks *locks);
/* Does not wait for a wr_complete that may be far. False: not locked. */
bool sp_qp_lock_all_soon(const struct sp_qp_locks *locks);
void sp_qp_unlock_all(const struct sp_qp_locks *locks);

#pragma GCC visibility pop

#endif
