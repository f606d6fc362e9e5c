/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Readers without a lock, and the wait until none of them can still look at what was taken away
 * (sleepable RCU, in small). Whoever takes something away clears the pointer or sets the mark
 * that readers look at with atomic_store(); readers look with atomic_load() once they have
 * entered. Either a reader finds it gone, or sh_readers_wait() waits for that reader.
 */
#ifndef SHIFTLIB_READERS_H
#define SHIFTLIB_READERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/*
 * A count of readers on two sides. Who enters is counted on the side of the day, so that a wait
 * ends while others come.
 */
struct sh_readers {
	_Atomic uint32_t side;
	struct {
		_Atomic uint32_t entered, left;
	} count[2];
	pthread_mutex_t lock; /* the waiters' lock */
};

struct sh_reader {
	uint32_t side;
	uint32_t number; /* number of this entry */
};

void sh_readers_init(struct sh_readers *readers);
void sh_readers_uninit(struct sh_readers *readers);
/* Any thread that is not itself a reader. Holds no lock that a reader may wait for. */
void sh_readers_wait(struct sh_readers *readers);

/* No cancellation point until it has left; nothing that may block for long. */
static inline struct sh_reader sh_reader_enter(struct sh_readers *readers)
{
	struct sh_reader me;

	me.side = atomic_load_explicit(&readers->side, memory_order_relaxed);
	me.number = atomic_fetch_add(&readers->count[me.side].entered, 1);
	return me;
}

static inline void sh_reader_leave(struct sh_readers *readers, struct sh_reader me)
{
	atomic_fetch_add_explicit(&readers->count[me.side].left, 1, memory_order_release);
}

#endif
