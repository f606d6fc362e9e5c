/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * While the QPs of a shared receive queue are on several NICs, one of those may run out of receives
 * while another has them and no traffic. What is posted to a NIC cannot be unposted, but a loopback
 * QP of SHIFT's own there can take it (providers/provider.h). It is made on the
 * NIC's worker when it is first needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/real_qp.h"
#include "shiftlib/replica/srq.h"

#define RECLAIM_DEPTH	64 /* receives asked for at a time */
#define RECLAIM_TIMEOUT 14
#define RECLAIM_LOOK_NS (200 * SH_NS_PER_US)
#define RECLAIM_SLOW_NS (100 * SH_NS_PER_MS) /* then it is looked at less often */
/* Time in which a broken one shows every receive that it took. */
#define RECLAIM_FLUSH_NS (500 * SH_NS_PER_MS)
#define RECLAIM_AGAIN_NS SH_NS_PER_S /* before another is made */

const char sh_reclaim_mark;

struct reclaim_job {
	struct sh_job job;
	struct sh_srq *srq;
	struct sh_shadow_srq *shadow; /* NULL: the application's own queue */
	struct sh_reclaim *reclaim;
	struct sp_srq_ring *ring;
	struct ibv_pd *pd;
	struct ibv_srq *real;
	struct sh_address address;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* ---- made and unmade on the worker ---------------------------------------------------------- */

static int reclaim_connect(const struct reclaim_job *task)
{
	struct ibv_qp_attr attr = { .timeout = RECLAIM_TIMEOUT, .retry_cnt = 7, .rnr_retry = 7 };

	return sh_real_qp_loop_back(task->qp, &task->address, &attr);
}

static void reclaim_make_run(struct sh_job *job)
{
	struct reclaim_job *task = (struct reclaim_job *)job;
	struct ibv_qp_init_attr init = { .qp_context = (void *)(uintptr_t)&sh_reclaim_mark,
					 .srq = task->real,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = RECLAIM_DEPTH } };
	struct ibv_context *context = task->pd->context;

