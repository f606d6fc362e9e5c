/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * While the QPs of a shared receive queue are on several NICs, one of those may run out of receives
 * while another has them and no traffic. What is posted to a NIC cannot be unposted, but a QP of
 * SHIFT's own there, connected to itself, can take it (providers/provider.h). It is made on the
 * NIC's worker when it is first needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/shell.h"

#define THIEF_DEPTH   64 /* receives that it asks for at a time */
#define THIEF_TIMEOUT 14
#define THIEF_LOOK_NS (200 * SH_NS_PER_US)
#define THIEF_SLOW_NS (100 * SH_NS_PER_MS) /* then it is looked at less often */
#define THIEF_FLUSH_NS                                                                             \
	(500 * SH_NS_PER_MS) /* by then, one that broke has shown every receive that it took */
#define THIEF_AGAIN_NS SH_NS_PER_S /* before another is made */

const char sh_thief_mark;

struct thief_job {
	struct sh_job job;
	struct sh_srq *srq;
	struct sh_shadow_srq *shadow; /* NULL: the application's own queue */
	struct sh_thief *thief;
	struct sp_srq_ring *ring;
	struct ibv_pd *pd;
	struct ibv_srq *real;
	struct sh_address address;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* ---- made and unmade on the worker ---------------------------------------------------------- */

static int thief_connect(const struct thief_job *task)
{
	struct ibv_qp_attr attr = { .timeout = THIEF_TIMEOUT, .retry_cnt = 7, .rnr_retry = 7 };

	return sh_connect_to_itself(task->qp, &task->address, &attr);
}

static void thief_make_run(struct sh_job *job)
{
	struct thief_job *task = (struct thief_job *)job;
	struct ibv_qp_init_attr init = { .qp_context = (void *)(uintptr_t)&sh_thief_mark,
					 .srq = task->real,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = THIEF_DEPTH } };
	struct ibv_context *context = task->pd->context;

