/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections: what happens becomes events of the core, its actions are carried out. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

/* From RTR or RTS to the introduction: connections that come together wake the thread once. */
#define CONN_START_NS SH_NS_PER_MS
/* Said of each before it is anything else: no news, and not worth a line in the caller's thread. */
static const char conn_looking[] = "looking for its peer";
/* So many that move at once are answered in the time in which one repeats itself. */
#define CONN_MANY 64

/* ---- callbacks of the engine: on the data path, its locks held ------------------------------ */

static void conn_push(struct sh_qp *qp, uint32_t bit)
{
	struct sh_qp *head;

	if (atomic_fetch_or_explicit(&qp->mailbox.pending, bit, memory_order_acq_rel))
		return; /* on the stack already */
	head = atomic_load_explicit(&sh_conns.mail, memory_order_relaxed);
	do {
		atomic_store_explicit(&qp->mailbox.next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&sh_conns.mail, &head, qp, memory_order_release, memory_order_relaxed));
	sh_kick();
}

static void conn_cb_error(void *cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			  enum ibv_wc_status status, uint32_t vendor_err)
{
	struct sh_qp *qp = cookie;
	uint64_t none = 0;

	if (withheld && cls == SP_ERROR_APPLICATION) {
		atomic_store(&qp->mailbox.app_error_status, (uint32_t)status);
		atomic_store(&qp->mailbox.app_error_vendor, vendor_err);
		conn_push(qp, SH_PENDING_APP_ERROR);
		return;
	}
	atomic_store(&qp->mailbox.error_epoch, epoch);
	atomic_store(&qp->mailbox.error_status, (uint32_t)status);
	atomic_store(&qp->mailbox.error_vendor, vendor_err);
	atomic_store(&qp->mailbox.error_withheld, withheld);
	atomic_compare_exchange_strong(&qp->mailbox.error_ns, &none, sh_now_ns());
	conn_push(qp, SH_PENDING_ERROR);
}

static void conn_cb_cq_event(void *cookie)
{
	sh_comp_channel_raise(&((struct sh_cq *)cookie)->events);
}

static void conn_cb_key_missing(void *cookie)
{
	conn_push(cookie, SH_PENDING_KEY);
}

static void conn_cb_gated(void *cookie)
{
	conn_push(cookie, SH_PENDING_GATED);
}

static void conn_cb_progress(void *cookie, uint32_t epoch)
{
	struct sh_qp *qp = cookie;
	uint64_t none = 0;

	atomic_store(&qp->mailbox.progress_epoch, epoch);
	atomic_compare_exchange_strong(&qp->mailbox.progress_ns, &none, sh_now_ns());
	conn_push(qp, SH_PENDING_PROGRESS);
}

static int conn_cb_lkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	struct sh_qp *qp = cookie;
	int path = sh_carrier_path(qp, epoch);

	return path >= 0 && sh_keymap_get(&qp->ctx->lkeys[path], key, out) ? 0 : -ENOENT;
}

static int conn_cb_rkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	struct sh_qp *qp = cookie;
	struct sh_peer *peer = atomic_load_explicit(&qp->peer, memory_order_acquire);
	int path = sh_carrier_path(qp, epoch);
	struct sh_keymap *map;

	if (!peer || path < 0)
		return -ENOENT;
	map = atomic_load_explicit(&peer->rkeys[qp->paths.peer_nics[0]][qp->paths.peer_nics[path]],
				   memory_order_acquire);
	return map && sh_keymap_get(map, key, out) ? 0 : -ENOENT;
}

const struct sp_callbacks sh_callbacks = {
	.qp_error = conn_cb_error,
	.cq_event = conn_cb_cq_event,
	.key_missing = conn_cb_key_missing,
	.gated = conn_cb_gated,
	.qp_progress = conn_cb_progress,
	.lkey = conn_cb_lkey,
	.rkey = conn_cb_rkey,
	.srq_lkey = sh_srq_cb_lkey,
	.srq_stuck = sh_srq_cb_stuck,
	.srq_limit = sh_srq_cb_limit,
};

