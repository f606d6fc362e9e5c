/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts of the application: what can be driven there, and its asynchronous events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/srq.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

bool sh_ctx_masked(const struct sh_ctx *ctx)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->ctx == ctx && qp->conn_id && qp->core.move != SC_MOVE_ENDED &&
		    (qp->core.guarded || qp->active->epoch || qp->core.move != SC_MOVE_NONE))
			return true;
	return false;
}

/* ---- asynchronous events -------------------------------------------------------------------- */

static bool ctx_qp_masked(const struct ibv_async_event *event)
{
	struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, event->element.qp);

	if (!qp || !qp->conn_id)
		return false;
	if (event->event_type == IBV_EVENT_QP_REQ_ERR ||
	    event->event_type == IBV_EVENT_QP_ACCESS_ERR) {
		sh_conn_simple(qp, SC_EV_APP_ERROR, SC_REASON_APPLICATION);
		return false;
	}
	return event->event_type == IBV_EVENT_QP_FATAL &&
	       (qp->core.guarded || qp->active->epoch || qp->core.move != SC_MOVE_NONE) &&
	       qp->core.move != SC_MOVE_ENDED;
}

/* The application's own QP takes no more receives of its shared queue. */
static bool ctx_last_receive_masked(const struct ibv_async_event *event)
{
	struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, event->element.qp);

	if (event->element.qp->qp_context == &sh_reclaim_mark)
		return true;
	return qp && qp->sp && sh_srq_last_receive(qp, &qp->carriers.own);
}

/* What is spread over several NICs has its limit checked by SHIFT. Before that its NIC tells: once. */
static bool ctx_limit_masked(const struct ibv_async_event *event)
{
	struct sh_srq *srq = sh_srq_of(event->element.srq);
	struct sp_srq_state state;

	if (!srq)
		return true; /* of one that stands in for the application's */
	sp_srq_look(sp_srq_own(srq->sp), &state);
	if (!state.split)
		sp_srq_limit(srq->sp, 0);
	return state.split;
}

/*
 * A CQ overran: flushes of a connection that moves can do that where the application made it for
 * its signaled requests only. It shows no completion any more, so what still uses it moves too.
 * False: something that cannot is left on it.
 */
static bool ctx_cq_masked(const struct ibv_async_event *event)
{
	struct sh_cq *cq = sh_table_get(&sh_objects.by_cq, event->element.cq);
	bool masked = cq && cq->sp;
	struct sh_qp *qp;

	if (!masked)
		return false;
	cq->overrun = true;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if ((qp->scq != cq && qp->rcq != cq) || qp->active->epoch)
			continue;
		if (qp->conn_id && qp->core.guarded)
			sh_conn_simple(qp, SC_EV_FAULT, SC_REASON_DEVICE);
		else
			masked = false;
	}
	return masked;
}

/* Of what the application has destroyed, and its NIC not yet. */
static bool ctx_event_of_debt(const struct sh_ctx *ctx, const struct ibv_async_event *event)
{
	if (!ctx->debts)
		return false;
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return !sh_table_get(&sh_objects.by_qp, event->element.qp);
	case IBV_EVENT_CQ_ERR: return !sh_table_get(&sh_objects.by_cq, event->element.cq);
	default: return false;
	}
}

/* Is this event part of a fault that the application must not see? */
static bool ctx_event_masked(struct sh_ctx *ctx, const struct ibv_async_event *event)
{
	if (ctx_event_of_debt(ctx, event))
		return true;
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR: return ctx_qp_masked(event);
	case IBV_EVENT_CQ_ERR: return ctx_cq_masked(event);
	case IBV_EVENT_QP_LAST_WQE_REACHED: return ctx_last_receive_masked(event);
	case IBV_EVENT_SRQ_LIMIT_REACHED: return ctx_limit_masked(event);
	case IBV_EVENT_DEVICE_FATAL:
		ctx->death_masked = sh_ctx_masked(ctx);
		ctx->removal.told++;
		if (ctx->incarnation == ctx->nic->incarnation)
			sh_nic_fatal(ctx->nic);
		return ctx->death_masked;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE: return sh_ctx_masked(ctx);
	case IBV_EVENT_PORT_ERR:
		ctx->port_err_masked = sh_ctx_masked(ctx);
		return ctx->port_err_masked;
	case IBV_EVENT_PORT_ACTIVE: return ctx->port_err_masked;
	default: return false;
	}
}

/* Of an object of SHIFT's own, or one that the application has destroyed: nobody looks at its counts. */
static bool ctx_event_shows(const struct ibv_async_event *event)
{
	switch ((int)event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return sh_table_get(&sh_objects.by_qp, event->element.qp);
	case IBV_EVENT_CQ_ERR: return sh_table_get(&sh_objects.by_cq, event->element.cq);
	case IBV_EVENT_SRQ_LIMIT_REACHED: return sh_srq_of(event->element.srq);
	default: return false;
	}
}

