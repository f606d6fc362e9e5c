/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/core/bitmap.h"

#include <pthread.h>
#include <string.h>

enum { PACKETS = 1000, WORDS = 16, WORKERS = 4, ROUNDS = 200 };

static _Atomic uint64_t packets[WORDS], chunks[WORDS];

static struct sdr_bitmap make(uint32_t n, uint8_t shift)
{
	struct sdr_bitmap b = {
		.packets = packets, .chunks = chunks, .n_packets = n, .shift = shift
	};

	b.n_chunks = (n + (1u << shift) - 1) >> shift;
	sdr_bitmap_clear(&b);
	return b;
}

/* A chunk is complete with its last packet and not before, at every edge of words and chunks. */
static void test_every_edge(void **state)
{
	for (uint8_t shift = 0; shift <= 6; shift++)
		for (uint32_t n = 1; n <= 200; n += shift < 3 ? 1 : 7) {
			struct sdr_bitmap b = make(n, shift);

			for (uint32_t p = n; p-- > 0;) {
				enum sdr_mark mark = sdr_bitmap_mark(&b, p);
				bool last = p == p >> shift << shift;

				assert_int_equal(mark, last ? SDR_MARK_CHUNK : SDR_MARK_PACKET);
				assert_int_equal(sdr_bit(b.chunks, p >> shift), last);
				assert_int_equal(sdr_bitmap_mark(&b, p), SDR_MARK_DUPLICATE);
			}
		}
}

static void test_masks(void **state)
{
	struct sdr_bitmap b = make(70, 6);

	assert_true(sdr_mask(0, 64) == ~0ull);
	assert_true(sdr_mask(63, 1) == 1ull << 63);
	assert_true(sdr_chunk_mask(&b, 0) == ~0ull);
	assert_true(sdr_chunk_mask(&b, 1) == 0x3f); /* the last one is short */
	b = make(5, 1);
	assert_true(sdr_chunk_mask(&b, 2) == 1ull << 4);
}

struct worker {
	pthread_t thread;
	struct sdr_bitmap *b;
	uint32_t first, completed, duplicates;
	const uint32_t *payload;
};

static uint32_t payload[PACKETS];
static _Atomic bool stop;

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t p = w->first; p < PACKETS; p += WORKERS) {
		enum sdr_mark mark;

		payload[p] = p + 1;
		mark = sdr_bitmap_mark(w->b, p);
		w->completed += mark == SDR_MARK_CHUNK;
		w->duplicates += mark == SDR_MARK_DUPLICATE;
	}
	return NULL;
}

/* Whoever sees a chunk's bit sees its payload: what TSan watches, too. */
static void *read_chunks(void *arg)
{
	struct worker *w = arg;

	do {
		for (uint32_t c = 0; c < w->b->n_chunks; c++) {
			if (!sdr_bit(w->b->chunks, c))
				continue;
			for (uint32_t p = c << w->b->shift;
			     p < (c + 1) << w->b->shift && p < PACKETS; p++)
				w->duplicates += payload[p] != p + 1;
		}
	} while (!atomic_load(&stop));
	return NULL;
}

static void test_many_workers(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct sdr_bitmap b = make(PACKETS, (uint8_t)(round % 7));
		struct worker workers[WORKERS] = { 0 }, reader = { .b = &b };
		uint32_t completed = 0, duplicates = 0;

		memset(payload, 0, sizeof(payload));
		atomic_store(&stop, false);
		assert_int_equal(pthread_create(&reader.thread, NULL, read_chunks, &reader), 0);
		for (uint32_t i = 0; i < WORKERS; i++) {
			workers[i].b = &b;
			workers[i].first = i;
			assert_int_equal(
				pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		}
		for (uint32_t i = 0; i < WORKERS; i++) {
			pthread_join(workers[i].thread, NULL);
			completed += workers[i].completed;
			duplicates += workers[i].duplicates;
		}
		atomic_store(&stop, true);
		pthread_join(reader.thread, NULL);
		assert_int_equal(completed, b.n_chunks); /* each by one worker */
		assert_int_equal(duplicates + reader.duplicates, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_edge),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_many_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
