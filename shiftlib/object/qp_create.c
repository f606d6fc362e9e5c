/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs are made: driven where the engine can, foreign else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

/* A way in which the application makes a QP: one of two. */
struct qp_create {
	struct ibv_context *context;
	struct ibv_qp_init_attr_ex *attr; /* the application's, or a copy of its plain form */
	struct ibv_qp_init_attr *plain;	  /* ibv_create_qp; NULL: create_qp_ex */
	struct ibv_qp *(*create_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_cq *scq, *rcq; /* given by the application */
	struct ibv_srq *srq;	  /* given by the application */
};

static struct ibv_qp *qp_call(const struct qp_create *how, const struct ibv_qp_cap *cap)
{
	struct ibv_qp *real;

	shift_async_real_begin(how->context);
	if (how->plain) {
		how->plain->cap = *cap;
		real = sh.real->create_qp(how->attr->pd, how->plain);
	} else {
		how->attr->cap = *cap;
		real = how->create_ex(how->context, how->attr);
	}
	shift_async_real_end(how->context);
	return real;
}

/*
 * Makes the QP with a place for what the engine itself sends, if the device has it; the
 * application does not see that.
 */
static struct ibv_qp *qp_call_hidden(const struct qp_create *how, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap *got = how->plain ? &how->plain->cap : &how->attr->cap;
	struct ibv_qp_cap more = *cap;
	struct ibv_qp *real;

	more.max_send_wr++;
	real = qp_call(how, &more);
	if (!real)
		return qp_call(how, cap);
	got->max_send_wr--;
	return real;
}

/*
 * Makes it also with places for the log of so many requests as the application asked for: it may
 * post no more. NULL: there is none.
 */
static struct ibv_qp *qp_call_logged(const struct qp_create *how, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap *got = how->plain ? &how->plain->cap : &how->attr->cap;
	struct ibv_qp_cap more = *cap;
	struct ibv_qp *real;

	if (!sh_wqe_log_room(cap->max_send_wr))
		return NULL;
	sh_wqe_log_caps(&more);
	more.max_send_wr++;
	real = qp_call(how, &more);
	if (real)
		got->max_send_wr = cap->max_send_wr;
	return real;
}

/* log_room: does it have room for a log? NULL: it is not to have any. */
static struct ibv_qp *qp_call_roomy(const struct qp_create *how, const struct ibv_qp_cap *cap,
				    bool hidden, bool *log_room)
{
	struct ibv_qp *real = log_room ? qp_call_logged(how, cap) : NULL;

	if (log_room)
		*log_room = real;
	if (real)
		return real;
	return hidden ? qp_call_hidden(how, cap) : qp_call(how, cap);
}

/* Lock given up for the call: a sick NIC may take a minute to answer. */
static struct ibv_qp *qp_create_real_with(const struct qp_create *how, bool hidden,
					  bool *log_room) SH_DROPS
{
	struct sh_yield yield = { how->context, SH_YIELD_SOME };
	struct ibv_qp_cap cap = how->plain ? how->plain->cap : how->attr->cap;
	struct ibv_qp *real;

	sh_unlock();
	do
		real = qp_call_roomy(how, &cap, hidden, log_room);
	while (!real && sh_yield(&yield));
	if (real && how->plain)
		how->attr->cap = how->plain->cap;
	sh_lock();
	return real;
}

static struct ibv_qp *qp_create_real(const struct qp_create *how) SH_DROPS
{
	return qp_create_real_with(how, false, NULL);
}

static void qp_set_srq(const struct qp_create *how, struct ibv_srq *srq)
{
	how->attr->srq = srq;
	if (how->plain)
		how->plain->srq = srq;
}

static void qp_set_cqs(const struct qp_create *how, struct ibv_cq *scq, struct ibv_cq *rcq)
{
	how->attr->send_cq = scq;
	how->attr->recv_cq = rcq;
	if (how->plain) {
		how->plain->send_cq = scq;
		how->plain->recv_cq = rcq;
	}
}

static const char *qp_undriven_cq(int ret)
{
	if (ret == -EOPNOTSUPP)
		return "its completion queue gives what SHIFT's engine cannot, such as timestamps";
	return "its completion queue is shared with a queue pair that SHIFT cannot drive";
}

/* Why this QP cannot be driven; NULL: it can, as far as its attributes tell. */
static const char *qp_foreign_reason(const struct qp_create *how, const struct sh_qp *qp) SH_DROPS
{
	const struct ibv_qp_init_attr_ex *attr = how->attr;
	int ret;

	if (!qp->ctx || !qp->ctx->dev)
		return "its device cannot be driven";
	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UD)
		return "its type is not one that SHIFT drives";
	if (attr->srq && !qp->srq)
		return "its shared receive queue is not one that SHIFT drives";
	if (!qp->pd || !qp->scq || !qp->rcq)
		return "its protection domain or completion queues were not made through SHIFT";
	/* CQs are driven for good: if this QP exists already, is it one that can be? */
	if (qp->qp) {
		const char *why = sp_qp_drivable(qp->ctx->dev, qp->qp, attr);

		if (why)
			return why;
	}
	ret = sh_cq_drive(qp->scq);
	if (!ret)
		ret = sh_cq_drive(qp->rcq);
	return ret ? qp_undriven_cq(ret) : NULL;
}

