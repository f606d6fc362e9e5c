/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sdr_perf model: what to expect of each scheme; no device is needed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sdr/tools/perf.h"

#define TAIL	 .999
#define MAX_SENT 1.3 /* libsdr's default, sdr/include/sdr/rel.h */

enum {
	CHUNKS_MAX = 15872,
	PACKETS_MAX = 16,
	PACKETS_MOST = 64,
	ROWS_MAX = 11,
	CODE_CHUNKS = 255,
	WIDE = 128
};

/* A scheme as published, and as libsdr plays it. */
struct row {
	struct sdr_scheme published, played;
	bool may_be_chosen; /* auto may choose it: auto knows no timers and no other k and m */
};

static struct {
	const struct options *o;
	struct sdr_link link;
	struct row rows[ROWS_MAX];
	uint32_t chunk, n, chosen; /* chosen: n: none */
} t;

/* Repeats libsdr's rule (sdr/include/sdr/sdr.h); sdr/tests/unit/chunk_test.c compares them. */
uint32_t model_chunk(uint64_t size, uint32_t packet)
{
	uint32_t chunk = packet;

	while (chunk < PACKETS_MAX * packet && size > (uint64_t)chunk * CHUNKS_MAX)
		chunk *= 2;
	return chunk;
}

static bool is_coded(const struct sdr_scheme *s)
{
	return s->kind == SDR_SCHEME_EC || s->kind == SDR_SCHEME_HYBRID;
}

static void add(enum sdr_scheme_kind kind, uint64_t k, uint64_t m, bool may_be_chosen)
{
	struct row *row = &t.rows[t.n++];

	row->published = sdr_scheme_make(kind, t.chunk, (uint32_t)k, (uint32_t)m);
	row->published.code = t.o->code;
	row->played = row->published;
	row->played.serial = true;
	row->played.whole = false;
	row->may_be_chosen = may_be_chosen;
}

/* True if a Write is coded as a whole: then wide codes may be chosen, too. */
static bool is_coded_whole(void)
{
	struct sdr_scheme any = sdr_scheme_make(SDR_SCHEME_HYBRID, t.chunk, WIDE, 2);

	return (double)t.o->size * 8 / (double)t.o->rate <=
	       any.tail_rtts * (double)t.o->rtt_ns / 1e9;
}

static void add_rows(void)
{
	t.n = 0;
	add(SDR_SCHEME_SR, 0, 0, false);
	add(SDR_SCHEME_NACK, 0, 0, true);
	for (uint64_t m = 2; m <= 6 && is_coded_whole(); m += 2)
		add(SDR_SCHEME_HYBRID, WIDE, m, true);
	for (uint64_t m = 2; m <= 8; m *= 2)
		add(SDR_SCHEME_HYBRID, 32, m, true);
	add(SDR_SCHEME_EC, 32, 8, true);
	if (!t.o->own_code)
		return;
	add(SDR_SCHEME_HYBRID, t.o->k, t.o->m, false);
	add(SDR_SCHEME_EC, t.o->k, t.o->m, false);
}

/* The receiver has room for the parity of --k and --m, and no Write is sent with more than that. */
static void choose(void)
{
	struct sdr_scheme played[ROWS_MAX];
	double chunks = ceil((double)t.o->size / t.chunk);
	double room = 1 + ceil(chunks * (double)t.o->m / (double)t.o->k) / chunks;
	uint32_t place[ROWS_MAX], n = 0;
	int best;

	for (uint32_t i = 0; i < t.n; i++) {
		if (!t.rows[i].may_be_chosen)
			continue;
		place[n] = i;
		played[n++] = t.rows[i].played;
	}
	best = sdr_model_choose(&t.link, played, n, t.o->size, TAIL, fmin(room, MAX_SENT));
	t.chosen = best < 0 ? t.n : place[best];
}

struct figures {
	char name[32];
	double mean_ms, p999_ms, sent, fallback, played_mean_ms, played_p999_ms;
	bool chosen;
};

static struct figures figures_of(uint32_t i)
{
	const struct row *row = &t.rows[i];
	const struct sdr_scheme *s = &row->published;
	uint64_t size = t.o->size;
	struct figures f = { .mean_ms = sdr_model_mean(&t.link, s, size) * 1e3,
			     .p999_ms = sdr_model_quantile(&t.link, s, size, TAIL) * 1e3,
			     .sent = sdr_model_sent(&t.link, s, size),
			     .fallback = sdr_model_fallback(&t.link, s, size),
			     .played_mean_ms = sdr_model_mean(&t.link, &row->played, size) * 1e3,
			     .chosen = i == t.chosen };

