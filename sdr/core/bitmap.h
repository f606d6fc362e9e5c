/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A bit for each packet, and one for each chunk. Several channels may set bits at once. Whoever
 * sets the last packet's bit of a chunk sets the chunk's bit, with a release store that orders the
 * payload before it for readers of the chunk bits with acquire. A chunk is a power of two of
 * packets, at most 64, so it lies in one word.
 */
#ifndef SDR_CORE_BITMAP_H
#define SDR_CORE_BITMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SDR_WORD = 64 };

enum sdr_mark { SDR_MARK_DUPLICATE, SDR_MARK_PACKET, SDR_MARK_CHUNK };

struct sdr_bitmap {
	_Atomic uint64_t *packets, *chunks;
	uint32_t n_packets, n_chunks;
	uint8_t shift; /* a chunk has 1 << shift packets */
};

static inline uint32_t sdr_words(uint32_t bits)
{
	return (bits + SDR_WORD - 1) / SDR_WORD;
}

/* The bits of n from at on, in one word. */
static inline uint64_t sdr_mask(uint32_t at, uint32_t n)
{
	return (n >= SDR_WORD ? ~0ull : (1ull << n) - 1) << (at % SDR_WORD);
}

static inline bool sdr_bit(const _Atomic uint64_t *words, uint32_t i)
{
	return atomic_load_explicit(&words[i / SDR_WORD], memory_order_acquire) >> (i % SDR_WORD) &
	       1;
}

/* The packets of a chunk, as bits of their word; the last chunk may be short. */
static inline uint64_t sdr_chunk_mask(const struct sdr_bitmap *b, uint32_t chunk)
{
	uint32_t first = chunk << b->shift, n = 1u << b->shift;

	if (n > b->n_packets - first)
		n = b->n_packets - first;
	return sdr_mask(first, n);
}

static inline enum sdr_mark sdr_bitmap_mark(struct sdr_bitmap *b, uint32_t packet)
{
	uint32_t chunk = packet >> b->shift;
	uint64_t bit = 1ull << (packet % SDR_WORD), mask = sdr_chunk_mask(b, chunk);
	uint64_t old =
		atomic_fetch_or_explicit(&b->packets[packet / SDR_WORD], bit, memory_order_acq_rel);

	if (old & bit)
		return SDR_MARK_DUPLICATE;
	if (((old | bit) & mask) != mask)
		return SDR_MARK_PACKET;
	atomic_fetch_or_explicit(&b->chunks[chunk / SDR_WORD], 1ull << (chunk % SDR_WORD),
				 memory_order_release);
	return SDR_MARK_CHUNK;
}

/* Clears the bits, before anybody else knows of the bitmap. */
static inline void sdr_bitmap_clear(struct sdr_bitmap *b)
{
	for (uint32_t i = 0; i < sdr_words(b->n_packets); i++)
		atomic_store_explicit(&b->packets[i], 0, memory_order_relaxed);
	for (uint32_t i = 0; i < sdr_words(b->n_chunks); i++)
		atomic_store_explicit(&b->chunks[i], 0, memory_order_relaxed);
}

#endif
