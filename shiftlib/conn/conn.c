/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections: how they begin and end, and the steps of their cores. */
#include <errno.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/act.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/count.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/replica/context.h"

/* ---- is it still ours? ---------------------------------------------------------------------- */

/* Why it cannot be moved: somebody else posts to its rings (direct verbs), or it has windows. */
static const char *conn_reason(struct sh_qp *qp)
{
	bool intruder;
	const char *why = sp_qp_reason(qp->sp, &intruder);

	if (!why && qp->foreign.set)
		return "its program has set something of it by a command of the driver "
		       "(mlx5dv_modify_qp_udp_sport, "
		       "_lag_port, _sched_elem, DEVX), which another queue pair would lack";
	if (!why && qp->foreign.alternate)
		return "its program has loaded an alternate path (IBV_QP_ALT_PATH), which another "
		       "queue pair would lack";
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
	bool said;

	if (!why)
		return false;
	said = qp->level == SH_FOREIGN && qp->why == why;
	/* a connection that has not moved can go on without SHIFT at both ends */
	if (qp->core.peer.introduced && qp->core.move == SC_MOVE_NONE)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_RESOURCE);
	sh_level_set(qp, SH_FOREIGN, why);
	if (!said && qp->core.reason == SC_REASON_APPLICATION) /* the connection ended so, above */
		sh_log(SH_LOG_INFO, "QP 0x%06x is not protected: %s", qp->qp->qp_num, why);
	return true;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void conn_ended(struct sh_qp *qp, bool masked) SH_LOCKED
{
	if (!qp->error.ending.on && !qp->error.fails)
		SH_PARTS_TELL(move.ended, qp, false);
	if (masked && qp->core.reason != SC_REASON_APPLICATION)
		sh_news_conn_ended(qp->qp);
}

/*
 * The memory of a step. Two are kept for whoever has the lock, as they are too large for the
 * stack of a program's thread. A step that sets off steps of other connections may find none
 * left, and takes one on the stack.
 */
#define MAX_QUEUED 16
struct sh_events {
	struct sc_event queued[MAX_QUEUED]; /* put in line while it is stepped */
	uint32_t first, n;
	struct sc_actions actions;
	bool taken;
};

static struct sh_events conn_steps[2];

static void conn_step(struct sh_qp *qp, const struct sc_event *event) SH_LOCKED
{
	struct sc_actions *actions = &qp->line.events->actions;
	enum sc_move_phase before = qp->core.move;
	bool masked = qp->counted.user == SH_USER_MASKED;
	uint64_t now = sh_now_ns();
	uint32_t i;

	qp->core.config.busy_ns = sh_count_busy_ns(now);
	qp->core.config.atomics = qp->app.attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC;
	sc_step(&qp->core, event, now, actions);
	SH_PARTS_TELL(step.stepped, qp);
	sh_count_core(qp, now);
	if (sh_log_enabled(SH_LOG_DEBUG) && (actions->n || qp->core.move != before))
		sh_log(SH_LOG_DEBUG, "QP 0x%06x: %s (%s): %s -> %s, %u actions", qp->qp->qp_num,
		       sc_event_name(event->type), sc_reason_name(event->reason),
		       sc_move_phase_name(before), sc_move_phase_name(qp->core.move), actions->n);
	for (i = 0; i < actions->n; i++)
		sh_act(qp, &actions->a[i]);
	SH_PARTS_TELL(step.acted, qp);
	if (qp->core.move == SC_MOVE_ENDED && before != SC_MOVE_ENDED)
		conn_ended(qp, masked);
}

/* True if the event would begin a move at once, with requests outstanding. */
static bool conn_begins_move(const struct sh_qp *qp, const struct sc_event *event)
{
	return qp->core.move == SC_MOVE_NONE &&
	       (event->type == SC_EV_FAULT || event->type == SC_EV_MSG_STATE ||
		event->type == SC_EV_DARK);
}

/*
 * Any event may begin a move, which takes the rings away from whoever posts to them: the connection
 * ends before it, as for an application that closes. Both ends go on as they would without SHIFT.
 * What forbids a move for a moment only puts it off.
 */
static void conn_step_checked(struct sh_qp *qp, const struct sc_event *event) SH_LOCKED
{
	struct sc_event closed = { .type = SC_EV_APP_CLOSED,
				   .reason = SC_REASON_RESOURCE,
				   .epoch = qp->active->epoch };
	const char *why = NULL, *full = NULL;

	if (event->type != SC_EV_APP_CLOSED && qp->core.move == SC_MOVE_NONE)
		why = conn_reason(qp);
	if (!why && conn_begins_move(qp, event))
		full = SH_PARTS_ASK(step.forbids, qp);
	if (!why && full && SH_PARTS_ASK(step.defers, qp, event))
		return;
	if ((why || full) && qp->core.peer.introduced)
		conn_step(qp, &closed);
	if (why || full)
		sh_level_set(qp, why ? SH_FOREIGN : SH_DRIVEN, why ? why : full);
	conn_step(qp, event);
}

static void conn_queue(struct sh_qp *qp, struct sh_events *events, const struct sc_event *event)
{
	if (events->n == MAX_QUEUED) {
		sh_log(SH_LOG_ERROR, "QP 0x%06x: too many queued events, %s is lost; please report",
		       qp->qp->qp_num, sc_event_name(event->type));
		return;
	}
	events->queued[(events->first + events->n++) % MAX_QUEUED] = *event;
}

