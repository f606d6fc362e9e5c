/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: driven where the engine can, foreign else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

/* One of the two ways in which the application makes a QP. */
struct qp_create {
	struct ibv_context *context;
	struct ibv_qp_init_attr_ex *attr; /* the application's, or a copy of its plain form */
	struct ibv_qp_init_attr *plain;	  /* ibv_create_qp; NULL: create_qp_ex */
	struct ibv_qp *(*create_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_cq *scq, *rcq; /* as the application gave them */
	struct ibv_srq *srq;	  /* likewise */
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

/* Lock held, given up for the call: a sick NIC may take a minute to answer. */
static struct ibv_qp *qp_create_real(const struct qp_create *how)
{
	struct sh_yield yield = { how->context, SH_YIELD_SOME };
	struct ibv_qp_cap cap = how->plain ? how->plain->cap : how->attr->cap;
	struct ibv_qp *real;

	pthread_mutex_unlock(&sh.lock);
	do
		real = qp_call(how, &cap);
	while (!real && sh_yield(&yield));
	if (real && how->plain)
		how->attr->cap = how->plain->cap;
	pthread_mutex_lock(&sh.lock);
	return real;
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

/* Why this QP cannot be driven; NULL: it can, as far as its attributes tell. */
static const char *qp_foreign_reason(const struct qp_create *how, const struct sh_qp *qp)
{
	const struct ibv_qp_init_attr_ex *attr = how->attr;

	if (!qp->ctx || !qp->ctx->dev)
		return "its device cannot be driven";
	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UD)
		return "its type is not one that SHIFT drives";
	if (attr->srq && !qp->srq)
		return "its shared receive queue is not one that SHIFT drives";
	if (!qp->pd || !qp->scq || !qp->rcq)
		return "its protection domain or completion queues were not made through SHIFT";
	if (sh_cq_drive(qp->scq) || sh_cq_drive(qp->rcq))
		return "its completion queue is shared with a queue pair that SHIFT cannot drive";
	return NULL;
}

/* ---- foreign QPs ---------------------------------------------------------------------------- */

/* Lock held, given up for the call, as in all of this file that reaches a NIC. */
static void qp_private_cq_drop(struct sh_cq *cq, struct ibv_cq *private_cq)
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

static struct ibv_cq *qp_private_cq_make(struct sh_cq *cq)
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

/* A driven CQ cannot take completions of a QP that the provider posts: it gets one of its own, which the
 * poll of the driven CQ merges. NULL when cq is not driven. */
static int qp_private_cq(struct sh_cq *cq, struct ibv_cq **out)
{
	struct ibv_cq *private_cq;
	int ret;

	*out = NULL;
	if (!cq || !cq->sp)
		return 0;
	private_cq = qp_private_cq_make(cq);
	if (!private_cq)
		return -errno;
	ret = sp_cq_foreign_add(cq->sp, private_cq);
	if (ret)
		qp_private_cq_drop(cq, private_cq);
	else
		*out = private_cq;
	return ret;
}

static void qp_release_foreign(struct sh_qp *qp)
{
	struct ibv_cq *send = qp->foreign.cq[0], *recv = qp->foreign.cq[1];

	qp->foreign.cq[0] = qp->foreign.cq[1] = NULL;
	if (qp->scq) {
		qp_private_cq_drop(qp->scq, send);
		qp->scq->foreign_qps--;
	}
	if (qp->rcq) {
		if (recv != send)
			qp_private_cq_drop(qp->rcq, recv);
		qp->rcq->foreign_qps--;
	}
}

static int qp_prepare_foreign(const struct qp_create *how, struct sh_qp *qp)
{
	int ret = qp_private_cq(qp->scq, &qp->foreign.cq[0]);

	if (!ret && qp->rcq == qp->scq)
		qp->foreign.cq[1] = qp->foreign.cq[0];
	else if (!ret)
		ret = qp_private_cq(qp->rcq, &qp->foreign.cq[1]);
	if (qp->scq)
		qp->scq->foreign_qps++;
	if (qp->rcq)
		qp->rcq->foreign_qps++;
	if (ret) {
		qp_release_foreign(qp);
		errno = -ret;
		return ret;
	}
	qp_set_cqs(how, qp->foreign.cq[0] ? qp->foreign.cq[0] : how->scq,
		   qp->foreign.cq[1] ? qp->foreign.cq[1] : how->rcq);
	return 0;
}

/* It takes receives from a queue that the engine fills, perhaps: the provider must, from now on. */
static bool qp_leave_srq(struct sh_qp *qp, const char *why)
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

static struct ibv_qp *qp_create_foreign(const struct qp_create *how, struct sh_qp *qp,
					const char *why)
{
	struct ibv_qp *real;

	qp->level = SH_FOREIGN;
	qp->why = why;
	if (!qp_leave_srq(qp, why)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (qp_prepare_foreign(how, qp))
		return NULL;
	real = qp_create_real(how);
	qp_set_cqs(how, how->scq, how->rcq);
	if (!real) {
		int saved = errno;

		qp_release_foreign(qp);
		errno = saved;
		return NULL;
	}
	if (qp->ctx && qp->ctx->dev)
		sp_qp_foreign(qp->ctx->dev, real);
	sh_log(SH_LOG_INFO, "QP 0x%06x is foreign: %s", real->qp_num, why);
	return real;
}

/* ---- driven QPs ----------------------------------------------------------------------------- */

static int qp_drive(struct sh_qp *qp, struct ibv_qp *real, const struct ibv_qp_init_attr_ex *init,
		    const char **why)
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
	if (qp->srq)
		qp->srq->qps++;
	sh_carriers_init(qp, real);
	sh_log(SH_LOG_DEBUG, "QP 0x%06x is driven", real->qp_num);
	return 0;
}

/* On the application's shared receive queue, or on what stands in for it. */
static struct ibv_qp *qp_create_real_driven(const struct qp_create *how, struct sh_qp *qp)
{
	struct ibv_srq *srq;
	struct ibv_qp *real;

	if (!qp->srq)
		return qp_create_real(how);
	srq = sh_srq_for_qp(qp->srq, &qp->own.srq);
	if (!srq)
		return NULL;
	qp_set_srq(how, srq);
	qp->srq->pinned++;
	real = qp_create_real(how);
	qp->srq->pinned--;
	qp_set_srq(how, how->srq);
	return real;
}

static void qp_release_srq(struct sh_qp *qp)
{
	int saved = errno;

	if (qp->srq)
		sh_srq_shadow_put(qp->srq, qp->own.srq);
	qp->own.srq = NULL;
	errno = saved;
}

static struct ibv_qp *qp_create_driven(const struct qp_create *how, struct sh_qp *qp)
{
	struct ibv_qp_init_attr_ex asked = *how->attr;
	struct ibv_qp *real = qp_create_real_driven(how, qp);
	const char *why = "the engine cannot drive it";

	if (!real) {
		qp_release_srq(qp);
		return NULL;
	}
	qp->init = asked;
	qp->caps = how->attr->cap;
	asked.cap = qp->caps;
	if (!qp_drive(qp, real, &asked, &why)) {
		real->srq = how->srq; /* that the application knows */
		return real;
	}
	/* Its completions must not enter driven rings: made again with CQs of its own. */
	pthread_mutex_unlock(&sh.lock);
	sh.real->destroy_qp(real);
	pthread_mutex_lock(&sh.lock);
	qp_release_srq(qp);
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

	pthread_mutex_lock(&sh.lock);
	if (!qp) {
		real = qp_create_real(how);
		pthread_mutex_unlock(&sh.lock);
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

		pthread_mutex_unlock(&sh.lock);
		free(qp);
		errno = saved;
		return NULL;
	}
	qp->qp = real;
	qp->app.state = IBV_QPS_RESET;
	list_add_tail(&sh_conns.qps, &qp->link);
	if (sh_table_put(&sh_objects.by_qp, real, qp))
		sh_error_once("no memory: a QP is not known to SHIFT and stays without protection");
	if (qp->sp && how->attr->qp_type == IBV_QPT_RC)
		sh_ctx_prepare(qp->ctx);
	pthread_mutex_unlock(&sh.lock);
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

/*
 * They never pass the exported create: such a QP is noticed at its first modify. Its
 * CQs already take its completions, so it is driven only if they are not foreign's.
 */
static struct sh_qp *qp_adopt(struct ibv_qp *real)
{
	struct ibv_qp_init_attr_ex init = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = real->pd };
	struct ibv_qp_init_attr plain;
	struct qp_create how = { .context = real->context, .attr = &init };
	const char *why = "the engine cannot drive it";
	struct ibv_qp_attr attr;
	struct sh_qp *qp;
	int ret;

	pthread_mutex_unlock(&sh.lock);
	ret = sh.real->query_qp(real, &attr, IBV_QP_CAP, &plain);
	pthread_mutex_lock(&sh.lock);
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (ret || qp) /* another thread was quicker */
		return qp;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	init.qp_context = real->qp_context;
	init.send_cq = real->send_cq;
	init.recv_cq = real->recv_cq;
	init.srq = real->srq;
	init.cap = plain.cap;
	init.qp_type = real->qp_type;
	init.sq_sig_all = plain.sq_sig_all;
	qp->qp = real;
	qp->ctx = sh_ctx_find(real->context);
	qp->pd = sh_pd_find(real->pd);
	qp->scq = sh_table_get(&sh_objects.by_cq, real->send_cq);
	qp->rcq = sh_table_get(&sh_objects.by_cq, real->recv_cq);
	qp->srq = sh_srq_driven(real->srq);
	qp->init = init;
	qp->caps = plain.cap;
	qp->why = qp_foreign_reason(&how, qp);
	if (!qp->why && qp_drive(qp, real, &init, &why))
		qp->why = why;
	if (!qp->sp) {
		qp->scq ? qp->scq->foreign_qps++ : 0;
		qp->rcq ? qp->rcq->foreign_qps++ : 0;
		qp->foreign.refused = !qp_leave_srq(qp, qp->why);
		sh_log(SH_LOG_INFO, "QP 0x%06x, not made through ibv_create_qp, is foreign: %s",
		       real->qp_num, qp->why);
	}
	list_add_tail(&sh_conns.qps, &qp->link);
	if (sh_table_put(&sh_objects.by_qp, real, qp))
		sh_error_once("no memory: a QP is not known to SHIFT and stays without protection");
	if (qp->sp && init.qp_type == IBV_QPT_RC)
		sh_ctx_prepare(qp->ctx);
	return qp;
}

/* ---- modify --------------------------------------------------------------------------------- */

static void qp_capture(struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->app.attr;

	if (mask & IBV_QP_STATE)
		qp->app.state = attr->qp_state;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IBV_QP_AV)
		own->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = attr->rnr_retry;
	qp->app.mask |= mask;
}

static void qp_state_reached(struct sh_qp *qp, enum ibv_qp_state state)
{
	sp_qp_modified(qp->sp, state);
	if (state == IBV_QPS_RESET) {
		sh_mailbox_read(); /* what the old connection still reported is not the next one's */
		atomic_store(&qp->mailbox.error_ns, 0);
		qp->gid.valid = false;
		qp->own.last_receive_masked = false;
		sh_carriers_drop(qp, true);
	}
	if (qp->init.qp_type != IBV_QPT_RC)
		return;
	if (state == IBV_QPS_RTR || state == IBV_QPS_RTS)
		sh_conn_new(qp);
	if (state == IBV_QPS_RTS)
		sh_carriers_to_rts(qp);
}

/* The application ends what it has: the carrier in use is what must go to ERR too. */
static void qp_app_ends(struct sh_qp *qp)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *carrier = qp->active->epoch ? qp->active->qp : NULL;

