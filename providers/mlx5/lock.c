/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting for a lock. */
#include <sched.h>
#include <time.h>

#include "providers/mlx5/lock.h"

#define LOCK_YIELDS 16
#define LOCK_NAP_NS 50000

/*
 * Held for memory operations only, so a few rounds do; then let the holder run. One that does not get
 * the lock by yielding may keep the holder from its core by its own priority, and sleeps.
 */
RING_NOINLINE void ring_lock_wait(struct ring_lock *lock)
{
	const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };

	for (uint32_t round = 0;; round++) {
		for (int i = 0; i < 64; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    ring_trylock(lock))
				return;
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
		if (round < LOCK_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}
