/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The way of carriers to RTS, where the application's own queue pair has gone before. */
#include <stdlib.h>
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/real_qp.h"

#define RTS_LOOK_NS (10 * SH_NS_PER_MS) /* whether the carrier that is waited for has been left */

struct rts_job {
	struct sh_job job;
	struct sh_qp *qp;
	struct ibv_qp *real;
	uint32_t epoch;
	struct sh_nic *nic;
	struct ibv_qp_attr attr;
	uint32_t psn;
	int ret;
};

static void rts_run(struct sh_job *job)
{
	struct rts_job *task = (struct rts_job *)job;

	sh.real->thread_inside();
	task->ret = sh_real_qp_to_rts(task->real, &task->attr, task->psn);
}

static void rts_done(struct sh_job *job)
{
	struct rts_job *task = (struct rts_job *)job;
	struct sh_qp *qp = task->qp;
	struct sh_carrier *carrier;

	sh_lock();
	carrier = sh_carrier_find(qp, task->epoch);
	if (carrier && carrier->qp == task->real) {
		carrier->to_rts = false;
		if (task->ret && !job->canceled) {
			sh_log(SH_LOG_WARN, "QP 0x%06x: its queue pair on %s does not reach RTS",
			       qp->qp->qp_num, task->nic->name);
			sh_carrier_fault(qp, carrier, SC_REASON_RESOURCE);
		}
	}
	pthread_cond_broadcast(&sh.idle);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(task);
}

static void carrier_to_rts(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct rts_job *task;

	if (!carrier || !carrier->sp || carrier->rts || carrier == &qp->carriers.own)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct rts_job){ .job = { .fn = rts_run, .done = rts_done, .urgent = true },
				  .qp = qp,
				  .real = carrier->qp,
				  .epoch = carrier->epoch,
				  .nic = carrier->nic,
				  .attr = qp->app.attr,
				  .psn = carrier->psn };
	task->attr.max_rd_atomic =
		sh_fit_reads_out(task->attr.max_rd_atomic, &carrier->nic->max, carrier->reads_told);
	carrier->rts = carrier->to_rts = true;
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(sh_carrier_worker(carrier), &task->job))
		return;
	carrier->to_rts = false;
	sh_job_end(&qp->busy);
	free(task);
}

/*
 * A device ignores doorbells before RTS: once modify has returned, the application may ring
 * one. Where that has been left, as when its NIC hangs, none is rung: the carrier to come has
 * none before it is in RTS. One whose protection has ended is not left.
 */
static bool awaits_rts(const struct sh_qp *qp)
{
	if (!qp->active->to_rts)
		return false;
	return qp->core.move == SC_MOVE_NONE ||
	       (qp->core.move == SC_MOVE_ENDED && !sh_carrier_dead(qp->active));
}

void sh_carriers_wait_rts(struct sh_qp *qp)
{
	sh_job_begin(&qp->busy);
	while (awaits_rts(qp))
		sh_wait_some(RTS_LOOK_NS);
	sh_job_end(&qp->busy);
}

void sh_carriers_to_rts(struct sh_qp *qp)
{
	if (qp->app.state != IBV_QPS_RTS)
		return;
	carrier_to_rts(qp, qp->active);
	carrier_to_rts(qp, qp->standby);
}
