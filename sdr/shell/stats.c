/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sdr/shell/internal.h"

static uint64_t load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

SDR_API int sdr_qp_stats(struct sdr_qp *qp, struct sdr_stats *s)
{
	const struct sdr_core_stats *core = &qp->core.stats;
	const struct sdr_qp_counts *c = &qp->counts;

	*s = (struct sdr_stats){
		.sent = c->sent,
		.received = load(&core->packets),
		.late = load(&core->late),
		.stray = load(&core->stray),
		.writes = c->writes,
		.failed = c->failed,
		.chunks = c->chunks,
		.chunks_sent = c->chunks_sent,
		.resent = c->resent,
		.decoded = c->decoded,
		.datagrams_sent = c->datagrams_sent,
		.datagrams_received = c->datagrams_received,
		.datagrams_bad = c->datagrams_bad,
		.rtt_ns = qp->estimate.srtt_ns,
		.loss = qp->estimate.loss,
		.nics_lost = c->nics_lost,
		.nics_joined = c->nics_joined,
	};
	return qp->error;
}
