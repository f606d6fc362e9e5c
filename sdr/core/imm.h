/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The immediate of a packet, from the high bit: the message's id | the packet's offset in it | a
 * fragment of the user's immediate. The offset tells which fragment it is, so 32 / fragment bits
 * packets carry all of it.
 */
#ifndef SDR_CORE_IMM_H
#define SDR_CORE_IMM_H

#include <stdbool.h>
#include <stdint.h>

struct sdr_imm_layout {
	uint8_t id_bits, offset_bits, fragment_bits; /* 32 in all */
};

/* A fragment has 1, 2, 4 or 8 bits: whole numbers of them make an immediate. */
static inline bool sdr_imm_layout_make(struct sdr_imm_layout *l, uint8_t id_bits,
				       uint8_t offset_bits)
{
	int rest = 32 - id_bits - offset_bits;

	if (id_bits < 1 || offset_bits < 1 || (rest != 1 && rest != 2 && rest != 4 && rest != 8))
		return false;
	*l = (struct sdr_imm_layout){ id_bits, offset_bits, (uint8_t)rest };
	return true;
}

static inline uint32_t sdr_imm_fragments(const struct sdr_imm_layout *l)
{
	return 32u / l->fragment_bits;
}

static inline uint32_t sdr_imm_make(const struct sdr_imm_layout *l, uint32_t id, uint32_t offset,
				    uint32_t user)
{
	uint32_t n = offset % sdr_imm_fragments(l);
	uint32_t fragment = user >> (n * l->fragment_bits) & ((1u << l->fragment_bits) - 1);

	return id << (32 - l->id_bits) | offset << l->fragment_bits | fragment;
}

static inline uint32_t sdr_imm_id(const struct sdr_imm_layout *l, uint32_t imm)
{
	return imm >> (32 - l->id_bits);
}

static inline uint32_t sdr_imm_offset(const struct sdr_imm_layout *l, uint32_t imm)
{
	return imm >> l->fragment_bits & ((1u << l->offset_bits) - 1);
}

static inline uint32_t sdr_imm_fragment(const struct sdr_imm_layout *l, uint32_t imm)
{
	return imm & ((1u << l->fragment_bits) - 1);
}

/*
 * Computes the offset of an empty packet that carries fragment n alone. The offset is behind all
 * that the receive has room for, or the packet would be taken for one of the message. False: there
 * is no such offset.
 */
static inline bool sdr_imm_filler(const struct sdr_imm_layout *l, uint32_t recv_packets, uint32_t n,
				  uint32_t *offset)
{
	uint32_t f = sdr_imm_fragments(l);
	uint64_t at = ((uint64_t)recv_packets + f - 1) / f * f + n;

	*offset = (uint32_t)at;
	return n < f && at < 1ull << l->offset_bits;
}

#endif
