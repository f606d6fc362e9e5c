/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a move behind its quiesce: lay, settle, or fail. And keys that come late. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/ending.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/key.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/report/metrics.h"

#define MOVE_POLL_MAX_NS SH_NS_PER_MS

/* ---- what is outstanding --------------------------------------------------------------------- */

static uint32_t move_published(const struct sp_request *info, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && info[i].published; i++)
		;
	return i;
}

/* All outstanding requests. Only withheld ones can be added meanwhile: those of the end. */
struct sp_request *sh_move_outstanding(struct sh_qp *qp, uint32_t *n)
{
	uint32_t room = 64, count;
	struct sp_request *info = NULL, *grown;

	for (;;) {
		grown = realloc(info, room * sizeof(*info));
		if (!grown)
			break;
		info = grown;
		count = sp_qp_outstanding(qp->sp, info, room);
		if (count <= room) {
			*n = move_published(info, count);
			for (count = 0; count < *n; count++)
				info[count].uid = sh.config.atomics_uid;
			return info;
		}
		room = count + 64;
	}
	free(info);
	return NULL;
}

/* ---- lay, settle ---------------------------------------------------------------------------- */

static void move_answer(struct sh_qp *qp, enum sc_event_type type, uint32_t epoch,
			int ret) SH_LOCKED
{
	struct sc_event event = { .type = type, .ok = ret == 0, .epoch = epoch };

	if (type == SC_EV_RECEIVES_LAID)
		event.recv_count = sp_qp_recv_count(qp->sp);
	if (ret == -ENOENT)
		event.reason = SC_REASON_KEY;
	else if (ret == -EACCES)
		event.reason = SC_REASON_HOME;
	else if (ret == -EIO)
		event.reason = SC_REASON_FENCED_READ;
	else if (ret)
		event.reason = SC_REASON_RESOURCE;
	sh_conn_event(qp, &event);
}

/*
 * The peer sends again when it has our count, which comes behind this: by then it must have
 * heard of the keys that went away, as another region may have one of them; and no NIC that it
 * may send to has a region that the application has deregistered.
 */
static bool move_keys_heard(const struct sh_qp *qp)
{
	return !qp->peer || (int32_t)(qp->peer->keys_acked - qp->quiesce.keys) >= 0;
}

void sh_move_lay(struct sh_qp *qp, uint32_t epoch)
{
	struct sh_carrier *to = sh_carrier_find(qp, epoch);
	int ret = -EINVAL;

	if (to && to->sp && !(move_keys_heard(qp) && sh_late_over(qp->ctx, to->path)))
		ret = -ENOENT; /* asked again soon */
	else if (to && to->sp) {
		sh_carrier_reached(qp, to);
		SH_PARTS_TELL(move.receives, qp, to->path);
		ret = sp_qp_lay_receives(qp->sp, to->sp);
	}
	if (!ret)
		qp->receiving = to;
	if (!ret)
		SH_PARTS_TELL(move.laid, qp);
	move_answer(qp, SC_EV_RECEIVES_LAID, epoch, ret);
}

static void move_settled(struct sh_qp *qp, struct sh_carrier *to,
			 const struct sp_settled *settled) SH_LOCKED
{
	SH_PARTS_TELL(move.settled, qp, to, settled);
	SH_PARTS_TELL(move.carried, qp, to->path);
	sh_turn_over(qp);
	qp->active = qp->receiving = to;
	if (qp->standby == to)
		qp->standby = NULL;
	sh_fence_forget(qp);
	qp->error.peer_overran = qp->error.peer_outran = false;
	qp->error.status = IBV_WC_SUCCESS; /* that was the left carrier's */
	qp->error.vendor_err = 0;
	qp->mailbox.fruit.settled += settled->delivered;
	atomic_store(&qp->mailbox.error_ns, 0); /* an error that was told since is this move's */
}

/*
 * Lets WRITEs alone run from now on. A WRITE that the application saw complete may be lost with
 * the peer's NIC; no later request may tell the peer of it.
 */
static void move_restrict(struct sh_qp *qp)
{
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: its peer's NIC died; a WRITE that it had acknowledged may not be in the "
	       "peer's memory. More WRITEs run, the first other request ends the connection",
	       qp->qp->qp_num);
	sp_qp_writes_only(qp->sp);
}

