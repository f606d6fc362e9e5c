/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shadows take what the application may want itself: objects of the NIC, and memory that may be
 * locked, of which a process has so much over all of its NICs. When a call of the application fails
 * for want of it, idle shadows make place and the call is made again; none comes back for a while.
 * What carries traffic, or is about to, stays.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/parts/pool.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reach.h"
#include "shiftlib/replica/srq.h"

/* One of so many idle standbys of a NIC goes at first. */
#define YIELD_PART   8
#define YIELD_WAIT_S 2 /* a NIC that has not given back by then does not help */

struct yield_job {
	struct sh_job job;
	struct sh_nic *nic;
	bool all;	 /* not only queue pairs */
	bool far;	 /* only for the paths beyond the reach */
	bool done, left; /* left: nobody waits any more */
	uint32_t n;	 /* given back */
};

/* ---- queue pairs ---------------------------------------------------------------------------- */

static bool yield_idle_standby(const struct sh_qp *qp, const struct sh_nic *nic, bool far) SH_LOCKED
{
	const struct sh_carrier *standby = qp->standby;

	return qp->conn_id && standby && standby->nic == nic && standby != qp->active &&
	       !(far && sh_reach_covers(qp->ctx, standby->path)) && standby != qp->receiving &&
	       qp->core.move == SC_MOVE_NONE && !qp->fence.number;
}

static uint32_t yield_count_standbys(const struct sh_nic *nic, bool far) SH_LOCKED
{
	uint32_t n = 0;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		n += yield_idle_standby(qp, nic, far);
	return n;
}

/*
 * Drops idle standbys, which are destroyed on the NIC's worker. Returns how many there were to
 * destroy.
 */
static uint32_t yield_standbys(struct sh_nic *nic, bool far, uint32_t most) SH_LOCKED
{
	uint32_t n = 0, real = 0;
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (n == most)
			break;
		if (!yield_idle_standby(qp, nic, far))
			continue;
		n++;
		real += qp->standby->qp != NULL;
		qp->carriers.standby_why = far ? sh_reach_why : sh_yield_why;
		sh_conn_about(qp, SC_EV_STANDBY_LOST, SC_REASON_RESOURCE, qp->standby->epoch);
	}
	sh_outbox_release();
	return real;
}

/* ---- all else, on the NIC's worker, where no standby is being made meanwhile ----------------- */

static bool yield_cq(struct sh_ctx *ctx, uint8_t path) SH_DROPS
{
	struct sh_shadow_cq *shadow;
	struct sh_cq *cq;

	list_for_each (&ctx->cqs, cq, struct sh_cq, link) {
		shadow = cq->shadow[path];
		if (!shadow || shadow->refs > 1)
			continue;
		cq->shadow[path] = NULL;
		sh_cq_shadow_put(cq, shadow);
		return true;
	}
	return false;
}

static bool yield_srq(struct sh_ctx *ctx, uint8_t path) SH_DROPS
{
	struct sh_shadow_srq *shadow;
	struct sh_srq *srq;

	list_for_each (&ctx->srqs, srq, struct sh_srq, link) {
		shadow = srq->shadow[path];
		if (!shadow || shadow->refs > 1)
			continue;
		srq->shadow[path] = NULL;
		sh_srq_shadow_put(srq, shadow);
		return true;
	}
	return false;
}

static bool yield_qp_needs(const struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	uint32_t i;

	for (i = 1; i < SH_MAX_CARRIERS; i++)
		if (sh_carrier_at(qp, i)->nic == qp->ctx->path[path])
			return true;
	return sh_loopback_has_reader(qp, path) || sh_pool_has(qp, qp->ctx->path[path]);
}

static bool yield_pd_needed(const struct sh_pd *pd, uint8_t path) SH_LOCKED
{
	struct sh_srq *srq;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->pd == pd && yield_qp_needs(qp, path))
			return true;
	list_for_each (&pd->ctx->srqs, srq, struct sh_srq, link)
		if (srq->pd == pd && srq->shadow[path])
			return true;
	return false;
}

