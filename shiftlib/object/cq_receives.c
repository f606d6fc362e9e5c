/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues that name the completion queue of their receives themselves: shared ones for XRC
 * and tag matching, and work queues. Their completions are the provider's, and bear numbers of
 * queue pairs that have no completion queue (XRC targets): an engine that drives the completion
 * queue would know nobody to whom they belong.
 */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

static bool cq_excludes(const struct sh_cq *cq)
{
	return cq->sp && !sp_has(cq->sp, SP_SHARES_CQ);
}

/* NULL: it names none, or none that SHIFT knows. */
static struct sh_cq *cq_named(struct ibv_cq *real)
{
	return real ? sh_table_get(&sh_objects.by_cq, real) : NULL;
}

/*
 * Keeps the CQ from being driven from here on, before the receive queue is made. False, and
 * errno: it is driven already.
 */
static bool receives_come(struct ibv_cq *real)
{
	struct sh_cq *cq;
	bool come;

	sh_lock();
	cq = cq_named(real);
	come = !cq || !cq_excludes(cq);
	if (cq && come)
		cq->foreign_receives++;
	sh_unlock();
	if (come)
		return true;
	sh_log(SH_LOG_ERROR,
	       "a receive queue that SHIFT does not drive (XRC, tag matching, a work queue) "
	       "cannot complete into the completion queue of queue pairs that it drives: "
	       "refused; SHIFT_DISABLE=1 runs the job without it");
	errno = EOPNOTSUPP;
	return false;
}

/* Takes that back: the receive queue could not be made. */
static void receives_go(struct ibv_cq *real)
{
	struct sh_cq *cq;
	int saved = errno;

	sh_lock();
	cq = cq_named(real);
	if (cq && cq->foreign_receives)
		cq->foreign_receives--;
	sh_unlock();
	errno = saved;
}

static struct ibv_cq *srq_cq(const struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC)
		return NULL;
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ ? attr->cq : NULL;
}

struct ibv_srq *shift_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
				    struct ibv_srq *(*create)(struct ibv_context *,
							      struct ibv_srq_init_attr_ex *))
{
	struct ibv_cq *cq = srq_cq(attr);
	struct ibv_srq *srq;

	if (!receives_come(cq))
		return NULL;
	srq = create(context, attr);
	if (!srq)
		receives_go(cq);
	return srq;
}

struct ibv_wq *shift_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
			       struct ibv_wq *(*create)(struct ibv_context *,
							struct ibv_wq_init_attr *))
{
	struct ibv_cq *cq = attr->cq;
	struct ibv_wq *wq;

	if (!receives_come(cq))
		return NULL;
	wq = create(context, attr);
	if (!wq)
		receives_go(cq);
	return wq;
}