static struct ibv_qp *qp_create_foreign(const struct qp_create *how, struct sh_qp *qp,
					const char *why) SH_DROPS
{
	struct ibv_qp *real;

	qp->level = SH_FOREIGN;
	qp->why = why;
	if (!sh_qp_foreign_leave_srq(qp, why)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (sh_qp_foreign_prepare(qp))
		return NULL;
	qp_set_cqs(how, qp->foreign.cq[0] ? qp->foreign.cq[0]->cq : how->scq,
		   qp->foreign.cq[1] ? qp->foreign.cq[1]->cq : how->rcq);
	sh_qp_foreign_hold(qp);
	real = qp_create_real(how);
	sh_qp_foreign_let_go(qp);
	qp_set_cqs(how, how->scq, how->rcq);
	if (!real) {
		int saved = errno;

		sh_qp_foreign_release(qp);
		errno = saved;
		return NULL;
	}
	real->send_cq = how->scq; /* known to the application */
	real->recv_cq = how->rcq;
	if (qp->ctx && qp->ctx->dev)
		sp_qp_foreign(qp->ctx->dev, real);
	sh_log(SH_LOG_INFO, "QP 0x%06x is foreign: %s", real->qp_num, why);
	return real;
}

/* ---- driven QPs ----------------------------------------------------------------------------- */

static int qp_drive(struct sh_qp *qp, struct ibv_qp *real, const struct ibv_qp_init_attr_ex *init,
		    const char **why) SH_LOCKED
{
	int ret;

	ret = sp_qp_drive(qp->ctx->dev, real, init, qp->scq->sp, qp->rcq->sp, qp, &qp->sp, why);
	if (ret)
		return ret;
	qp->level = SH_DRIVEN;
	qp->why =
		init->qp_type == IBV_QPT_RC ? "not connected yet" : "datagrams need no protection";
	qp->scq->qps++;
	qp->rcq->qps++;
	sh_room_add(qp);
	if (qp->srq)
		qp->srq->qps++;
	sh_carriers_init(qp, real);
	sh_log(SH_LOG_DEBUG, "QP 0x%06x is driven", real->qp_num);
	return 0;
}

/* Makes it on the application's shared receive queue, or on what stands in for it. */
static struct ibv_qp *qp_create_real_driven(const struct qp_create *how, struct sh_qp *qp) SH_DROPS
{
	bool rc = how->attr->qp_type == IBV_QPT_RC;
	bool hidden = rc && sp_has(qp->ctx->dev, SP_HIDDEN_SENDS);
	bool *log_room = rc ? &qp->log.room : NULL;
	struct ibv_srq *srq;
	struct ibv_qp *real;

	if (!qp->srq)
		return qp_create_real_with(how, hidden, log_room);
	srq = sh_srq_for_qp(qp->srq, &qp->own.srq);
	if (!srq)
		return NULL;
	qp_set_srq(how, srq);
	qp->srq->pinned++;
	real = qp_create_real_with(how, hidden, log_room);
	qp->srq->pinned--;
	qp_set_srq(how, how->srq);
	return real;
}

static struct ibv_qp *qp_create_driven(const struct qp_create *how, struct sh_qp *qp) SH_DROPS
{
	struct ibv_qp_init_attr_ex asked = *how->attr;
	struct ibv_qp *real = qp_create_real_driven(how, qp);
	const char *why = "the engine cannot drive it";

	if (!real) {
		sh_qp_release_srq(qp);
		return NULL;
	}
	qp->init = asked;
	qp->caps = how->attr->cap;
	asked.cap = qp->caps;
	if (!qp_drive(qp, real, &asked, &why)) {
		real->srq = how->srq; /* known to the application */
		return real;
	}
	/* made again with CQs of its own, as its completions must not enter driven rings */
	sh_unlock();
	sh.real->destroy_qp(real);
	sh_lock();
	sh_qp_release_srq(qp);
	how->attr->cap = qp->init.cap;
	if (how->plain)
		how->plain->cap = qp->init.cap;
	return qp_create_foreign(how, qp, why);
}

static struct ibv_qp *qp_create_recorded(const struct qp_create *how)
{
	struct sh_qp *qp = calloc(1, sizeof(*qp));
	struct ibv_qp *real;
	const char *why;

	sh_lock();
	if (!qp) {
		real = qp_create_real(how);
		sh_unlock();
		return real;
	}
	qp->ctx = sh_ctx_find(how->context);
	qp->pd = sh_pd_find(how->attr->pd);
	qp->scq = sh_table_get(&sh_objects.by_cq, how->scq);
	qp->rcq = sh_table_get(&sh_objects.by_cq, how->rcq);
	qp->srq = sh_srq_driven(how->srq);
	list_init(&qp->link);
	why = qp_foreign_reason(how, qp);
	real = why ? qp_create_foreign(how, qp, why) : qp_create_driven(how, qp);
	if (!real) {
		int saved = errno;

		sh_unlock();
		free(qp);
		errno = saved;
		return NULL;
	}
	qp->qp = real;
	qp->app.set = qp->app.state = IBV_QPS_RESET;
	list_add_tail(&sh_conns.qps, &qp->link);
	if (sh_table_put(&sh_objects.by_qp, real, qp))
		sh_error_once("no memory: a QP is not known to SHIFT and stays without protection");
	if (qp->sp && how->attr->qp_type == IBV_QPT_RC) {
		sh_setup_command();
		sh_ctx_prepare(qp->ctx);
	}
	sh_room_mend(qp);
	sh_unlock();
	return real;
}

struct ibv_qp *shift_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex wide = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct qp_create how = { .context = pd->context,
				 .attr = &wide,
				 .plain = attr,
				 .scq = attr->send_cq,
				 .rcq = attr->recv_cq,
				 .srq = attr->srq };

	return qp_create_recorded(&how);
}

