/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A lock that is held for memory operations only. */
#ifndef RING_LOCK_H
#define RING_LOCK_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

struct ring_lock {
	_Atomic uint32_t held;
};

void ring_lock_wait(struct ring_lock *lock);
/* A round of waiting for a thread that has little left to do. */
void ring_lock_give_way(uint32_t round);

RING_INLINE bool ring_trylock(struct ring_lock *lock)
{
	return !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

RING_INLINE void ring_lock(struct ring_lock *lock)
{
	if (ring_unlikely(!ring_trylock(lock)))
		ring_lock_wait(lock);
}

RING_INLINE void ring_unlock(struct ring_lock *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#pragma GCC visibility pop

#endif
