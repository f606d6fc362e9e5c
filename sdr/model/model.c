/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The public questions to the model, each answered by the distribution of its scheme. */
#include "internal.h"

#include <errno.h>
#include <math.h>

enum { BISECTIONS = 60 };

/* The highest loss of chunks. Beyond it sums do not end in reasonable time, and no Write either. */
#define LOSS_MAX 0.9

/* A question, in the units of the distributions. */
struct asked {
	struct sdr_scheme scheme; /* chunk: no longer than the Write */
	double chunks, t_inj, loss, rtt;
	union {
		struct sdr_repeat repeat;
		struct sdr_mixture mixture;
		struct sdr_both both;
	};
};

struct sdr_scheme sdr_scheme_make(enum sdr_scheme_kind kind, uint32_t chunk, uint32_t k, uint32_t m)
{
	struct sdr_scheme s = { .kind = kind, .chunk = chunk, .k = k, .m = m };

	s.rto_rtts = kind == SDR_SCHEME_SR || kind == SDR_SCHEME_EC ? 3 : 1;
	s.fto_rtts = kind == SDR_SCHEME_HYBRID ? 0.25 : 1;
	s.tail_rtts = 1.25;
	s.serial = kind == SDR_SCHEME_HYBRID;
	s.whole = kind == SDR_SCHEME_EC;
	return s;
}

static bool has_code(const struct sdr_scheme *s)
{
	return s->kind == SDR_SCHEME_EC || s->kind == SDR_SCHEME_HYBRID;
}

static double chunk_loss(const struct sdr_link *link, const struct sdr_scheme *s)
{
	double packets = (double)((s->chunk + (uint64_t)link->packet - 1) / link->packet);

	return -expm1(packets * log1p(-link->loss));
}

static bool makes_sense(const struct sdr_link *link, const struct sdr_scheme *s, uint64_t bytes)
{
	if (!bytes || !link->packet || !s->chunk || s->kind > SDR_SCHEME_HYBRID)
		return false;
	if (!(link->rate_bps > 0 && isfinite(link->rate_bps)) ||
	    !(link->rtt_s > 0 && isfinite(link->rtt_s)) || !(link->loss >= 0 && link->loss < 1))
		return false;
	if (!(s->rto_rtts > 0 && isfinite(s->rto_rtts)))
		return false;
	if (chunk_loss(link, s) > LOSS_MAX)
		return false;
	if (!has_code(s))
		return true;
	return s->k && s->m && s->code <= SDR_CODE_XOR && s->fto_rtts >= 0 &&
	       isfinite(s->fto_rtts) && (s->kind == SDR_SCHEME_EC || s->tail_rtts > 0);
}

static bool ask(struct asked *a, const struct sdr_link *link, const struct sdr_scheme *scheme,
		uint64_t bytes)
{
	const struct sdr_scheme *s = &a->scheme;

	a->scheme = *scheme;
	if (bytes < s->chunk)
		a->scheme.chunk = (uint32_t)bytes;
	if (!makes_sense(link, s, bytes)) {
		errno = EINVAL;
		return false;
	}
	a->chunks = (double)((bytes - 1) / s->chunk + 1);
	a->t_inj = s->chunk * 8.0 / link->rate_bps;
	a->loss = chunk_loss(link, s);
	a->rtt = link->rtt_s;
	switch (s->kind) {
	case SDR_SCHEME_SR:
	case SDR_SCHEME_NACK:
		a->repeat = sdr_repeat_make(a->chunks, a->t_inj, a->loss, a->rtt, s);
		break;
	case SDR_SCHEME_EC:
		sdr_mixture_init(&a->mixture, a->chunks, a->t_inj, a->loss, a->rtt, s);
		break;
	case SDR_SCHEME_HYBRID:
		sdr_both_init(&a->both, a->chunks, a->t_inj, a->loss, a->rtt, s);
		break;
	}
	return true;
}

