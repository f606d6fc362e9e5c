/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: asked for, and destroyed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/atomics/words.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/told/stats.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/srq.h"

bool sh_qp_moved(const struct sh_qp *qp)
{
	return qp->active->epoch ||
	       (qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED);
}

bool sh_qp_leaves(const struct sh_qp *qp, int ret)
{
	return sh_dead_device_error(ret) && qp->conn_id && qp->core.guarded;
}

bool sh_qp_hangs(const struct sh_qp *qp)
{
	return qp->ctx->nic->sick && sh_qp_moved(qp);
}

/* ---- query ---------------------------------------------------------------------------------- */

/*
 * Hides places of the real queue that are not the application's: the log's, and of what the
 * engine sends.
 */
static void query_own_places(const struct sh_qp *qp, struct ibv_qp_attr *attr,
			     struct ibv_qp_init_attr *init_attr)
{
	attr->cap.max_send_wr = init_attr->cap.max_send_wr = qp->caps.max_send_wr;
}

/*
 * Adds what the application has set since its own NIC was left: that NIC, whose QP is in ERR, may
 * have refused it.
 */
static void query_set_since(const struct sh_qp_app *app, struct ibv_qp_attr *attr)
{
	if (app->mask & IBV_QP_ACCESS_FLAGS)
		attr->qp_access_flags = app->attr.qp_access_flags;
	if (app->mask & IBV_QP_MIN_RNR_TIMER)
		attr->min_rnr_timer = app->attr.min_rnr_timer;
	if (app->mask & IBV_QP_PATH_MIG_STATE)
		attr->path_mig_state = app->attr.path_mig_state;
	if (!(app->mask & IBV_QP_ALT_PATH))
		return;
	attr->alt_ah_attr = app->attr.alt_ah_attr;
	attr->alt_pkey_index = app->attr.alt_pkey_index;
	attr->alt_port_num = app->attr.alt_port_num;
	attr->alt_timeout = app->attr.alt_timeout;
}

int shift_query_qp(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr)
{
	struct sh_qp *qp;
	int ret = EIO;
	bool hangs;

	sh_lock();
	qp = sh_table_get(&sh_objects.by_qp, real);
	hangs = qp && qp->sp && sh_qp_hangs(qp);
	sh_unlock();
	if (!hangs)
		ret = sh.real->query_qp(real, attr, mask, init_attr);
	sh_lock();
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (qp && qp->sp && (sh_qp_moved(qp) || sh_qp_leaves(qp, ret))) {
		if (ret) { /* a dead NIC: what the application itself set is the answer */
			*attr = qp->app.attr;
			memset(init_attr, 0, sizeof(*init_attr));
			init_attr->qp_context = real->qp_context;
			init_attr->send_cq = real->send_cq;
			init_attr->recv_cq = real->recv_cq;
			init_attr->srq = real->srq;
			init_attr->qp_type = real->qp_type;
			init_attr->sq_sig_all = qp->init.sq_sig_all;
			init_attr->cap = attr->cap = qp->caps;
			ret = 0;
		}
		query_set_since(&qp->app, attr);
		attr->qp_state = qp->app.state;
		attr->cur_qp_state = qp->app.state;
		real->state = qp->app.state;
	}
	if (qp && qp->sp && !ret)
		query_own_places(qp, attr, init_attr);
	sh_unlock();
	return ret;
}

/* ---- destroy -------------------------------------------------------------------------------- */

void sh_qp_release_srq(struct sh_qp *qp)
{
	int saved = errno;

	if (qp->srq)
		sh_srq_shadow_put(qp->srq, qp->own.srq);
	qp->own.srq = NULL;
	errno = saved;
}

/* later: jobs may still hold it, until qp_pay(). */
static void qp_release(struct sh_qp *qp, bool later) SH_DROPS
{
	sh_stats_keep(qp);
	if (qp->sp) {
		sh_srq_silence(qp);
		if (later)
			sh_conn_close_nowait(qp);
		else
			sh_conn_close(qp);
		sp_qp_undrive(qp->sp);
		sh_mailbox_read(); /* nothing of it comes any more; what came is taken out */
		if (later)
			sh_carriers_drop_later(qp);
		else
			sh_carriers_drop(qp, false);
		qp->sp = NULL;
		qp->foreign.dying = true;
		sh_room_remove(qp);
		qp->scq->qps--;
		qp->rcq->qps--;
		if (qp->srq)
			qp->srq->qps--;
	}
	sh_clock_untouch(qp);
	sh_users_forget(qp);
	sh_ctx_tell_owed(qp->ctx);
	list_del(&qp->link);
	sh_table_remove(&sh_objects.by_qp, qp->qp);
	sh_news_qp_gone(qp->qp);
}

static void qp_free(struct sh_qp *qp)
{
	sh_carriers_uninit(qp);
	sh_loopback_uninit(qp);
	free(qp);
}

