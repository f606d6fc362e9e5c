/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pauses of a program between two rounds. What a round reads may have waited for as long as the
 * pause before it. Pure; times in ns.
 */
#ifndef SDR_REL_PAUSE_H
#define SDR_REL_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct sdr_pause {
	uint64_t at;	  /* time of the last round */
	uint64_t last_ns; /* time between the last two rounds */
	uint64_t mean_ns,
		mean_then_ns; /* mean of these times, and what the mean was before the last */
};

/* Notes a round. */
void sdr_pause_note(struct sdr_pause *p, uint64_t now);
/*
 * True if the last round came late: after least_ns, and much later than rounds are apart. A program
 * that polls seldom, but at all times, is never late: its round trips are as long as that.
 */
bool sdr_pause_is(const struct sdr_pause *p, uint64_t least_ns);

#endif
