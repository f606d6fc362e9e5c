/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Failed queues. Their completions are made from the ledger when they are polled, so that they need
 * no memory and stay bounded by what may be posted. All functions run under the CQ's lock.
 */
#include "providers/ledger/backlog.h"
#include "providers/ledger/errors.h"
#include "providers/ledger/failed.h"
#include "providers/ledger/recv.h"
#include "providers/common/failed_queues.h"

/* Completes the oldest request. False: it needs no completion. */
static bool failed_send(struct sp_qp *qp, struct ibv_wc *wc)
{
	struct sp_failed *f = &qp->tx_failed;
	uint32_t n = led_tail(qp);
	bool first = !f->first_done, signaled = led_signaled(qp, n);

	if (f->delivered) {
		f->delivered--;
		led_soft_send(qp, n, IBV_WC_SUCCESS, 0, wc);
		led_advance(qp, n + 1);
		return signaled;
	}
	f->first_done = true;
	led_soft_send(qp, n, first ? f->first : IBV_WC_WR_FLUSH_ERR, first ? f->vendor_err : 0, wc);
	led_advance(qp, n + 1);
	return true;
}

static bool failed_tx_next(struct sp_qp *qp, struct ibv_wc *wc)
{
	bool found = false;

	/* The poller itself may be between wr_start and wr_complete: it will poll again. */
	if (!sp_trylock(&qp->sq_lock))
		return false;
	while (!found && qp->sq.head != led_tail(qp))
		found = failed_send(qp, wc);
	sp_unlock(&qp->sq_lock);
	return found;
}

static bool failed_rx_next(struct sp_qp *qp, struct ibv_wc *wc)
{
	struct led_rq *rq = &qp->rq;
	uint32_t tail;
	bool found;

	if (qp->srq)
		return false; /* a shared queue's receives are not this QP's to flush */
	sp_lock(&qp->rq_lock);
	tail = atomic_load(&rq->tail);
	found = led_recv_head(rq) != tail;
	if (found) {
		*wc = (struct ibv_wc){ .wr_id = led_recv_slot(rq, tail)->wr_id,
				       .status = IBV_WC_WR_FLUSH_ERR,
				       .opcode = IBV_WC_RECV,
				       .qp_num = qp->app_qpn };
		atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
	}
	sp_unlock(&qp->rq_lock);
	return found;
}

/* While somebody posts, a poll finds nothing (failed_tx_next): better wake once too often. */
static bool failed_tx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (!sp_trylock(&qp->sq_lock))
		return true;
	waiting = qp->sq.head != led_tail(qp);
	sp_unlock(&qp->sq_lock);
	return waiting;
}

static bool failed_rx_waiting(struct sp_qp *qp)
{
	bool waiting;

	if (qp->srq)
		return false;
	sp_lock(&qp->rq_lock);
	waiting = led_recv_head(&qp->rq) != atomic_load(&qp->rq.tail);
	sp_unlock(&qp->rq_lock);
	return waiting;
}

bool led_failed_waiting(const struct sp_cq *cq)
{
	return sp_failed_waiting(cq);
}

bool led_failed_next(struct sp_cq *cq, struct ibv_wc *wc)
{
	struct sp_qp *qp;

	for (qp = cq->failed_tx; qp; qp = qp->tx_failed.next)
		if (failed_tx_next(qp, wc))
			return true;
	for (qp = cq->failed_rx; qp; qp = qp->rx_failed.next)
		if (failed_rx_next(qp, wc))
			return true;
	return false;
}

void led_failed_unlink(struct sp_qp *qp)
{
	sp_failed_unlink(qp);
}

/* -- fail -------------------------------------------------------------------------------------- */

static void fail_queues(struct sp_qp *qp)
{
	led_recvs_hold(qp, LED_FAILED);
	qp->tx_mode = qp->rx_mode = LED_FAILED;
	led_marked_unlink(qp);
	led_cq_refresh(qp->scq);
	led_cq_refresh(qp->rcq);
}

void led_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		 uint32_t n_delivered)
{
	led_qp_lock(qp);
	for (struct sp_carrier *c = qp->carriers; c; c = c->next)
		led_carrier_seal(c);
	if (!qp->tx_failed.on) {
		sp_failed_link(qp, first, vendor_err, n_delivered);
		fail_queues(qp);
		led_backlog_event(qp->scq, true);
		led_backlog_event(qp->rcq, true);
	}
	led_qp_unlock(qp);
}
