/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Error completions: each goes to the application, or into the carrier's account. */
#include "providers/ledger/errors.h"
#include "providers/ledger/log.h"
#include "providers/ledger/srq.h"

/* A receive asks for no packet: its status is never in doubt. */
static enum sp_error_class class_of(const struct sp_carrier *c, enum ibv_wc_status status,
				    bool send)
{
	if (send && status == IBV_WC_LOC_QP_OP_ERR && c->dev->down_is_op)
		return SP_ERROR_DOUBTFUL;
	return sp_error_class_of(status);
}

/*
 * Decides, by a carrier's first error, for all of them: pass on or withhold. A flush may be seen
 * before its cause, when the cause is on the other CQ: an application's own cause is reported even
 * then. Guarded, an error of a send is withheld, whatever its status: a sick NIC may have made it.
 */
static uint32_t error_mode(struct sp_carrier *c, const struct ibv_wc *wc, bool send)
{
	struct sp_qp *qp = c->qp;
	enum sp_error_class cls = class_of(c, wc->status, send);
	uint32_t none = LED_ERR_NONE, mode = LED_ERR_PASS, no_status = 0;
	bool first;

	if (atomic_load(&qp->withheld) ||
	    ((send || cls != SP_ERROR_APPLICATION) && atomic_load(&qp->guard)))
		mode = LED_ERR_WITHHOLD;
	first = atomic_compare_exchange_strong(&c->err_mode, &none, mode);
	if (!first)
		mode = none;
	if (wc->status != IBV_WC_WR_FLUSH_ERR &&
	    atomic_compare_exchange_strong(&c->app_status, &no_status, wc->status)) {
		atomic_store(&c->app_vendor, wc->vendor_err);
		first |= cls != SP_ERROR_TRANSPORT;
	}
	if (first)
		qp->dev->cb->qp_error(qp->cookie, c->epoch, cls, mode == LED_ERR_WITHHOLD,
				      wc->status, wc->vendor_err);
	return mode;
}

/*
 * Moves the tail to the first withheld error: all before it is acknowledged. There are two
 * exceptions. If a completion before it is missing, as where a CQ overran, nothing is known, and
 * the last completion is the position (settling asks the peer anyway). And delivered requests that
 * are not complete are not passed.
 */
static void withhold_send(struct sp_carrier *c, uint32_t n)
{
	struct sp_qp *qp = c->qp;
	uint32_t i;

	if (c->sq_err)
		return;
	c->sq_err = true;
	if ((int32_t)(n - led_tail(qp)) < 0)
		return;
	for (i = led_tail(qp); i != n; i++)
		if (led_completes(qp, i) || (*led_mark(qp, i) & LED_MARK_DELIVERED))
			return;
	led_advance(qp, n);
}

static bool take_send_error(struct sp_carrier *c, struct ibv_wc *wc, uint32_t mode)
{
	struct led_hidden *hidden = led_hidden_of(c, wc->wr_id);
	struct sp_qp *qp = c->qp;
	uint32_t n;

	if (hidden) {
		hidden->out = false;
		if (mode == LED_ERR_WITHHOLD)
			withhold_send(c, hidden->n);
		return false;
	}
	if (led_log_is(qp, wc->wr_id)) {
		if (mode == LED_ERR_WITHHOLD)
			withhold_send(c, led_log_behind(qp, wc->wr_id));
		return false;
	}
	if (!led_slot_number(qp, wc->wr_id, &n))
		return false;
	if (mode == LED_ERR_WITHHOLD) {
		withhold_send(c, n);
		return false;
	}
	wc->wr_id = led_slot(qp, n)->own.wr_id;
	led_advance(qp, n + 1);
	return true;
}

/* Takes an error completion. False: withheld. The CQ's lock is held. */
bool led_take_error(struct sp_carrier *c, struct ibv_wc *wc, bool send)
{
	uint32_t mode = error_mode(c, wc, send);
	struct led_rq *rq = &c->qp->rq;

	/* names the queue while the completion waits to be shown */
	wc->opcode = send ? IBV_WC_SEND : IBV_WC_RECV;
	if (mode == LED_ERR_WITHHOLD)
		led_cq_watch_locked(send ? c->qp->scq : c->qp->rcq);
	if (send)
		return take_send_error(c, wc, mode);
	if (mode == LED_ERR_WITHHOLD) {
		if (c->srq)
			led_srq_give_back(c, wc->wr_id);
		else
			c->rq_err = true;
		return false;
	}
	if (c->srq)
		return led_srq_take(c, wc);
	atomic_store_explicit(&rq->tail, atomic_load(&rq->tail) + 1, memory_order_release);
	return true;
}
