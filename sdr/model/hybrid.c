/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A head that is repeated and a tail that is coded: the longer of both. */
#include "internal.h"

#include <math.h>

double sdr_tail_chunks(double chunks, double t_inj, double rtt, const struct sdr_scheme *scheme)
{
	return fmin(chunks, ceil(scheme->tail_rtts * rtt / t_inj - 1e-9));
}

void sdr_both_init(struct sdr_both *b, double chunks, double t_inj, double loss, double rtt,
		   const struct sdr_scheme *scheme)
{
	double coded = sdr_tail_chunks(chunks, t_inj, rtt, scheme);

	sdr_mixture_init(&b->tail, coded, t_inj, loss, rtt, scheme);
	b->head = sdr_repeat_make(chunks - coded, t_inj, loss, rtt, scheme);
	b->before = b->head.end;
	b->head.end += b->tail.end;
	b->end = b->head.end;
}

double sdr_both_mean(const struct sdr_both *b)
{
	double mean = b->before + sdr_mixture_mean(&b->tail), fallback = b->tail.fallback;

	if (b->head.chunks <= 0)
		return mean;
	/* Where the tail falls back, the head is late only if it is later than that. */
	mean += (1 - fallback) * sdr_repeat_excess(&b->head, b->tail.end);
	return mean + fallback * sdr_repeat_excess(&b->head, b->tail.end + b->tail.patience);
}

double sdr_both_cdf(const struct sdr_both *b, double t)
{
	double tail = sdr_mixture_cdf(&b->tail, t - b->before);

	return b->head.chunks > 0 ? tail * sdr_repeat_cdf(&b->head, t) : tail;
}
