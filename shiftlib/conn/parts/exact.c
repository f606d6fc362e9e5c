/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Expected PSNs: asked of the NIC for the core, and whether to believe the peer's. */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/exact.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/prove.h"

struct psn_job {
	struct sh_job job;
	struct sh_qp *qp;
	uint32_t epoch;
	struct ibv_qp *real;
	uint32_t psn;
	int ret;
};

/* ---- what we want ---------------------------------------------------------------------------- */

static void exact_withheld(struct sh_qp *qp, uint32_t epoch) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_WITHHELD,
				  .epoch = epoch,
				  .carrier = qp->active->epoch };
	struct sp_request *info;
	uint32_t n = 0;

	if (!sh.config.core.exact)
		return;
	info = sh_move_outstanding(qp, &n);
	event.exact = info && n && info[0].numbered && sc_exact_wanted(info, n);
	free(info);
	sh_conn_event(qp, &event);
}

static void exact_counts(const struct sh_qp *qp, const struct sc_action *settle,
			 struct sc_counts *counts)
{
	sc_settle_exact(counts, settle, qp->active->epoch);
	if (qp->peer && qp->peer->doubted & 1u << qp->active->path)
		counts->exact = false;
}

static void exact_doubt(struct sh_qp *qp, const struct sc_verdict *verdict)
{
	if (!verdict->doubted || !qp->peer)
		return;
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: the expected PSN that the peer's NIC of path %u told contradicts the "
	       "count "
	       "of receives; it is not used, nor is another one of that NIC",
	       qp->qp->qp_num, qp->active->path);
	qp->peer->doubted |= 1u << qp->active->path;
}

/* ---- what the peer wants --------------------------------------------------------------------- */

static void psn_run(struct sh_job *job)
{
	struct psn_job *task = (struct psn_job *)job;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	sh.real->thread_inside();
	task->ret = sh.real->query_qp(task->real, &attr, IBV_QP_RQ_PSN, &init);
	task->psn = attr.rq_psn;
}

static void psn_done(struct sh_job *job)
{
	struct psn_job *task = (struct psn_job *)job;
	struct sc_event event = { .type = SC_EV_PSN,
				  .epoch = task->epoch,
				  .ok = !job->canceled && !task->ret,
				  .psn = task->psn };

	sh_lock();
	if (task->qp->conn_id)
		sh_conn_event(task->qp, &event);
	sh_job_end(&task->qp->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

/* A carrier that was made on an earlier life of its NIC cannot be asked. */
static bool psn_submit(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_worker *worker = sh_carrier_worker(carrier);
	struct psn_job *task = worker ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return false;
	*task = (struct psn_job){ .job = { .fn = psn_run, .done = psn_done, .urgent = true },
				  .qp = qp,
				  .epoch = carrier->epoch,
				  .real = carrier->qp };
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(worker, &task->job))
		return true;
	sh_job_end(&qp->busy);
	free(task);
	return false;
}

static void exact_ask(struct sh_qp *qp, uint32_t epoch) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_PSN, .epoch = epoch };
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);
	bool may = carrier && carrier->qp && !sh_carrier_dead(carrier) && !carrier->nic->sick &&
		   carrier->in_error && sh_nic_proven(carrier->nic);

	if (!may || !psn_submit(qp, carrier))
		sh_conn_event(qp, &event);
}

static void exact_prove(struct sh_qp *qp) SH_LOCKED
{
	for (uint32_t i = 0; i < qp->ctx->n_paths; i++)
		if (qp->ctx->path[i])
			sh_nic_prove(qp->ctx->path[i]);
}

const struct sh_conn_part sh_exact_part = {
	.name = "exact",
	.step.guarded = exact_prove,
	.move = { .withheld = exact_withheld, .ask_psn = exact_ask },
	.fate = { .counts = exact_counts, .doubt = exact_doubt },
};
