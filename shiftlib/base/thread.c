/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "shiftlib/base/log.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"

#define THREAD_NICE_URGENT -20
/* Our stack, not what the program may have set for its own (ulimit -s). */
#define THREAD_STACK (2ul << 20)

static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_priorities;

static void thread_configure(void)
{
	const char *value = sh_setting("SHIFT_PRIORITY");

	thread_priorities = !value || !*value || !strcmp(value, "urgent");
	if (!thread_priorities && strcmp(value, "normal"))
		sh_log(SH_LOG_WARN, "SHIFT_PRIORITY=%s is neither urgent nor normal; using normal",
		       value);
}

static void thread_nice(int value)
{
	pthread_once(&thread_once, thread_configure);
	if (thread_priorities)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), value);
}

void sh_thread_urgent(void)
{
	thread_nice(THREAD_NICE_URGENT);
}

void sh_thread_ordinary(void)
{
	thread_nice(0);
}

static bool thread_is_real_time(void)
{
	int policy = sched_getscheduler(0);

	return policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_BATCH &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_IDLE;
}

/*
 * Makes the policy an ordinary one. A real-time policy is not inherited: behind a poller of the
 * same priority such a thread never runs, while the kernel gives a few per cent of each core to
 * ordinary ones.
 */
static int thread_attr(pthread_attr_t *attr)
{
	const struct sched_param ordinary = { .sched_priority = 0 };
	int ret = pthread_attr_init(attr);

	if (ret || !thread_is_real_time())
		return ret;
	ret = pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	ret = ret ? ret : pthread_attr_setschedpolicy(attr, SCHED_OTHER);
	ret = ret ? ret : pthread_attr_setschedparam(attr, &ordinary);
	if (ret)
		pthread_attr_destroy(attr);
	return ret;
}

/*
 * Makes a thread. Thread-local storage of all libraries lies in the stack, too: if there is more
 * than that, the default may have room.
 */
static int thread_make(pthread_t *thread, pthread_attr_t *attr, void *(*run)(void *arg), void *arg)
{
	size_t usual;
	int ret;

	pthread_attr_getstacksize(attr, &usual);
	pthread_attr_setstacksize(attr, THREAD_STACK);
	ret = pthread_create(thread, attr, run, arg);
	if (ret != EINVAL)
		return ret;
	pthread_attr_setstacksize(attr, usual);
	return pthread_create(thread, attr, run, arg);
}

int sh_thread_create(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int ret = thread_attr(&attr);

	if (ret)
		return ret;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = thread_make(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

int sh_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int ret = pthread_condattr_init(&attr);

	if (ret)
		return ret;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	ret = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return ret;
}

struct timespec sh_until(uint64_t ns)
{
	uint64_t until = sh_now_ns() + ns;

	return (struct timespec){ .tv_sec = (time_t)(until / SH_NS_PER_S),
				  .tv_nsec = (long)(until % SH_NS_PER_S) };
}

static void thread_nap(void)
{
	const struct timespec nap = { .tv_nsec = (long)SH_NS_PER_MS };

	nanosleep(&nap, NULL);
}

bool sh_lock_within(pthread_mutex_t *lock, uint64_t ns)
{
	uint64_t until = sh_now_ns() + ns;
	int ret;

	while ((ret = pthread_mutex_trylock(lock)) == EBUSY && sh_now_ns() < until)
		thread_nap();
	return !ret;
}

bool sh_join_within(pthread_t thread, uint64_t ns)
{
	uint64_t until = sh_now_ns() + ns;
	int ret;

	while ((ret = pthread_tryjoin_np(thread, NULL)) == EBUSY && sh_now_ns() < until)
		thread_nap();
	return !ret;
}

static uint64_t thread_used_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SH_NS_PER_S + (uint64_t)t.tv_nsec;
}

bool sh_thread_fair(void)
{
	static __thread struct {
		uint64_t since, used;
		bool greedy;
	} window;
	uint64_t now = sh_now_ns(), passed = now - window.since, used;

	if (passed < SH_THREAD_WINDOW_NS)
		return !window.greedy;
	used = thread_used_ns() - window.used;
	if (!window.greedy && window.since && used > SH_THREAD_WINDOW_NS / 2 && used > passed / 2) {
		window.greedy = true;
		sh_thread_ordinary();
	} else if (window.greedy && used < passed / 4) {
		window.greedy = false;
		sh_thread_urgent();
	}
	window.since = now;
	window.used += used;
	return !window.greedy;
}
