/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_req_notify_cq: who waits for an event of a CQ, and whether it was told. */
#include "providers/ledger/backlog.h"
#include "providers/ledger/failed.h"

static bool armings_open(struct led_armings *armings)
{
	return atomic_load(&armings->count) != atomic_load(&armings->told);
}

/* Does the application wait for an event, and for which? */
enum led_armed led_cq_armed(struct sp_cq *cq)
{
	if (armings_open(&cq->armings[LED_ARMED_ANY]))
		return LED_ARMED_ANY;
	return armings_open(&cq->armings[LED_ARMED_SOLICITED]) ? LED_ARMED_SOLICITED
							       : LED_ARMED_NOT;
}

/* An event answers all armings so far. Without the lock. */
bool led_cq_event_read(struct sp_cq_ring *ring)
{
	for (int kind = LED_ARMED_ANY; kind < LED_ARMED_NOT; kind++) {
		struct led_armings *armings = &ring->cq->armings[kind];

		atomic_store(&armings->told, atomic_load(&armings->count));
	}
	return atomic_load_explicit(&ring->cq->slow_to_arm, memory_order_relaxed);
}

/* Its own ring is armed. */
static LED_NOINLINE int arm_others(struct sp_cq *cq, enum led_armed kind, int err)
{
	bool solicited = kind == LED_ARMED_SOLICITED;

	sp_lock(&cq->lock);
	for (struct sp_cq_ring *r = cq->ring.next; r; r = r->next)
		if (r->live)
			(void)r->dev->saved.req_notify_cq(r->real, solicited);
	if (cq->slow)
		err = 0; /* one of them is a dead NIC's */
	/* as a NIC does for completions behind the consumer index */
	if (led_has_ahead(cq) || cq->first || cq->marked || led_failed_waiting(cq))
		led_backlog_event(cq, true);
	sp_unlock(&cq->lock);
	return err;
}

/*
 * Without the lock: first the provider's CQ, then the count, then whether there is more than that. Who takes
 * completions out of it, or has some that no device will tell of, does the same from the other end. And who
 * reads an event takes what is counted for answered: an arming behind the event is not yet.
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
 * Who drives it meanwhile shows it first, and asks for armings then: it hears of this one, or this one sees that
 * it is driven.
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
