/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Round trip (as RFC 6298 smooths it) and losses, from what acknowledgements tell. */
#include "internal.h"

#define LOSS_FLOOR   1e-7
#define LOSS_WEIGHT  1e5  /* chunks that the estimate remembers */
#define LOSS_GUESS   1e-3 /* before any is known: parity is cheap */
#define GUESS_WEIGHT 300  /* chunks that the guess is worth */
#define CODED_WEIGHT 32	  /* coded Writes that are remembered */

void sdr_estimate_rtt(struct sdr_estimate *e, uint64_t sample_ns)
{
	uint64_t off;

	if (!sample_ns)
		return;
	if (!e->min_ns || sample_ns < e->min_ns)
		e->min_ns = sample_ns;
	if (!e->srtt_ns) {
		e->srtt_ns = sample_ns;
		e->var_ns = sample_ns / 2;
		return;
	}
	off = sample_ns > e->srtt_ns ? sample_ns - e->srtt_ns : e->srtt_ns - sample_ns;
	e->var_ns = (3 * e->var_ns + off) / 4;
	e->srtt_ns = (7 * e->srtt_ns + sample_ns) / 8;
}

/* A mean of all chunks, as long as they are few; then of the last. A short Write tells little. */
void sdr_estimate_loss(struct sdr_estimate *e, uint64_t sent, uint64_t lost)
{
	double before, weight;

	if (!sent)
		return;
	if (e->loss <= 0) {
		e->loss = LOSS_GUESS;
		e->chunks = GUESS_WEIGHT;
	}
	before = (double)e->chunks < LOSS_WEIGHT ? (double)e->chunks : LOSS_WEIGHT;
	weight = (double)sent / ((double)sent + before);
	e->chunks += sent;
	e->loss += weight * ((double)lost / (double)sent - e->loss);
	if (e->loss < LOSS_FLOOR)
		e->loss = LOSS_FLOOR;
	if (e->loss > 0.5)
		e->loss = 0.5;
}

void sdr_estimate_coded(struct sdr_estimate *e, bool repeated)
{
	e->repeats += ((repeated ? 1 : 0) - e->repeats) / CODED_WEIGHT;
}
