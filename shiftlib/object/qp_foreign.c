/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs that the engine does not drive, beside those that it does. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/replica/cq.h"

/* ---- private completion queues -------------------------------------------------------------- */

/*
 * Makes a private CQ. Its events are told as those of shadows on other NICs: by a real channel
 * that is not the application's. Lock not held.
 */
static struct sh_private_cq *private_new(struct sh_cq *cq)
{
	struct sh_private_cq *made = calloc(1, sizeof(*made));
	int saved;

	if (!made)
		return NULL;
	if (cq->facade) {
		made->channel = sh_comp_channel_shadow_get(cq->facade, cq->ctx->ctx);
		if (!made->channel)
			goto free_made;
	}
	sh_cq_feed_init(&made->feed, &cq->events);
	made->cq = sh_cq_create_like(cq, &made->feed, made->channel);
	if (made->cq) {
		sh_cq_feed_add(&made->feed, made->cq);
		return made;
	}
	saved = errno;
	if (made->channel)
		sh_comp_channel_shadow_put(cq->facade, made->channel);
	errno = saved;
free_made:
	free(made);
	return NULL;
}

static void private_destroy(struct sh_cq *cq, struct sh_private_cq *private_cq)
{
	sh_cq_feed_settle(&private_cq->feed);
	if (sh.real->destroy_cq(private_cq->cq))
		sh_comp_channel_remove(private_cq->cq);
	sh_cq_feed_uninit(&private_cq->feed);
	if (private_cq->channel)
		sh_comp_channel_shadow_put(cq->facade, private_cq->channel);
	free(private_cq);
}

static void private_cut(struct sh_cq *cq, struct sh_private_cq *private_cq)
{
	sh_cq_feed_close(&private_cq->feed);
	if (private_cq->merged)
		sp_cq_foreign_del(cq->sp, private_cq->cq);
	private_cq->merged = false;
}

static void foreign_cq_drop(struct sh_cq *cq, struct sh_private_cq *private_cq) SH_DROPS
{
	if (!private_cq)
		return;
	private_cut(cq, private_cq);
	sh_job_begin(&cq->busy);
	sh_unlock();
	private_destroy(cq, private_cq);
	sh_lock();
	sh_job_end(&cq->busy);
}

static struct sh_private_cq *foreign_cq_make(struct sh_cq *cq) SH_DROPS
{
	struct sh_private_cq *made;

	sh_job_begin(&cq->busy);
	sh_unlock();
	made = private_new(cq);
	sh_lock();
	sh_job_end(&cq->busy);
	return made;
}

static int foreign_cq_merge(struct sh_cq *cq, struct sh_private_cq *private_cq,
			    const struct ibv_qp *made)
{
	struct sp_cq_user user = { .private_cq = private_cq->cq };
	struct sp_cq_ring *events = NULL;
	int ret;

	if (made) {
		user.qpn = made->qp_num;
		ret = sp_cq_foreign_feed(cq->sp, &user);
	} else {
		ret = sp_cq_foreign_add(cq->sp, private_cq->cq, &events);
	}
	private_cq->merged = !ret;
	/* the provider is told of its events, and the engine behind that */
	if (events)
		atomic_store(&private_cq->feed.also, events);
	return ret;
}

/*
 * Gives a QP that the provider posts a CQ of its own, which the poll of the driven CQ merges:
 * that cannot take its completions, unless its engine can. NULL when cq is not driven. made: that
 * QP, if it exists already.
 */
static int foreign_cq(struct sh_cq *cq, const struct ibv_qp *made,
		      struct sh_private_cq **out) SH_DROPS
{
	struct sh_private_cq *private_cq;
	int ret;

	*out = NULL;
	if (!cq || !cq->sp || sp_has(cq->sp, SP_SHARES_CQ))
		return 0;
	private_cq = foreign_cq_make(cq);
	if (!private_cq)
		return -errno;
	ret = foreign_cq_merge(cq, private_cq, made);
	if (ret)
		foreign_cq_drop(cq, private_cq);
	else
		*out = private_cq;
	return ret;
}

/* ---- counted, and with CQs of its own -------------------------------------------------------- */

void sh_qp_foreign_release(struct sh_qp *qp)
{
	struct sh_private_cq *send = qp->foreign.cq[0], *recv = qp->foreign.cq[1];

	qp->foreign.cq[0] = qp->foreign.cq[1] = NULL;
	qp->foreign.counted = false;
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
	qp->foreign.counted = true;
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

static struct sh_cq *foreign_side(const struct sh_qp *qp, uint32_t i)
{
	return i ? qp->rcq : qp->scq;
}

static bool foreign_merged(const struct sh_qp *qp, uint32_t i)
{
	return qp->foreign.cq[i] && qp->foreign.cq[i]->merged;
}

void sh_qp_foreign_forget(struct sh_qp *qp)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (qp->foreign.cq[i])
			private_cut(foreign_side(qp, i), qp->foreign.cq[i]);
}