void sh_news_cq_event_read(struct sp_cq_ring *ring)
{
	sp_cq_event_read(ring);
}

/* ---- what the mailbox says ------------------------------------------------------------------ */

/* Of what was sent on that carrier nothing has come, as far as is known. */
static bool conn_fruitless(struct sh_qp *qp, uint32_t epoch)
{
	bool delivered = qp->stats.totals.settled != qp->stats.settled_before;

	qp->stats.settled_before = qp->stats.totals.settled;
	return epoch && !delivered && atomic_load(&qp->mailbox.progress_epoch) != epoch;
}

static void conn_error(struct sh_qp *qp)
{
	struct sc_event event = { .type = SC_EV_FAULT, .reason = SC_REASON_TRANSPORT };

	event.epoch = atomic_load(&qp->mailbox.error_epoch);
	qp->error.status = (enum ibv_wc_status)atomic_load(&qp->mailbox.error_status);
	qp->error.vendor_err = atomic_load(&qp->mailbox.error_vendor);
	if (!atomic_load(&qp->mailbox.error_withheld)) {
		event.type = SC_EV_APP_ERROR;
		event.reason = SC_REASON_APPLICATION;
		atomic_store(&qp->mailbox.error_ns, 0);
		qp->app.state = IBV_QPS_ERR;
	}
	sh_log(SH_LOG_DEBUG, "QP 0x%06x: first error on carrier %u is status %d (%s)",
	       qp->qp->qp_num, event.epoch, (int)qp->error.status,
	       event.type == SC_EV_FAULT ? "withheld" : "passed on");
	if (event.type == SC_EV_FAULT && qp->error.status == IBV_WC_RETRY_EXC_ERR) {
		sh_detector_blame(qp, event.epoch);
		event.fruitless = conn_fruitless(qp, event.epoch);
	}
	sh_conn_event(qp, &event);
}

/*
 * The application's own error, found among completions that are withheld: a move cannot mend it
 * (P6), so all that is withheld is given back, this error first.
 */
static void conn_app_error(struct sh_qp *qp)
{
	qp->error.status = (enum ibv_wc_status)atomic_load(&qp->mailbox.app_error_status);
	qp->error.vendor_err = atomic_load(&qp->mailbox.app_error_vendor);
	sh_conn_simple(qp, SC_EV_APP_ERROR, SC_REASON_APPLICATION);
	if (!qp->core.failed)
		sh_move_fail(qp, SC_REASON_APPLICATION);
}

void sh_conn_pending(struct sh_qp *qp, uint32_t pending)
{
	if (!qp->conn_id)
		return;
	sh_conn_touch(qp);
	if (pending & SH_PENDING_APP_ERROR)
		conn_app_error(qp);
	else if (pending & SH_PENDING_ERROR)
		conn_error(qp);
	if (pending & SH_PENDING_KEY)
		sh_move_key_missing(qp);
	if (pending & SH_PENDING_GATED)
		sh_loopback_run(qp, sh_now_ns());
	if ((pending & SH_PENDING_PROGRESS) && qp->stats.move &&
	    !qp->stats.move->first_completion_ns)
		qp->stats.move->first_completion_ns = atomic_load(&qp->mailbox.progress_ns);
}

/* ---- protection level ----------------------------------------------------------------------- */

void sh_conn_level(struct sh_qp *qp, enum sh_level level, const char *why)
{
	if (qp->level == level && qp->why == why)
		return;
	qp->level = level;
	qp->why = why;
	sh_incident_level(qp);
	if (level == SH_PROTECTED && !sc_rests(&qp->core) && qp->standby)
		sh_log(SH_LOG_INFO, "QP 0x%06x on %s is protected by %s", qp->qp->qp_num,
		       qp->active->nic->name, qp->standby->nic->name);
	else if (level == SH_PROTECTED)
		sh_log(SH_LOG_INFO, "QP 0x%06x on %s is protected: %s", qp->qp->qp_num,
		       qp->active->nic->name, why);
	else if (qp->core.reason != SC_REASON_APPLICATION && why != conn_looking)
		sh_log(SH_LOG_INFO, "QP 0x%06x is not protected: %s", qp->qp->qp_num, why);
}

