/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a move: quiesce, count, lay, settle, or fail. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

#define MOVE_POLL_MIN_NS  (20 * SH_NS_PER_US)
#define MOVE_POLL_MAX_NS  SH_NS_PER_MS
#define MOVE_POLL_SICK_NS (10 * SH_NS_PER_MS)

/* ---- quiesce: every carrier that is left, to ERR -------------------------------------------- */

struct quiesce_job {
	struct sh_job job;
	struct sh_qp *qp;
	uint32_t epoch;
	struct ibv_qp *real;
	bool own; /* the application's QP: its state word is the application's to read */
	enum ibv_qp_state believed;
	bool lost;
};

/* Firmware that is sick answers EIO too, but what the kernel knows of it is still there to ask. */
bool sh_device_gone(struct ibv_context *context)
{
	struct ibv_device_attr attr;

	return sh.real->query_device(context, &attr) == EIO;
}

static void quiesce_run(struct sh_job *job)
{
	struct quiesce_job *task = (struct quiesce_job *)job;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	sh.real->thread_inside();
	task->lost = sh.real->modify_qp(task->real, &attr, IBV_QP_STATE) == EIO &&
		     sh_device_gone(task->real->context);
	if (task->own)
		task->real->state = task->believed;
}

static bool move_quiescing(const struct sh_qp *qp)
{
	return qp->quiesce.phase == SH_QUIESCE_COMMAND ||
	       qp->quiesce.phase == SH_QUIESCE_FLUSHING || qp->quiesce.phase == SH_QUIESCE_SICK;
}

/* Carriers that nothing may run on any more: all before the one to come. */
static bool carrier_left(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return carrier->nic && carrier->qp && (int32_t)(carrier->epoch - qp->quiesce.epoch) < 0;
}

static bool move_commands_done(const struct sh_qp *qp)
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (carrier_left(qp, &qp->carriers.slot[i]) && !qp->carriers.slot[i].in_error)
			return false;
	return true;
}

static void quiesce_done(struct sh_job *job)
{
	struct quiesce_job *task = (struct quiesce_job *)job;
	struct sh_qp *qp = task->qp;
	struct sh_worker *worker = NULL;
	struct sh_carrier *carrier;

	pthread_mutex_lock(&sh.lock);
	carrier = sh_carrier_find(qp, task->epoch);
	if (carrier && carrier->qp == task->real) {
		worker = carrier->nic->worker;
		carrier->in_error = true;
		carrier->lost = task->lost;
	}
	if (qp->conn_id && qp->quiesce.phase == SH_QUIESCE_COMMAND && move_commands_done(qp))
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
	if (qp->conn_id && move_quiescing(qp)) {
		sh_conn_touch(qp);
		sh_peers.outs_held++;
		sh_move_collect(qp, sh_now_ns());
		sh_peers.outs_held--;
		/* the peer waits for this; what the next commands' connections say goes with it */
		if (!worker || sh_worker_empty(worker))
			sh_outbox_send_out();
		else
			sh_outbox_send_soon();
		sh_wake_for(qp);
	}
	sh_job_end(&qp->busy);
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

static void quiesce_submit(struct sh_qp *qp, struct sh_carrier *carrier)
{
	struct quiesce_job *task = calloc(1, sizeof(*task));

	if (!task)
		return; /* not final then: the timer says so */
	*task = (struct quiesce_job){
		.job = { .fn = quiesce_run, .done = quiesce_done, .urgent = true },
		.qp = qp,
		.epoch = carrier->epoch,
		.real = carrier->qp,
		.own = carrier == qp->carriers.slot,
		.believed = qp->app.state,
	};
	sh_job_begin(&qp->busy);
	if (carrier->nic->worker && !sh_worker_submit(carrier->nic->worker, &task->job)) {
		carrier->to_error = true;
		return;
	}
	sh_job_end(&qp->busy);
	free(task);
}

void sh_move_quiesce(struct sh_qp *qp, uint32_t epoch)
{
	uint64_t now = sh_now_ns();
	int i;

	memset(&qp->quiesce, 0, sizeof(qp->quiesce));
	qp->quiesce.phase = SH_QUIESCE_COMMAND;
	qp->quiesce.epoch = epoch;
	qp->quiesce.keys = sh_keys_last();
	qp->quiesce.since = now;
	qp->quiesce.interval = MOVE_POLL_MIN_NS;
	qp->quiesce.next_at = now + sh.config.flush_wait_ns; /* for a command that hangs */
	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (carrier_left(qp, &qp->carriers.slot[i]) && !qp->carriers.slot[i].to_error)
			quiesce_submit(qp, &qp->carriers.slot[i]);
	if (move_commands_done(qp)) { /* by an earlier move that did not reach its carrier */
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
		qp->quiesce.next_at = now;
	}
}

/*
 * A sick NIC said "done" and flushed nothing, so there is no final count. It was probed again: if that took
 * the old device away, nothing can add to the count any more, which ends the wait also where both
 * NICs of a path were sick.
 */
void sh_move_nic_reopened(const struct sh_nic *nic)
{
	struct sh_qp *qp;
	int i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 0; qp->quiesce.phase == SH_QUIESCE_SICK && i < SH_MAX_CARRIERS; i++)
			if (qp->carriers.slot[i].nic == nic &&
			    carrier_left(qp, &qp->carriers.slot[i]) &&
			    qp->carriers.slot[i].in_error && sh_carrier_dead(&qp->carriers.slot[i]))
				quiesce_submit(qp, &qp->carriers.slot[i]);
}