/*
 * How many compare-and-swaps did a word decide? What is left over never ran, or its answer had
 * come.
 */
static void move_words_tell(const struct sh_qp *qp, const struct sp_request *info, uint32_t n,
			    const enum sp_fate *fates)
{
	uint32_t won = 0, again = 0;

	for (uint32_t i = 0; i < n; i++) {
		won += fates[i] == SP_FATE_WON;
		again += info[i].told && fates[i] == SP_FATE_RESEND;
	}
	sh_metrics_words(won, again);
	if (won || again)
		sh_log(SH_LOG_INFO,
		       "QP 0x%06x: by the words at its peer %u compare-and-swaps had swapped, and "
		       "%u "
		       "that had not run again",
		       qp->qp->qp_num, won, again);
}

static int move_carry_out(struct sh_qp *qp, struct sh_carrier *to, struct sp_request *info,
			  uint32_t n, struct sc_counts *counts, enum sc_reason *reason) SH_LOCKED
{
	enum sp_fate *fates = calloc(n + 1, sizeof(*fates));
	struct sc_verdict verdict;
	struct sp_settled settled;
	int ret;

	if (!fates)
		return -ENOMEM;
	if (SH_PARTS_ASK(fate.tell, qp, info, n, counts)) {
		free(fates);
		return -ENOENT; /* asked again soon */
	}
	sp_qp_send_counts(qp->sp, &counts->posted, &counts->done);
	*reason = sc_settle(info, n, counts, fates, &verdict);
	if (*reason == SC_REASON_ATOMIC && SH_PARTS_ASK(fate.ask, qp, info, n)) {
		*reason = SC_REASON_NONE;
		free(fates);
		return -ENOENT; /* asked again soon */
	}
	qp->error.delivered = verdict.delivered;
	SH_PARTS_TELL(fate.doubt, qp, &verdict);
	if (!*reason && verdict.unplaced)
		move_restrict(qp);
	ret = *reason ? -EPROTO : sp_qp_settle(qp->sp, to->sp, fates, n, &settled);
	if (!ret)
		move_words_tell(qp, info, n, fates);
	if (!ret)
		move_settled(qp, to, &settled);
	free(fates);
	return ret;
}

/* Was the carrier that the sends are in counted by the peer on a NIC of which it says that? */
static bool move_counted_on(const struct sh_qp *qp, uint32_t carriers_below)
{
	return carriers_below && (int32_t)(qp->active->epoch - carriers_below) < 0;
}

static int move_recall(struct sh_qp *qp, const struct sc_action *action, struct sc_counts *counts)
{
	if (!move_counted_on(qp, action->dead))
		return 0;
	counts->recalled = true;
	counts->cut = move_counted_on(qp, action->cut) && !sh.config.trust_unplaced;
	return sp_qp_recall(qp->sp, &counts->seen);
}

static int move_settle(struct sh_qp *qp, struct sh_carrier *to, const struct sc_action *action,
		       enum sc_reason *reason) SH_LOCKED
{
	struct sc_counts counts = { .peer = action->recv_count };
	struct sp_request *info;
	uint32_t n;
	int ret;

	if (to->to_rts)
		return -ENOENT; /* asked again soon, as for a key that is still to come */
	ret = move_recall(qp, action, &counts);
	if (ret) {
		*reason = SC_REASON_MISCOUNT;
		return ret;
	}
	ret = SH_PARTS_ASK(move.takes, qp, to);
	if (ret && ret != -EAGAIN && ret != -EACCES)
		return ret;
	SH_PARTS_TELL(fate.counts, qp, action, &counts);
	info = sh_move_outstanding(qp, &n);
	if (!info)
		return -EINVAL;
	SH_PARTS_TELL(move.sends, qp, to->path);
	ret = move_carry_out(qp, to, info, n, &counts, reason);
	free(info);
	return ret;
}

/* A count that lacks what was acknowledged is no NIC's fault where a queue overran. */
static enum sc_reason move_blame(const struct sh_qp *qp, enum sc_reason reason) SH_LOCKED
{
	bool overran = qp->error.peer_overran || sh_carriers_unseen(qp);

	return reason == SC_REASON_MISCOUNT && overran ? SC_REASON_OVERRUN : reason;
}

