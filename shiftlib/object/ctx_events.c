/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Asynchronous events of the application's contexts: which of them it hears, and when. Events of
 * the device, its ports and their tables are judged by facade/held.h, which has the ledger, too;
 * events of one object here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/variables.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/told/incident.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/facade/held.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

#define LEAVE_LOOK_NS SH_NS_PER_MS
#define LEAVE_WAITS   5 /* times SHIFT_FLUSH_WAIT_MS */

static bool users_any(const struct sh_ctx *ctx, enum sh_user user)
{
	uint32_t port;

	for (port = 0; port <= SH_HELD_PORTS; port++)
		if (ctx->users[port][user])
			return true;
	return false;
}

bool sh_ctx_masked(const struct sh_ctx *ctx)
{
	return users_any(ctx, SH_USER_MASKED);
}

/* ---- of one object -------------------------------------------------------------------------- */

static bool ctx_qp_masked(const struct ibv_async_event *event) SH_LOCKED
{
	struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, event->element.qp);

	if (!qp || !qp->conn_id)
		return false;
	if (event->event_type == IBV_EVENT_QP_REQ_ERR ||
	    event->event_type == IBV_EVENT_QP_ACCESS_ERR) {
		SH_PARTS_TELL(move.passed, qp, IBV_WC_SUCCESS);
		sh_conn_simple(qp, SC_EV_APP_ERROR, SC_REASON_APPLICATION);
		return false;
	}
	return event->event_type == IBV_EVENT_QP_FATAL && sh_user_protected(qp);
}

/* The application's own QP takes no more receives of its shared queue. */
static bool ctx_last_receive_masked(const struct ibv_async_event *event) SH_LOCKED
{
	struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, event->element.qp);

	if (event->element.qp->qp_context == &sh_reclaim_mark)
		return true;
	return qp && qp->sp && sh_srq_last_receive(qp, &qp->carriers.own);
}

/*
 * True if SHIFT checks the limit itself, for a queue spread over several NICs. Before that its
 * NIC tells: once.
 */
static bool ctx_limit_masked(const struct ibv_async_event *event)
{
	struct sh_srq *srq = sh_srq_of(event->element.srq);
	struct sp_srq_state state;

	if (!srq)
		return true; /* stands in for the application's */
	sp_srq_query(sp_srq_own(srq->sp), &state);
	if (!state.split)
		sp_srq_limit(srq->sp, 0);
	return state.split;
}

/*
 * Handles the overrun of a CQ, which shows no completion any more. Flushes of connections that move
 * have room in it (conn/parts/room.c), so the application has let too many lie, and hears of it.
 * What uses the queue is not protected any more, or was not before: it had no room for a flush.
 */
static void ctx_cq_overran(const struct ibv_async_event *event) SH_LOCKED
{
	struct sh_cq *cq = sh_table_get(&sh_objects.by_cq, event->element.cq);
	struct sh_qp *qp;

	if (!cq || !cq->sp)
		return;
	cq->overrun = true;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if ((qp->scq != cq && qp->rcq != cq) || qp->active->epoch || !qp->conn_id)
			continue;
		if (qp->core.move == SC_MOVE_NONE ||
		    (qp->core.move == SC_MOVE_ENDED && !qp->core.failed)) {
			sh_room_overran(qp);
			sh_incident_overran(qp);
		} else {
			sh_conn_simple(qp, SC_EV_FAULT, SC_REASON_DEVICE);
		}
	}
}

/*
 * True if the application has heard of an overrun of this CQ. Several real ones may stand for it,
 * and each may overrun: it hears of that once.
 */
static bool ctx_overrun_told(const struct ibv_cq *real)
{
	struct sh_cq *cq = sh_table_get(&sh_objects.by_cq, real);
	bool told = cq && cq->overrun_told;

	if (cq)
		cq->overrun_told = true;
	return told;
}

/*
 * Does the application have the object of this event? False: SHIFT made it, or the application
 * has destroyed it. Events that name no object are the application's.
 */
static bool ctx_event_known(const struct ibv_async_event *event)
{
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return sh_table_get(&sh_objects.by_qp, event->element.qp);
	case IBV_EVENT_CQ_ERR: return sh_table_get(&sh_objects.by_cq, event->element.cq);
	case IBV_EVENT_SRQ_LIMIT_REACHED: return sh_srq_of(event->element.srq);
	default: return true;
	}
}

/* The application has destroyed the object, and its NIC has not yet. */
static bool ctx_event_of_debt(const struct sh_ctx *ctx, const struct ibv_async_event *event)
{
	return ctx->debts && !ctx_event_known(event);
}

/* ---- of the device and its ports ------------------------------------------------------------- */

/* The context is of the NIC's present life, or of one that is over. */
static bool events_fault(const struct sh_ctx *ctx)
{
	const struct sh_nic *nic = ctx->nic;

	if (ctx->dead || ctx->incarnation != nic->incarnation)
		return ctx->dead;
	return nic->port_down || nic->link_lost || nic->fatal;
}

