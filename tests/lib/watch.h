/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that looks at memory which a NIC writes, as a program that polls: whether a word of 8
 * bytes, or a line of 128, is ever seen in part.
 */
#ifndef TESTS_LIB_WATCH_H
#define TESTS_LIB_WATCH_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#define WATCH_LINE_WORDS 16

struct watch {
	const uint64_t *at; /* aligned words; the bytes of each are equal when it is whole */
	uint32_t words;
	_Atomic uint64_t seen, torn; /* words looked at; words that were not whole */
	_Atomic uint32_t stop;
	pthread_t thread;
};

static inline uint64_t watch_word(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void *watch_words(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		for (uint32_t i = 0; i < w->words; i++) {
			uint64_t v = watch_word(w->at + i);

			if (v != (v & 0xff) * 0x0101010101010101ULL)
				atomic_fetch_add(&w->torn, 1);
		}
		atomic_fetch_add(&w->seen, w->words);
	}
	return NULL;
}

/*
 * Words of a line hold one number, which grows from write to write. The last word is read first: it
 * is greater than the first word only if the line's end was written before its begin.
 */
static inline void *watch_line(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		uint64_t end = watch_word(w->at + WATCH_LINE_WORDS - 1);

		if (end > watch_word(w->at))
			atomic_fetch_add(&w->torn, 1);
		atomic_fetch_add(&w->seen, 1);
	}
	return NULL;
}

/* Begins to look; @run is one of the two above. In a cmocka test. */
static inline void watch_begin(struct watch *w, void *(*run)(void *), void *at, uint32_t words)
{
	*w = (struct watch){ .at = at, .words = words };
	assert_int_equal(0, pthread_create(&w->thread, NULL, run, w));
	while (!atomic_load(&w->seen))
		sched_yield();
}

static inline void watch_end(struct watch *w)
{
	atomic_store(&w->stop, 1);
	assert_int_equal(0, pthread_join(w->thread, NULL));
}

#endif
