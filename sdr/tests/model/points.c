/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_model_points: answers lines of "kind code chunk k m rto fto tail serial whole rate rtt loss packet bytes q"
 * with the mean, the quantile and the chance of a fallback.
 */
#include "sdr/include/sdr/model.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	struct sdr_scheme s;
	struct sdr_link l;
	int kind, code, serial, whole;
	uint64_t bytes;
	double q;

	while (scanf("%d %d %" SCNu32 " %" SCNu32 " %" SCNu32
		     " %lf %lf %lf %d %d %lf %lf %lf %" SCNu32 " %" SCNu64 " %lf",
		     &kind, &code, &s.chunk, &s.k, &s.m, &s.rto_rtts, &s.fto_rtts, &s.tail_rtts,
		     &serial, &whole, &l.rate_bps, &l.rtt_s, &l.loss, &l.packet, &bytes,
		     &q) == 16) {
		s.kind = (enum sdr_scheme_kind)kind;
		s.code = (enum sdr_code_kind)code;
		s.serial = serial != 0;
		s.whole = whole != 0;
		printf("%.17g %.17g %.17g\n", sdr_model_mean(&l, &s, bytes),
		       sdr_model_quantile(&l, &s, bytes, q), sdr_model_fallback(&l, &s, bytes));
	}
	return 0;
}