/* Why it cannot be moved: somebody else posts to its rings (direct verbs), or it has windows. */
static const char *conn_reason(struct sh_qp *qp)
{
	bool intruder;
	const char *why = sp_qp_reason(qp->sp, &intruder);

	if (intruder && qp->why != why)
		sh_log(SH_LOG_ERROR,
		       "QP 0x%06x: %s; a program may use ibv_post_* and ibv_poll_cq, or rings that "
		       "direct verbs gave it, not both",
		       qp->qp->qp_num, why);
	return why;
}

/* Asked before SHIFT touches a QP of its own accord. */
bool sh_conn_hands_off(struct sh_qp *qp)
{
	const char *why = qp->conn_id ? conn_reason(qp) : NULL;

	if (!why)
		return false;
	/* Both ends go on as they would without SHIFT; one that has moved cannot. */
	if (qp->core.peer.introduced && qp->core.move == SC_MOVE_NONE)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_RESOURCE);
	sh_conn_level(qp, SH_FOREIGN, why);
	return true;
}

/* This end's own reason says more than the core's. */
static const char *conn_reason_text(const struct sh_qp *qp, enum sc_reason reason)
{
	if (qp->pd && qp->pd->unprotected)
		return qp->pd->why;
	if (reason == SC_REASON_RESOURCE && qp->carriers.standby_why)
		return qp->carriers.standby_why;
	if (reason == SC_REASON_PEER) /* nothing has moved, see conn_report() */
		return "the peer has no standby for it, and its status says why";
	if (qp->core.config.lazy && qp->core.guarded && !reason)
		return "its standby is being made";
	return reason ? sc_reason_text(reason) : "preparing";
}

static const char *conn_no_path(const struct sh_qp *qp)
{
	const char *why = NULL;
	uint32_t k;

	for (k = 0; k < qp->ctx->n_paths && !why; k++)
		if (k != qp->active->path)
			why = sh_gid_missing(qp->gid.kind, &qp->ctx->path[k]->address);
	return why ? why : "no path to its peer over another NIC answers";
}

/* Nothing happens that would be told while no other path answers, so it is found when asked for. */
const char *sh_conn_why(const struct sh_qp *qp)
{
	const struct sc_conn *c = &qp->core;
	uint8_t up = qp->paths.up & (c->peer.masks_known ? c->peer.paths.up : UINT8_MAX);

	if (qp->level != SH_DRIVEN || !qp->conn_id || !c->peer.introduced ||
	    c->move != SC_MOVE_NONE || (up & ~(1u << qp->active->path)))
		return qp->why;
	return conn_no_path(qp);
}

/* Memory is not lazy: it takes the longest, and is there when a standby is made on that path. */
static void conn_rests(struct sh_qp *qp, uint8_t path)
{
	sh_conn_level(qp, SH_PROTECTED, "lazy: its standby is made when it is needed");
	if (path < qp->ctx->n_paths && !sh_pd_queued(qp->pd, path))
		sh_replica_want(qp->ctx, path);
}

static void conn_report(struct sh_qp *qp, const struct sc_action *action)
{
	/* In mid-move a line would only hold the move up; what became of it is told at its end. */
	if (qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED)
		return;
	if (qp->level == SH_FOREIGN)
		return; /* why has been said */
	if (sc_rests(&qp->core))
		conn_rests(qp, action->path);
	else if (sc_protected(&qp->core))
		sh_conn_level(qp, SH_PROTECTED, "its standby answers");
	else if (qp->core.move == SC_MOVE_NONE && qp->active->epoch)
		sh_conn_level(qp, SH_DRIVEN, "it moved, and its next standby is not ready");
	else
		sh_conn_level(qp, SH_DRIVEN, conn_reason_text(qp, action->reason));
}