void sh_move_settle(struct sh_qp *qp, const struct sc_action *action)
{
	struct sc_event event = { .type = SC_EV_SETTLED, .epoch = action->epoch };
	struct sh_carrier *to = sh_carrier_find(qp, action->epoch);
	enum sc_reason reason = SC_REASON_NONE;
	int ret = to && to->sp ? move_settle(qp, to, action, &reason) : -EINVAL;

	if (reason) {
		event.reason = move_blame(qp, reason);
		sh_conn_event(qp, &event);
		return;
	}
	qp->error.delivered = 0;
	if (ret == -EACCES)
		(void)SH_PARTS_ASK(news.barred, qp, sh_now_ns());
	move_answer(qp, SC_EV_SETTLED, action->epoch, ret);
}

/* ---- completion queues ---------------------------------------------------------------------- */

void sh_move_withhold(struct sh_qp *qp)
{
	(void)sp_cq_collect(qp->scq->sp);
	sp_qp_withhold(qp->sp);
}

/* ---- fail ----------------------------------------------------------------------------------- */

/*
 * Stock's NIC would have found no region behind a key that is gone, and says whose key it was.
 * A region that is there, and could not be registered on the other NIC, is no error of the
 * application's: there the retries of the default NIC would have told.
 */
static enum ibv_wc_status move_key_status(const struct sh_qp *qp) SH_LOCKED
{
	uint64_t missing = atomic_load_explicit(&qp->mailbox.missing, memory_order_relaxed);
	bool remote = missing & SH_KEY_REMOTE;

	if (!sh_key_unknown(qp, (uint32_t)missing, remote))
		return IBV_WC_RETRY_EXC_ERR;
	return remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
}

static enum ibv_wc_status move_first_status(const struct sh_qp *qp, enum sc_reason reason) SH_LOCKED
{
	if (qp->error.status != IBV_WC_SUCCESS && qp->error.status != IBV_WC_WR_FLUSH_ERR)
		return qp->error.status;
	if (reason == SC_REASON_KEY)
		return move_key_status(qp);
	/* A flush without cause was the NIC's death; on stock the retry counter would have told. */
	return reason == SC_REASON_APPLICATION ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
}

/* Published, and of none is it known that it was executed. */
static uint32_t move_unknown(struct sh_qp *qp) SH_LOCKED
{
	uint32_t n = 0;
	struct sp_request *info = sh_move_outstanding(qp, &n);

	free(info);
	return info && n > qp->error.delivered ? n - qp->error.delivered : 0;
}

/* The peer's end has met the same error as this one, which its NIC's answer showed. */
static bool move_accused(const struct sh_qp *qp, enum sc_reason reason)
{
	return reason == SC_REASON_PEER_APPLICATION && qp->error.status != IBV_WC_SUCCESS &&
	       sp_error_class_of(qp->error.status) == SP_ERROR_APPLICATION;
}

/* A key that no region has is the program's error, whatever was going on. */
static bool move_erred(const struct sh_qp *qp, enum sc_reason reason,
		       enum ibv_wc_status first) SH_LOCKED
{
	return reason == SC_REASON_APPLICATION || move_accused(qp, reason) ||
	       (reason == SC_REASON_KEY && first != IBV_WC_RETRY_EXC_ERR && !qp->error.delivered);
}

static void move_fail_say(const struct sh_qp *qp, enum sc_reason reason)
{
	bool own = reason == SC_REASON_PEER_APPLICATION;

	sh_log(SH_LOG_INFO, "QP 0x%06x %s: %s", qp->qp->qp_num,
	       own ? "ends as on stock" : "could not be moved, the application gets its errors",
	       sc_reason_text(reason));
}

void sh_move_fail(struct sh_qp *qp, enum sc_reason reason)
{
	enum ibv_wc_status first = move_first_status(qp, reason);
	bool erred = move_erred(qp, reason, first);
	uint32_t unknown = erred ? 0 : move_unknown(qp);

	qp->error.erred = erred;
	if (!erred)
		move_fail_say(qp, reason);
	else if (reason != SC_REASON_APPLICATION)
		SH_PARTS_TELL(move.passed, qp, first);
	qp->quiesce.phase = SH_QUIESCE_NONE;
	qp->quiesce.next_at = 0;
	qp->publish.at = 0;
	sh_fence_forget(qp);
	sh_ending_begin(qp, first, qp->error.vendor_err, qp->error.delivered);
	SH_PARTS_TELL(move.failed, qp, erred ? SC_REASON_APPLICATION : reason, unknown);
	SH_PARTS_TELL(move.carried, qp, 0);
	sh_turn_over(qp);
}

