/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A lock that is held for memory operations only. */
#ifndef SHIFT_LOCK_H
#define SHIFT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/common/assert.h"

#pragma GCC visibility push(hidden)

struct sp_lock {
	_Atomic uint32_t held;
};

void sp_lock_wait(struct sp_lock *lock);
/* Waits a round for a thread that has little left to do. */
void sp_lock_give_way(uint32_t round);
/* Tries often: a thread that posts or polls all the time holds the lock for a part of it. */
bool sp_trylock_often(struct sp_lock *lock);

static inline __attribute__((always_inline)) bool sp_trylock(struct sp_lock *lock)
{
	/* set one bit: two instructions on x86, where an exchange takes four */
	return !(atomic_fetch_or_explicit(&lock->held, 1, memory_order_acquire) & 1);
}

static inline __attribute__((always_inline)) void sp_lock(struct sp_lock *lock)
{
	if (__builtin_expect(!sp_trylock(lock), 0))
		sp_lock_wait(lock);
}

static inline __attribute__((always_inline)) void sp_unlock(struct sp_lock *lock)
{
	SP_ASSERT(atomic_load_explicit(&lock->held, memory_order_relaxed));
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#pragma GCC visibility pop

#endif
