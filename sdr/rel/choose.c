/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The choice by the model: of NACK, hybrids and a code, the one whose slow Writes take the least
 * time for this size over this link; and the size of a chunk.
 *
 * One wide submessage restores as many losses with less parity than several narrow ones, as long as
 * losses are as random as the model has them. A burst that a narrow code's parity, which is more,
 * would make good costs a round trip. So wide codes are for Writes that are coded as a whole, and
 * not where these had to be repeated more often than the model says.
 */
#include "internal.h"

#include <string.h>

enum { CHUNK_PACKETS_MAX = 16, WIDE = 128, SURPRISES = 4 };

static const struct {
	enum sdr_scheme_kind kind;
	uint8_t k, m;
	const char *reason;
} candidates[] = {
	{ SDR_SCHEME_NACK, 0, 0, "a code costs more than it saves" },
	{ SDR_SCHEME_HYBRID, WIDE, 2, "few losses: the thinnest parity" },
	{ SDR_SCHEME_HYBRID, WIDE, 4, "some losses: thin parity for all" },
	{ SDR_SCHEME_HYBRID, WIDE, 6, "some losses: parity for all" },
	{ SDR_SCHEME_HYBRID, 32, 2, "few losses: thin parity at the end" },
	{ SDR_SCHEME_HYBRID, 32, 4, "some losses: parity at the end" },
	{ SDR_SCHEME_HYBRID, 32, 8, "many losses: thick parity at the end" },
	{ SDR_SCHEME_EC, 32, 8, "losses in resent chunks, too: all coded" },
};

enum { CANDIDATES = sizeof(candidates) / sizeof(*candidates) };

static bool may_be_wide(const struct sdr_estimate *e, const struct sdr_link *link, uint64_t bytes,
			double tail)
{
	struct sdr_scheme any = sdr_scheme_make(SDR_SCHEME_HYBRID, link->packet, WIDE, 2);

	return (double)bytes * 8 / link->rate_bps <= any.tail_rtts * link->rtt_s &&
	       e->repeats <= SURPRISES * (1 - tail);
}

static uint32_t make_schemes(bool wide, uint32_t chunk, enum sdr_code_kind code,
			     struct sdr_scheme *schemes, uint8_t *which)
{
	uint32_t n = 0;

	for (uint8_t i = 0; i < CANDIDATES; i++) {
		if (candidates[i].k == WIDE && !wide)
			continue;
		schemes[n] = sdr_scheme_make(candidates[i].kind, chunk, candidates[i].k,
					     candidates[i].m);
		schemes[n].code = code;
		/* libsdr's way: repeats take their time, and only missing chunks are repeated */
		schemes[n].serial = true;
		schemes[n].whole = false;
		which[n++] = i;
	}
	return n;
}

int sdr_choose(const struct sdr_estimate *e, double rate_bps, uint32_t chunk, uint64_t bytes,
	       enum sdr_code_kind code, double max_sent, double tail, struct sdr_choice *choice)
{
	/* The estimate is of chunks already. */
	struct sdr_link link = { rate_bps, (double)e->srtt_ns / 1e9, e->loss, chunk };
	struct sdr_scheme schemes[CANDIDATES];
	uint8_t which[CANDIDATES];
	uint32_t n = make_schemes(may_be_wide(e, &link, bytes, tail), chunk, code, schemes, which);
	int best = sdr_model_choose(&link, schemes, n, bytes, tail, max_sent);
	double t;

	if (best < 0)
		return best;
	memset(choice, 0, sizeof(*choice));
	choice->scheme = schemes[best];
	choice->tail_s = sdr_model_quantile(&link, &schemes[best], bytes, tail);
	choice->runner_up_s = __builtin_inf();
	for (uint32_t i = 0; i < n; i++) {
		if ((int)i == best || sdr_model_sent(&link, &schemes[i], bytes) > max_sent)
			continue;
		t = sdr_model_quantile(&link, &schemes[i], bytes, tail);
		if (t < choice->runner_up_s)
			choice->runner_up_s = t;
	}
	choice->loss = e->loss;
	choice->rtt_s = link.rtt_s;
	choice->reason = candidates[which[best]].reason;
	return 0;
}

uint32_t sdr_choose_chunk(uint64_t max_msg_size, uint32_t packet)
{
	uint32_t n = 1;

	while (n < CHUNK_PACKETS_MAX && max_msg_size > (uint64_t)n * packet * SDR_WINDOW_BITS)
		n *= 2;
	return n * packet;
}
