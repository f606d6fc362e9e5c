/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The recall: the peer's NIC died, and may have lost what it had acknowledged, so what the
 * application has not seen complete is outstanding again. The data path keeps no record of what the
 * application has seen. But each signaled request has one completion, in order: those in the
 * backlog are of the last requests before the tail. Slots keep what they had until they are used
 * again.
 */
#include "providers/ledger/backlog.h"
#include "providers/ledger/move.h"

/* True if this carrier got a request before number n that is still in its slot. */
static bool step_back(const struct sp_carrier *c, uint32_t n)
{
	return n != c->first && led_written(&c->qp->sq) - (n - 1) <= c->qp->sq.mask + 1;
}

/*
 * Steps back to behind the last request whose completion the application has, if `unseen`
 * completions are still here.
 */
static bool back_to_seen(const struct sp_carrier *c, uint32_t *n, uint32_t unseen)
{
	uint32_t at = *n;

	while (step_back(c, at)) {
		if (led_signaled(c->qp, at - 1) && !unseen--)
			return true;
		*n = --at;
	}
	return !unseen;
}

/* Requests that moved no data prove nothing and lose nothing. */
static enum sp_last_seen last_seen(const struct sp_carrier *c, uint32_t n)
{
	for (; step_back(c, n); n--) {
		enum sp_request_kind kind = led_kind_of(c->qp, n - 1);
		bool data = led_slot(c->qp, n - 1)->wr.num_sge;

		if (kind == SP_REQ_TWO_SIDED || (kind == SP_REQ_READ && data))
			return SP_SEEN_SAFE;
		if (kind == SP_REQ_ATOMIC || (kind == SP_REQ_WRITE && data))
			return SP_SEEN_UNPLACED;
	}
	return n != c->first ? SP_SEEN_UNPLACED : SP_SEEN_SAFE;
}

/* All locks held. */
static int recall(struct sp_carrier *c, enum sp_last_seen *seen)
{
	struct sp_qp *qp = c->qp;
	uint32_t n = led_tail(qp), acked = n;

	if (!back_to_seen(c, &n, led_backlog_take_back(qp->scq, c, true)))
		return -EIO;
	if (!c->recalled)
		c->acked = acked;
	c->recalled = true;
	led_backlog_take_back(qp->scq, c, false);
	led_cq_refresh(qp->scq);
	atomic_store(&qp->tail, n);
	qp->sq.limit = qp->sq.head; /* the next post asks anew */
	qp->send_counted = n;
	*seen = last_seen(c, n);
	return 0;
}

int led_qp_recall(struct sp_qp *qp, enum sp_last_seen *seen)
{
	int err;

	led_qp_lock(qp);
	err = recall(qp->tx, seen);
	led_qp_unlock(qp);
	return err;
}

void led_qp_writes_only(struct sp_qp *qp)
{
	led_qp_lock(qp);
	qp->tx_mode |= LED_WRITES;
	led_qp_unlock(qp);
}

bool led_recalled_answer(const struct sp_qp *qp, uint32_t n)
{
	enum sp_request_kind kind = led_kind_of(qp, n);

	return qp->tx->recalled && (int32_t)(n - qp->tx->acked) < 0 &&
	       led_slot(qp, n)->wr.num_sge && (kind == SP_REQ_READ || kind == SP_REQ_ATOMIC);
}
