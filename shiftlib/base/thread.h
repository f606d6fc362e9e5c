/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT's own threads and their priorities. An application that polls keeps every core busy, and
 * a move must not wait behind it: threads that move run before those that poll. They nap or wait,
 * and never spin.
 */
#ifndef SHIFTLIB_THREAD_H
#define SHIFTLIB_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Makes one of SHIFT's own threads, with all signals blocked: the application's handlers must not
 * find themselves on its stack. Returns as pthread_create().
 */
int sh_thread_create(pthread_t *thread, void *(*run)(void *arg), void *arg);

/*
 * Make a condition for waits that end by the clock of sh_now_ns(), and the moment in so many
 * nanoseconds for pthread_cond_timedwait() on it. A wait by the date would last longer if that is
 * set back. sh_cond_init() returns as pthread_cond_init().
 */
int sh_cond_init(pthread_cond_t *cond);
struct timespec sh_until(uint64_t ns);
/*
 * Wait for a lock, or for the end of a thread, so many nanoseconds at most. They nap; for rare
 * waits. False: not in time.
 */
bool sh_lock_within(pthread_mutex_t *lock, uint64_t ns);
bool sh_join_within(pthread_t thread, uint64_t ns);

/*
 * Set the priority of the calling thread, one of SHIFT's own. urgent: the best nice value, where
 * that is allowed (root, CAP_SYS_NICE, RLIMIT_NICE); else nothing changes. Not a real-time
 * policy: its throttling stops all threads of that kind on a core for tens of milliseconds, and a
 * move with them. ordinary: nice 0, for long work such as registering memory.
 * SHIFT_PRIORITY=normal: both do nothing.
 */
void sh_thread_urgent(void);
void sh_thread_ordinary(void);

/*
 * Called by an urgent thread between two pieces of work. A thread that has used more than half of
 * a core for SH_THREAD_WINDOW_NS is ordinary until it uses less than a quarter, or an application
 * with its threads on few cores would stand still while thousands of connections are set up.
 * True: the thread is urgent.
 */
#define SH_THREAD_WINDOW_NS 100000000ull
bool sh_thread_fair(void);

#endif