/* Forgets a QP whose context is closed while it lives: the kernel destroys it. */
void sh_qp_forget(struct sh_qp *qp)
{
	sh_wait_idle(&qp->busy);
	sh_qp_release_srq(qp);
	sh_wqe_log_free(qp);
	sh_qp_foreign_forget(qp);
	qp_release(qp, false);
	sh_words_forget(qp);
	qp_free(qp);
}

static int qp_destroy_real(struct ibv_qp *real)
{
	struct ibv_context *context = real->context;
	struct sh_async *async = sh_async_of(context);
	int ret;

	sh_async_forget_begin(async, real);
	ret = sh_ctx_destroy_result(context, sh.real->destroy_qp(real));
	sh_async_forget_end(async, real, ret != 0);
	return ret;
}

/* The real one, and what is left of it. */
static int qp_end(struct sh_qp *qp)
{
	int ret = qp_destroy_real(qp->qp);

	sh_wqe_log_drop(qp->carriers.own.log.mr);
	sh_lock();
	sh_wqe_log_free(qp);
	if (qp->srq) {
		qp->srq->pinned--;
		sh_qp_release_srq(qp);
		sh_srq_check(qp->srq);
	}
	if (!qp->foreign.dying) {
		if (ret)
			sh_qp_foreign_show(qp);
		sh_qp_foreign_let_go(qp);
		sh_qp_foreign_release(qp);
	}
	sh_unlock();
	sh_words_forget(qp);
	qp_free(qp);
	return ret;
}

static int qp_pay(void *object)
{
	struct sh_qp *qp = object;

	sh_lock();
	sh_wait_idle(&qp->busy);
	sh_loopback_drop(qp);
	sh_unlock();
	return qp_end(qp);
}

static int qp_pay_unknown(void *real)
{
	return qp_destroy_real(real);
}

/* Stops the QP, which may have to wait for another NIC that hangs. */
static void qp_stop(const struct sh_ctx *ctx, struct ibv_qp *real) SH_DROPS
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!sh_nic_up(ctx->nic))
		return;
	sh_unlock();
	sh.real->modify_qp(real, &attr, IBV_QP_STATE);
	sh_lock();
}

/* Events of it that come until it is gone are dropped: context.c. */
static int qp_destroy_later(struct sh_ctx *ctx, struct ibv_qp *real, struct sh_qp *qp) SH_DROPS
{
	qp_stop(ctx, real);
	sh_async_forget_begin(ctx->async, real);
	sh_async_forget_end(ctx->async, real, false);
	if (qp)
		return sh_debt_defer(ctx, qp_pay, qp, false);
	return sh_debt_defer(ctx, qp_pay_unknown, real, false);
}

/* Is anything of it on a NIC that may not obey? */
static bool qp_owes(const struct sh_qp *qp) SH_LOCKED
{
	uint32_t k;

	if (!sh_nic_prompt(qp->ctx->nic) || qp->busy.jobs)
		return true;
	for (k = 0; k < SH_MAX_CARRIERS; k++)
		if (sh_carrier_at(qp, k)->nic && !sh_nic_prompt(sh_carrier_at(qp, k)->nic))
			return true;
	for (k = 0; k < qp->ctx->n_paths; k++)
		if (sh_loopback_has_reader(qp, k) && !sh_nic_prompt(qp->ctx->path[k]))
			return true;
	return false;
}

/* True if it has readers on other NICs: whoever destroys them waits for those. */
static bool qp_has_readers(const struct sh_qp *qp) SH_LOCKED
{
	uint32_t k;

	for (k = 0; k < SC_MAX_PATHS; k++)
		if (sh_loopback_has_reader(qp, k))
			return true;
	return false;
}

/*
 * Stops a QP that runs on another NIC, which destroys it in the background: it executes nothing
 * of the peer's any more when this returns, as the application may use its buffers for something
 * else. Nobody is shown the flush. QPs on a shared receive queue are waited for.
 */
static void qp_stop_away(struct sh_qp *qp) SH_DROPS
{
	if (qp->srq)
		return;
	sp_qp_seal(qp->sp);
	sh_qp_ends(qp);
}

int shift_destroy_qp(struct ibv_qp *real)
{
	struct sh_ctx *ctx;
	struct sh_qp *qp;
	bool later, readers;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(real->context);
	later = sh_debts_kept(ctx);
	qp = sh_table_get(&sh_objects.by_qp, real);
	later = later && (!qp || qp_owes(qp));
	if (qp && qp->sp && qp->active->epoch)
		qp_stop_away(qp);
	if (qp) {
		later = later || !sh_debt_idle(ctx, &qp->busy);
		/* Still taking receives, maybe, until the kernel has destroyed it. */
		if (qp->srq)
			qp->srq->pinned++;
		if (!qp->sp)
			sh_qp_foreign_begin(qp);
		readers = qp_has_readers(qp);
		qp_release(qp, later || readers || qp->srq);
		/* carriers on a shared receive queue hold it until they are gone */
		later = later || readers || !sh_debt_idle(ctx, &qp->busy);
	}
	if (later)
		ret = qp_destroy_later(ctx, real, qp);
	sh_unlock();
	if (later)
		return ret;
	return qp ? qp_end(qp) : qp_destroy_real(real);
}
