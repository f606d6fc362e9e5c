/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Attributes that an application changes on a connected QP (IBA: RTS to RTS). Its carriers get
 * them before its modify returns: a right that was taken away must not come back with a move. A
 * carrier whose NIC does not confirm the change is given up.
 */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/rights.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

#define RIGHTS_WAIT_NS SH_NS_PER_S /* time given to a NIC that may hang */

struct rights_job {
	struct sh_job job;
	struct sh_qp *qp;
	struct ibv_qp *real;
	uint32_t epoch;
	struct ibv_qp_attr attr;
	int mask, ret;
	bool restores; /* gives back rights that were withheld, and tells who waits for them */
};

static void rights_run(struct sh_job *job)
{
	struct rights_job *task = (struct rights_job *)job;

	sh.real->thread_inside();
	task->ret = sh.real->modify_qp(task->real, &task->attr, task->mask);
}

static void rights_give_up(struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	sh_log(SH_LOG_INFO, "QP 0x%06x: its queue pair on %s does not take its new access rights",
	       qp->qp->qp_num, carrier->nic->name);
	sh_carrier_fault(qp, carrier, SC_REASON_RESOURCE);
}

static void rights_tell(const struct rights_job *task)
{
	uint32_t number = task->qp->qp->qp_num;

	if (task->ret)
		sh_log(SH_LOG_WARN, "QP 0x%06x goes on refusing atomics: %s", number,
		       strerror(task->ret));
	else
		sh_log(SH_LOG_INFO, "QP 0x%06x takes atomics from now on", number);
}

static void rights_done(struct sh_job *job)
{
	struct rights_job *task = (struct rights_job *)job;
	struct sh_qp *qp = task->qp;
	struct sh_carrier *carrier;

	sh_lock();
	carrier = sh_carrier_find(qp, task->epoch);
	if (carrier && carrier->qp == task->real) {
		carrier->rights_jobs--;
		if ((task->ret || job->canceled) && !carrier->to_error)
			rights_give_up(qp, carrier);
	}
	if (task->restores && !job->canceled)
		rights_tell(task);
	pthread_cond_broadcast(&sh.idle);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(task);
}

static bool rights_submit_to(struct sh_qp *qp, struct sh_worker *worker, struct ibv_qp *real,
			     uint32_t epoch, int mask, bool restores) SH_LOCKED
{
	struct rights_job *task = calloc(1, sizeof(*task));

	if (!task)
		return false;
	*task = (struct rights_job){
		.job = { .fn = rights_run, .done = rights_done, .urgent = true },
		.qp = qp,
		.real = real,
		.epoch = epoch,
		.attr = qp->app.attr,
		.mask = mask,
		.restores = restores,
	};
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(worker, &task->job))
		return true;
	sh_job_end(&qp->busy);
	free(task);
	return false;
}

static bool rights_submit(struct sh_qp *qp, struct sh_carrier *carrier, int mask,
			  bool restores) SH_LOCKED
{
	struct sh_worker *worker = sh_carrier_worker(carrier);

	carrier->rights_jobs++;
	if (rights_submit_to(qp, worker, carrier->qp, carrier->epoch, mask, restores))
		return true;
	carrier->rights_jobs--;
	return false;
}

/* True if the peer's requests may still come to the carrier. */
static bool rights_concern(const struct sh_carrier *carrier)
{
	return carrier->nic && carrier->qp && !carrier->to_error;
}

static bool rights_pending(struct sh_qp *qp)
{
	int i;

	for (i = 1; i < SH_MAX_CARRIERS; i++)
		if (rights_concern(sh_carrier_at(qp, i)) && sh_carrier_at(qp, i)->rights_jobs)
			return true;
	return false;
}

static void rights_wait(struct sh_qp *qp) SH_DROPS
{
	uint64_t until = sh_now_ns() + RIGHTS_WAIT_NS;
	int i;

	while (rights_pending(qp) && sh_now_ns() < until)
		sh_wait_some(SH_NS_PER_S);
	for (i = 1; i < SH_MAX_CARRIERS; i++)
		if (rights_concern(sh_carrier_at(qp, i)) && sh_carrier_at(qp, i)->rights_jobs)
			rights_give_up(qp, sh_carrier_at(qp, i));
}

static void rights_set(struct sh_qp *qp, struct sh_carrier *carrier, int mask) SH_LOCKED
{
	if (sh_carrier_dead(carrier) || !rights_submit(qp, carrier, mask, false))
		rights_give_up(qp, carrier);
}

/* A queue pair in INIT takes no RNR timer (IBA 11.2.5.2): its way to RTR sets one. */
static int rights_taken(const struct sh_carrier *carrier, int mask)
{
	return carrier->sp ? mask : mask & ~IBV_QP_MIN_RNR_TIMER;
}

void sh_rights_follow(struct sh_qp *qp, int mask)
{
	struct sh_carrier *carrier;
	int i, taken;

	mask &= SH_RIGHTS;
	if (!mask)
		return;
	for (i = 1; i < SH_MAX_CARRIERS; i++) {
		carrier = sh_carrier_at(qp, i);
		taken = rights_concern(carrier) ? rights_taken(carrier, mask) : 0;
		if (taken)
			rights_set(qp, carrier, taken);
	}
	sh_job_begin(&qp->busy);
	rights_wait(qp);
	sh_job_end(&qp->busy);
}

static void rights_catch_up(struct sh_qp *qp, uint32_t epoch,
			    const struct ibv_qp_attr *by) SH_LOCKED
{
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);

	if (carrier && rights_concern(carrier) && qp->app.attr.min_rnr_timer != by->min_rnr_timer)
		rights_set(qp, carrier, IBV_QP_MIN_RNR_TIMER);
}

static bool rights_restore_foreign(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_nic *nic = qp->ctx->nic;

	return nic->prompt &&
	       rights_submit_to(qp, nic->prompt, qp->qp, 0, IBV_QP_ACCESS_FLAGS, true);
}

static bool rights_restore_driven(struct sh_qp *qp) SH_LOCKED
{
	struct sh_carrier *own = &qp->carriers.own;

	return sh_carrier_dead(own) || own->to_error ||
	       rights_submit(qp, own, IBV_QP_ACCESS_FLAGS, true);
}

void sh_rights_restore(struct sh_qp *qp)
{
	if (!(qp->sp ? rights_restore_driven(qp) : rights_restore_foreign(qp)))
		sh_log(SH_LOG_WARN, "QP 0x%06x goes on refusing atomics: no memory",
		       qp->qp->qp_num);
}

const struct sh_conn_part sh_rights_part = {
	.name = "rights",
	.standby.connected = rights_catch_up,
};
