/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The handling of a packet, inline. Called by any channel's thread; the step of the queue pair may
 * run beside it.
 */
#ifndef SDR_CORE_PACKET_H
#define SDR_CORE_PACKET_H

#include "sdr/core/core.h"
#include "sdr/core/mutants.h"

enum { SDR_NO_CHUNK = -1 };

static inline void sdr_packet_imm(const struct sdr_core *c, struct sdr_slot *s, uint32_t offset,
				  uint32_t imm)
{
	uint32_t n = offset % sdr_imm_fragments(&c->layout);

	if (atomic_load_explicit(&s->imm_have, memory_order_relaxed) >> n & 1)
		return;
	atomic_fetch_or_explicit(&s->imm,
				 sdr_imm_fragment(&c->layout, imm) << (n * c->layout.fragment_bits),
				 memory_order_relaxed);
	atomic_fetch_or_explicit(&s->imm_have, 1u << n, memory_order_release);
}

/*
 * Marks a packet. Returns the chunk that the packet completes, or SDR_NO_CHUNK. generation: that of
 * the queue pair it came on; a backend whose keys die with their message has none, and gives -1.
 */
static inline int64_t sdr_packet(struct sdr_core *c, uint32_t imm, int generation)
{
	uint32_t id = sdr_imm_id(&c->layout, imm), offset = sdr_imm_offset(&c->layout, imm);
	struct sdr_slot *s = &c->slots[id & (c->attr.slots - 1)];
	uint8_t current = atomic_load_explicit(&s->generation, memory_order_acquire);
	bool mine = generation < 0 || generation == current || SDR_MUTATED(ANY_GENERATION);
	struct sdr_use *use = &s->uses[mine ? current : generation];
	enum sdr_mark mark;

	atomic_fetch_add_explicit(&c->stats.packets, 1, memory_order_relaxed);
	if (id >= c->attr.slots || generation >= (int)c->attr.generations) {
		atomic_fetch_add_explicit(&c->stats.stray, 1, memory_order_relaxed);
		return SDR_NO_CHUNK;
	}
	atomic_fetch_add_explicit(&use->received, 1, memory_order_release);
	if (!mine || (atomic_load_explicit(&s->state, memory_order_acquire) != SDR_SLOT_OPEN &&
		      !SDR_MUTATED(LATE_COUNTS))) {
		atomic_fetch_add_explicit(&c->stats.late, 1, memory_order_relaxed);
		return SDR_NO_CHUNK;
	}
	sdr_packet_imm(c, s, offset, imm);
	/* an empty packet brings a fragment only */
	if (offset >= s->bits.n_packets)
		return SDR_NO_CHUNK;
	mark = sdr_bitmap_mark(&s->bits, offset);
	if (mark == SDR_MARK_DUPLICATE)
		atomic_fetch_add_explicit(&use->duplicates, 1, memory_order_relaxed);
	return mark == SDR_MARK_CHUNK ? (int64_t)(offset >> s->bits.shift) : SDR_NO_CHUNK;
}

#endif