	if (qp->conn_id)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_APPLICATION);
	if (!carrier)
		return;
	sh_job_begin(&qp->busy);
	pthread_mutex_unlock(&sh.lock);
	sh.real->modify_qp(carrier, &error, IBV_QP_STATE);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&qp->busy);
}

/* Traffic is elsewhere: changes of a husk are recorded, and tried, but their failure is not told. */
static bool qp_moved(const struct sh_qp *qp)
{
	return qp->active->epoch ||
	       (qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED);
}

/*
 * One that names its own number may be connected to itself, which only its GID tells, and what follows
 * must know it at once. Else the GID is found in the background: intro.c.
 */
static bool qp_maybe_itself(const struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return (mask & IBV_QP_AV) && (mask & IBV_QP_DEST_QPN) && attr->ah_attr.is_global &&
	       attr->dest_qp_num == qp->qp->qp_num && qp->init.qp_type == IBV_QPT_RC;
}

/* Lock given up meanwhile. */
static int qp_modify_real(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool ask = qp_maybe_itself(qp, attr, mask);
	uint8_t port = qp->app.attr.port_num;
	union ibv_gid gid;
	int ret;

	sh_job_begin(&qp->busy);
	pthread_mutex_unlock(&sh.lock);
	ret = sh.real->modify_qp(qp->qp, attr, mask);
	ask = ask && !ret &&
	      !sh.real->query_gid(qp->ctx->ctx, port, attr->ah_attr.grh.sgid_index, &gid);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&qp->busy);
	if (!(mask & IBV_QP_AV) || ret)
		return ret;
	qp->gid.valid = ask;
	qp->gid.kind = 0;
	if (ask)
		memcpy(qp->gid.raw, gid.raw, sizeof(qp->gid.raw));
	return ret;
}

