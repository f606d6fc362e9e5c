/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device's lock. It inherits priority: the holder runs with the device's. The device may be a
 * process of its own (apart.h), which the C library takes for another thread, so the futex is
 * asked directly, with the number that the kernel knows.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simnic/device/engine.h"
#include "simnic/fabric/check.h"

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer knows the C library's locks only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sn_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sn_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void sn_lock_forget(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* ThreadSanitizer checks locks itself. */
bool sn_lock_held(void)
{
	return true;
}
#else
#define NAP_NS 20000 /* nap on a kernel without priority inheritance */

static _Atomic uint32_t lock; /* 0: free; else its holder's thread number, and the kernel's bits */

static uint32_t self(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static bool lock_try(void)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(&lock, &nobody, self());
}

static void lock_wait(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	while (syscall(SYS_futex, &lock, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0)) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		if (lock_try())
			return;
		nanosleep(&nap, NULL);
	}
}

void sn_lock(void)
{
	int before = errno;

	if (!lock_try())
		lock_wait();
	errno = before;
}

void sn_unlock(void)
{
	uint32_t holder = self();
	int before = errno;

	if (!atomic_compare_exchange_strong(&lock, &holder, 0)) {
		/* 0: a fork in a signal handler has forgotten it */
		SN_ASSERT(!holder || (holder & FUTEX_TID_MASK) == self());
		syscall(SYS_futex, &lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0);
	}
	errno = before;
}

void sn_lock_forget(void)
{
	atomic_store(&lock, 0);
}

bool sn_lock_held(void)
{
	return atomic_load_explicit(&lock, memory_order_relaxed) != 0;
}
#endif