static void conn_count_guarded(struct sh_qp *qp, bool on)
{
	uint32_t one = on ? 1 : UINT32_MAX;

	if (qp->counted.guarded == on)
		return;
	qp->counted.guarded = on;
	sh_conns.guarded += one;
	qp->scq->guarded += one;
	qp->rcq->guarded += one;
}

static void conn_guard(struct sh_qp *qp, bool on)
{
	sp_qp_guard(qp->sp, on);
	conn_count_guarded(qp, on);
	if (!on)
		return;
	if (!sh_conns.check_at)
		sh_conns.check_at = sh_now_ns() + sh.config.watch_ns;
	sh_heartbeat_soon(); /* the first one that can be moved: heartbeats begin */
}

/* ---- events and actions --------------------------------------------------------------------- */

static void conn_withhold(struct sh_qp *qp, enum sc_reason reason)
{
	sh_incident_moves(qp);
	if (!qp->stats.move || qp->stats.move->settled_ns || qp->stats.move->ended)
		qp->stats.move = sh_stats_move_begin(qp, reason);
	sp_qp_withhold(qp->sp);
}

static void conn_act(struct sh_qp *qp, const struct sc_action *action)
{
	switch (action->type) {
	case SC_ACT_STANDBY_MAKE: sh_standby_make(qp, action->epoch, action->path); break;
	case SC_ACT_STANDBY_CONNECT: sh_standby_connect(qp, action->epoch, &action->address); break;
	case SC_ACT_STANDBY_DROP: sh_carrier_drop(qp, action->epoch); break;
	case SC_ACT_SEND_STANDBY: sh_messages_send_standby(qp, &action->standby, action->on); break;
	case SC_ACT_SEND_STATE: sh_messages_send_state(qp, &action->state); break;
	case SC_ACT_GUARD: conn_guard(qp, action->on); break;
	case SC_ACT_WITHHOLD: conn_withhold(qp, action->reason); break;
	case SC_ACT_QUIESCE: sh_move_quiesce(qp, action->epoch); break;
	case SC_ACT_RECOUNT: sh_move_recount(qp); break;
	case SC_ACT_SEAL: sh_move_seal(qp); break;
	case SC_ACT_LAY_RECEIVES: sh_move_lay(qp, action->epoch); break;
	case SC_ACT_SETTLE: sh_move_settle(qp, action->epoch, action->recv_count); break;
	case SC_ACT_FENCE: sh_fence_lay(qp, action->epoch); break;
	case SC_ACT_UNFENCE: sh_fence_lift(qp); break;
	case SC_ACT_FAIL:
		sh_move_fail(qp, action->reason);
		qp->app.state = IBV_QPS_ERR; /* as query_qp must answer once errors are told */
		break;
	case SC_ACT_DROP_OLD: sh_carriers_drop_old(qp, action->epoch); break;
	case SC_ACT_REPORT: conn_report(qp, action); break;
	}
}

/*
 * One of thousands that move at once gets its answer later than one that moves alone: who did not wait
 * for it would repeat itself, and be answered again, before anybody was done.
 */
static uint64_t conn_resend_ns(void)
{
	uint32_t crowd = sh_conns.moving > sh_conns.faulted ? sh_conns.moving : sh_conns.faulted;
	uint64_t ns = sh.config.core.resend_min_ns * (CONN_MANY + crowd) / CONN_MANY;

	return ns < sh.config.core.resend_max_ns ? ns : sh.config.core.resend_max_ns;
}

static void conn_count_moving(struct sh_qp *qp, bool on)
{
	if (qp->counted.moving == on)
		return;
	qp->counted.moving = on;
	sh_conns.moving += on ? 1 : UINT32_MAX;
}