static void ctx_event_keep(const struct sh_ctx *ctx, const struct ibv_async_event *event)
{
	sh_log(SH_LOG_INFO, "%s: %s kept from the application", ctx->nic->name,
	       sh.real->event_type_str(event->event_type));
	if (ctx_event_shows(event))
		sh_async_hide(ctx->async, event);
	else
		sh_async_drop(ctx->async, event);
}

static void ctx_read_events(struct sh_ctx *ctx)
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
		if (ctx_event_masked(ctx, &event)) {
			ctx_event_keep(ctx, &event);
		} else {
			sh_async_push(ctx->async, &event, true);
		}
	}
}

static void ctx_async_readable(void *arg)
{
	struct sh_ctx *ctx = arg;

	if (!ctx->async) /* closed meanwhile */
		return;
	ctx_read_events(ctx);
	if (sh_removal_ends(&ctx->removal, ctx->ctx))
		sh_quiesce_context_over(ctx->ctx);
}

bool sh_ctx_death_masked(const struct sh_ctx *ctx, bool gone)
{
	return ctx->death_masked || (gone && sh_ctx_masked(ctx));
}

bool sh_news_death_masked(struct ibv_context *context)
{
	struct sh_ctx *ctx;
	bool masked;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	masked = ctx && sh_ctx_death_masked(ctx, true);
	pthread_mutex_unlock(&sh.lock);
	return masked;
}

int sh_ctx_destroy_result(struct ibv_context *context, int ret)
{
	struct sh_ctx *ctx;
	bool gone;

	if (!sh_dead_device_error(ret))
		return ret;
	gone = sh_device_gone(context);
	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	if (ctx && (ctx->debts || sh_ctx_death_masked(ctx, gone)))
		ret = 0;
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

/* ---- open ----------------------------------------------------------------------------------- */

_Static_assert(BACKUP_MAP_MAX_BACKUPS + 1 == SC_MAX_PATHS, "every backup has its path");

static const char *ctx_paths(struct sh_ctx *ctx)
{
	uint8_t index = ctx->nic->index, i;

	ctx->path[ctx->n_paths++] = ctx->nic;
	for (i = 0; i < sh_nics.map.n_backups[index] && ctx->n_paths < SC_MAX_PATHS; i++)
		ctx->path[ctx->n_paths++] = &sh_nics.nic[sh_nics.map.backups[index][i]];
	if (ctx->n_paths > 1)
		return NULL;
	return sh_nics.map.automatic ? "no other NIC of its kind and link layer is there"
				     : "no backup NIC is named for it";
}

/* Lock held. */
static const char *ctx_find_nic(struct sh_ctx *ctx)
{
	if (sh_nics_load())
		return "the devices cannot be listed";
	ctx->nic = sh_nic_by_place(sh.real->get_device_name(ctx->ctx->device));
	if (!ctx->nic)
		return "it is not in the device list";
	if (!sh_nic_engine(ctx->nic))
		return "no engine is for it and all its backups";
	return NULL;
}

/* What the process needs for any context. Lock held. */
static const char *ctx_join(struct sh_ctx *ctx)
{
	/* one that is dead and back, and not opened again by SHIFT yet, is its next life already */
	ctx->incarnation = ctx->nic->incarnation + ctx->nic->fatal;
	return sh_start() ? "no background thread" : NULL;
}

/* Lock not held: it asks the device, which may hang. */
static const char *ctx_drive(struct sh_ctx *ctx)
{
	if (sp_dev_init(sh_nic_engine(ctx->nic), ctx->ctx, true, &sh_callbacks, &ctx->dev))
		return "no memory for the engine";
	ctx->async = sh_async_init(ctx->ctx);
	if (ctx->async)
		return NULL;
	sp_dev_uninit(ctx->dev);
	ctx->dev = NULL;
	return "no fds for asynchronous events";
}

static const char *ctx_init(struct sh_ctx *ctx)
{
	const char *why = NULL;

	if (!sp_probe(sh.config.engine, ctx->ctx, &why))
		return why ? why : "SHIFT_ENGINE names no engine";
	pthread_mutex_lock(&sh.lock);
	why = ctx_find_nic(ctx);
	pthread_mutex_unlock(&sh.lock);
	if (why || !sh_nic_engine(ctx->nic)->probe(ctx->ctx, &why))
		return why;
	pthread_mutex_lock(&sh.lock);
	why = ctx_join(ctx);
	pthread_mutex_unlock(&sh.lock);
	return why ? why : ctx_drive(ctx);
}

void shift_context_opened(struct ibv_context *context)
{
	struct sh_ctx *ctx = calloc(1, sizeof(*ctx));
	uint8_t k;

	if (!ctx)
		return;
	ctx->ctx = context;
	list_init(&ctx->pds);
	list_init(&ctx->cqs);
	list_init(&ctx->srqs);
	for (k = 0; k < SC_MAX_PATHS; k++)
		sh_keymap_init(&ctx->lkeys[k]);
	ctx->why = ctx_init(ctx);
	pthread_mutex_lock(&sh.lock);
	if (ctx->why) {
		sh_log(SH_LOG_INFO, "%s is foreign: %s", sh.real->get_device_name(context->device),
		       ctx->why);
	} else {
		ctx->async_handler = (struct sh_handler){ ctx_async_readable, ctx };
		sh_loop_add(sh_async_real_fd(ctx->async), &ctx->async_handler);
		ctx->why = ctx_paths(ctx);
	}
	list_add_tail(&sh_objects.ctxs, &ctx->link);
	pthread_mutex_unlock(&sh.lock);
}

/* ---- close ---------------------------------------------------------------------------------- */

static struct sh_qp *ctx_any_qp(const struct sh_ctx *ctx)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->ctx == ctx)
			return qp;
	return NULL;
}