	f.played_p999_ms = sdr_model_quantile(&t.link, &row->played, size, TAIL) * 1e3;
	if (is_coded(s))
		snprintf(f.name, sizeof(f.name), "%s(%u,%u)", sdr_scheme_name((int)s->kind), s->k,
			 s->m);
	else
		snprintf(f.name, sizeof(f.name), "%s", sdr_scheme_name((int)s->kind));
	return f;
}

static void print_json(void)
{
	printf("{\"size\": %llu, \"rate_bps\": %.0f, \"rtt_ms\": %.6g, \"loss\": %.6g, \"packet\": "
	       "%u, \"chunk\": %u, \"code\": \"%s\", \"rows\": [",
	       (unsigned long long)t.o->size, t.link.rate_bps, t.link.rtt_s * 1e3, t.link.loss,
	       t.link.packet, t.chunk, t.o->code == SDR_CODE_XOR ? "xor" : "mds");
	for (uint32_t i = 0; i < t.n; i++) {
		struct figures f = figures_of(i);

		printf("%s{\"scheme\": \"%s\", \"mean_ms\": %.6f, \"p999_ms\": %.6f, \"sent\": "
		       "%.6f, \"fallback\": %.6g, \"played_mean_ms\": %.6f, \"played_p999_ms\": "
		       "%.6f, \"auto\": %s}",
		       i ? ", " : "", f.name, f.mean_ms, f.p999_ms, f.sent, f.fallback,
		       f.played_mean_ms, f.played_p999_ms, f.chosen ? "true" : "false");
	}
	puts("]}");
}

static void print_table(void)
{
	printf("%-14s %12s %12s %10s %12s %12s %12s\n", "scheme", "mean ms", "p99.9 ms", "sent",
	       "fallback", "played mean", "played p99.9");
	for (uint32_t i = 0; i < t.n; i++) {
		struct figures f = figures_of(i);

		printf("%-14s %12.3f %12.3f %10.4f %12.3g %12.3f %12.3f%s\n", f.name, f.mean_ms,
		       f.p999_ms, f.sent, f.fallback, f.played_mean_ms, f.played_p999_ms,
		       f.chosen ? "  auto" : "");
	}
}

/* True if libsdr takes the options. false: it was said what it does not take. */
static bool makes_sense(const struct options *o)
{
	uint64_t packets = o->chunk / o->mtu;

	if (!o->rate || o->rate == SDR_RATE_AUTO || o->loss < 0) {
		complain("model needs --rate and --loss, such as --rate 400G --loss 1e-5");
		return false;
	}
	if (o->chunk && (o->chunk % o->mtu || packets & (packets - 1) || packets > PACKETS_MOST)) {
		complain("--chunk %llu: it is a power of two of packets of %llu bytes, at most %d",
			 (unsigned long long)o->chunk, (unsigned long long)o->mtu, PACKETS_MOST);
		return false;
	}
	if (o->m > o->k || o->k + o->m > CODE_CHUNKS) {
		complain("no Writes with k %llu and m %llu: m is at most k, both together %d",
			 (unsigned long long)o->k, (unsigned long long)o->m, CODE_CHUNKS);
		return false;
	}
	return true;
}

int run_model(const struct options *o)
{
	if (!makes_sense(o))
		return 2;
	if (o->nccl)
		return run_model_nccl(o);
	t.o = o;
	t.link = (struct sdr_link){ (double)o->rate, (double)o->rtt_ns / 1e9, o->loss,
				    (uint32_t)o->mtu };
	t.chunk = o->chunk ? (uint32_t)o->chunk : model_chunk(o->size, (uint32_t)o->mtu);
	add_rows();
	if (isnan(sdr_model_mean(&t.link, &t.rows[0].published, o->size))) {
		complain("of chunks of %u bytes more than 9 in 10 are lost: no model for it, and "
			 "no Write would end",
			 t.chunk);
		return 2;
	}
	choose();
	if (o->json)
		print_json();
	else
		print_table();
	return 0;
}