static void conn_step(struct sh_qp *qp, const struct sc_event *event)
{
	enum sc_move_phase before = qp->core.move;
	struct sc_actions actions;
	uint32_t i;

	qp->core.config.resend_min_ns = conn_resend_ns();
	sc_step(&qp->core, event, sh_now_ns(), &actions);
	conn_count_moving(qp, qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED);
	if (sh_log_enabled(SH_LOG_DEBUG) && (actions.n || qp->core.move != before))
		sh_log(SH_LOG_DEBUG, "QP 0x%06x: %s (%s): %s -> %s, %u actions", qp->qp->qp_num,
		       sc_event_name(event->type), sc_reason_name(event->reason),
		       sc_move_phase_name(before), sc_move_phase_name(qp->core.move), actions.n);
	for (i = 0; i < actions.n; i++)
		conn_act(qp, &actions.a[i]);
}

/*
 * Any event may begin a move, which takes the rings away from whoever posts to them: the connection
 * ends before it, as for an application that closes. Both ends go on as they would without SHIFT.
 */
static void conn_step_checked(struct sh_qp *qp, const struct sc_event *event)
{
	struct sc_event closed = { .type = SC_EV_APP_CLOSED,
				   .reason = SC_REASON_RESOURCE,
				   .epoch = qp->active->epoch };
	const char *why = NULL;

	if (event->type != SC_EV_APP_CLOSED && qp->core.move == SC_MOVE_NONE)
		why = conn_reason(qp);
	if (why && qp->core.peer.introduced)
		conn_step(qp, &closed);
	if (why)
		sh_conn_level(qp, SH_FOREIGN, why);
	conn_step(qp, event);
}

/* Actions that answer at once put their answer in line: the core is never entered twice. */
void sh_conn_event(struct sh_qp *qp, const struct sc_event *event)
{
	struct sc_event next;

	if (!qp->conn_id)
		return;
	if (qp->line.n == SH_MAX_QUEUED) {
		sh_log(SH_LOG_ERROR, "QP 0x%06x: too many queued events, %s is lost; please report",
		       qp->qp->qp_num, sc_event_name(event->type));
		return;
	}
	sh_conn_touch(qp);
	qp->line.events[qp->line.n++] = *event;
	if (qp->line.stepping)
		return;
	qp->line.stepping = true;
	while (qp->line.n) {
		next = qp->line.events[0];
		qp->line.n--;
		memmove(qp->line.events, qp->line.events + 1, qp->line.n * sizeof(next));
		conn_step_checked(qp, &next);
	}
	qp->line.stepping = false;
	sh_wake_for(qp);
}

void sh_conn_simple(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason)
{
	sh_conn_about(qp, type, reason, qp->active->epoch);
}

void sh_conn_about(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason, uint32_t epoch)
{
	struct sc_event event = { .type = type, .reason = reason, .epoch = epoch };

	sh_conn_event(qp, &event);
}

/* ---- the clock ------------------------------------------------------------------------------ */

uint64_t sh_conn_next_timer(const struct sh_qp *qp)
{
	if (!qp->conn_id)
		return 0;
	return sh_earlier_ns(sh_earlier_ns(qp->core.timer_at, sh_move_next_timer(qp)),
			     sh_earlier_ns(qp->intro.next_at, qp->intro.start_at));
}