	sh.real->thread_inside();
	shift_async_real_begin(context);
	task->cq = sh.real->create_cq(context, 4 * RECLAIM_DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = task->cq;
	if (task->cq)
		task->qp = sh.real->create_qp(task->pd, &init);
	shift_async_real_end(context);
	if (!task->qp || !reclaim_connect(task))
		return;
	sh.real->destroy_qp(task->qp);
	task->qp = NULL;
}

static void reclaim_made(const struct reclaim_job *task)
{
	struct sh_reclaim *reclaim = task->reclaim;

	reclaim->cq = task->cq;
	reclaim->qp = task->qp;
	if (!task->job.canceled && task->qp &&
	    !sp_reclaim_make(task->ring, task->qp, task->cq, &reclaim->sp)) {
		reclaim->state = SH_RECLAIM_READY;
		return;
	}
	sh_warn_once("receives of a shared queue cannot be shared between NICs: a moved "
		     "connection may wait for its peers' traffic");
	reclaim->state = SH_RECLAIM_BROKEN; /* what there is goes */
}

static void reclaim_done(struct reclaim_job *task) SH_RELEASES
{
	task->srq->look_at = sh_now_ns();
	sh_srq_shadow_put(task->srq, task->shadow);
	sh_job_end(&task->srq->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

static void reclaim_make_done(struct sh_job *job)
{
	struct reclaim_job *task = (struct reclaim_job *)job;

	sh_lock();
	reclaim_made(task);
	reclaim_done(task);
}

static void reclaim_unmake_run(struct sh_job *job)
{
	struct reclaim_job *task = (struct reclaim_job *)job;
	struct sh_reclaim rest = { .cq = task->cq, .qp = task->qp };
	struct ibv_context *context = task->pd->context;

	sh.real->thread_inside();
	shift_async_real_begin(context);
	sh_reclaim_destroy(&rest);
	shift_async_real_end(context);
}

static void reclaim_unmake_done(struct sh_job *job)
{
	struct reclaim_job *task = (struct reclaim_job *)job;
	struct sh_reclaim *reclaim = task->reclaim;

	sh_lock();
	reclaim->state = SH_RECLAIM_NONE;
	reclaim->not_before = sh_now_ns() + RECLAIM_AGAIN_NS;
	if (task->job.canceled) { /* canceled: it goes with its queue */
		reclaim->state = SH_RECLAIM_BROKEN;
		reclaim->cq = task->cq;
		reclaim->qp = task->qp;
	}
	reclaim_done(task);
}

/* False: not now. Nothing was done. */
static bool reclaim_submit(struct sh_srq *srq, struct sh_nic *nic,
			   const struct reclaim_job *request, void (*fn)(struct sh_job *),
			   void (*done)(struct sh_job *)) SH_LOCKED
{
	struct reclaim_job *task = nic->worker ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return false;
	*task = *request;
	task->job.fn = fn;
	task->job.done = done;
	task->srq = srq;
	task->address = nic->address;
	sh_job_begin(&srq->busy);
	if (!sh_worker_submit(nic->worker, &task->job)) {
		task->reclaim->state = SH_RECLAIM_BUSY;
		if (task->shadow)
			task->shadow->refs++;
		return true;
	}
	sh_job_end(&srq->busy);
	free(task);
	return false;
}

/* ---- its work ------------------------------------------------------------------------------- */

static void reclaim_check_at(struct sh_srq *srq, uint64_t at)
{
	srq->look_at = sh_earlier_ns(srq->look_at, at);
}

static void reclaim_breaks(struct sh_reclaim *reclaim, uint64_t now)
{
	reclaim->state = SH_RECLAIM_BROKEN;
	reclaim->not_before = now + RECLAIM_FLUSH_NS;
	sh_info_once("receives of a shared queue could not be taken back: it is tried again");
}

static void reclaim_collect(struct sh_srq *srq, struct sh_reclaim *reclaim, uint64_t now)
{
	int left;

	if (!reclaim->asked_at)
		return;
	left = sp_reclaim_collect(reclaim->sp);
	if (left < 0 && reclaim->state == SH_RECLAIM_READY)
		reclaim_breaks(reclaim, now);
	if (!left)
		reclaim->asked_at = 0;
	else if (left > 0)
		reclaim_check_at(srq, now + (now - reclaim->asked_at < RECLAIM_SLOW_NS
						     ? RECLAIM_LOOK_NS
						     : RECLAIM_SLOW_NS));
}

/* Unmakes a reclaim QP that is in the error state: it takes nothing any more. */
static void reclaim_unmake(struct sh_srq *srq, struct sh_nic *nic,
			   const struct reclaim_job *request, uint64_t now) SH_LOCKED
{
	struct sh_reclaim *reclaim = request->reclaim;
	struct reclaim_job task = *request;

	if (reclaim->not_before > now) {
		reclaim_check_at(srq, reclaim->not_before);
		return;
	}
	sh_reclaim_forget(reclaim);
	task.cq = reclaim->cq;
	task.qp = reclaim->qp;
	if (!reclaim_submit(srq, nic, &task, reclaim_unmake_run, reclaim_unmake_done))
		return;
	reclaim->cq = NULL;
	reclaim->qp = NULL;
}

static bool reclaim_ask(struct sh_srq *srq, struct sh_nic *nic, const struct reclaim_job *request,
			uint32_t n, uint64_t now) SH_LOCKED
{
	struct sh_reclaim *reclaim = request->reclaim;

	if (!sh_nic_up(nic))
		return false;
	if (reclaim->state == SH_RECLAIM_BROKEN)
		reclaim_unmake(srq, nic, request, now);
	if (reclaim->state == SH_RECLAIM_NONE && reclaim->not_before > now)
		reclaim_check_at(srq, reclaim->not_before);
	else if (reclaim->state == SH_RECLAIM_NONE)
		reclaim_submit(srq, nic, request, reclaim_make_run, reclaim_make_done);
	if (reclaim->state != SH_RECLAIM_READY || reclaim->asked_at)
		return false;
	if (!sp_reclaim_ask(reclaim->sp, n < RECLAIM_DEPTH ? n : RECLAIM_DEPTH))
		return false;
	reclaim->asked_at = now;
	reclaim_check_at(srq, now + RECLAIM_LOOK_NS);
	return true;
}

static bool reclaim_from_own(struct sh_srq *srq, uint32_t n, uint64_t now) SH_LOCKED
{
	struct reclaim_job own = { .reclaim = &srq->reclaim,
				   .ring = sp_srq_own(srq->sp),
				   .pd = srq->pd->pd,
				   .real = srq->srq };

	/* the context stays dead when its NIC is back */
	return !srq->ctx->dead && reclaim_ask(srq, srq->ctx->nic, &own, n, now);
}

static bool reclaim_from_shadow(struct sh_srq *srq, struct sh_shadow_srq *shadow, uint32_t n,
				uint64_t now) SH_LOCKED
{
	struct reclaim_job there = { .shadow = shadow,
				     .reclaim = &shadow->reclaim,
				     .ring = shadow->ring,
				     .pd = shadow->srq->pd,
				     .real = shadow->srq };

	return shadow->incarnation == shadow->nic->incarnation &&
	       reclaim_ask(srq, shadow->nic, &there, n, now);
}

bool sh_reclaim_from(struct sh_srq *srq, struct sp_srq_ring *ring, uint32_t n, uint64_t now)
{
	struct sh_shadow_srq *shadow;

	if (ring == sp_srq_own(srq->sp))
		return reclaim_from_own(srq, n, now);
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		if (shadow->ring == ring)
			return reclaim_from_shadow(srq, shadow, n, now);
	return false;
}

void sh_reclaim_run(struct sh_srq *srq, uint64_t now)
{
	struct sh_shadow_srq *shadow;
	struct sp_srq_ring *most;
	uint32_t n;

	reclaim_collect(srq, &srq->reclaim, now);
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		reclaim_collect(srq, &shadow->reclaim, now);
	most = sp_srq_share(srq->sp, &n);
	if (most)
		sh_reclaim_from(srq, most, n, now);
}

/* ---- the end -------------------------------------------------------------------------------- */

void sh_reclaim_forget(struct sh_reclaim *reclaim)
{
	if (reclaim->sp)
		sp_reclaim_free(reclaim->sp);
	reclaim->sp = NULL;
	reclaim->asked_at = 0;
}

void sh_reclaim_destroy(struct sh_reclaim *reclaim)
{
	if (reclaim->qp)
		sh.real->destroy_qp(reclaim->qp);
	if (reclaim->cq)
		sh.real->destroy_cq(reclaim->cq);
	*reclaim = (struct sh_reclaim){ 0 };
}