/* ---- drain: how far is it flushed? ---------------------------------------------------------- */

static bool move_collect_cqs(struct sh_qp *qp, struct sp_flushed *flushed)
{
	int ret = sp_cq_collect(qp->scq->sp);

	if (!ret && qp->rcq != qp->scq)
		ret = sp_cq_collect(qp->rcq->sp);
	sp_qp_flushed(qp->sp, move_commands_done(qp), flushed);
	return !ret;
}

/*
 * Can nothing of the old carriers count any more? Sends lie in the one that was in use, receives
 * there or in one that a move had reached before it died. A dying NIC must have shown it
 * (sp_flushed).
 */
static bool move_final(const struct sh_qp *qp, const struct sp_flushed *flushed)
{
	const struct sh_carrier *tx = qp->active, *rx = qp->receiving;
	bool tx_shown = flushed->error_seen || !sh_carrier_dead(tx);
	bool rx_shown = flushed->error_seen || !sh_carrier_dead(rx);

	return move_commands_done(qp) && (tx->lost || (flushed->sq && tx_shown)) &&
	       (rx->lost || (flushed->rq && rx_shown));
}

static uint32_t move_published(const struct sp_request *info, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && info[i].published; i++)
		;
	return i;
}

/* All outstanding requests. Only withheld ones can be added meanwhile: those of the end. */
static struct sp_request *move_outstanding(struct sh_qp *qp, uint32_t *n)
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
			return info;
		}
		room = count + 64;
	}
	free(info);
	return NULL;
}

/*
 * What comes to a QP that is connected to itself is what it sends. If all that was published is
 * complete, and all that had to arrive has, then nothing more can, whatever its NIC does.
 */
static bool move_talks_to_nobody(struct sh_qp *qp, const struct sp_flushed *flushed)
{
	uint32_t n = 1, posted, done;
	struct sp_request *info;

	if (!sh_self_connected(qp))
		return false;
	info = move_outstanding(qp, &n);
	if (info)
		sp_qp_send_counts(qp->sp, &posted, &done);
	free(info);
	return info && !n && done == flushed->recv_count;
}

/* Flush completions may have come, and nobody will ever know: not the NIC's fault. */
static bool move_unseen(const struct sh_qp *qp)
{
	return qp->scq->overrun || qp->rcq->overrun;
}

/* Whose flush, or whose command, does not come: how many. */
static int move_blamed(const struct sh_qp *qp, const struct sp_flushed *flushed,
		       struct sh_nic *blamed[SH_MAX_CARRIERS])
{
	int i, n = 0;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		const struct sh_carrier *carrier = &qp->carriers.slot[i];
		bool bad = !carrier->in_error || (carrier == qp->active && !flushed->sq) ||
			   (carrier == qp->receiving && !flushed->rq);

		if (carrier_left(qp, carrier) && bad &&
		    carrier->incarnation == carrier->nic->incarnation)
			blamed[n++] = carrier->nic;
	}
	return n;
}

/* obeyed: the NIC has flushed what was left. */
static void move_quiesced(struct sh_qp *qp, const struct sp_flushed *flushed, bool final,
			  bool obeyed)
{
	struct sh_nic *nic = qp->active->nic; /* what the event sets off may move the QP */
	bool present = qp->active->incarnation == nic->incarnation && !qp->active->lost;
	struct sc_event event = { .type = SC_EV_QUIESCED,
				  .final = final,
				  .disassociated = qp->active->lost && qp->receiving->lost,
				  .recv_count = flushed->recv_count,
				  .epoch = qp->quiesce.epoch };
	struct sh_nic *blamed[SH_MAX_CARRIERS];
	int n = final || move_unseen(qp) ? 0 : move_blamed(qp, flushed, blamed);

	qp->quiesce.phase = final ? SH_QUIESCE_DONE : SH_QUIESCE_SICK;
	qp->quiesce.next_at = final ? 0 : sh_now_ns() + MOVE_POLL_SICK_NS;
	sh_conn_event(qp, &event);
	while (n--)
		sh_nic_sick(blamed[n]);
	if (obeyed && present)
		sh_nic_obeys(nic);
}

