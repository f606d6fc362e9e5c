/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"

LED_NOINLINE void led_uncount_from(struct sp_qp *qp, uint32_t n)
{
	struct led_psn *psn = &qp->sq.psn;

	for (; n != qp->sq.head; n++)
		psn->ahead -= led_more_packets_of(psn, &led_slot(qp, n)->wr);
}

/*
 * Undoes what would have gone straight to the provider: the application gets these requests back.
 */
LED_NOINLINE void led_unpost(struct sp_qp *qp, uint32_t n)
{
	led_uncount(qp, n);
	led_unwrite(qp, n);
}

/* The carrier gets the next request, and has got none so far. */
void led_psn_begin(struct sp_qp *qp, const struct sp_carrier *c)
{
	led_psn_end(qp);
	if (!c->mtu)
		return;
	qp->sq.psn.on = true;
	qp->sq.psn.shift = (uint8_t)__builtin_ctz(c->mtu);
	qp->sq.psn.ahead = c->psn - led_pub(qp);
	if (!c->xlat)
		qp->sq.psn.limit = c->mtu;
}

/* Ends the count: from here on there may be requests whose numbers are not those of packets. */
void led_psn_end(struct sp_qp *qp)
{
	qp->sq.psn = (struct led_psn){ .limit = LED_PSN_NO_LIMIT };
}

void led_qp_number(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu)
{
	struct sp_carrier *c;

	led_qp_lock(qp);
	c = sp_carrier_at(qp, epoch);
	if (c && !qp->plain) {
		c->psn = psn;
		c->mtu = mtu;
		if (c == qp->tx)
			led_psn_begin(qp, c);
	}
	led_qp_unlock(qp);
}

/*
 * True if the packet numbers of what is outstanding are known: all was published on this carrier.
 * Behind a recall they are not, as fences and log WQEs before those requests are forgotten.
 */
static bool numbers_known(const struct sp_qp *qp)
{
	return qp->sq.psn.on && !qp->sq.owes && !qp->tx->recalled;
}

static uint32_t fences_before(const struct sp_qp *qp, uint32_t n)
{
	return qp->sq.psn.fenced && qp->sq.psn.fence == n;
}

/* Reports one request. One that ran on an earlier carrier takes no packet here. */
static void tell_one(const struct sp_qp *qp, uint32_t n, struct sp_request *info)
{
	uint8_t mark = *led_mark(qp, n);

	info->numbered = true;
	if (!(mark & LED_MARK_DELIVERED))
		info->packets = led_more_packets_of(&qp->sq.psn, &led_slot(qp, n)->wr) + 1;
	info->behind = (uint8_t)(!!(mark & LED_MARK_LOGGED) + fences_before(qp, n + 1));
}

/*
 * Counts from the newest back: its last packet has the number before the next one. All locks held.
 */
void led_psn_tell(const struct sp_qp *qp, struct sp_request *info, uint32_t have)
{
	uint32_t next = led_pub(qp) + qp->sq.psn.ahead, tail = led_tail(qp);
	struct sp_request one;

	if (!numbers_known(qp) || (int32_t)(led_pub(qp) - tail) <= 0)
		return;
	for (uint32_t n = led_pub(qp); n != tail;) {
		struct sp_request *to = --n - tail < have ? &info[n - tail] : &one;

		to->packets = 0;
		tell_one(qp, n, to);
		next -= to->packets + to->behind;
		to->psn = next & LED_PSN_MASK;
	}
	/* a log WQE behind what is complete may still lie there */
	if (have)
		info->before = (uint8_t)(qp->tx->log.on + fences_before(qp, tail));
}
