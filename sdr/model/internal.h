/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The distributions behind sdr/include/sdr/model.h. sdrmodel/ has the same in Python, and says why.
 */
#ifndef SDR_MODEL_INTERNAL_H
#define SDR_MODEL_INTERNAL_H

#include "sdr/include/sdr/model.h"

enum { SDR_MODEL_POINTS = 256 }; /* points of a mixture over many numbers of failed submessages */

/* Selective Repeat of chunks; what follows them ends at end. */
struct sdr_repeat {
	double chunks, t_inj, loss, log_loss, rtt, wait, end;
};

struct sdr_repeat sdr_repeat_make(double chunks, double t_inj, double loss, double rtt,
				  const struct sdr_scheme *scheme);
double sdr_repeat_excess(const struct sdr_repeat *r, double late);
double sdr_repeat_mean(const struct sdr_repeat *r);
double sdr_repeat_cdf(const struct sdr_repeat *r, double t);

struct sdr_mixture {
	double rtt, end, patience, fallback;
	double lost;	/* of one submessage */
	double count;	/* submessages */
	double repeats; /* chunks that are repeated for one that fails */
	uint32_t n;
	double weight[SDR_MODEL_POINTS + 1];
	struct sdr_repeat again[SDR_MODEL_POINTS + 1];
};

void sdr_mixture_init(struct sdr_mixture *x, double chunks, double t_inj, double loss, double rtt,
		      const struct sdr_scheme *scheme);
double sdr_mixture_mean(const struct sdr_mixture *x);
double sdr_mixture_cdf(const struct sdr_mixture *x, double t);

struct sdr_both {
	struct sdr_mixture tail;
	struct sdr_repeat head;
	double before, end;
};

void sdr_both_init(struct sdr_both *b, double chunks, double t_inj, double loss, double rtt,
		   const struct sdr_scheme *scheme);
double sdr_both_mean(const struct sdr_both *b);
double sdr_both_cdf(const struct sdr_both *b, double t);
double sdr_tail_chunks(double chunks, double t_inj, double rtt, const struct sdr_scheme *scheme);

#endif