static uint32_t yield_pd(struct sh_ctx *ctx, uint8_t path, uint32_t turn) SH_DROPS
{
	struct sh_pd *pd;

	list_for_each (&ctx->pds, pd, struct sh_pd, link) {
		if (pd->shadow[path].yield_turn == turn)
			continue;
		pd->shadow[path].yield_turn = turn; /* looked at once */
		if (!yield_pd_needed(pd, path))
			return 1 + sh_pd_yield(pd, path);
	}
	return 0;
}

/*
 * Gives back the next thing. The lock is given up on the way, so after each one the search begins
 * anew. False: none is left.
 */
static bool yield_next(struct yield_job *task, uint32_t turn) SH_DROPS
{
	struct sh_ctx *ctx;
	uint32_t n;
	uint8_t k;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		for (k = 0; k < ctx->n_paths; k++) {
			if (ctx->path[k] != task->nic || (task->far && sh_reach_covers(ctx, k)))
				continue;
			if (yield_cq(ctx, k) || yield_srq(ctx, k)) {
				task->n++;
				return true;
			}
			n = yield_pd(ctx, k, turn);
			if (n) {
				task->n += n - 1;
				return true;
			}
		}
	return false;
}

static void yield_run(struct sh_job *job)
{
	struct yield_job *task = (struct yield_job *)job;
	static uint32_t turns; /* sh_lock() */
	uint32_t turn;

	sh.real->thread_inside();
	if (!task->all)
		return;
	sh_job_lock();
	turn = ++turns;
	while (yield_next(task, turn))
		;
	sh_job_unlock();
}

static void yield_done(struct sh_job *job)
{
	struct yield_job *task = (struct yield_job *)job;
	bool left;

	sh_lock();
	left = task->left;
	task->done = true;
	if (!job->canceled && !task->far)
		sh_nic_emptied(task->nic);
	if (task->far)
		sh_reach_left();
	pthread_cond_broadcast(&sh.idle);
	sh_unlock();
	if (left)
		free(task);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The queue pairs went before it, on both workers. */
static void yield_fenced(struct sh_job *job)
{
	struct yield_job *task = (struct yield_job *)job;

	*job = (struct sh_job){ .fn = yield_run, .done = yield_done };
	if (sh_worker_submit(task->nic->worker, job))
		yield_done(job);
}

static void yield_fence(struct sh_job *job)
{
	(void)job;
}

/* NULL: it has nothing, or cannot be told to give it back. */
static struct yield_job *yield_begin(struct sh_nic *nic, bool all) SH_LOCKED
{
	uint32_t n = yield_count_standbys(nic, false);
	struct yield_job *task;

	if (!nic->worker || !nic->holds || nic->fatal || nic->sick ||
	    (!all && !n && !sh_pool_count(nic)))
		return NULL;
	task = calloc(1, sizeof(*task));
	if (!task)
		return NULL;
	sh_yield_pause(nic, all);
	*task = (struct yield_job){ .job = { .fn = yield_fence, .done = yield_fenced },
				    .nic = nic,
				    .all = all };
	task->n = sh_pool_give_back(nic);
	task->n += yield_standbys(nic, false, all ? n : (n + YIELD_PART - 1) / YIELD_PART);
	if (!sh_worker_submit(nic->prompt, &task->job))
		return task;
	free(task);
	return NULL;
}

/* Nobody waits. */
void sh_news_nic_empty(struct sh_nic *nic)
{
	struct yield_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct yield_job){ .job = { .fn = yield_fence, .done = yield_fenced },
				    .nic = nic,
				    .all = true,
				    .left = true };
	sh_pool_give_back(nic);
	if (sh_worker_submit(nic->prompt, &task->job))
		free(task);
}