/* ---- keys that came late -------------------------------------------------------------------- */

/* A request that may not run: all that is outstanding ends with it. */
static void move_refuse(struct sh_qp *qp, enum ibv_wc_status status,
			enum sc_reason reason) SH_LOCKED
{
	sh_ending_begin(qp, status, 0, 0);
	qp->app.state = IBV_QPS_ERR;
	if (reason == SC_REASON_APPLICATION)
		SH_PARTS_TELL(move.passed, qp, status);
	sh_conn_simple(qp, SC_EV_APP_ERROR, reason);
}

/* A key that nobody knows after all this time names no memory: the application's error. */
static void move_key_unknown(struct sh_qp *qp) SH_LOCKED
{
	enum ibv_wc_status status = move_key_status(qp);

	if (status == IBV_WC_LOC_PROT_ERR)
		sh_log(SH_LOG_WARN, "QP 0x%06x: a request names a memory key that no region has",
		       qp->qp->qp_num);
	else
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x: a request names a memory key that the peer does not know",
		       qp->qp->qp_num);
	if (status == IBV_WC_RETRY_EXC_ERR)
		SH_PARTS_TELL(move.failed, qp, SC_REASON_KEY, move_unknown(qp));
	move_refuse(qp, status,
		    status == IBV_WC_RETRY_EXC_ERR ? SC_REASON_KEY : SC_REASON_APPLICATION);
}

/* Ends a connection whose atomics would not be atomic with those of others. */
static void move_atomic_waited(struct sh_qp *qp, const char *why) SH_LOCKED
{
	uint32_t unknown;

	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: its atomics have waited too long for a NIC of the peer that runs all of "
	       "them, the application gets errors: %s",
	       qp->qp->qp_num, why);
	unknown = move_unknown(qp);
	SH_PARTS_TELL(move.failed, qp, SC_REASON_HOME, unknown);
	move_refuse(qp, IBV_WC_RETRY_EXC_ERR, SC_REASON_HOME);
}

/* move_restrict() had said so. */
static void move_not_a_write(struct sh_qp *qp) SH_LOCKED
{
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: a request that is not a WRITE behind one that may be lost: the "
	       "application "
	       "gets errors",
	       qp->qp->qp_num);
	SH_PARTS_TELL(move.failed, qp, SC_REASON_MISCOUNT, move_unknown(qp));
	move_refuse(qp, IBV_WC_RETRY_EXC_ERR, SC_REASON_MISCOUNT);
}

void sh_move_publish(struct sh_qp *qp, uint64_t now)
{
	int ret = sp_qp_publish(qp->sp);
	const char *why = NULL;

	qp->publish.at = 0;
	if (!ret) {
		qp->publish.since = 0;
		return;
	}
	if (ret == -EPROTO) {
		move_not_a_write(qp);
		return;
	}
	/* -EAGAIN: no place in the ring yet; a peer without receives may keep it full for ever */
	if (ret == -EAGAIN)
		qp->publish.since = 0;
	else if (!qp->publish.since)
		qp->publish.since = now;
	if (ret == -EACCES)
		why = SH_PARTS_ASK(news.barred, qp, now);
	if (qp->publish.since && now - qp->publish.since > sc_patience_ns(&qp->core.config))
		ret == -EACCES ? move_atomic_waited(qp, why) : move_key_unknown(qp);
	else
		qp->publish.at = now + MOVE_POLL_MAX_NS;
}

/*
 * A posted request names memory whose key on the backup is not known here yet: ask, and try
 * again.
 */
void sh_move_key_missing(struct sh_qp *qp)
{
	if (qp->peer)
		sh_keys_ask(qp->peer);
	sh_move_publish(qp, sh_now_ns());
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t publish_next_timer(const struct sh_qp *qp)
{
	return qp->publish.at;
}

const struct sh_conn_part sh_publish_part = {
	.name = "publish",
	.clock = { .next_timer = publish_next_timer, .run = sh_move_publish },
};