struct ibv_qp *shift_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				  struct ibv_qp *(*create)(struct ibv_context *,
							   struct ibv_qp_init_attr_ex *))
{
	struct qp_create how = { .context = context,
				 .attr = attr,
				 .create_ex = create,
				 .scq = attr->send_cq,
				 .rcq = attr->recv_cq,
				 .srq = attr->srq };

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		struct ibv_qp *real;

		shift_async_real_begin(context);
		real = create(context, attr);
		shift_async_real_end(context);
		return real;
	}
	return qp_create_recorded(&how);
}

/* ---- QPs made by direct verbs --------------------------------------------------------------- */

/* Finds what the application must have asked for. */
static int adopt_asked(struct ibv_qp *real, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp_init_attr plain;
	struct ibv_qp_attr attr;
	int ret = sh.real->query_qp(real, &attr, IBV_QP_CAP, &plain);

	*init = (struct ibv_qp_init_attr_ex){
		.qp_context = real->qp_context,
		.send_cq = real->send_cq,
		.recv_cq = real->recv_cq,
		.srq = real->srq,
		.cap = plain.cap,
		.qp_type = real->qp_type,
		.sq_sig_all = plain.sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = real->pd,
	};
	if (sh.real->qp_to_qp_ex(real)) { /* only one with request builders is */
		init->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init->send_ops_flags = ~0ull;
	}
	return ret;
}

/* Gives back to the provider what the CQs of the QP, if driven, have of it. */
static void adopt_foreign(struct sh_qp *qp) SH_DROPS
{
	qp->foreign.refused = !sh_qp_foreign_leave_srq(qp, qp->why);
	if (sh_qp_foreign_prepare(qp)) {
		sh_log(SH_LOG_ERROR,
		       "QP 0x%06x shares a completion queue with queue pairs that SHIFT drives, "
		       "and "
		       "cannot be driven (%s): refused (%s); give it a completion queue of its "
		       "own, or run the job with SHIFT_DISABLE=1",
		       qp->qp->qp_num, qp->why, strerror(errno));
		sh_qp_foreign_count(qp); /* expected by its release */
		qp->foreign.refused = true;
	}
	if (qp->ctx && qp->ctx->dev)
		sp_qp_foreign(qp->ctx->dev, qp->qp);
	sh_log(SH_LOG_INFO, "QP 0x%06x, not made through ibv_create_qp, is foreign: %s",
	       qp->qp->qp_num, qp->why);
}

/*
 * Adopts a QP that never passed the exported create: it is noticed at its first modify. Its CQs
 * already take its completions, so it is driven only if they are not foreign's.
 */
struct sh_qp *sh_qp_adopt(struct ibv_qp *real)
{
	struct ibv_qp_init_attr_ex init;
	struct qp_create how = { .context = real->context, .attr = &init };
	const char *why = "the engine cannot drive it";
	struct sh_qp *qp;
	int ret;

	sh_unlock();
	ret = adopt_asked(real, &init);
	sh_lock();
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (ret || qp) /* another thread was quicker */
		return qp;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->qp = real;
	qp->ctx = sh_ctx_find(real->context);
	qp->pd = sh_pd_find(real->pd);
	qp->scq = sh_table_get(&sh_objects.by_cq, real->send_cq);
	qp->rcq = sh_table_get(&sh_objects.by_cq, real->recv_cq);
	qp->srq = sh_srq_driven(real->srq);
	qp->init = init;
	qp->caps = init.cap;
	list_add_tail(&sh_conns.qps, &qp->link);
	if (sh_table_put(&sh_objects.by_qp, real, qp))
		sh_error_once("no memory: a QP is not known to SHIFT and stays without protection");
	qp->why = qp_foreign_reason(&how, qp);
	if (!qp->why && qp_drive(qp, real, &init, &why))
		qp->why = why;
	if (!qp->sp)
		adopt_foreign(qp);
	else if (init.qp_type == IBV_QPT_RC)
		sh_ctx_prepare(qp->ctx);
	return qp;
}
