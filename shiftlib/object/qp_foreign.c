/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs that the engine does not drive, beside those that it does. */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/replica/cq.h"

static void foreign_cq_drop(struct sh_cq *cq, struct ibv_cq *private_cq)
{
	if (!private_cq)
		return;
	sp_cq_foreign_del(cq->sp, private_cq);
	sh_job_begin(&cq->busy);
	pthread_mutex_unlock(&sh.lock);
	sh.real->destroy_cq(private_cq);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&cq->busy);
}

static struct ibv_cq *foreign_cq_make(struct sh_cq *cq)
{
	struct ibv_context *context = cq->ctx->ctx;
	struct ibv_cq *private_cq;

	sh_job_begin(&cq->busy);
	pthread_mutex_unlock(&sh.lock);
	private_cq = sh_cq_create(context, cq->cq->cqe, cq->cq->cq_context, cq->real_channel,
				  cq->comp_vector);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&cq->busy);
	return private_cq;
}

/* A driven CQ cannot take completions of a QP that the provider posts, unless its engine can: it gets one of
 * its own, which the poll of the driven CQ merges. NULL when cq is not driven. made: that QP, if it exists already. */
static int foreign_cq(struct sh_cq *cq, const struct ibv_qp *made, struct ibv_cq **out)
{
	struct ibv_cq *private_cq;
	int ret;

	*out = NULL;
	if (!cq || !cq->sp || sp_has(cq->sp, SP_SHARES_CQ))
		return 0;
	private_cq = foreign_cq_make(cq);
	if (!private_cq)
		return -errno;
	if (made)
		ret = sp_cq_foreign_feed(cq->sp, private_cq, made->qp_num);
	else
		ret = sp_cq_foreign_add(cq->sp, private_cq);
	if (ret)
		foreign_cq_drop(cq, private_cq);
	else
		*out = private_cq;
	return ret;
}

void sh_qp_foreign_release(struct sh_qp *qp)
{
	struct ibv_cq *send = qp->foreign.cq[0], *recv = qp->foreign.cq[1];

	qp->foreign.cq[0] = qp->foreign.cq[1] = NULL;
	if (qp->scq) {
		foreign_cq_drop(qp->scq, send);
		qp->scq->foreign_qps--;
	}
	if (qp->rcq) {
		if (recv != send)
			foreign_cq_drop(qp->rcq, recv);
		qp->rcq->foreign_qps--;
	}
}

void sh_qp_foreign_count(struct sh_qp *qp)
{
	if (qp->scq)
		qp->scq->foreign_qps++;
	if (qp->rcq)
		qp->rcq->foreign_qps++;
}

int sh_qp_foreign_prepare(struct sh_qp *qp)
{
	int ret = foreign_cq(qp->scq, qp->qp, &qp->foreign.cq[0]);

	if (!ret && qp->rcq == qp->scq)
		qp->foreign.cq[1] = qp->foreign.cq[0];
	else if (!ret)
		ret = foreign_cq(qp->rcq, qp->qp, &qp->foreign.cq[1]);
	sh_qp_foreign_count(qp);
	if (ret) {
		sh_qp_foreign_release(qp);
		errno = -ret;
	}
	return ret;
}

bool sh_qp_foreign_leave_srq(struct sh_qp *qp, const char *why)
{
	if (qp->srq && sh_srq_leave(qp->srq)) {
		sh_log(SH_LOG_ERROR,
		       "a queue pair that SHIFT does not drive (%s) cannot share a receive queue "
		       "with those that it drives: refused; SHIFT_DISABLE=1 runs the job without "
		       "it",
		       why);
		return false;
	}
	qp->srq = NULL;
	return true;
}
