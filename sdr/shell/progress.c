/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A round of a connection. The order matters in one place: the core is told that a slot is unbound
 * when all has been polled that had come by then.
 */
#include "sdr/shell/rel.h"
#include "sdr/core/packet.h"

#include <string.h>
#include <time.h>

#define TICK_NS 200000ull

uint64_t sdr_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The message that has the slot. */
static uint64_t message_at(struct sdr_qp *qp, uint32_t slot)
{
	return qp->slots[slot].n;
}

static int poll_slots(struct sdr_qp *qp)
{
	struct sdr_slot_event events[SDR_BURST];
	struct sdr_event e = { .type = SDR_EVENT_BOUND };
	int n = qp->backing.ops->poll(&qp->backing, events, SDR_BURST);

	for (int i = 0; i < n; i++) {
		if (!events[i].bound) {
			qp->unbound[qp->n_unbound++] = events[i];
			continue;
		}
		e.n = message_at(qp, events[i].slot);
		memcpy(e.rkeys, events[i].rkeys, sizeof(e.rkeys));
		e.addr = events[i].addr;
		sdr_qp_step(qp, &e);
		qp->urgent = true;
	}
	return n;
}

static void packet_came(struct sdr_qp *qp, uint32_t imm, int generation)
{
	uint32_t slot = sdr_imm_id(&qp->core.layout, imm) & (qp->attr.max_msgs - 1);
	int64_t chunk = sdr_packet(&qp->core, imm, generation);

	if (chunk != SDR_NO_CHUNK)
		sdr_recv_came(qp, message_at(qp, slot), (uint32_t)chunk);
}

/* All that is there now: at most what the queue can hold. */
static int poll_channel(struct sdr_qp *qp, uint32_t i)
{
	struct sdr_channel *c = &qp->channels[i];
	int generation = (int)(i / qp->attr.channels);
	uint32_t imms[SDR_BURST], sum = 0;
	int n;

	do {
		n = sdr_channel_poll(c, imms);
		for (int k = 0; k < n; k++)
			packet_came(qp, imms[k], generation);
		sum += n > 0 ? (uint32_t)n : 0;
	} while (n > 0 && sum < c->recv_depth);
	if (n >= 0)
		n = sdr_channel_reap(c);
	if (n < 0)
		sdr_rails_fail(qp, sdr_rail_way(qp, i % qp->attr.channels), c->fault);
	return n < 0 ? (int)sum : (int)sum + n;
}

static void tell_unbound(struct sdr_qp *qp)
{
	struct sdr_event e = { .type = SDR_EVENT_UNBOUND };

	for (uint32_t i = 0; i < qp->n_unbound; i++) {
		e.n = message_at(qp, qp->unbound[i].slot);
		sdr_qp_step(qp, &e);
	}
	qp->urgent |= qp->n_unbound;
	qp->n_unbound = 0;
}

static int poll_all(struct sdr_qp *qp)
{
	int sum = sdr_rails_poll(qp) + poll_slots(qp);

	for (uint32_t i = 0; i < qp->n_channels; i++)
		if (!sdr_rail_dead(qp, i % qp->attr.channels))
			sum += poll_channel(qp, i);
	tell_unbound(qp);
	return sum;
}

static void tick(struct sdr_qp *qp)
{
	struct sdr_event e = { .type = SDR_EVENT_TICK };

	if (qp->now < qp->rounds.tick_at && !qp->urgent)
		return;
	qp->urgent = false;
	qp->rounds.tick_at = qp->now + TICK_NS;
	sdr_qp_step(qp, &e);
	sdr_rails_say(qp);
}

/* Shuts a connection that has failed: buffers are given back when nothing reaches them. */
static void shut(struct sdr_qp *qp)
{
	if (qp->rails.shut)
		return;
	sdr_rails_shut(qp);
	if (qp->rel)
		sdr_rel_failed(qp->rel);
}

int sdr_qp_progress(struct sdr_qp *qp)
{
	bool more;
	int n;

	qp->now = sdr_clock_ns();
	if (!qp->connected)
		return 0;
	if (qp->error) {
		shut(qp);
		return 0;
	}
	sdr_pause_note(&qp->rounds.pause, qp->now); /* a round reads all that waits */
	n = poll_all(qp);
	sdr_rails_look(qp);
	if (!qp->error)
		sdr_share_tick(qp); /* a question waits behind no packets that leave with it */
	more = qp->error ? false : qp->rel ? sdr_rel_progress(qp->rel) : sdr_sends_inject(qp);
	tick(qp);
	return n + more;
}
