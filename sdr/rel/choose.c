/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The choice by the model: of NACK, hybrids and a code, the one whose slow Writes take the least
 * time for this size over this link; and the size of a chunk.
 */
#include "internal.h"

#include <string.h>

enum { CHUNK_PACKETS_MAX = 16 };

static const struct {
	enum sdr_scheme_kind kind;
	uint8_t k, m;
	const char *reason;
} candidates[] = {
	{ SDR_SCHEME_NACK, 0, 0, "a code costs more than it saves" },
	{ SDR_SCHEME_HYBRID, 32, 2, "few losses: thin parity at the end" },
	{ SDR_SCHEME_HYBRID, 32, 4, "some losses: parity at the end" },
	{ SDR_SCHEME_HYBRID, 32, 8, "many losses: thick parity at the end" },
	{ SDR_SCHEME_EC, 32, 8, "losses in resent chunks, too: all coded" },
};

enum { CANDIDATES = sizeof(candidates) / sizeof(*candidates) };

int sdr_choose(const struct sdr_estimate *e, double rate_bps, uint32_t chunk, uint64_t bytes,
	       enum sdr_code_kind code, double max_sent, double tail, struct sdr_choice *choice)
{
	/* The estimate is of chunks already. */
	struct sdr_link link = { rate_bps, (double)e->srtt_ns / 1e9, e->loss, chunk };
	struct sdr_scheme schemes[CANDIDATES];
	int best;
	double t;

	for (int i = 0; i < CANDIDATES; i++) {
		schemes[i] = sdr_scheme_make(candidates[i].kind, chunk, candidates[i].k,
					     candidates[i].m);
		schemes[i].code = code;
		/* libsdr's way: repeats take their time, and only missing chunks are repeated */
		schemes[i].serial = true;
		schemes[i].whole = false;
	}
	best = sdr_model_choose(&link, schemes, CANDIDATES, bytes, tail, max_sent);
	if (best < 0)
		return best;
	memset(choice, 0, sizeof(*choice));
	choice->scheme = schemes[best];
	choice->tail_s = sdr_model_quantile(&link, &schemes[best], bytes, tail);
	choice->runner_up_s = __builtin_inf();
	for (int i = 0; i < CANDIDATES; i++) {
		if (i == best || sdr_model_sent(&link, &schemes[i], bytes) > max_sent)
			continue;
		t = sdr_model_quantile(&link, &schemes[i], bytes, tail);
		if (t < choice->runner_up_s)
			choice->runner_up_s = t;
	}
	choice->loss = e->loss;
	choice->rtt_s = link.rtt_s;
	choice->reason = candidates[best].reason;
	return 0;
}

uint32_t sdr_choose_chunk(uint64_t max_msg_size, uint32_t packet)
{
	uint32_t n = 1;

	while (n < CHUNK_PACKETS_MAX && max_msg_size > (uint64_t)n * packet * SDR_WINDOW_BITS)
		n *= 2;
	return n * packet;
}