/* ---- while the provider looks into its CQs --------------------------------------------------- */

void sh_qp_foreign_show(struct sh_qp *qp)
{
	if (foreign_merged(qp, 0))
		qp->qp->send_cq = qp->scq->cq;
	if (foreign_merged(qp, 1))
		qp->qp->recv_cq = qp->rcq->cq;
}

static void foreign_mute(struct sh_qp *qp)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (foreign_merged(qp, i))
			sp_cq_foreign_mute(foreign_side(qp, i)->sp, qp->foreign.cq[i]->cq);
}

static void foreign_unmute(struct sh_qp *qp, bool reset)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (foreign_merged(qp, i))
			sp_cq_foreign_unmute(foreign_side(qp, i)->sp, qp->foreign.cq[i]->cq, reset);
}

void sh_qp_foreign_hold(struct sh_qp *qp)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (foreign_side(qp, i) && !foreign_merged(qp, i))
			sh_job_begin(&foreign_side(qp, i)->busy);
}

void sh_qp_foreign_let_go(struct sh_qp *qp)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (foreign_side(qp, i) && !foreign_merged(qp, i))
			sh_job_end(&foreign_side(qp, i)->busy);
}

void sh_qp_foreign_begin(struct sh_qp *qp)
{
	foreign_mute(qp);
	sh_qp_foreign_hold(qp);
	if (foreign_merged(qp, 0))
		qp->qp->send_cq = qp->foreign.cq[0]->cq;
	if (foreign_merged(qp, 1))
		qp->qp->recv_cq = qp->foreign.cq[1]->cq;
}

void sh_qp_foreign_end(struct sh_qp *qp, bool reset)
{
	sh_qp_foreign_show(qp);
	sh_qp_foreign_let_go(qp);
	foreign_unmute(qp, reset);
}

/* ---- a CQ that they complete into becomes driven --------------------------------------------- */

/* The next one behind this, or the first; sides: which of them are on that CQ. */
static struct sh_qp *foreign_next(const struct sh_cq *cq, const struct sh_qp *behind, bool parted)
{
	struct sh_qp *qp;
	bool past = !behind;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		const struct sh_private_cq *own = qp->foreign.cq[qp->scq != cq];

		if (past && qp->foreign.counted && (qp->scq == cq || qp->rcq == cq) &&
		    parted == (own != NULL))
			return qp;
		past |= qp == behind;
	}
	return NULL;
}

static void foreign_give(struct sh_cq *cq, struct sh_qp *qp, struct sh_private_cq *private_cq)
{
	if (qp->scq == cq)
		qp->foreign.cq[0] = private_cq;
	if (qp->rcq == cq)
		qp->foreign.cq[1] = private_cq;
}

/* Parts all. A QP that is just being made, or taken out of the CQ, is waited for. */
int sh_qp_foreign_part(struct sh_cq *cq)
{
	struct sh_private_cq *made;
	struct sh_qp *qp;

	for (;;) {
		sh_wait_idle(&cq->busy);
		if (cq->sp || !foreign_next(cq, NULL, false))
			return 0;
		made = foreign_cq_make(cq);
		if (!made)
			return -errno;
		qp = cq->sp ? NULL : foreign_next(cq, NULL, false);
		if (qp)
			foreign_give(cq, qp, made);
		else
			foreign_cq_drop(cq, made);
	}
}

int sh_qp_foreign_drive(struct sh_cq *cq)
{
	struct sp_cq_user *users = calloc(cq->foreign_qps + 1, sizeof(*users));
	struct sh_qp *qp;
	uint32_t n = 0;
	int ret;

	if (!users)
		return -ENOMEM;
	for (qp = NULL; (qp = foreign_next(cq, qp, true)); n++) {
		assert(n < cq->foreign_qps);
		users[n] = (struct sp_cq_user){ .private_cq = qp->foreign.cq[qp->scq != cq]->cq,
						.qpn = qp->qp->qp_num };
	}
	ret = sp_cq_drive_used(cq->ctx->dev, cq->cq, cq, users, n, &cq->sp);
	free(users);
	for (qp = NULL; !ret && (qp = foreign_next(cq, qp, true));)
		qp->foreign.cq[qp->scq != cq]->merged = true;
	return ret;
}

struct ibv_cq *sh_qp_foreign_cq_of(const struct ibv_cq *private_cq)
{
	struct sh_qp *qp;
	uint32_t i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 0; i < 2; i++)
			if (qp->foreign.cq[i] && qp->foreign.cq[i]->cq == private_cq)
				return foreign_side(qp, i)->cq;
	return NULL;
}

bool sh_qp_foreign_leave_srq(struct sh_qp *qp, const char *why)
{
	if (qp->srq && sh_srq_release(qp->srq)) {
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
