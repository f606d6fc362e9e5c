/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting for a lock. */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "providers/common/lock.h"

#define LOCK_YIELDS 16
#define LOCK_NAP_NS 50000
#define LOCK_TRIES  100

/*
 * A waiter that does not get on by yielding may keep the holder from its core by its own priority.
 * nanosleep(3) is a cancellation point, and a waiter may hold another lock.
 */
void sp_lock_give_way(uint32_t round)
{
	const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };

	if (round < LOCK_YIELDS)
		sched_yield();
	else
		syscall(SYS_nanosleep, &nap, NULL);
}

/* A lock is held for memory operations only, so a few rounds do; then let the holder run. */
__attribute__((noinline, cold)) void sp_lock_wait(struct sp_lock *lock)
{
	for (uint32_t round = 0;; round++) {
		for (int i = 0; i < 64; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    sp_trylock(lock))
				return;
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
		sp_lock_give_way(round);
	}
}

bool sp_trylock_often(struct sp_lock *lock)
{
	for (int i = 0; i < LOCK_TRIES; i++)
		if (sp_trylock(lock))
			return true;
	return false;
}
