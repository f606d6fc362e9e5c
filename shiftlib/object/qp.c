/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: asked for, and destroyed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/srq.h"
#include "shiftlib/conn/stats.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/srq.h"

bool sh_qp_moved(const struct sh_qp *qp)
{
	return qp->active->epoch ||
	       (qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED);
}

/* ---- query ---------------------------------------------------------------------------------- */

int shift_query_qp(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr)
{
	int ret = sh.real->query_qp(real, attr, mask, init_attr);
	struct sh_qp *qp;

	pthread_mutex_lock(&sh.lock);
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (qp && qp->sp && sh_qp_moved(qp)) {
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
		attr->qp_state = qp->app.state;
		attr->cur_qp_state = qp->app.state;
		real->state = qp->app.state;
	}
	pthread_mutex_unlock(&sh.lock);
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

static void qp_release(struct sh_qp *qp)
{
	sh_stats_keep(qp);
	if (qp->sp) {
		sh_conn_close(qp);
		sp_qp_undrive(qp->sp);
		sh_mailbox_read(); /* nothing of it comes any more; what came is taken out */
		sh_carriers_drop(qp, false);
		qp->sp = NULL;
		qp->scq->qps--;
		qp->rcq->qps--;
		if (qp->srq)
			qp->srq->qps--;
	}
	sh_clock_untouch(qp);
	list_del(&qp->link);
	sh_table_remove(&sh_objects.by_qp, qp->qp);
}

/* Its context is closed while it lives: the kernel destroys it, SHIFT only forgets it. */
void sh_qp_forget(struct sh_qp *qp)
{
	sh_wait_idle(&qp->busy);
	sh_qp_release_srq(qp);
	if (qp->foreign.cq[0])
		sp_cq_foreign_del(qp->scq->sp, qp->foreign.cq[0]);
	if (qp->foreign.cq[1] && qp->foreign.cq[1] != qp->foreign.cq[0])
		sp_cq_foreign_del(qp->rcq->sp, qp->foreign.cq[1]);
	qp_release(qp);
	free(qp);
}

int shift_destroy_qp(struct ibv_qp *real)
{
	struct ibv_context *context = real->context;
	struct sh_async *async = sh_async_of(context);
	bool driven = false; /* even if its level is foreign by now */
	struct sh_qp *qp;
	int ret;

	pthread_mutex_lock(&sh.lock);
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (qp) {
		driven = qp->sp;
		sh_wait_idle(&qp->busy);
		if (qp->srq)
			qp->srq->pinned++; /* it may take receives until the kernel has done it */
		qp_release(qp);
	}
	pthread_mutex_unlock(&sh.lock);
	sh_async_forget_begin(async, real);
	ret = sh_ctx_destroy_result(context, sh.real->destroy_qp(real));
	sh_async_forget_end(async, real);
	if (qp && qp->srq) {
		pthread_mutex_lock(&sh.lock);
		qp->srq->pinned--;
		sh_qp_release_srq(qp);
		sh_srq_look(qp->srq);
		pthread_mutex_unlock(&sh.lock);
	}
	if (qp && !driven) {
		pthread_mutex_lock(&sh.lock);
		sh_qp_foreign_release(qp);
		pthread_mutex_unlock(&sh.lock);
	}
	free(qp);
	return ret;
}
