/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The end of a connection with errors: its queue pairs go to ERR, and then all requests fail. */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/ending.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

/* ---- queue pairs go to ERR ------------------------------------------------------------------ */

struct error_job {
	struct sh_job job;
	struct sh_qp *qp;
	struct ibv_qp *real;
	uint32_t epoch;
};

static void error_run(struct sh_job *job)
{
	struct error_job *task = (struct error_job *)job;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	sh.real->thread_inside();
	sh.real->modify_qp(task->real, &attr, IBV_QP_STATE);
}

static void error_done(struct sh_job *job)
{
	struct error_job *task = (struct error_job *)job;
	struct sh_carrier *carrier;

	sh_lock();
	carrier = sh_carrier_find(task->qp, task->epoch);
	if (carrier && carrier->qp == task->real)
		carrier->in_error = true;
	sh_ending_poll(task->qp);
	sh_job_end(&task->qp->busy);
	sh_unlock();
	free(task);
}

static void ending_carrier_to_error(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_worker *worker = carrier->qp ? sh_carrier_worker(carrier) : NULL;
	struct error_job *task;

	if (!worker)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct error_job){ .job = { .fn = error_run, .done = error_done, .urgent = true },
				    .qp = qp,
				    .real = carrier->qp,
				    .epoch = carrier->epoch };
	sh_job_begin(&qp->busy);
	carrier->to_error = true;
	if (!sh_worker_submit(worker, &task->job))
		return;
	carrier->to_error = false;
	sh_job_end(&qp->busy);
	free(task);
}

/* Nothing of this connection may run any more, in hardware either. */
static void ending_to_error(struct sh_qp *qp) SH_LOCKED
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (sh_carrier_at(qp, i)->nic && !sh_carrier_at(qp, i)->to_error)
			ending_carrier_to_error(qp, sh_carrier_at(qp, i));
}

/* ---- requests fail ------------------------------------------------------------------------- */

/* Nothing is executed there any more, or nobody can say when. */
static bool ending_stopped(const struct sh_carrier *carrier)
{
	return !carrier->qp || !carrier->to_error || carrier->in_error || sh_carrier_dead(carrier);
}

/* An error of the program's that came meanwhile was withheld; stock would have shown it first. */
static void ending_collect(struct sh_qp *qp) SH_LOCKED
{
	struct sh_qp_ending *ending = &qp->error.ending;

	(void)sh_carriers_collect(qp);
	if (!sh_mailbox_accuses(&qp->mailbox))
		return;
	ending->first = (enum ibv_wc_status)atomic_load(&qp->mailbox.app_error_status);
	ending->vendor_err = atomic_load(&qp->mailbox.app_error_vendor);
}

/* Completions that lie unpolled are told before the errors, as on stock. */
static void ending_over(struct sh_qp *qp) SH_LOCKED
{
	struct sh_qp_ending *ending = &qp->error.ending;

	ending_collect(qp);
	ending->over = true;
	ending->at = 0;
	sh_clock_touch(qp); /* here also when a worker's command has returned */
	sp_qp_fail(qp->sp, ending->first, ending->vendor_err, ending->delivered);
	SH_PARTS_TELL(move.ended, qp, true);
}

void sh_ending_poll(struct sh_qp *qp)
{
	const struct sh_qp_ending *ending = &qp->error.ending;

	if (qp->conn_id && ending->on && !ending->over && ending_stopped(qp->active) &&
	    ending_stopped(qp->receiving))
		ending_over(qp);
}

/*
 * A flush says that the buffer is the application's again. So it is shown when no NIC uses that
 * any more: the carrier that receives lie in already may have a peer that sends.
 */
void sh_ending_begin(struct sh_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		     uint32_t n_delivered)
{
	struct sh_qp_ending *ending = &qp->error.ending;

	if (!ending->on) {
		*ending = (struct sh_qp_ending){ .on = true,
						 .first = first,
						 .vendor_err = vendor_err,
						 .delivered = n_delivered,
						 .at = sh_now_ns() + sh.config.hang.command_ns };
		ending_collect(qp);
		sp_qp_withhold(qp->sp);
	}
	ending_to_error(qp);
	sh_ending_poll(qp);
	sh_clock_touch(qp);
	sh_clock_wake_for(qp);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t ending_next_timer(const struct sh_qp *qp)
{
	return qp->error.ending.at;
}

/* A NIC that has not obeyed by now is not waited for. */
static void ending_run(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	(void)now;
	ending_over(qp);
}

const struct sh_conn_part sh_ending_part = {
	.name = "ending",
	.clock = { .next_timer = ending_next_timer, .run = ending_run },
};
