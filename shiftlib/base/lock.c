/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The lock of the shell, and in a build with SHIFT_AUDIT the record of who has it. */
#include <stdlib.h>
#include "shiftlib/base/lock.h"
#include "shiftlib/base/thread.h"

pthread_mutex_t sh_lock_mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

#ifdef SHIFT_AUDIT
static _Thread_local bool lock_mine;

static void lock_note(bool mine)
{
	lock_mine = mine;
}

void sh_lock_assert_held(void) SH_UNCHECKED
{
	if (!lock_mine)
		abort();
}
#else
static void lock_note(bool mine)
{
	(void)mine;
}
#endif

void sh_lock(void) SH_UNCHECKED
{
	pthread_mutex_lock(&sh_lock_mutex);
	lock_note(true);
}

void sh_unlock(void) SH_UNCHECKED
{
	lock_note(false);
	pthread_mutex_unlock(&sh_lock_mutex);
}

bool sh_lock_try(void) SH_UNCHECKED
{
	if (pthread_mutex_trylock(&sh_lock_mutex))
		return false;
	lock_note(true);
	return true;
}

bool sh_lock_try_for(uint64_t ns) SH_UNCHECKED
{
	if (!sh_lock_within(&sh_lock_mutex, ns))
		return false;
	lock_note(true);
	return true;
}

void sh_lock_wait(pthread_cond_t *cond) SH_UNCHECKED
{
	lock_note(false);
	pthread_cond_wait(cond, &sh_lock_mutex);
	lock_note(true);
}

int sh_lock_wait_until(pthread_cond_t *cond, const struct timespec *until) SH_UNCHECKED
{
	int ret;

	lock_note(false);
	ret = pthread_cond_timedwait(cond, &sh_lock_mutex, until);
	lock_note(true);
	return ret;
}

void sh_lock_forget(void)
{
	lock_note(false);
}
