/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections: events go to the core, its actions are carried out; how they begin and end. */
#include <errno.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/standby.h"
#include "shiftlib/conn/stay.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/young.h"

/* So many that move at once are answered in the time in which one repeats itself. */
#define CONN_MANY      64
#define CONN_BUSY_MAXS 4 /* of the longest pause between two repetitions */

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
	/* Both ends go on as they would without SHIFT; one that has moved cannot. */
	if (qp->core.peer.introduced && qp->core.move == SC_MOVE_NONE)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_RESOURCE);
	sh_level_set(qp, SH_FOREIGN, why);
	if (!said && qp->core.reason == SC_REASON_APPLICATION) /* the connection ended so, above */
		sh_log(SH_LOG_INFO, "QP 0x%06x is not protected: %s", qp->qp->qp_num, why);
	return true;
}

/* ---- guarding ------------------------------------------------------------------------------- */

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
	sh_carrier_link_mark(&qp->carriers.own); /* before, its errors were not withheld */
	if (!sh_conns.check_at)
		sh_conns.check_at = sh_now_ns() + sh.config.watch_ns;
	SH_PARTS_TELL(step.guarded, qp);
	sh_heartbeat_soon(); /* the first one that can be moved: heartbeats begin */
}

/* ---- events and actions --------------------------------------------------------------------- */

static void conn_withhold(struct sh_qp *qp, const struct sc_action *action)
{
	SH_PARTS_TELL(move.begins, qp, action->reason);
	sh_move_withhold(qp);
	SH_PARTS_TELL(move.withheld, qp, action->epoch);
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
	case SC_ACT_WITHHOLD: conn_withhold(qp, action); break;
	case SC_ACT_QUIESCE: sh_quiesce_begin(qp, action->epoch); break;
	case SC_ACT_RECOUNT: sh_quiesce_recount(qp); break;
	case SC_ACT_SEAL: sh_quiesce_seal(qp); break;
	case SC_ACT_ASK_PSN: SH_PARTS_TELL(move.ask_psn, qp, action->epoch); break;
	case SC_ACT_LAY_RECEIVES: sh_move_lay(qp, action->epoch); break;
	case SC_ACT_SETTLE: sh_move_settle(qp, action); break;
	case SC_ACT_FENCE: sh_fence_lay(qp, action->epoch); break;
	case SC_ACT_UNFENCE: sh_fence_lift(qp); break;
	case SC_ACT_STAY: sh_stay(qp, action); break;
	case SC_ACT_FAIL:
		sh_move_fail(qp, action->reason);
		qp->app.state = IBV_QPS_ERR; /* as query_qp must answer once errors are told */
		break;
	case SC_ACT_DROP_OLD: sh_carriers_drop_old(qp, action->epoch); break;
	case SC_ACT_REPORT: sh_level_report(qp, action); break;
	}
}

/*
 * One of thousands that move at once gets its answer later than one that moves alone: who did not
 * wait for it would repeat itself, and be answered again, before anybody was done.
 */
static uint64_t conn_busy_ns(uint64_t now)
{
	uint32_t together = sh_conns.moving > sh_conns.faulted ? sh_conns.moving : sh_conns.faulted;
	uint64_t max = sh.config.core.resend_max_ns;
	uint64_t ns = sh.config.core.resend_min_ns * (CONN_MANY + together) / CONN_MANY;
	uint64_t paced = sh_pace_ns(&sh_conns.pace, now, CONN_BUSY_MAXS * max);

	ns = ns < max ? ns : max;
	return paced > ns ? paced : ns;
}

static void conn_count_moving(struct sh_qp *qp, bool on)
{
	if (qp->counted.moving == on)
		return;
	qp->counted.moving = on;
	sh_conns.moving += on ? 1 : UINT32_MAX;
	if (!on)
		return;
	sh_give_way_fault();
	sh_setup_end();
}

/* From here on its context's regions are on the NIC that it goes to when the verb has returned, and gone from there as well. */
static void conn_count_leaving(struct sh_qp *qp, bool on)
{
	if (qp->counted.leaving == on)
		return;
	qp->counted.leaving = on;
	qp->ctx->moving += on ? 1 : UINT32_MAX;
	if (on)
		sh_young_move(qp->ctx);
}

static bool conn_leaves(const struct sc_conn *c)
{
	return (c->move != SC_MOVE_NONE && c->move != SC_MOVE_ENDED) ||
	       c->sw.phase == SC_SWITCH_PREP || c->sw.phase == SC_SWITCH_FENCED;
}

static void conn_count_waiting(struct sh_qp *qp, bool on, uint64_t now)
{
	if (qp->counted.waiting == on)
		return;
	qp->counted.waiting = on;
	qp->counted.waiting_since = now;
	sh_pace_wait(&sh_conns.pace, on, now);
}

