/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mailbox of the data path: bits and figures in each connection, and a stack of connections
 * that have some. The background thread makes events of the core of them.
 */
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/outbox.h"

/* ---- on the data path ----------------------------------------------------------------------- */

void sh_mailbox_push(struct sh_qp *qp, enum sh_pending what)
{
	struct sh_qp *head;

	if (atomic_fetch_or_explicit(&qp->mailbox.pending, what, memory_order_acq_rel))
		return; /* the QP is on the stack already */
	head = atomic_load_explicit(&sh_conns.mail, memory_order_relaxed);
	do {
		atomic_store_explicit(&qp->mailbox.next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&sh_conns.mail, &head, qp, memory_order_release, memory_order_relaxed));
	sh_give_way_fault();
	sh_kick();
}

void sh_mailbox_note_error(struct sh_qp *qp, uint32_t epoch, uint32_t status, uint32_t vendor_err,
			   bool withheld)
{
	uint64_t none = 0;

	atomic_store(&qp->mailbox.error_epoch, epoch);
	atomic_store(&qp->mailbox.error_status, status);
	atomic_store(&qp->mailbox.error_vendor, vendor_err);
	atomic_store(&qp->mailbox.error_withheld, withheld);
	atomic_compare_exchange_strong(&qp->mailbox.error_ns, &none, sh_now_ns());
}

void sh_mailbox_note_app_error(struct sh_qp *qp, uint32_t epoch, uint32_t status,
			       uint32_t vendor_err)
{
	uint64_t none = 0;

	atomic_store(&qp->mailbox.app_error_epoch, epoch);
	atomic_compare_exchange_strong(&qp->mailbox.error_ns, &none, sh_now_ns());
	atomic_store(&qp->mailbox.app_error_status, status);
	atomic_store(&qp->mailbox.app_error_vendor, vendor_err);
}

/* ---- in the background thread --------------------------------------------------------------- */

/*
 * True if, as far as is known, no request has completed on any carrier since retries ran out
 * the last time.
 */
static bool mailbox_fruitless(struct sh_qp *qp, uint32_t epoch)
{
	uint32_t progress = atomic_load(&qp->mailbox.progress_epoch);
	bool delivered = qp->mailbox.fruit.settled != qp->mailbox.fruit.settled_before ||
			 progress != qp->mailbox.fruit.progress_before;

	qp->mailbox.fruit.settled_before = qp->mailbox.fruit.settled;
	qp->mailbox.fruit.progress_before = progress;
	return epoch && !delivered;
}

/*
 * The reason of an error that was passed on. One of the transport is the program's only where it
 * has stopped its queue pair; else the connection was lost without protection.
 */
static enum sc_reason mailbox_passed(struct sh_qp *qp, enum ibv_wc_status status) SH_LOCKED
{
	bool stopped = qp->app.state == IBV_QPS_ERR;

	qp->app.state = IBV_QPS_ERR;
	if (stopped)
		return SC_REASON_APPLICATION;
	SH_PARTS_TELL(move.passed, qp, status);
	return sp_error_class_of(status) == SP_ERROR_TRANSPORT ? SC_REASON_TRANSPORT
							       : SC_REASON_APPLICATION;
}

static void mailbox_error(struct sh_qp *qp) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_FAULT, .reason = SC_REASON_TRANSPORT };

	if (qp->error.ending.on && atomic_load(&qp->mailbox.error_withheld))
		return; /* SHIFT ends the connection: the flush of its own commands is no fault */
	event.epoch = atomic_load(&qp->mailbox.error_epoch);
	qp->error.status = (enum ibv_wc_status)atomic_load(&qp->mailbox.error_status);
	qp->error.vendor_err = atomic_load(&qp->mailbox.error_vendor);
	if (!atomic_load(&qp->mailbox.error_withheld)) {
		event.type = SC_EV_APP_ERROR;
		event.reason = mailbox_passed(qp, qp->error.status);
		atomic_store(&qp->mailbox.error_ns, 0);
	}
	sh_log(SH_LOG_DEBUG, "QP 0x%06x: first error on carrier %u is status %d (%s)",
	       qp->qp->qp_num, event.epoch, (int)qp->error.status,
	       event.type == SC_EV_FAULT ? "withheld" : "passed on");
	if (event.type == SC_EV_FAULT && qp->error.status == IBV_WC_RETRY_EXC_ERR) {
		SH_PARTS_TELL(news.blamed, qp, event.epoch);
		event.fruitless = mailbox_fruitless(qp, event.epoch);
	}
	sh_conn_event(qp, &event);
}

