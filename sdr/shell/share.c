/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A sender that shares its link with others, where the program sets SDR_RATE_AUTO. While it sends
 * it asks the other end several times in a round trip; each answer tells how long the question was
 * on its way, behind what waits in the link's queue.
 */
#include "sdr/shell/internal.h"

#define GUESS_NS 10000000ull /* round trip, until one is known */

enum { ASKED = 8 /* questions, in a round trip */ };

static bool is_shared(const struct sdr_qp *qp)
{
	return qp->attr.rate_bps == SDR_RATE_AUTO;
}

uint64_t sdr_rate_of(const struct sdr_qp *qp)
{
	return is_shared(qp) ? sdr_rate_bps(&qp->share.rate) : qp->attr.rate_bps;
}

void sdr_share_begin(struct sdr_qp *qp)
{
	uint64_t least = qp->estimate.min_ns;

	qp->share = (struct sdr_share){ .pace_at = qp->share.pace_at };
	sdr_rate_init(&qp->share.rate, qp->packet, least ? least : GUESS_NS, sdr_clock_ns());
}

void sdr_share_sent(struct sdr_qp *qp, uint32_t packets)
{
	sdr_rate_sent(&qp->share.rate, packets);
	qp->share.asks = true;
}

void sdr_share_lost(struct sdr_qp *qp, uint32_t chunks)
{
	sdr_rate_lost(&qp->share.rate, chunks << qp->core.attr.chunk_shift);
}

uint32_t sdr_share_burst(const struct sdr_qp *qp, uint32_t max)
{
	uint32_t burst = is_shared(qp) ? sdr_rate_burst(&qp->share.rate) : max;

	return burst < max ? burst : max;
}

void sdr_share_restored(struct sdr_qp *qp, uint32_t chunks, uint32_t of)
{
	uint32_t shift = qp->core.attr.chunk_shift;

	sdr_rate_restored(&qp->share.rate, chunks << shift, of << shift);
}

void sdr_share_alive(struct sdr_qp *qp)
{
	sdr_rate_alive(&qp->share.rate);
}

uint64_t sdr_share_late_ns(const struct sdr_qp *qp)
{
	return sdr_rate_target(qp->estimate.min_ns) / 2;
}

/* An answer to no new question has the delay of the old one, which says nothing of now. */
void sdr_share_heard(struct sdr_qp *qp, uint64_t rtt_ns, uint32_t delay_us)
{
	sdr_share_alive(qp);
	if (delay_us == qp->share.delay_us)
		return;
	qp->share.delay_us = delay_us;
	sdr_rate_heard(&qp->share.rate, rtt_ns, delay_us, qp->now);
}

void sdr_share_tick(struct sdr_qp *qp)
{
	static _Thread_local struct sdr_ctrl c;

	if (!is_shared(qp))
		return;
	sdr_rate_tick(&qp->share.rate, qp->now);
	if (!qp->share.asks || qp->now < qp->share.ask_at)
		return;
	c.head = (struct sdr_ctrl_head){ .type = SDR_CTRL_KNOWN, .flags = SDR_CTRL_ASKS };
	if (sdr_say_ctrl(qp, &c))
		return;
	qp->share.asks = false;
	qp->share.ask_at = qp->now + qp->share.rate.rtt_ns / ASKED;
}