static void conn_ended(struct sh_qp *qp, bool masked)
{
	if (!qp->error.ending.on && !qp->error.fails)
		SH_PARTS_TELL(move.ended, qp, false);
	if (masked && qp->core.reason != SC_REASON_APPLICATION)
		sh_news_conn_ended(qp->qp);
}

/*
 * What a step needs. Two of them are kept for all who have the lock, as they are too large for the stack of a thread of the
 * program; who finds none left (a step that sets off steps of other connections) has one on the stack.
 */
#define MAX_QUEUED 16
struct sh_events {
	struct sc_event queued[MAX_QUEUED]; /* put in line while it is stepped */
	uint32_t first, n;
	struct sc_actions actions;
	bool taken;
};

static struct sh_events conn_steps[2];

static void conn_step(struct sh_qp *qp, const struct sc_event *event)
{
	struct sc_actions *actions = &qp->line.events->actions;
	enum sc_move_phase before = qp->core.move;
	bool masked = qp->counted.user == SH_USER_MASKED;
	uint64_t now = sh_now_ns();
	uint32_t i;

	qp->core.config.busy_ns = conn_busy_ns(now);
	qp->core.config.atomics = qp->app.attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC;
	sc_step(&qp->core, event, now, actions);
	SH_PARTS_TELL(step.stepped, qp);
	conn_count_waiting(qp, qp->core.resend_at && qp->core.move != SC_MOVE_ENDED, now);
	conn_count_moving(qp, qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED);
	conn_count_leaving(qp, conn_leaves(&qp->core));
	if (sh_log_enabled(SH_LOG_DEBUG) && (actions->n || qp->core.move != before))
		sh_log(SH_LOG_DEBUG, "QP 0x%06x: %s (%s): %s -> %s, %u actions", qp->qp->qp_num,
		       sc_event_name(event->type), sc_reason_name(event->reason),
		       sc_move_phase_name(before), sc_move_phase_name(qp->core.move), actions->n);
	for (i = 0; i < actions->n; i++)
		conn_act(qp, &actions->a[i]);
	SH_PARTS_TELL(step.acted, qp);
	if (qp->core.move == SC_MOVE_ENDED && before != SC_MOVE_ENDED)
		conn_ended(qp, masked);
}

/* At once, with what is outstanding: an ordered switch waits until nothing is. */
static bool conn_begins_move(const struct sh_qp *qp, const struct sc_event *event)
{
	return qp->core.move == SC_MOVE_NONE &&
	       (event->type == SC_EV_FAULT || event->type == SC_EV_MSG_STATE ||
		event->type == SC_EV_DARK);
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
	const char *why = NULL, *full = NULL;

	if (event->type != SC_EV_APP_CLOSED && qp->core.move == SC_MOVE_NONE)
		why = conn_reason(qp);
	if (!why && conn_begins_move(qp, event))
		full = SH_PARTS_ASK(step.forbids, qp);
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

static void conn_step_with(struct sh_qp *qp, const struct sc_event *event, struct sh_events *events)
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
							 const struct sc_event *event)
{
	struct sh_events events;

	conn_step_with(qp, event, &events);
}

static void conn_step_all(struct sh_qp *qp, const struct sc_event *event)
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
		sh_users_count(qp); /* it may be in ERR now */
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

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t conn_core_next_timer(const struct sh_qp *qp)
{
	return qp->core.timer_at;
}

static void conn_core_timer(struct sh_qp *qp, uint64_t now)
{
	struct sc_event event = { .type = SC_EV_TIMER };
	uint32_t number;

	event.idle = sp_qp_sending(qp->sp, &number) == SP_SENDING_NONE;
	sh_conn_event(qp, &event);
	sh_stay_say_unanswered(qp, now);
}

const struct sh_conn_part sh_core_part = {
	.name = "core",
	.clock = { .next_timer = conn_core_next_timer, .run = conn_core_timer },
};

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

/* At RTR and again at RTS: only then the last attributes are known. */
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
	sh_conn_leave(qp);
	sh_wait_idle(&qp->busy);
}

void sh_conn_leave(struct sh_qp *qp)
{
	if (!qp->conn_id)
		return;
	sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_APPLICATION);
	SH_PARTS_TELL(life.leaves, qp);
	sh_turn_over(qp);
	sh_paths_use_peer(qp, NULL);
	conn_count_guarded(qp, false);
	conn_count_moving(qp, false);
	conn_count_leaving(qp, false);
	conn_count_waiting(qp, false, sh_now_ns());
	SH_PARTS_TELL(life.left, qp);
	sh_conns_remove(qp); /* later events and answers of jobs find nobody */
	sh_users_count(qp);
}