static int qp_modify_driven(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool ends = (mask & IBV_QP_STATE) &&
		    (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET);
	bool moved = qp_moved(qp);
	int ret;

	if (ends)
		qp_app_ends(qp);
	if (ends && attr->qp_state == IBV_QPS_RESET)
		sh_conn_close(qp);
	ret = qp_modify_real(qp, attr, mask);
	if (ret && (!moved || (ends && attr->qp_state == IBV_QPS_RESET)))
		return ret;
	qp_capture(qp, attr, mask);
	if (ret)
		qp->qp->state = qp->app.state;
	if (mask & IBV_QP_STATE) {
		qp_state_reached(qp, attr->qp_state);
		sh_carriers_wait_rts(qp);
	}
	return 0;
}

/*
 * On a shared receive queue. It may take receives before the command to RTR has returned, and the
 * engine counts it behind that: meanwhile they must not be given to another NIC.
 */
static int qp_modify_to_rtr(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int ret;

	if (!sh_srq_connectable(qp)) {
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x cannot be connected: the receives of its shared queue have left "
		       "%s while it was being set up; make it anew",
		       qp->qp->qp_num, qp->ctx->nic->name);
		return EIO;
	}
	qp->srq->pinned++;
	ret = qp_modify_driven(qp, attr, mask);
	qp->srq->pinned--;
	sh_srq_look(qp->srq);
	return ret;
}

