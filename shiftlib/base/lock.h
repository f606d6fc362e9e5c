/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The lock of the shell. It guards every object of shiftlib but where a field says otherwise, and
 * is taken before every other lock. It is never taken on the data path, and never held over a
 * verb that may block.
 */
#ifndef SHIFTLIB_LOCK_H
#define SHIFTLIB_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "shiftlib/base/locked.h"

void sh_lock(void) SH_ACQUIRES;
void sh_unlock(void) SH_RELEASES;
bool sh_lock_try(void) SH_TRIES;
/* Waits for so many nanoseconds at most. For rare waits: it naps. False: not in time. */
bool sh_lock_try_for(uint64_t ns) SH_TRIES;

/* Wait for cond, as pthread_cond_wait() and pthread_cond_timedwait(). */
void sh_lock_wait(pthread_cond_t *cond) SH_DROPS;
int sh_lock_wait_until(pthread_cond_t *cond, const struct timespec *until) SH_DROPS;

/* Ends the process if this thread has not the lock, in a build with SHIFT_AUDIT. */
#ifdef SHIFT_AUDIT
void sh_lock_assert_held(void) SH_ASSERTS;
#else
static inline void sh_lock_assert_held(void) SH_ASSERTS
{
}
#endif

/*
 * For a fork alone (process.c): the mutex behind the lock, of the kind that tells its owner, who
 * forks. In the child, forget: nobody has the lock.
 */
extern pthread_mutex_t sh_lock_mutex;
void sh_lock_forget(void);

#endif