/* Gives back what is beyond the reach, on one NIC, where nothing is paused. Nobody waits for it. */
static void yield_far_begin(struct sh_nic *nic) SH_LOCKED
{
	struct yield_job *task;

	if (!nic->worker || !nic->holds || nic->fatal || nic->sick)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct yield_job){ .job = { .fn = yield_fence, .done = yield_fenced },
				    .nic = nic,
				    .all = true,
				    .far = true,
				    .left = true };
	sh_reach_leaving();
	task->n = yield_standbys(nic, true, UINT32_MAX);
	if (!sh_worker_submit(nic->prompt, &task->job))
		return;
	free(task);
	sh_reach_left();
}

/* Paths first, so that connections choose another one at once. */
void sh_news_reach_less(void)
{
	struct sh_qp *qp;
	uint32_t i;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		sh_paths_changed(qp);
	sh_outbox_release();
	for (i = 0; i < sh_nics.n; i++)
		yield_far_begin(&sh_nics.nic[i]);
}

/* Waits, but not for a NIC that does nothing. False: it has not done it. */
static bool yield_await(struct yield_job *task, const struct timespec *until) SH_DROPS
{
	int ret = 0;

	while (!task->done && !ret)
		ret = sh_lock_wait_until(&sh.idle, until);
	if (!task->done) {
		task->left = true;
		return false;
	}
	if (task->n)
		sh_log(SH_LOG_WARN,
		       "%s: no room for the job's own objects or memory: SHIFT gave back %u of its "
		       "shadows there and makes none for %llu ms",
		       task->nic->name, task->n,
		       (unsigned long long)(task->nic->yield.interval / SH_NS_PER_MS));
	free(task);
	return true;
}

/* Waits for what other threads deregister just now: it counts until they have done it. */
static void yield_wait_deregs(const struct timespec *until) SH_DROPS
{
	int ret = 0;

	(void)sh_late_hurry();
	while (sh_objects.deregs.jobs && !ret)
		ret = sh_lock_wait_until(&sh.idle, until);
}

/* Waits for late regions. Regions that are left while it waits are not its own. */
static bool yield_step_late(void) SH_DROPS
{
	uint64_t until_gone = sh_late_left();
	struct timespec until;
	int ret = 0;

	if (!sh_late_hurry())
		return false;
	until = sh_until(YIELD_WAIT_S * SH_NS_PER_S);
	while (sh_late_gone() < until_gone && !ret)
		ret = sh_lock_wait_until(&sh.idle, &until);
	return true;
}

/* The application waits, but not for a NIC that does nothing. */
static bool yield_step_far(void) SH_DROPS
{
	bool any = sh_reach_pairs() || sh_reach_is_leaving();
	struct timespec until;
	int ret = 0;

	until = sh_until(YIELD_WAIT_S * SH_NS_PER_S);
	while (sh_reach_is_leaving() && !ret)
		ret = sh_lock_wait_until(&sh.idle, &until);
	return any;
}

/* ---- what is open on NICs ------------------------------------------------------------------- */

/* True if the NIC is being opened: that takes room, and can be given back only when it is open. */
static bool yield_nic_busy(const struct sh_nic *nic)
{
	return nic->state == SH_NIC_OPENING || nic->ask.under_way ||
	       (nic->yield.closed && nic->removal.leaving);
}

static bool yield_await_nics(const struct timespec *until) SH_DROPS
{
	bool any = false;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < sh_nics.n; i++) {
		any |= yield_nic_busy(&sh_nics.nic[i]);
		while (yield_nic_busy(&sh_nics.nic[i]) && !ret)
			ret = sh_lock_wait_until(&sh.idle, until);
	}
	return any;
}

/* NICs are given back at different times. The call is made again when the last one is done. */
static void yield_hold(void) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (sh_yields(&sh_nics.nic[i]))
			sh_yield_pause_hold(&sh_nics.nic[i], YIELD_WAIT_S * SH_NS_PER_S);
}

/* Begins the pauses anew, as the call is made again only now. */
static void yield_release(void) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (sh_yields(&sh_nics.nic[i]))
			sh_yield_pause_anew(&sh_nics.nic[i]);
	sh_kick();
}