/*
 * A device may be closed with all that was made on it: the kernel destroys that with the fd. What
 * stands for it on other NICs is SHIFT's to destroy, or memory of the application stays writable.
 */
static void ctx_forget_objects(struct sh_ctx *ctx)
{
	struct sh_qp *qp;

	while ((qp = ctx_any_qp(ctx)))
		sh_qp_forget(qp);
	while (!list_empty(&ctx->srqs))
		sh_srq_forget(list_entry(ctx->srqs.next, struct sh_srq, link));
	while (!list_empty(&ctx->cqs))
		sh_cq_forget(list_entry(ctx->cqs.next, struct sh_cq, link));
	while (!list_empty(&ctx->pds))
		sh_pd_forget(list_entry(ctx->pds.next, struct sh_pd, link));
}

/* Then other NICs are asked to destroy things, and one may hang. */
static bool ctx_has_objects(const struct sh_ctx *ctx)
{
	return ctx_any_qp(ctx) || !list_empty(&ctx->srqs) || !list_empty(&ctx->cqs) ||
	       !list_empty(&ctx->pds);
}

static void ctx_uninit(struct sh_ctx *ctx)
{
	bool handled = ctx->dev;
	uint8_t k;

	ctx_forget_objects(ctx);
	if (handled) {
		sh_loop_remove(sh_async_real_fd(ctx->async));
		sh_async_uninit(ctx->async);
		ctx->async = NULL;
		sp_dev_uninit(ctx->dev);
		ctx->dev = NULL;
	}
	for (k = 0; k < SC_MAX_PATHS; k++)
		sh_keymap_uninit(&ctx->lkeys[k]);
	list_del(&ctx->link);
	if (!handled) { /* no event can name it */
		free(ctx);
		return;
	}
	list_add_tail(&sh_objects.dead_ctxs, &ctx->link);
	sh_kick();
}

static int ctx_close(void *context)
{
	struct sh_ctx *ctx;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	if (ctx)
		ctx_uninit(ctx);
	pthread_mutex_unlock(&sh.lock);
	return sh.real->close_device(context);
}

int shift_close_device(struct ibv_context *context)
{
	struct sh_ctx *ctx;
	bool later;
	int ret = 0;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	later = sh_debts_kept(ctx) || (ctx && ctx->dev && ctx_has_objects(ctx));
	if (later)
		ret = sh_debt_leave(ctx, ctx_close, context, true);
	pthread_mutex_unlock(&sh.lock);
	return later ? ret : ctx_close(context);
}

/* ---- answers while a fault is masked -------------------------------------------------------- */

int shift_query_port_cached(struct ibv_context *context, uint8_t port, void *attr, size_t length)
{
	struct sh_ctx *ctx;
	int ret = -ENOENT;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	if (ctx && ctx->nic && port >= 1 && port <= 2 && ctx->port[port - 1].valid &&
	    length <= sizeof(ctx->port[0].attr) &&
	    (ctx->nic->port_down || ctx->nic->fatal || ctx->death_masked) && sh_ctx_masked(ctx)) {
		memcpy(attr, &ctx->port[port - 1].attr, length);
		ret = 0;
	}
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

void shift_query_port_note(struct ibv_context *context, uint8_t port, const void *attr,
			   size_t length)
{
	struct sh_ctx *ctx;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	if (ctx && port >= 1 && port <= 2 && length <= sizeof(ctx->port[0].attr)) {
		memcpy(&ctx->port[port - 1].attr, attr, length);
		ctx->port[port - 1].valid = true;
	}
	pthread_mutex_unlock(&sh.lock);
}