static void mailbox_take_app_error(struct sh_qp *qp) SH_LOCKED
{
	qp->error.status = (enum ibv_wc_status)atomic_load(&qp->mailbox.app_error_status);
	qp->error.vendor_err = atomic_load(&qp->mailbox.app_error_vendor);
}

/*
 * The application's own error, among completions that are withheld: a move cannot mend it (P6), so
 * all that is withheld is given back, this error first.
 */
void sh_mailbox_program(struct sh_qp *qp)
{
	bool stopped = qp->app.state == IBV_QPS_ERR;

	mailbox_take_app_error(qp);
	atomic_store(&qp->mailbox.error_ns, 0);
	qp->error.fails = true;
	qp->app.state = IBV_QPS_ERR;
	if (!stopped)
		SH_PARTS_TELL(move.passed, qp, qp->error.status);
	sh_conn_simple(qp, SC_EV_APP_ERROR, SC_REASON_APPLICATION);
	if (!qp->core.failed)
		sh_move_fail(qp, SC_REASON_APPLICATION);
}

void sh_mailbox_nic(struct sh_qp *qp)
{
	sh_mailbox_note_error(qp, atomic_load(&qp->mailbox.app_error_epoch),
			      atomic_load(&qp->mailbox.app_error_status),
			      atomic_load(&qp->mailbox.app_error_vendor), true);
	mailbox_error(qp);
}

/* Until somebody knows better, the error stands as the first one of the connection. */
static void mailbox_app_error(struct sh_qp *qp) SH_LOCKED
{
	mailbox_take_app_error(qp);
	if (!SH_PARTS_ASK(news.accused, qp, atomic_load(&qp->mailbox.app_error_epoch),
			  qp->error.status))
		sh_mailbox_program(qp);
}

/*
 * A link that went down since the carrier was made is the cause, or will be of the next error:
 * it is the next carrier that shows whether the request was at fault, as it comes to the same
 * end there.
 */
static void mailbox_doubt(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_carrier *carrier =
		sh_carrier_find(qp, atomic_load(&qp->mailbox.doubt_epoch));
	uint32_t status = atomic_load(&qp->mailbox.doubt_status);
	uint32_t vendor_err = atomic_load(&qp->mailbox.doubt_vendor);

	if (!carrier)
		return; /* settling did without that carrier's error */
	if (!sh_carrier_link_was_lost(carrier)) {
		sh_mailbox_note_app_error(qp, carrier->epoch, status, vendor_err);
		mailbox_app_error(qp);
		return;
	}
	sh_mailbox_note_error(qp, carrier->epoch, status, vendor_err, true);
	mailbox_error(qp);
}

static void mailbox_open(struct sh_qp *qp, uint32_t pending) SH_LOCKED
{
	if (!qp->conn_id)
		return;
	sh_clock_touch(qp);
	if (pending & SH_PENDING_APP_ERROR)
		mailbox_app_error(qp);
	else if (pending & SH_PENDING_ERROR)
		mailbox_error(qp);
	if (pending & SH_PENDING_DOUBT)
		mailbox_doubt(qp);
	if (pending & SH_PENDING_KEY)
		sh_move_key_missing(qp);
	if (pending & SH_PENDING_GATED)
		SH_PARTS_TELL(news.gated, qp, sh_now_ns());
	if (pending & SH_PENDING_PROGRESS)
		SH_PARTS_TELL(news.progressed, qp);
}

void sh_mailbox_read(void)
{
	struct sh_qp *qp = atomic_exchange_explicit(&sh_conns.mail, NULL, memory_order_acquire);

	sh_outbox_hold();
	while (qp) {
		/* next before pending: with pending 0 the data path may push the QP again. */
		struct sh_qp *next = atomic_load_explicit(&qp->mailbox.next, memory_order_relaxed);
		uint32_t pending =
			atomic_exchange_explicit(&qp->mailbox.pending, 0, memory_order_acq_rel);

		mailbox_open(qp, pending);
		qp = next;
	}
	sh_outbox_release();
}

static void mailbox_run(uint64_t now) SH_LOCKED
{
	(void)now;
	sh_mailbox_read();
}

/* Read before anything else, and again behind the look for errors that nobody polls. */
const struct sh_module sh_mailbox_module = {
	.name = "mailbox",
	.heard = sh_mailbox_read,
	.run = mailbox_run,
};
