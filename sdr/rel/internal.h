/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The functions that the files of rel share. */
#ifndef SDR_REL_INTERNAL_H
#define SDR_REL_INTERNAL_H

#include "sdr/core/check.h"
#include "sdr/core/mutants.h"
#include "sdr/rel/rel.h"

#include <errno.h>

enum { SDR_UNIT_SHIFT = 10 };

static inline bool sdr_has(const uint64_t *words, uint32_t i)
{
	return words[i / SDR_WORD] >> (i % SDR_WORD) & 1;
}

/* Returns whether the bit was not set before. */
static inline bool sdr_add(uint64_t *words, uint32_t i)
{
	uint64_t bit = 1ull << (i % SDR_WORD), old = words[i / SDR_WORD];

	words[i / SDR_WORD] = old | bit;
	return !(old & bit);
}

static inline bool sdr_drop(uint64_t *words, uint32_t i)
{
	uint64_t bit = 1ull << (i % SDR_WORD), old = words[i / SDR_WORD];

	words[i / SDR_WORD] = old & ~bit;
	return old & bit;
}

/* Returns a time that is kept for a chunk, in units of 1.024 us; 0 is left for "never". */
static inline uint32_t sdr_unit(uint64_t ns)
{
	uint32_t t = (uint32_t)(ns >> SDR_UNIT_SHIFT);

	return t ? t : 1;
}

/* The first i >= at whose bit is as asked for, or n. */
uint32_t sdr_find(const uint64_t *words, uint32_t at, uint32_t n, bool set);
struct sdr_rel_action *sdr_say(struct sdr_rel_actions *a, enum sdr_rel_say say);
bool sdr_room(const struct sdr_rel_actions *a);

/* sr.c */
bool sdr_sr_room(const struct sdr_tx *t);
void sdr_sr_sent(struct sdr_tx *t, uint32_t first, uint32_t count, uint64_t now);
void sdr_sr_expire(struct sdr_tx *t, uint64_t now);
void sdr_tx_want(struct sdr_tx *t, uint32_t chunk);

/* nack.c, ec.c */
void sdr_nack_ripen(struct sdr_rx *r, uint64_t now);
void sdr_nack_ask(struct sdr_rx *r, uint64_t now, struct sdr_rel_actions *a);
void sdr_ec_data(struct sdr_rx *r, uint32_t chunk);
void sdr_ec_parity(struct sdr_rx *r, uint32_t parity);
void sdr_ec_decode(struct sdr_rx *r, struct sdr_rel_actions *a);
/* receive.c */
void sdr_rx_came(struct sdr_rx *r, uint32_t chunk);

#endif
