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

/* The chance that i or more of n are lost. */
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

/*
 * The log of the chance that group i of an XOR's m can be decoded. The group: those j of k data
 * with j mod m = i, and their parity.
 */
static double log_group(double k, double m, double i, double p)
{
	double bad = at_least(floor((k - 1 - i) / m) + 2, 2, p);

	return bad < 1 ? log1p(-bad) : -INFINITY;
}

static double lost_xor(double k, double m, double p)
{
	double log_good = 0;

	for (double i = 0; i < fmin(m, k); i++)
		log_good += log_group(k, m, i, p);
	return -expm1(log_good);
}

/* Data of a submessage that are lost while it fails, in the mean. */
static double missing_mds(double k, double m, double p)
{
	return k * p * at_least(k + m - 1, m, p);
}

static double missing_xor(double k, double m, double p)
{
	double log_none = log1p(-p), all = 0, hopeless = 0, sum = 0, size, log_good, others;

	for (double i = 0; i < fmin(m, k); i++) {
		log_good = log_group(k, m, i, p);
		if (isinf(log_good))
			hopeless++;
		else
			all += log_good;
	}
	for (double i = 0; i < fmin(m, k); i++) {
		size = floor((k - 1 - i) / m) + 1;
		log_good = log_group(k, m, i, p);
		/* the chance of the other groups, which may be hopeless as well */
		if (isinf(log_good))
			others = hopeless > 1 ? -INFINITY : all;
		else
			others = hopeless > 0 ? -INFINITY : all - log_good;
		sum += size * p * -expm1(others + size * log_none);
	}
	return sum;
}

/* So many submessages of one size. */
static void add_kind(double n, double data, double checks, double loss,
		     const struct sdr_scheme *scheme, double *log_good, double *missing)
{
	bool is_xor = scheme->code == SDR_CODE_XOR;
	double lost =
		is_xor ? lost_xor(data, checks, loss) : at_least(data + checks, checks + 1, loss);

	*log_good += lost < 1 ? n * log1p(-lost) : -INFINITY;
	*missing +=
		n * (is_xor ? missing_xor(data, checks, loss) : missing_mds(data, checks, loss));
}

/* All submessages are as even as can be; the larger ones come first. */
static void add_kinds(struct sdr_mixture *x, double chunks, double parity, double loss,
		      const struct sdr_scheme *scheme, double *log_good, double *missing)
{
	double data = floor(chunks / x->count), more_data = chunks - data * x->count;
	double checks = floor(parity / x->count), more_checks = parity - checks * x->count;
	double ends[3] = { fmin(more_data, more_checks), fmax(more_data, more_checks), x->count };
	double at = 0;

	for (int i = 0; i < 3; i++) {
		if (ends[i] > at)
			add_kind(ends[i] - at, data + (at < more_data), checks + (at < more_checks),
				 loss, scheme, log_good, missing);
		at = ends[i];
	}
}

static void mix(struct sdr_mixture *x, double chunks, double t_inj, double loss,
		const struct sdr_scheme *scheme)
{
	double mean = x->count * x->lost, spread = DEVIATIONS * sqrt(mean * (1 - x->lost));
	double low = fmax(1, floor(mean - spread));
	double high = fmin(x->count, ceil(mean + spread + DEVIATIONS));
	double stride = ceil((high - low + 1) / SDR_MODEL_POINTS), top = -INFINITY, sum = 0, again;

	if (x->lost >= 1)
		low = high = x->count;
	for (double n = low; n <= high && x->n <= SDR_MODEL_POINTS; n += stride, x->n++) {
		x->weight[x->n] = x->lost < 1 ? log_binomial(x->count, n, x->lost) : 0;
		top = fmax(top, x->weight[x->n]);
		again = fmin(chunks, fmax(1, nearbyint(n * x->repeats)));
		x->again[x->n] = sdr_repeat_make(again, t_inj, loss, x->rtt, scheme);
	}
	for (uint32_t i = 0; i < x->n; i++)
		sum += x->weight[i] = exp(x->weight[i] - top);
	for (uint32_t i = 0; i < x->n; i++)
		x->weight[i] *= x->fallback / sum;
}

void sdr_mixture_init(struct sdr_mixture *x, double chunks, double t_inj, double loss, double rtt,
		      const struct sdr_scheme *scheme)
{
	double parity = ceil(chunks * scheme->m / scheme->k), log_good = 0, missing = 0;

	x->rtt = rtt;
	x->n = 0;
	x->count = ceil(chunks / scheme->k);
	x->end = (chunks + parity) * t_inj;
	x->patience = (1 + scheme->fto_rtts) * rtt;
	add_kinds(x, chunks, parity, loss, scheme, &log_good, &missing);
	x->lost = -expm1(log_good / x->count);
	x->fallback = fmax(0, -expm1(log_good)); /* not -0 */
	x->repeats =
		scheme->whole || x->lost <= 0 ? chunks / x->count : missing / (x->count * x->lost);
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