/* SHIFT watches one port of each NIC: the first. */
static struct sh_held_view events_view(const struct sh_ctx *ctx) SH_LOCKED
{
	struct sh_held_view view = { .device = { .masked = sh_ctx_masked(ctx),
						 .bystander = users_any(ctx, SH_USER_BYSTANDER) } };
	uint32_t i;

	for (i = 0; i < SH_HELD_PORTS; i++)
		view.port[i] = (struct sh_held_who){
			.masked = ctx->users[i + 1][SH_USER_MASKED],
			.bystander = ctx->users[i + 1][SH_USER_BYSTANDER],
			.fault = ctx->dead || (!i && events_fault(ctx)),
		};
	return view;
}

static void events_device_died(struct sh_ctx *ctx) SH_LOCKED
{
	ctx->dead = true;
	ctx->death_masked |= sh_ctx_masked(ctx);
	ctx->removal.told++;
	if (ctx->incarnation == ctx->nic->incarnation)
		sh_nic_fatal(ctx->nic);
}

static bool events_held(struct sh_ctx *ctx, const struct ibv_async_event *event) SH_LOCKED
{
	struct sh_held_view view = events_view(ctx);
	bool held = sh_held_keep(&ctx->held, event, &view);

	if (event->event_type == IBV_EVENT_DEVICE_FATAL)
		events_device_died(ctx);
	if (held)
		sh_log(SH_LOG_INFO,
		       "%s: %s is held back: all connections that it concerns are masked",
		       ctx->nic->name, sh.real->event_type_str(event->event_type));
	return held;
}

void sh_ctx_tell_owed(struct sh_ctx *ctx)
{
	struct ibv_async_event event = { 0 };
	struct sh_held_view view;
	const char *why;

	if (!ctx || !ctx->async || !sh_held_owes(&ctx->held))
		return;
	view = events_view(ctx);
	while ((why = sh_held_release(&ctx->held, &view, &event))) {
		sh_log(SH_LOG_INFO, "%s: %s was held back and is told now: %s", ctx->nic->name,
		       sh.real->event_type_str(event.event_type), why);
		sh_async_push(ctx->async, &event, false);
	}
}

void sh_ctx_met(struct sh_ctx *ctx, bool dead)
{
	if (!ctx || ctx->held.met == dead)
		return;
	ctx->held.met = dead;
	sh_ctx_tell_owed(ctx);
}

void shift_made(struct ibv_context *context, int err)
{
	int saved = errno;

	if (!err || sh_dead_device_error(err)) {
		sh_lock();
		sh_ctx_met(sh_ctx_find(context), err != 0);
		sh_unlock();
	}
	errno = saved;
}

/* ---- as they come --------------------------------------------------------------------------- */

/* Is this event of an object part of a fault that the application must not see? */
static bool events_of_object_masked(struct sh_ctx *ctx,
				    const struct ibv_async_event *event) SH_LOCKED
{
	if (ctx_event_of_debt(ctx, event))
		return true;
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR: return ctx_qp_masked(event);
	case IBV_EVENT_CQ_ERR: ctx_cq_overran(event); return ctx_overrun_told(event->element.cq);
	case IBV_EVENT_QP_LAST_WQE_REACHED: return ctx_last_receive_masked(event);
	case IBV_EVENT_SRQ_LIMIT_REACHED: return ctx_limit_masked(event);
	default: return false;
	}
}

static bool events_masked(struct sh_ctx *ctx, const struct ibv_async_event *event) SH_LOCKED
{
	if (events_held(ctx, event))
		return true;
	if (!events_of_object_masked(ctx, event))
		return false;
	sh_log(SH_LOG_INFO, "%s: %s kept from the application", ctx->nic->name,
	       sh.real->event_type_str(event->event_type));
	return true;
}

static void events_drop(const struct sh_ctx *ctx, const struct ibv_async_event *event)
{
	if (ctx_event_known(event))
		sh_async_hide(ctx->async, event);
	else
		sh_async_drop(ctx->async, event);
}

/* A CQ that the program does not know stands for one of its own. */
static bool events_of_private(struct sh_ctx *ctx, const struct ibv_async_event *event) SH_LOCKED
{
	struct ibv_async_event told = *event;

	if (event->event_type != IBV_EVENT_CQ_ERR)
		return false;
	told.element.cq = sh_qp_foreign_cq_of(event->element.cq);
	if (!told.element.cq)
		return false;
	sh_async_drop(ctx->async, event);
	if (!ctx_overrun_told(told.element.cq))
		sh_async_push(ctx->async, &told, false);
	return true;
}

static void events_read(struct sh_ctx *ctx) SH_LOCKED
{
	struct ibv_async_event event;
	int ret, budget = 64;

	while (budget--) {
		ret = sh_async_read_real(ctx->async, &event);
		if (ret) {
			if (ret != -EAGAIN)
				sh_loop_remove(sh_async_real_fd(ctx->async));
			return;
		}
		if (events_of_private(ctx, &event))
			continue;
		if (events_masked(ctx, &event))
			events_drop(ctx, &event);
		else
			sh_async_push(ctx->async, &event, true);
		sh_ctx_tell_owed(ctx);
	}
}