static void move_look_again(struct sh_qp *qp, uint64_t now)
{
	qp->quiesce.next_at = now + qp->quiesce.interval;
	if (qp->quiesce.interval < MOVE_POLL_MAX_NS)
		qp->quiesce.interval *= 2;
}

static bool move_hopeless(const struct sh_qp *qp)
{
	return (sh_carrier_dead(qp->active) && qp->active->nic->fatal) ||
	       (sh_carrier_dead(qp->receiving) && qp->receiving->nic->fatal) || move_unseen(qp);
}

/*
 * Called when a command has returned and then at short intervals. A device that is known to be
 * dead is not waited for; one that takes longer than flush_wait counts as sick, and the core goes
 * the long way (recounts). It is still looked at now and then: a flush that comes late, or a command
 * that was only slow, makes the count final after all.
 */
void sh_move_collect(struct sh_qp *qp, uint64_t now)
{
	bool patient = now - qp->quiesce.since < sh.config.flush_wait_ns &&
		       !(move_hopeless(qp) && move_commands_done(qp));
	struct sp_flushed flushed;
	bool drained, obeyed;

	qp->quiesce.next_at = 0;
	if (!move_quiescing(qp))
		return;
	drained = move_collect_cqs(qp, &flushed);
	obeyed = drained && move_final(qp, &flushed);
	sh_mailbox_read(); /* an application error found on the way comes before QUIESCED */
	if (!move_quiescing(qp))
		return; /* which may have ended the move */
	if (obeyed || (drained && move_talks_to_nobody(qp, &flushed)))
		move_quiesced(qp, &flushed, true, obeyed);
	else if (qp->quiesce.phase == SH_QUIESCE_SICK)
		qp->quiesce.next_at = now + MOVE_POLL_SICK_NS;
	else if (patient || !drained)
		move_look_again(qp, now);
	else
		move_quiesced(qp, &flushed, false, false);
}

/* The count is final: nobody looks at the old carrier any more, whatever its NIC still does. */
void sh_move_seal(struct sh_qp *qp)
{
	qp->quiesce.phase = SH_QUIESCE_DONE;
	qp->quiesce.next_at = 0;
	sp_qp_seal(qp->sp);
}

void sh_move_recount(struct sh_qp *qp)
{
	struct sp_flushed flushed;
	bool drained = move_collect_cqs(qp, &flushed), obeyed;

	if (!drained) { /* its holder drains it; the core must get its answer */
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
		qp->quiesce.next_at = sh_now_ns() + MOVE_POLL_MAX_NS;
		return;
	}
	obeyed = move_final(qp, &flushed);
	move_quiesced(qp, &flushed, obeyed || move_talks_to_nobody(qp, &flushed), obeyed);
}

/* ---- lay, settle ---------------------------------------------------------------------------- */

static void move_answer(struct sh_qp *qp, enum sc_event_type type, uint32_t epoch, int ret)
{
	struct sc_event event = { .type = type, .ok = ret == 0, .epoch = epoch };

	if (type == SC_EV_RECEIVES_LAID)
		event.recv_count = sp_qp_recv_count(qp->sp);
	if (ret == -ENOENT)
		event.reason = SC_REASON_KEY;
	else if (ret == -EIO)
		event.reason = SC_REASON_FENCED_READ;
	else if (ret)
		event.reason = SC_REASON_RESOURCE;
	sh_conn_event(qp, &event);
}

/*
 * The peer sends again when it has our count, which comes behind this: by then it must have heard of the
 * keys that went away, as another region may have one of them.
 */
static bool move_keys_heard(const struct sh_qp *qp)
{
	return !qp->peer || (int32_t)(qp->peer->keys_acked - qp->quiesce.keys) >= 0;
}