void sh_conn_timer(struct sh_qp *qp, uint64_t now)
{
	if (!qp->conn_id)
		return;
	sh_move_timer(qp, now);
	if (qp->core.timer_at && qp->core.timer_at <= now)
		sh_conn_simple(qp, SC_EV_TIMER, SC_REASON_NONE);
	if (qp->intro.start_at && qp->intro.start_at <= now)
		sh_intro_start(qp);
	if (qp->intro.next_at && qp->intro.next_at <= now)
		sh_intro_timer(qp);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int conn_numbers_grow(void)
{
	uint32_t n = sh_conns.room ? sh_conns.room * 2 : 64;
	struct sh_qp **grown = realloc(sh_conns.by_id, n * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	memset(grown + sh_conns.room, 0, (n - sh_conns.room) * sizeof(*grown));
	sh_conns.next_id = sh_conns.room ? sh_conns.room : 1;
	sh_conns.by_id = grown;
	sh_conns.room = n;
	return 0;
}

/* Round and round, so that one in use is rarely met; number 0 is nobody's. */
static int conn_number(struct sh_qp *qp)
{
	uint32_t tries;

	for (tries = 0; tries < sh_conns.room; tries++) {
		if (sh_conns.next_id >= sh_conns.room)
			sh_conns.next_id = 1;
		if (!sh_conns.by_id[sh_conns.next_id])
			break;
		sh_conns.next_id++;
	}
	if (tries >= sh_conns.room && conn_numbers_grow())
		return -ENOMEM;
	qp->conn_id = sh_conns.next_id++;
	sh_conns.by_id[qp->conn_id] = qp;
	return 0;
}

static uint64_t conn_retry_time_ns(const struct ibv_qp_attr *attr)
{
	if (!attr->timeout)
		return 0;
	return (4096ull << attr->timeout) * (attr->retry_cnt + 1u);
}

static uint32_t conn_nonce(void)
{
	static_assert(sizeof(sh_conns.nonces) <= 256, "sh_random() gives no more");
	if (!sh_conns.n_nonces) {
		sh_random(sh_conns.nonces, sizeof(sh_conns.nonces));
		sh_conns.n_nonces = sizeof(sh_conns.nonces) / sizeof(sh_conns.nonces[0]);
	}
	return sh_conns.nonces[--sh_conns.n_nonces];
}

/* At RTR and again at RTS: only then the last attributes are known. */
int sh_conn_new(struct sh_qp *qp)
{
	struct sc_config config = sh.config.core;

	if (qp->ctx->n_paths < 2) {
		sh_conn_level(qp, SH_DRIVEN, qp->ctx->why);
		return -ENODEV;
	}
	if (!qp->conn_id) {
		if (conn_number(qp))
			return -ENOMEM;
		if (sh_timers_reserve(&sh_conns.timers, sh_conns.room)) {
			sh_conns.by_id[qp->conn_id] = NULL;
			qp->conn_id = 0;
			return -ENOMEM;
		}
		qp->nonce = conn_nonce();
		memset(&qp->intro, 0, sizeof(qp->intro));
		list_init(&qp->intro.line);
		memset(&qp->quiesce, 0, sizeof(qp->quiesce));
		memset(&qp->fence, 0, sizeof(qp->fence));
		qp->paths.n = 0;
		qp->paths.up = qp->paths.steady = qp->paths.drained = 0;
		memset(&qp->error, 0, sizeof(qp->error));
		memset(&qp->incident, 0, sizeof(qp->incident));
		qp->stats.move = NULL;
		atomic_store(&qp->mailbox.progress_epoch, 0);
		sc_init(&qp->core, &config);
		sh_conn_level(qp, SH_DRIVEN, conn_looking);
	}
	qp->core.config.retry_time_ns = conn_retry_time_ns(&qp->app.attr);
	qp->intro.start_at = sh_now_ns() + CONN_START_NS;
	sh_conn_touch(qp);
	sh_wake_for(qp);
	sh_loopback_connected(qp);
	return 0;
}

void sh_conn_close(struct sh_qp *qp)
{
	if (!qp->conn_id)
		return;
	sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_APPLICATION);
	sh_incident_left(qp);
	sh_metrics_path(qp, 0);
	sh_intro_withdraw(qp);
	sh_paths_use_peer(qp, NULL);
	conn_count_guarded(qp, false);
	conn_count_moving(qp, false);
	sh_loopback_forget(qp);
	sh_conns.by_id[qp->conn_id] = NULL;
	qp->conn_id = 0; /* later events and answers of jobs find nobody */
	sh_wait_idle(&qp->busy);
}