void sh_ctx_async_readable(void *arg)
{
	struct sh_ctx *ctx = arg;

	if (!ctx->async) /* closed meanwhile */
		return;
	events_read(ctx);
	if (sh_removal_ends(&ctx->removal, ctx->ctx))
		sh_quiesce_context_over(ctx->ctx);
}

/* Tells what is due by now: connections may have moved or ended, or the NIC may be well again. */
static void events_run(uint64_t now) SH_LOCKED
{
	struct sh_ctx *ctx;

	(void)now;
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		sh_ctx_tell_owed(ctx);
}

const struct sh_module sh_ctx_events_module = { .name = "ctx-events", .run = events_run };

/* ---- answers while a fault is masked -------------------------------------------------------- */

bool sh_ctx_death_masked(const struct sh_ctx *ctx, bool gone)
{
	return ctx->death_masked || (gone && sh_ctx_masked(ctx));
}

/* True while a masked connection is on the dead device, where its queue pair may still execute. */
static bool ctx_still_used(const struct sh_ctx *ctx) SH_LOCKED
{
	const struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->ctx == ctx && qp->counted.user == SH_USER_MASKED &&
		    qp->core.move != SC_MOVE_ENDED && qp->active->nic == ctx->nic &&
		    sh_carrier_dead(qp->active))
			return true;
	return false;
}

void sh_ctx_leave(struct ibv_context *context)
{
	struct sh_ctx *ctx = sh_ctx_find(context);
	uint64_t until = sh_now_ns() + LEAVE_WAITS * sh.config.flush_wait_ns;

	if (ctx && !ctx->dead && ctx->nic->state == SH_NIC_OPEN &&
	    ctx->incarnation == ctx->nic->incarnation)
		sh_nic_taken(ctx->nic);
	while (ctx && ctx_still_used(ctx) && sh_now_ns() < until) {
		sh_wait_some(LEAVE_LOOK_NS);
		ctx = sh_ctx_find(context);
	}
}

static bool channel_of_cq(const struct sh_cq *cq, const struct ibv_comp_channel *facade)
{
	return cq && cq->facade == facade;
}

/*
 * UCX looks, without waiting, at the channels of interfaces that it does not use, and ends the
 * process where a look fails. It hears of the death by DEVICE_FATAL.
 */
static bool channel_looked_at_by_ucx(const struct ibv_comp_channel *facade)
{
	int flags = fcntl(facade->fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && sh_variable_library_found(SH_VARIABLE_OF_UCX);
}

/*
 * True if a masked connection uses the channel, or would end with the process. A channel that only
 * others use is as on stock: they wait for completions that never come.
 */
bool sh_news_death_masked(const struct ibv_comp_channel *facade)
{
	bool ucx = channel_looked_at_by_ucx(facade), masked = false;
	struct sh_qp *qp;

	sh_lock();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		masked |= qp->counted.user == SH_USER_MASKED &&
			  (ucx || channel_of_cq(qp->scq, facade) || channel_of_cq(qp->rcq, facade));
	sh_unlock();
	return masked;
}

int sh_ctx_destroy_result(struct ibv_context *context, int ret)
{
	struct sh_ctx *ctx;
	bool gone;

	if (!sh_dead_device_error(ret))
		return ret;
	gone = sh_device_gone(context);
	sh_lock();
	ctx = sh_ctx_find(context);
	if (ctx && (ctx->debts || sh_ctx_death_masked(ctx, gone)))
		ret = 0;
	sh_unlock();
	return ret;
}

/* NULL: none is known. */
static struct ibv_port_attr *port_last(struct sh_ctx *ctx, uint8_t port, size_t length) SH_LOCKED
{
	if (!ctx || !ctx->nic || port < 1 || port > SH_HELD_PORTS ||
	    length > sizeof(ctx->port[0].attr))
		return NULL;
	return &ctx->port[port - 1].attr;
}

static bool port_hidden(const struct sh_ctx *ctx, uint8_t port) SH_LOCKED
{
	struct sh_held_view view = events_view(ctx);

	return ctx->port[port - 1].valid && sh_held_hides(&ctx->held, &view, port);
}

int shift_query_port_cached(struct ibv_context *context, uint8_t port, void *attr, size_t length)
{
	struct ibv_port_attr *last;
	struct sh_ctx *ctx;
	int ret = -ENOENT;

	sh_lock();
	ctx = sh_ctx_find(context);
	last = port_last(ctx, port, length);
	if (last && port_hidden(ctx, port)) {
		memcpy(attr, last, length);
		ret = 0;
	}
	sh_unlock();
	return ret;
}

void shift_query_port_note(struct ibv_context *context, uint8_t port, const void *attr,
			   size_t length)
{
	struct ibv_port_attr *last;
	struct sh_ctx *ctx;

	sh_lock();
	ctx = sh_ctx_find(context);
	last = port_last(ctx, port, length);
	if (last) {
		memcpy(last, attr, length);
		ctx->port[port - 1].valid = true;
	}
	sh_unlock();
}