void sh_move_lay(struct sh_qp *qp, uint32_t epoch)
{
	struct sh_carrier *to = sh_carrier_find(qp, epoch);
	int ret = -EINVAL;

	if (to && to->sp && !move_keys_heard(qp))
		ret = -ENOENT; /* asked again soon */
	else if (to && to->sp) {
		sh_loopback_receive(qp, to->path);
		ret = sp_qp_lay_receives(qp->sp, to->sp);
	}
	if (!ret)
		qp->receiving = to;
	if (!ret && qp->srq)
		sh_srq_look(qp->srq);
	move_answer(qp, SC_EV_RECEIVES_LAID, epoch, ret);
}

static void move_settled(struct sh_qp *qp, struct sh_carrier *to, const struct sp_settled *settled)
{
	struct sh_move *move = qp->stats.move;
	uint64_t now = sh_now_ns();

	sh_stats_settled(qp, settled);
	sh_incident_settled(qp, to, settled);
	sh_metrics_path(qp, to->path);
	qp->active = qp->receiving = to;
	if (qp->standby == to)
		qp->standby = NULL;
	sh_fence_forget(qp);
	atomic_store(&qp->mailbox.error_ns, 0); /* what was told since is this move's */
	if (!move)
		return;
	memcpy(move->to, to->nic->name, sizeof(move->to));
	move->path = to->path;
	move->settled_ns = now;
	move->settled = settled->delivered;
	move->resubmitted = settled->resent;
	move->published = settled->published;
	if (settled->delivered && !move->first_completion_ns)
		move->first_completion_ns = now;
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x moved from %s to %s (%s): %u requests sent again, %u settled, %u that "
	       "had waited",
	       qp->qp->qp_num, move->from, move->to, move->reason, settled->resent,
	       settled->delivered, settled->published);
}

static int move_carry_out(struct sh_qp *qp, struct sh_carrier *to, const struct sp_request *info,
			  uint32_t n, uint32_t peer_count, enum sc_reason *reason)
{
	enum sp_fate *fates = calloc(n + 1, sizeof(*fates));
	uint32_t posted, done;
	struct sp_settled settled;
	int ret;

	if (!fates)
		return -ENOMEM;
	sp_qp_send_counts(qp->sp, &posted, &done);
	*reason = sc_settle(info, n, done, posted, peer_count, fates, &qp->error.delivered);
	ret = *reason ? -EPROTO : sp_qp_settle(qp->sp, to->sp, fates, n, &settled);
	if (!ret)
		move_settled(qp, to, &settled);
	free(fates);
	return ret;
}

void sh_move_settle(struct sh_qp *qp, uint32_t epoch, uint32_t peer_count)
{
	struct sc_event event = { .type = SC_EV_SETTLED, .epoch = epoch };
	struct sh_carrier *to = sh_carrier_find(qp, epoch);
	enum sc_reason reason = SC_REASON_NONE;
	struct sp_request *info;
	int ret = -EINVAL;
	uint32_t n;

	info = to && to->sp ? move_outstanding(qp, &n) : NULL;
	if (info && qp->carriers.rts_jobs) {
		ret = -ENOENT; /* asked again soon, as for a key that is still to come */
	} else if (info) {
		sh_loopback_move(qp, to->path);
		ret = move_carry_out(qp, to, info, n, peer_count, &reason);
	}
	free(info);
	if (reason) {
		event.reason = reason;
		sh_conn_event(qp, &event);
		return;
	}
	qp->error.delivered = 0;
	move_answer(qp, SC_EV_SETTLED, epoch, ret);
}

/* ---- fail ----------------------------------------------------------------------------------- */

struct error_job {
	struct sh_job job;
	struct sh_qp *qp;
	struct ibv_qp *real;
};

static void error_run(struct sh_job *job)
{
	struct error_job *task = (struct error_job *)job;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	sh.real->thread_inside();
	sh.real->modify_qp(task->real, &attr, IBV_QP_STATE);
}

static void error_done(struct sh_job *job)
{
	struct error_job *task = (struct error_job *)job;

	pthread_mutex_lock(&sh.lock);
	sh_job_end(&task->qp->busy);
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

static void carrier_to_error(struct sh_qp *qp, const struct sh_carrier *carrier)
{
	struct error_job *task;

	if (!carrier->qp || !carrier->nic->worker)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct error_job){ .job = { .fn = error_run, .done = error_done, .urgent = true },
				    .qp = qp,
				    .real = carrier->qp };
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(carrier->nic->worker, &task->job))
		return;
	sh_job_end(&qp->busy);
	free(task);
}

/* Nothing of this connection may run any more, in hardware either. */
static void move_all_to_error(struct sh_qp *qp)
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (qp->carriers.slot[i].nic && !qp->carriers.slot[i].to_error)
			carrier_to_error(qp, &qp->carriers.slot[i]);
}

