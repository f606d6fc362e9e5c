/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sdr_perf model: what to expect of each scheme; no device is needed. */
#include <math.h>
#include <stdio.h>

#include "tools/sdr/perf.h"

enum { PACKET = 4096, CHUNKS_MAX = 15872, CHUNK_MAX = 16 * PACKET };

static void row(const struct sdr_link *link, const struct sdr_scheme *s, uint64_t size)
{
	char name[32];
	bool coded = s->kind == SDR_SCHEME_EC || s->kind == SDR_SCHEME_HYBRID;

	if (coded)
		snprintf(name, sizeof(name), "%s(%u,%u)", sdr_scheme_name((int)s->kind), s->k,
			 s->m);
	else
		snprintf(name, sizeof(name), "%s", sdr_scheme_name((int)s->kind));
	printf("%-14s %12.3f %12.3f %10.4f %12.3g\n", name, sdr_model_mean(link, s, size) * 1e3,
	       sdr_model_quantile(link, s, size, .999) * 1e3, sdr_model_sent(link, s, size),
	       coded ? sdr_model_fallback(link, s, size) : 0);
}

/* As include/sdr/sdr.h has it: tests/sdr/unit/chunk_test.c. */
uint32_t model_chunk(uint64_t size)
{
	uint32_t chunk = PACKET;

	while (chunk < CHUNK_MAX && size > (uint64_t)chunk * CHUNKS_MAX)
		chunk *= 2;
	return chunk;
}

int run_model(const struct options *o)
{
	struct sdr_link link = { (double)o->rate, (double)o->rtt_ns / 1e9, o->loss, PACKET };
	uint32_t chunk = o->chunk ? (uint32_t)o->chunk : model_chunk(o->size);
	const struct sdr_scheme schemes[] = {
		sdr_scheme_make(SDR_SCHEME_SR, chunk, 0, 0),
		sdr_scheme_make(SDR_SCHEME_NACK, chunk, 0, 0),
		sdr_scheme_make(SDR_SCHEME_HYBRID, chunk, 32, 2),
		sdr_scheme_make(SDR_SCHEME_HYBRID, chunk, 32, 4),
		sdr_scheme_make(SDR_SCHEME_HYBRID, chunk, 32, 8),
		sdr_scheme_make(SDR_SCHEME_EC, chunk, 32, 8),
	};

	if (!o->rate || o->loss < 0) {
		complain("model needs --rate and --loss, such as --rate 400G --loss 1e-5");
		return 2;
	}
	if (isnan(sdr_model_mean(&link, &schemes[0], o->size))) {
		complain("of chunks of %u bytes more than 9 in 10 are lost: no model for it, and "
			 "no Write would end",
			 chunk);
		return 2;
	}
	printf("%-14s %12s %12s %10s %12s\n", "scheme", "mean ms", "p99.9 ms", "sent", "fallback");
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		row(&link, &schemes[i], o->size);
	return 0;
}