	sh.real->thread_inside();
	shift_async_real_begin(context);
	task->cq = sh.real->create_cq(context, 4 * THIEF_DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = task->cq;
	if (task->cq)
		task->qp = sh.real->create_qp(task->pd, &init);
	shift_async_real_end(context);
	if (!task->qp || !thief_connect(task))
		return;
	sh.real->destroy_qp(task->qp);
	task->qp = NULL;
}

static void thief_made(const struct thief_job *task)
{
	struct sh_thief *thief = task->thief;

	thief->cq = task->cq;
	thief->qp = task->qp;
	if (!task->job.canceled && task->qp &&
	    !shift_provider_mlx5.thief_make(task->ring, task->qp, task->cq, &thief->sp)) {
		thief->state = SH_THIEF_READY;
		return;
	}
	sh_warn_once("receives of a shared queue cannot be shared between NICs: a moved "
		     "connection may wait for its peers' traffic");
	thief->state = SH_THIEF_BROKEN; /* what there is of it goes */
}

static void thief_done(struct thief_job *task)
{
	task->srq->look_at = sh_now_ns();
	sh_srq_shadow_put(task->srq, task->shadow);
	sh_job_end(&task->srq->busy);
	sh_kick();
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

static void thief_make_done(struct sh_job *job)
{
	struct thief_job *task = (struct thief_job *)job;

	pthread_mutex_lock(&sh.lock);
	thief_made(task);
	thief_done(task);
}

static void thief_unmake_run(struct sh_job *job)
{
	struct thief_job *task = (struct thief_job *)job;
	struct sh_thief rest = { .cq = task->cq, .qp = task->qp };
	struct ibv_context *context = task->pd->context;

	sh.real->thread_inside();
	shift_async_real_begin(context);
	sh_thief_destroy(&rest);
	shift_async_real_end(context);
}

static void thief_unmake_done(struct sh_job *job)
{
	struct thief_job *task = (struct thief_job *)job;
	struct sh_thief *thief = task->thief;

	pthread_mutex_lock(&sh.lock);
	thief->state = SH_THIEF_NONE;
	thief->not_before = sh_now_ns() + THIEF_AGAIN_NS;
	if (task->job.canceled) { /* it goes with its queue */
		thief->state = SH_THIEF_BROKEN;
		thief->cq = task->cq;
		thief->qp = task->qp;
	}
	thief_done(task);
}

/* False: not now. Nothing was done. */
static bool thief_submit(struct sh_srq *srq, struct sh_nic *nic, const struct thief_job *request,
			 void (*fn)(struct sh_job *), void (*done)(struct sh_job *))
{
	struct thief_job *task = nic->worker ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return false;
	*task = *request;
	task->job.fn = fn;
	task->job.done = done;
	task->srq = srq;
	task->address = nic->address;
	sh_job_begin(&srq->busy);
	if (!sh_worker_submit(nic->worker, &task->job)) {
		task->thief->state = SH_THIEF_BUSY;
		if (task->shadow)
			task->shadow->refs++;
		return true;
	}
	sh_job_end(&srq->busy);
	free(task);
	return false;
}

/* ---- its work ------------------------------------------------------------------------------- */

static void thief_look(struct sh_srq *srq, uint64_t at)
{
	srq->look_at = sh_earlier_ns(srq->look_at, at);
}

static void thief_breaks(struct sh_thief *thief, uint64_t now)
{
	thief->state = SH_THIEF_BROKEN;
	thief->not_before = now + THIEF_FLUSH_NS;
	sh_info_once("receives of a shared queue could not be taken back: it is tried again");
}

static void thief_collect(struct sh_srq *srq, struct sh_thief *thief, uint64_t now)
{
	int left;

	if (!thief->asked_at)
		return;
	left = shift_provider_mlx5.thief_collect(thief->sp);
	if (left < 0 && thief->state == SH_THIEF_READY)
		thief_breaks(thief, now);
	if (!left)
		thief->asked_at = 0;
	else if (left > 0)
		thief_look(srq, now + (now - thief->asked_at < THIEF_SLOW_NS ? THIEF_LOOK_NS
									     : THIEF_SLOW_NS));
}

/* Its queue pair is in the error state: it takes nothing any more. */
static void thief_unmake(struct sh_srq *srq, struct sh_nic *nic, const struct thief_job *request,
			 uint64_t now)
{
	struct sh_thief *thief = request->thief;
	struct thief_job task = *request;

	if (thief->not_before > now) {
		thief_look(srq, thief->not_before);
		return;
	}
	sh_thief_forget(thief);
	task.cq = thief->cq;
	task.qp = thief->qp;
	if (!thief_submit(srq, nic, &task, thief_unmake_run, thief_unmake_done))
		return;
	thief->cq = NULL;
	thief->qp = NULL;
}

static void thief_ask(struct sh_srq *srq, struct sh_nic *nic, const struct thief_job *request,
		      uint32_t n, uint64_t now)
{
	struct sh_thief *thief = request->thief;

	if (!sh_nic_up(nic))
		return;
	if (thief->state == SH_THIEF_BROKEN)
		thief_unmake(srq, nic, request, now);
	if (thief->state == SH_THIEF_NONE && thief->not_before > now)
		thief_look(srq, thief->not_before);
	else if (thief->state == SH_THIEF_NONE)
		thief_submit(srq, nic, request, thief_make_run, thief_make_done);
	if (thief->state != SH_THIEF_READY || thief->asked_at)
		return;
	if (!shift_provider_mlx5.thief_ask(thief->sp, n < THIEF_DEPTH ? n : THIEF_DEPTH))
		return;
	thief->asked_at = now;
	thief_look(srq, now + THIEF_LOOK_NS);
}

void sh_thief_run(struct sh_srq *srq, uint64_t now)
{
	struct thief_job own = { .thief = &srq->thief,
				 .ring = shift_provider_mlx5.srq_own(srq->sp),
				 .pd = srq->pd->pd,
				 .real = srq->srq };
	struct sh_shadow_srq *shadow;
	struct sp_srq_ring *most;
	uint32_t n;

	thief_collect(srq, &srq->thief, now);
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		thief_collect(srq, &shadow->thief, now);
	most = shift_provider_mlx5.srq_share(srq->sp, &n);
	if (!most)
		return;
	if (most == own.ring) {
		if (!srq->ctx->death_masked) /* its context stays dead when the NIC is back */
			thief_ask(srq, srq->ctx->nic, &own, n, now);
		return;
	}
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link) {
		struct thief_job there = { .shadow = shadow,
					   .thief = &shadow->thief,
					   .ring = shadow->ring,
					   .pd = shadow->srq->pd,
					   .real = shadow->srq };

		if (shadow->ring == most && shadow->incarnation == shadow->nic->incarnation)
			thief_ask(srq, shadow->nic, &there, n, now);
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

void sh_thief_forget(struct sh_thief *thief)
{
	if (thief->sp)
		shift_provider_mlx5.thief_free(thief->sp);
	thief->sp = NULL;
	thief->asked_at = 0;
}

void sh_thief_destroy(struct sh_thief *thief)
{
	if (thief->qp)
		sh.real->destroy_qp(thief->qp);
	if (thief->cq)
		sh.real->destroy_cq(thief->cq);
	*thief = (struct sh_thief){ 0 };
}