static void conn_step_with(struct sh_qp *qp, const struct sc_event *event,
			   struct sh_events *events) SH_LOCKED
{
	struct sc_event next = *event;

	events->first = events->n = 0;
	events->taken = true;
	qp->line.events = events;
	conn_step_checked(qp, &next);
	while (events->n) {
		next = events->queued[events->first];
		events->first = (events->first + 1) % MAX_QUEUED;
		events->n--;
		conn_step_checked(qp, &next);
	}
	qp->line.events = NULL;
	events->taken = false;
}

static __attribute__((noinline)) void conn_step_on_stack(struct sh_qp *qp,
							 const struct sc_event *event) SH_LOCKED
{
	struct sh_events events;

	conn_step_with(qp, event, &events);
}

static void conn_step_all(struct sh_qp *qp, const struct sc_event *event) SH_LOCKED
{
	size_t i = 0;

	while (i < sizeof(conn_steps) / sizeof(conn_steps[0]) && conn_steps[i].taken)
		i++;
	if (i < sizeof(conn_steps) / sizeof(conn_steps[0]))
		conn_step_with(qp, event, &conn_steps[i]);
	else
		conn_step_on_stack(qp, event);
}

/* Actions that answer at once put their answer in line: the core is never entered twice. */
void sh_conn_event(struct sh_qp *qp, const struct sc_event *event)
{
	if (!qp->conn_id) {
		sh_users_count(qp); /* the QP may be in ERR now */
		return;
	}
	sh_clock_touch(qp);
	if (qp->line.events) {
		conn_queue(qp, qp->line.events, event);
		return;
	}
	conn_step_all(qp, event);
	sh_users_count(qp);
	sh_clock_wake_for(qp);
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

/* A fault of the carrier in use, or of one that a move has begun to; a standby is only lost. */
void sh_carrier_fault(struct sh_qp *qp, const struct sh_carrier *carrier, enum sc_reason reason)
{
	uint32_t epoch = carrier->epoch;
	uint64_t none = 0;

	if (carrier != qp->active && epoch != qp->core.epoch) {
		if (carrier == qp->standby)
			sh_conn_about(qp, SC_EV_STANDBY_LOST, reason, epoch);
		return;
	}
	if (qp->core.guarded) /* else nothing moves, and the next fault has its own */
		atomic_compare_exchange_strong(&qp->mailbox.error_ns, &none, sh_now_ns());
	sh_conn_about(qp, SC_EV_FAULT, reason, epoch);
}

/* ---- life ----------------------------------------------------------------------------------- */

static uint64_t conn_retry_time_ns(const struct ibv_qp_attr *attr)
{
	if (!attr->timeout)
		return 0;
	return (4096ull << attr->timeout) * (attr->retry_cnt + 1u);
}

/*
 * A program takes the times of two completions as times of one clock, the one that it can ask for
 * by its context. A completion on another NIC would have a time of that NIC's, which cannot be told
 * in the other clock when the default NIC is dead.
 */
static bool conn_is_stamped(const struct sh_qp *qp)
{
	return (qp->scq->how.wc_flags | qp->rcq->how.wc_flags) &
	       (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
}

/* Called at RTR, and again at RTS, when the last attributes are known. */
int sh_conn_new(struct sh_qp *qp)
{
	struct sc_config config = sh.config.core;

	if (qp->ctx->n_paths < 2) {
		sh_level_set(qp, SH_DRIVEN, qp->ctx->why);
		return -ENODEV;
	}
	if (conn_is_stamped(qp)) {
		sh_level_set(qp, SH_DRIVEN, sh_level_stamped);
		return -EOPNOTSUPP;
	}
	if (!qp->conn_id) {
		if (sh_conns_add(qp))
			return -ENOMEM;
		SH_PARTS_TELL(life.reset, qp);
		memset(&qp->other, 0, sizeof(qp->other));
		memset(&qp->quiesce, 0, sizeof(qp->quiesce));
		memset(&qp->fence, 0, sizeof(qp->fence));
		memset(&qp->publish, 0, sizeof(qp->publish));
		qp->paths.n = 0;
		qp->paths.up = qp->paths.steady = qp->paths.drained = 0;
		qp->paths.homed = 0;
		qp->paths.cannot = 0;
		memset(&qp->error, 0, sizeof(qp->error));
		memset(&qp->line.heard, 0, sizeof(qp->line.heard));
		atomic_store(&qp->mailbox.progress_epoch, 0);
		sc_init(&qp->core, &config);
		sh_level_set(qp, SH_DRIVEN, sh_level_looking);
	}
	qp->core.config.retry_time_ns = conn_retry_time_ns(&qp->app.attr);
	sh_clock_touch(qp);
	SH_PARTS_TELL(life.connected, qp);
	sh_clock_wake_for(qp);
	return 0;
}

void sh_conn_close(struct sh_qp *qp)
{
	if (!qp->conn_id)
		return;
	sh_conn_close_nowait(qp);
	sh_wait_idle(&qp->busy);
}

void sh_conn_close_nowait(struct sh_qp *qp)
{
	if (!qp->conn_id)
		return;
	sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_APPLICATION);
	SH_PARTS_TELL(life.leaves, qp);
	sh_turn_over(qp);
	sh_paths_use_peer(qp, NULL);
	sh_count_none(qp);
	SH_PARTS_TELL(life.left, qp);
	sh_conns_remove(qp); /* later events and answers of jobs find nobody */
	sh_users_count(qp);
}
