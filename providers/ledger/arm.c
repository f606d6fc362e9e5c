/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Arming a CQ (ibv_req_notify_cq): whether the application waits for an event, and whether it was
 * told.
 */
#include "providers/ledger/backlog.h"
#include "providers/ledger/failed.h"

static bool armings_open(struct led_armings *armings)
{
	return atomic_load(&armings->count) != atomic_load(&armings->told);
}

/* Returns the event that the application waits for. */
enum led_armed led_cq_armed(struct sp_cq *cq)
{
	if (armings_open(&cq->armings[LED_ARMED_ANY]))
		return LED_ARMED_ANY;
	return armings_open(&cq->armings[LED_ARMED_SOLICITED]) ? LED_ARMED_SOLICITED
							       : LED_ARMED_NOT;
}

/* Answers all armings so far by one event. Called without the lock. */
bool led_cq_event_read(struct sp_cq_ring *ring)
{
	for (int kind = LED_ARMED_ANY; kind < LED_ARMED_NOT; kind++) {
		struct led_armings *armings = &ring->cq->armings[kind];

		atomic_store(&armings->told, atomic_load(&armings->count));
	}
	return atomic_load_explicit(&ring->cq->slow_to_arm, memory_order_relaxed);
}

/* Arms the other rings; the application's own is armed already. */
static LED_NOINLINE int arm_others(struct sp_cq *cq, enum led_armed kind, int err)
{
	bool solicited = kind == LED_ARMED_SOLICITED;

	sp_lock(&cq->lock);
	for (struct sp_cq_ring *r = cq->ring.next; r; r = r->next)
		if (r->live)
			(void)r->dev->saved.req_notify_cq(r->real, solicited);
	if (cq->slow)
		err = 0; /* a ring is a dead NIC's */
	/* an event, as from a NIC for completions behind the consumer index */
	if (led_has_ahead(cq) || cq->first || cq->marked || led_failed_waiting(cq))
		led_backlog_event(cq, true);
	sp_unlock(&cq->lock);
	return err;
}

/*
 * Arms without the lock: first the provider's CQ, then the count; then it asks whether there is
 * more than that CQ. A thread that takes completions out of the CQ, or has some that no device will
 * tell of, goes the other way round. A thread that reads an event counts as answered what is
 * counted then: an arming behind the event is not yet.
 */
LED_INLINE int arm(struct sp_cq *cq, struct ibv_cq *ibv, int solicited_only, enum led_armed kind)
{
	int err = cq->arm(ibv, solicited_only);

	atomic_fetch_add(&cq->armings[kind].count, 1);
	if (led_unlikely(atomic_load(&cq->slow_to_arm)))
		return arm_others(cq, kind, err);
	return err;
}

/*
 * A thread that drives the CQ meanwhile publishes it first, and asks for armings then: it hears of
 * this one, or this one sees that the CQ is driven.
 */
static LED_NOINLINE int arm_unknown(struct ibv_cq *ibv, int solicited_only)
{
	struct sp_dev *dev = led_dev_of(ibv->context);
	int err = dev->saved.req_notify_cq(ibv, solicited_only);

	if (err)
		return err;
	dev->cb->cq_armed(ibv, solicited_only);
	__sync_synchronize();
	return led_cq_of(ibv->context, ibv->handle) ? led_req_notify(ibv, solicited_only) : 0;
}

int led_req_notify(struct ibv_cq *ibv, int solicited_only)
{
	struct sp_cq *cq = led_cq_of(ibv->context, ibv->handle);

	if (led_unlikely(!cq))
		return arm_unknown(ibv, solicited_only);
	if (led_unlikely(solicited_only))
		return arm(cq, ibv, solicited_only, LED_ARMED_SOLICITED);
	return arm(cq, ibv, solicited_only, LED_ARMED_ANY);
}