static double mean_of(const struct asked *a)
{
	switch (a->scheme.kind) {
	case SDR_SCHEME_SR:
	case SDR_SCHEME_NACK: return sdr_repeat_mean(&a->repeat);
	case SDR_SCHEME_EC: return sdr_mixture_mean(&a->mixture);
	case SDR_SCHEME_HYBRID: return sdr_both_mean(&a->both);
	}
	return NAN;
}

static double cdf_of(const struct asked *a, double t)
{
	switch (a->scheme.kind) {
	case SDR_SCHEME_SR:
	case SDR_SCHEME_NACK: return sdr_repeat_cdf(&a->repeat, t);
	case SDR_SCHEME_EC: return sdr_mixture_cdf(&a->mixture, t);
	case SDR_SCHEME_HYBRID: return sdr_both_cdf(&a->both, t);
	}
	return NAN;
}

/* The least time, and how far to look on from there. */
static double least_of(const struct asked *a, double *step)
{
	switch (a->scheme.kind) {
	case SDR_SCHEME_SR:
	case SDR_SCHEME_NACK: *step = a->repeat.wait; return a->repeat.end + a->rtt;
	case SDR_SCHEME_EC: *step = a->mixture.patience + a->rtt; return a->mixture.end + a->rtt;
	case SDR_SCHEME_HYBRID: *step = a->both.tail.patience + a->rtt; return a->both.end + a->rtt;
	}
	return NAN;
}

static double quantile_of(const struct asked *a, double q)
{
	double step = 0, low = least_of(a, &step), high = low + step, before, middle;

	if (cdf_of(a, low) >= q)
		return low;
	while (cdf_of(a, high) < q) {
		before = low;
		low = high;
		high += 2 * (high - before);
	}
	for (int i = 0; i < BISECTIONS; i++) {
		middle = (low + high) / 2;
		if (cdf_of(a, middle) >= q)
			high = middle;
		else
			low = middle;
	}
	return high;
}

double sdr_model_mean(const struct sdr_link *link, const struct sdr_scheme *scheme, uint64_t bytes)
{
	struct asked a;

	return ask(&a, link, scheme, bytes) ? mean_of(&a) : NAN;
}

double sdr_model_quantile(const struct sdr_link *link, const struct sdr_scheme *scheme,
			  uint64_t bytes, double q)
{
	struct asked a;

	if (!(q >= 0 && q < 1)) {
		errno = EINVAL;
		return NAN;
	}
	return ask(&a, link, scheme, bytes) ? quantile_of(&a, q) : NAN;
}

double sdr_model_fallback(const struct sdr_link *link, const struct sdr_scheme *scheme,
			  uint64_t bytes)
{
	struct asked a;

	if (!ask(&a, link, scheme, bytes))
		return NAN;
	if (scheme->kind == SDR_SCHEME_EC)
		return a.mixture.fallback;
	return scheme->kind == SDR_SCHEME_HYBRID ? a.both.tail.fallback : 0;
}

double sdr_model_sent(const struct sdr_link *link, const struct sdr_scheme *scheme, uint64_t bytes)
{
	struct asked a;
	double coded;

	if (!ask(&a, link, scheme, bytes))
		return NAN;
	if (!has_code(scheme))
		return 1;
	coded = scheme->kind == SDR_SCHEME_EC ? a.chunks
					      : sdr_tail_chunks(a.chunks, a.t_inj, a.rtt, scheme);
	return 1 + ceil(coded * scheme->m / scheme->k) / a.chunks;
}

int sdr_model_choose(const struct sdr_link *link, const struct sdr_scheme *schemes, uint32_t n,
		     uint64_t bytes, double q, double max_sent)
{
	double best = INFINITY, best_sent = INFINITY, sent, t;
	int choice = -EINVAL;

	for (uint32_t i = 0; i < n; i++) {
		sent = sdr_model_sent(link, &schemes[i], bytes);
		if (!(sent <= max_sent + 1e-9))
			continue;
		t = sdr_model_quantile(link, &schemes[i], bytes, q);
		if (t < best * 0.999 || (t < best * 1.001 && sent < best_sent)) {
			best = t;
			best_sent = sent;
			choice = (int)i;
		}
	}
	return choice;
}