/* Closing is a job of each NIC's worker: what comes behind it is done when that is. */
static void yield_await_workers(const struct timespec *until) SH_DROPS
{
	struct yield_job *tasks[SH_MAX_NICS];
	uint32_t i, n = 0;

	for (i = 0; i < sh_nics.n; i++) {
		if (!sh_nics.nic[i].yield.closed || !sh_nics.nic[i].worker)
			continue;
		tasks[n] = calloc(1, sizeof(*tasks[n]));
		if (!tasks[n])
			continue;
		*tasks[n] = (struct yield_job){ .job = { .fn = yield_fence, .done = yield_done },
						.nic = &sh_nics.nic[i] };
		if (sh_worker_submit(sh_nics.nic[i].worker, &tasks[n]->job))
			free(tasks[n]);
		else
			n++;
	}
	for (i = 0; i < n; i++)
		yield_await(tasks[i], until);
}

static bool yield_step_nics(bool (*give)(struct sh_nic *nic)) SH_DROPS
{
	struct timespec until;
	bool any;
	uint32_t i;

	until = sh_until(YIELD_WAIT_S * SH_NS_PER_S);
	any = yield_await_nics(&until);
	for (i = 0; i < sh_nics.n; i++)
		any |= give(&sh_nics.nic[i]);
	if (any) {
		yield_hold();
		yield_await_nics(&until);
		yield_await_workers(&until);
		yield_release();
	}
	return any;
}

/* False: nothing can have changed. */
static bool yield_step(struct sh_nic *own, enum sh_yield_step step) SH_DROPS
{
	bool deregs = step != SH_YIELD_SOME && sh_objects.deregs.jobs, any = deregs;
	struct yield_job *tasks[SH_MAX_NICS];
	struct timespec until;
	uint32_t n = 0, i;

	if (step == SH_YIELD_NICS)
		return yield_step_nics(sh_nic_give_back);
	if (step == SH_YIELD_OWN)
		return yield_step_nics(sh_nic_give_control_back);
	until = sh_until(YIELD_WAIT_S * SH_NS_PER_S);
	for (i = 0; i < sh_nics.n; i++) {
		if (step < SH_YIELD_ALL && &sh_nics.nic[i] != own)
			continue;
		tasks[n] = yield_begin(&sh_nics.nic[i], step != SH_YIELD_SOME);
		n += tasks[n] != NULL;
	}
	yield_hold();
	for (i = 0; i < n; i++)
		any |= yield_await(tasks[i], &until);
	if (deregs)
		yield_wait_deregs(&until);
	yield_release();
	return any;
}

static bool yield_helps(int error)
{
	if (error == EMFILE)
		return sh_aside_takes_any();
	return error == ENOMEM || error == ENOSPC || error == EAGAIN || error == ENFILE;
}

/* Nothing but open NICs has descriptors, and each a few of them. */
bool shift_gives_way(void)
{
	int error = errno;
	bool any = false;

	if (!yield_helps(error))
		return false;
	sh_lock();
	any = yield_step_nics(sh_nic_give_back);
	sh_unlock();
	errno = error;
	return any;
}

bool sh_yield(struct sh_yield *yield)
{
	int error = errno;
	struct sh_nic *own;
	bool any = false;

	if (!yield_helps(error))
		return false;
	sh_lock();
	own = sh_nic_by_place(sh.real->get_device_name(yield->context->device));
	if (yield->step == SH_YIELD_LATE) {
		any = yield_step_late();
		yield->step = SH_YIELD_FAR;
	}
	if (!any && yield->step == SH_YIELD_FAR) {
		any = yield_step_far();
		yield->step = SH_YIELD_NIC;
	}
	while (!any && yield->step != SH_YIELD_NO_MORE)
		any = yield_step(own, yield->step++);
	sh_unlock();
	errno = error;
	return any;
}
