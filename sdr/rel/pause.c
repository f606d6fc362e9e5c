/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sdr/rel/pause.h"

enum { GAPS = 8 };

void sdr_pause_note(struct sdr_pause *p, uint64_t now)
{
	p->last_ns = p->at ? now - p->at : 0;
	p->mean_then_ns = p->mean_ns;
	p->mean_ns = (7 * p->mean_ns + p->last_ns) / 8;
	p->at = now;
}

bool sdr_pause_is(const struct sdr_pause *p, uint64_t least_ns)
{
	return p->last_ns > least_ns && p->last_ns > GAPS * p->mean_then_ns;
}