static enum ibv_wc_status move_first_status(const struct sh_qp *qp, enum sc_reason reason)
{
	if (qp->error.status != IBV_WC_SUCCESS && qp->error.status != IBV_WC_WR_FLUSH_ERR)
		return qp->error.status;
	/* A flush without cause was the NIC's death; on stock the retry counter would have told. */
	return reason == SC_REASON_APPLICATION ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
}

/* What completed well, and lies unpolled, is told before the errors, as on stock. */
static void move_fail_all(struct sh_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			  uint32_t n_delivered)
{
	sp_cq_collect(qp->scq->sp);
	if (qp->rcq != qp->scq)
		sp_cq_collect(qp->rcq->sp);
	sp_qp_fail(qp->sp, first, vendor_err, n_delivered);
}

/* Published, and of none is it known that it was executed. */
static uint32_t move_unknown(struct sh_qp *qp)
{
	uint32_t n = 0;
	struct sp_request *info = move_outstanding(qp, &n);

	free(info);
	return info && n > qp->error.delivered ? n - qp->error.delivered : 0;
}

void sh_move_fail(struct sh_qp *qp, enum sc_reason reason)
{
	uint32_t unknown = reason == SC_REASON_APPLICATION ? 0 : move_unknown(qp);

	if (qp->stats.move && !qp->stats.move->settled_ns)
		qp->stats.move->ended = true;
	if (reason != SC_REASON_APPLICATION)
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x could not be moved, the application gets its errors: %s",
		       qp->qp->qp_num, sc_reason_text(reason));
	qp->quiesce.phase = SH_QUIESCE_NONE;
	qp->quiesce.next_at = 0;
	qp->publish.at = 0;
	sh_fence_forget(qp);
	move_fail_all(qp, move_first_status(qp, reason), qp->error.vendor_err, qp->error.delivered);
	sh_incident_failed(qp, reason, unknown);
	sh_metrics_path(qp, 0);
	move_all_to_error(qp);
	sh_loopback_forget(qp); /* behind the failing, or what waits would run */
	sh_srq_ended(qp);
}

/* ---- keys that came late -------------------------------------------------------------------- */

/* A key that nobody knows after all this time names no memory: the application's error. */
static void move_key_unknown(struct sh_qp *qp)
{
	sh_log(SH_LOG_WARN, "QP 0x%06x: a request names a memory key that the peer does not know",
	       qp->qp->qp_num);
	move_fail_all(qp, IBV_WC_REM_ACCESS_ERR, 0, 0);
	move_all_to_error(qp);
	qp->app.state = IBV_QPS_ERR;
	sh_conn_simple(qp, SC_EV_APP_ERROR, SC_REASON_KEY);
	sh_srq_ended(qp);
}

void sh_move_publish(struct sh_qp *qp, uint64_t now)
{
	int ret = sp_qp_publish(qp->sp);

	qp->publish.at = 0;
	if (!ret) {
		qp->publish.since = 0;
		return;
	}
	/* -EAGAIN: no place in the ring yet, which a peer without receives may keep full for ever */
	if (ret == -EAGAIN)
		qp->publish.since = 0;
	else if (!qp->publish.since)
		qp->publish.since = now;
	if (qp->publish.since && now - qp->publish.since > sh.config.core.deadline_ns)
		move_key_unknown(qp);
	else
		qp->publish.at = now + MOVE_POLL_MAX_NS;
}

/* A posted request names memory whose key on the backup is not known here yet: ask, and try again. */
void sh_move_key_missing(struct sh_qp *qp)
{
	if (qp->peer)
		sh_keys_ask(qp->peer);
	sh_move_publish(qp, sh_now_ns());
}

/* ---- the clock ------------------------------------------------------------------------------ */

uint64_t sh_move_next_timer(const struct sh_qp *qp)
{
	return sh_earlier_ns(sh_earlier_ns(qp->quiesce.next_at, qp->publish.at),
			     sh_earlier_ns(qp->fence.next_at, qp->loopback.next_at));
}

void sh_move_timer(struct sh_qp *qp, uint64_t now)
{
	if (qp->quiesce.next_at && qp->quiesce.next_at <= now)
		sh_move_collect(qp, now);
	if (qp->publish.at && qp->publish.at <= now)
		sh_move_publish(qp, now);
	if (qp->fence.next_at && qp->fence.next_at <= now)
		sh_fence_look(qp, now);
	if (qp->loopback.next_at && qp->loopback.next_at <= now)
		sh_loopback_run(qp, now);
}