static int qp_modify(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (qp->srq && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		return qp_modify_to_rtr(qp, attr, mask);
	return qp_modify_driven(qp, attr, mask);
}

int shift_modify_qp(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask)
{
	struct sh_qp *qp;
	int ret;

	pthread_mutex_lock(&sh.lock);
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (!qp && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_INIT)
		qp = qp_adopt(real);
	ret = qp && qp->sp ? qp_modify(qp, attr, mask) : -1;
	if (qp && qp->foreign.refused)
		ret = EOPNOTSUPP;
	pthread_mutex_unlock(&sh.lock);
	return ret >= 0 ? ret : sh.real->modify_qp(real, attr, mask);
}

/* ---- query ---------------------------------------------------------------------------------- */

int shift_query_qp(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr)
{
	int ret = sh.real->query_qp(real, attr, mask, init_attr);
	struct sh_qp *qp;

	pthread_mutex_lock(&sh.lock);
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (qp && qp->sp && qp_moved(qp)) {
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
	qp_release_srq(qp);
	if (qp->foreign.cq[0])
		sp_cq_foreign_del(qp->scq->sp, qp->foreign.cq[0]);
	if (qp->foreign.cq[1] != qp->foreign.cq[0])
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
		qp_release_srq(qp);
		sh_srq_look(qp->srq);
		pthread_mutex_unlock(&sh.lock);
	}
	if (qp && !driven) {
		pthread_mutex_lock(&sh.lock);
		qp_release_foreign(qp);
		pthread_mutex_unlock(&sh.lock);
	}
	free(qp);
	return ret;
}
