/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues: the verbs. */
#include <errno.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/util.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

/*
 * Leaves a queue to the provider. Whoever fills a shared queue must also hear which receives were
 * taken: the provider for its QPs, the engine for those that it drives. Nobody can do so for
 * both.
 */
int sh_srq_release(struct sh_srq *srq)
{
	if (srq->qps || sp_srq_hand_back(srq->sp))
		return -EOPNOTSUPP;
	srq->left = true;
	return 0;
}

static void srq_record(struct ibv_pd *pd, struct ibv_srq *real, const struct ibv_srq_attr *attr)
{
	struct sh_srq *srq = calloc(1, sizeof(*srq));

	if (!srq)
		return; /* unknown to us: QPs on it stay foreign */
	sh_lock();
	srq->srq = real;
	srq->ctx = sh_ctx_find(pd->context);
	srq->pd = sh_pd_find(pd);
	srq->attr = *attr;
	list_init(&srq->shadows);
	if (!srq->ctx || !srq->ctx->dev || !srq->pd ||
	    sp_srq_drive(srq->ctx->dev, real, &srq->attr, srq, &srq->sp)) {
		free(srq);
	} else if (sh_table_put(&sh_objects.by_srq, real, srq)) {
		sp_srq_undrive(srq->sp);
		free(srq);
	} else {
		list_add_tail(&srq->ctx->srqs, &srq->link);
	}
	sh_unlock();
}

struct ibv_srq *shift_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct sh_yield yield = { pd->context, SH_YIELD_NIC };
	struct ibv_srq *real;

	do {
		shift_async_real_begin(pd->context);
		real = sh.real->create_srq(pd, attr);
		shift_async_real_end(pd->context);
	} while (!real && sh_yield(&yield));
	if (real)
		srq_record(pd, real, &attr->attr);
	return real;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* True if its NIC hangs, and what uses it is elsewhere: a command would not return. */
static bool srq_hangs(struct ibv_srq *real)
{
	struct sh_srq *srq;
	bool hangs;

	sh_lock();
	srq = sh_srq_driven(real);
	hangs = srq && srq->ctx->nic->sick && sh_ctx_masked(srq->ctx);
	sh_unlock();
	return hangs;
}

/* A dead NIC's answer, which the application is not to see. */
static bool srq_answer_masked(const struct sh_srq *srq, int ret) SH_LOCKED
{
	return sh_dead_device_error(ret) && sh_ctx_masked(srq->ctx);
}

/* Checks as its driver does: a ring cannot be resized. */
static int srq_limit_check(const struct sh_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	return mask & ~IBV_SRQ_LIMIT || attr->srq_limit > srq->attr.max_wr ? EINVAL : 0;
}

int shift_modify_srq(struct ibv_srq *real, struct ibv_srq_attr *attr, int mask)
{
	int ret = srq_hangs(real) ? EIO : sh.real->modify_srq(real, attr, mask);
	struct sh_srq *srq;

	sh_lock();
	srq = sh_srq_driven(real);
	if (srq && srq_answer_masked(srq, ret))
		ret = srq_limit_check(srq, attr, mask);
	if (srq && !ret && (mask & IBV_SRQ_LIMIT)) {
		sp_srq_limit(srq->sp, attr->srq_limit);
		if (attr->srq_limit && sh_srq_ring_state(sp_srq_own(srq->sp)).split)
			sh_kick(); /* the limit is checked from now on (conn/parts/srq.c) */
	}
	sh_unlock();
	return ret;
}

int shift_query_srq(struct ibv_srq *real, struct ibv_srq_attr *attr)
{
	int ret = srq_hangs(real) ? EIO : sh.real->query_srq(real, attr);
	struct sp_srq_state state;
	struct sh_srq *srq;
	bool masked;

	sh_lock();
	srq = sh_srq_driven(real);
	masked = srq && srq_answer_masked(srq, ret);
	if (masked) {
		*attr = srq->attr;
		ret = 0;
	}
	if (srq && !ret) {
		state = sh_srq_ring_state(sp_srq_own(srq->sp));
		if (masked || state.split)
			attr->srq_limit = state.limit;
	}
	sh_unlock();
	return ret;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* No QP is on it: no carrier holds a shadow. */
void sh_srq_forget(struct sh_srq *srq)
{
	uint8_t path;

	sh_table_remove(&sh_objects.by_srq, srq->srq);
	list_del(&srq->link);
	sh_wait_idle(&srq->busy);
	for (path = 0; path < SC_MAX_PATHS; path++) {
		sh_srq_shadow_put(srq, srq->shadow[path]);
		srq->shadow[path] = NULL;
	}
	sh_srq_shadow_put(srq, srq->own);
	sh_reclaim_forget(&srq->reclaim);
	sh_job_begin(&srq->busy);
	sh_unlock();
	sh_reclaim_destroy(&srq->reclaim);
	sh_lock();
	sh_job_end(&srq->busy);
	sh_wait_idle(&srq->busy);
	sp_srq_undrive(srq->sp);
	free(srq);
}

static int srq_destroy(void *object)
{
	struct ibv_srq *real = object;
	struct ibv_context *context = real->context;
	struct sh_async *async = sh_async_of(context);
	struct sh_srq *srq;
	int ret;

	sh_lock();
	srq = sh_srq_of(real);
	if (srq)
		sh_srq_forget(srq);
	sh_unlock();
	sh_async_forget_begin(async, real);
	ret = sh_ctx_destroy_result(context, sh.real->destroy_srq(real));
	sh_async_forget_end(async, real, ret != 0);
	return ret;
}

int shift_destroy_srq(struct ibv_srq *real)
{
	struct sh_srq *srq;
	struct sh_ctx *ctx;
	bool later;
	int ret = 0;

	sh_lock();
	srq = sh_srq_of(real);
	ctx = sh_ctx_find(real->context);
	later = sh_debts_kept(ctx) || (srq && (!list_empty(&srq->shadows) || srq->busy.jobs));
	if (srq && srq->qps)
		ret = EBUSY;
	else if (later)
		ret = sh_debt_defer(ctx, srq_destroy, real, false);
	sh_unlock();
	return ret || later ? ret : srq_destroy(real);
}
