/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Codes: a mixture over how many submessages fail and are repeated. */
#include "internal.h"

#include <math.h>

#define DEVIATIONS 10

static double log_factorial(double n)
{
	int sign;

	return lgamma_r(n + 1, &sign);
}

/* The log of the chance that i of n happen. */
static double log_binomial(double n, double i, double p)
{
	return log_factorial(n) - log_factorial(i) - log_factorial(n - i) + i * log(p) +
	       (n - i) * log1p(-p);
}

/* That i or more of n are lost. */
static double at_least(double n, double i, double p)
{
	double term, total = 0;

	if (p <= 0 || i > n)
		return 0;
	for (term = exp(log_binomial(n, i, p)); i <= n && term > total * 1e-17; i++) {
		total += term;
		term *= (n - i) / (i + 1) * p / (1 - p);
	}
	return fmin(1, total);
}

static double lost_xor(double k, double m, double p)
{
	double log_good = 0;

	/* Of k data, those j with j mod m = i, and their parity. */
	for (double i = 0; i < fmin(m, k); i++)
		log_good += log1p(-at_least(floor((k - 1 - i) / m) + 2, 2, p));
	return -expm1(log_good);
}

static void mix(struct sdr_mixture *x, double chunks, double t_inj, double loss,
		const struct sdr_scheme *scheme)
{
	double mean = x->count * x->lost, spread = DEVIATIONS * sqrt(mean * (1 - x->lost));
	double low = fmax(1, floor(mean - spread));
	double high = fmin(x->count, ceil(mean + spread + DEVIATIONS));
	double stride = ceil((high - low + 1) / SDR_MODEL_POINTS), top = -INFINITY, sum = 0;

	if (x->lost >= 1)
		low = high = x->count;
	for (double n = low; n <= high && x->n <= SDR_MODEL_POINTS; n += stride, x->n++) {
		x->weight[x->n] = x->lost < 1 ? log_binomial(x->count, n, x->lost) : 0;
		top = fmax(top, x->weight[x->n]);
		x->again[x->n] =
			sdr_repeat_make(fmin(chunks, n * x->repeats), t_inj, loss, x->rtt, scheme);
	}
	for (uint32_t i = 0; i < x->n; i++)
		sum += x->weight[i] = exp(x->weight[i] - top);
	for (uint32_t i = 0; i < x->n; i++)
		x->weight[i] *= x->fallback / sum;
}

void sdr_mixture_init(struct sdr_mixture *x, double chunks, double t_inj, double loss, double rtt,
		      const struct sdr_scheme *scheme)
{
	double parity = ceil(chunks * scheme->m / scheme->k), m = scheme->m;

	x->rtt = rtt;
	x->n = 0;
	x->repeats = scheme->k;
	if (chunks < x->repeats) {
		x->repeats = chunks;
		m = parity;
	}
	x->count = ceil(chunks / x->repeats);
	x->end = (chunks + parity) * t_inj;
	x->patience = (1 + scheme->fto_rtts) * rtt;
	x->lost = scheme->code == SDR_CODE_XOR ? lost_xor(x->repeats, m, loss)
					       : at_least(x->repeats + m, m + 1, loss);
	x->fallback = x->lost < 1 ? -expm1(x->count * log1p(-x->lost)) : 1;
	if (x->lost > 0)
		mix(x, chunks, t_inj, loss, scheme);
}

double sdr_mixture_mean(const struct sdr_mixture *x)
{
	double mean = x->end + (1 - x->fallback) * x->rtt;

	for (uint32_t i = 0; i < x->n; i++)
		mean += x->weight[i] * (x->patience + sdr_repeat_mean(&x->again[i]));
	return mean;
}

double sdr_mixture_cdf(const struct sdr_mixture *x, double t)
{
	double late = t - x->end, good = 1 - x->fallback;

	if (late < x->rtt * (1 - 1e-12))
		return 0;
	if (late > x->patience)
		for (uint32_t i = 0; i < x->n; i++)
			good += x->weight[i] * sdr_repeat_cdf(&x->again[i], late - x->patience);
	return good;
}
