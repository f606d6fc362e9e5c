/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Locking a queue pair whole: for the shell, never on the data path. */
#include <sched.h>

#include "providers/common/qp_lock.h"

enum { LOCK_TRIES = 64 }; /* a poster holds the lock for about a microsecond */

static void lock_cqs(const struct sp_qp_locks *locks)
{
	struct sp_lock *low = locks->scq < locks->rcq ? locks->scq : locks->rcq;
	struct sp_lock *high = locks->scq < locks->rcq ? locks->rcq : locks->scq;

	sp_lock(low);
	if (high != low)
		sp_lock(high);
}

static void unlock_cqs(const struct sp_qp_locks *locks)
{
	sp_unlock(locks->scq);
	if (locks->rcq != locks->scq)
		sp_unlock(locks->rcq);
}

void sp_qp_lock_all(const struct sp_qp_locks *locks)
{
	for (;;) {
		lock_cqs(locks);
		if (sp_trylock(locks->sq))
			break;
		unlock_cqs(locks);
		sp_lock(locks->sq);
		sp_unlock(locks->sq);
	}
	sp_lock(locks->rq);
}

bool sp_qp_lock_all_soon(const struct sp_qp_locks *locks)
{
	for (uint32_t i = 0; i < LOCK_TRIES; i++) {
		lock_cqs(locks);
		if (sp_trylock(locks->sq)) {
			sp_lock(locks->rq);
			return true;
		}
		unlock_cqs(locks);
		sched_yield();
	}
	return false;
}

void sp_qp_unlock_all(const struct sp_qp_locks *locks)
{
	sp_unlock(locks->rq);
	sp_unlock(locks->sq);
	unlock_cqs(locks);
}
