/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The maximum over chunks of their last sendings: exact at every t, its mean in closed form. */
#include "internal.h"

#include <math.h>

#define NOTHING 1e-18 /* losses of chunks that add up to less are left out */
#define EPSILON 1e-9  /* of a chunk */

struct sdr_repeat sdr_repeat_make(double chunks, double t_inj, double loss, double rtt,
				  const struct sdr_scheme *scheme)
{
	double each = scheme->serial ? t_inj / (1 - loss) : t_inj;

	return (struct sdr_repeat){
		.chunks = chunks,
		.t_inj = each,
		.loss = loss,
		.log_loss = loss > 0 ? log(loss) : -INFINITY,
		.rtt = rtt,
		.wait = scheme->rto_rtts * rtt + t_inj,
		.end = chunks * each,
	};
}

static double log_came(const struct sdr_repeat *r, double sendings)
{
	return log1p(-exp(sendings * r->log_loss));
}

static bool vanishes(const struct sdr_repeat *r, double sendings)
{
	return r->chunks * exp(sendings * r->log_loss) < NOTHING;
}

static double log_cdf(const struct sdr_repeat *r, double late)
{
	double x = late + r->chunks * r->t_inj, j = floor(late / r->wait + EPSILON), had;
	double total = r->chunks * log_came(r, j + 1);

	while (!vanishes(r, j + 1)) {
		j++;
		had = fmin(r->chunks, floor((x - j * r->wait) / r->t_inj + EPSILON));
		if (had <= 0)
			break;
		total += had * (log_came(r, j + 1) - log_came(r, j));
	}
	return total;
}

double sdr_repeat_cdf(const struct sdr_repeat *r, double t)
{
	if (t - r->rtt < r->end * (1 - 1e-12))
		return 0;
	if (r->loss <= 0)
		return 1;
	return exp(log_cdf(r, fmax(0, t - r->rtt - r->chunks * r->t_inj)));
}

/* The integral of F between two times after the k-th repeat of the last chunk, where the number of
 * repeats changes in so many places along the chunks. */
static double came_for(const struct sdr_repeat *r, double k, double at, double to, double steps)
{
	double log_f = r->chunks * log_came(r, k + 1), slope = 0, more, stairs, climb;

	for (double i = 1; i <= steps && !vanishes(r, k + i); i++) {
		more = log_came(r, k + 1 + i) - log_came(r, k + i);
		log_f += more * (r->chunks - (i * r->wait - at) / r->t_inj - 0.5);
		slope += more;
	}
	if (slope < 1e-300)
		return (to - at) * exp(log_f);
	stairs = slope > 1e-6 ? slope / 2 / sinh(slope / 2) : 1;
	climb = slope * (to - at) / r->t_inj;
	return exp(log_f + climb) * -expm1(-climb) * r->t_inj / slope * stairs;
}

double sdr_repeat_excess(const struct sdr_repeat *r, double late)
{
	double span = (r->chunks - 1) * r->t_inj, steps = floor(span / r->wait) + 1;
	double split = steps * r->wait - span, total = 0, from, low;

	if (r->loss <= 0)
		return 0;
	for (double k = floor(late / r->wait); !vanishes(r, k + 1); k++) {
		from = fmax(0, late - k * r->wait);
		if (split > from)
			total += split - from - came_for(r, k, from, split, steps - 1);
		low = fmax(split, from);
		if (r->wait > low)
			total += r->wait - low - came_for(r, k, low, r->wait, steps);
	}
	return total;
}

double sdr_repeat_mean(const struct sdr_repeat *r)
{
	return r->end + r->rtt + sdr_repeat_excess(r, r->end - r->chunks * r->t_inj);
}
