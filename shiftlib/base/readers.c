/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sched.h>
#include <time.h>
#include "shiftlib/base/readers.h"

#define READERS_YIELDS 16
#define READERS_NAP_NS 50000

void sh_readers_init(struct sh_readers *readers)
{
	pthread_mutex_init(&readers->lock, NULL);
}

void sh_readers_uninit(struct sh_readers *readers)
{
	pthread_mutex_destroy(&readers->lock);
}

/*
 * Waits for the readers of a side. `left` is read first: a reader that enters in between makes
 * the two unequal. This thread may keep such a reader from its core by its priority: then
 * yielding is not enough.
 */
static void side_wait(struct sh_readers *readers, uint32_t side)
{
	const struct timespec nap = { .tv_nsec = READERS_NAP_NS };

	for (uint32_t round = 0;
	     atomic_load(&readers->count[side].left) != atomic_load(&readers->count[side].entered);
	     round++)
		if (round < READERS_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
}

/*
 * Waits for both sides: a reader may have read the side before an earlier wait changed it, and
 * enter behind.
 */
void sh_readers_wait(struct sh_readers *readers)
{
	pthread_mutex_lock(&readers->lock);
	for (int i = 0; i < 2; i++) {
		uint32_t side = atomic_load(&readers->side);

		atomic_store(&readers->side, !side);
		side_wait(readers, side);
	}
	pthread_mutex_unlock(&readers->lock);
}
