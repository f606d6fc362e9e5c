/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The partitions of a port: the table is read again when the subnet manager has changed it. */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/control/pkeys.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"

struct pkeys_job {
	struct sh_job job;
	struct sh_nic *nic;
	struct sh_pkeys pkeys;
};

static void pkeys_run(struct sh_job *job)
{
	struct pkeys_job *task = (struct pkeys_job *)job;

	sh.real->thread_inside();
	if (task->nic->ctx)
		sh_pkeys_read(sh.real, task->nic->ctx, NIC_PORT, &task->pkeys);
}

static bool pkeys_equal(const struct sh_pkeys *a, const struct sh_pkeys *b)
{
	return a->n == b->n && !memcmp(a->value, b->value, a->n * sizeof(a->value[0]));
}

/* ---- the partition of SHIFT's own datagrams ------------------------------------------------- */

static void own_run(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_pkeys pkeys;

	sh_job_lock();
	pkeys = task->nic->tenant.pkeys;
	sh_job_unlock();
	sh.real->thread_inside();
	task->ret = sh_control_repartition(task->nic->control, &pkeys);
}

static void own_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->ask.under_way = false;
	sh_nic_control_woken(nic, !task->ret && !job->canceled);
	sh_job_end(&nic->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

/*
 * Sends and receives in the partition of before, at its new place: peers in that partition would
 * hear nothing of a control QP that goes on with the index of before.
 */
void sh_nic_own_partition(struct sh_nic *nic)
{
	if (!nic->tenant.moved || !nic->control || nic->fatal || nic->sick || nic->yield.closed ||
	    nic->ask.under_way)
		return;
	nic->tenant.moved = false;
	if (!sh_control_astray(nic->control, &nic->tenant.pkeys) ||
	    sh_nic_submit(nic, own_run, own_done))
		return;
	sh_control_rest_begin(nic->control);
	sh_log(SH_LOG_INFO,
	       "%s: the partition of SHIFT's own datagrams has another place in the table, and "
	       "they follow it",
	       nic->name);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void pkeys_done(struct sh_job *job)
{
	struct pkeys_job *task = (struct pkeys_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	if (!job->canceled && task->pkeys.n && !pkeys_equal(&task->pkeys, &nic->tenant.pkeys)) {
		sh_log(SH_LOG_WARN, "%s: its partition table (P_Keys) has changed", nic->name);
		nic->tenant.pkeys = task->pkeys;
		nic->tenant.moved = true;
		sh_nic_own_partition(nic);
		sh_news_nic_pkeys(nic);
		sh_kick();
	}
	sh_job_end(&nic->busy);
	sh_unlock();
	free(task);
}

/*
 * Asks for the table, not on the worker by which the NIC is judged: that takes a command for each
 * entry.
 */
void sh_nic_pkeys_ask(struct sh_nic *nic)
{
	struct pkeys_job *task = nic->worker ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return;
	*task = (struct pkeys_job){ .job = { .fn = pkeys_run, .done = pkeys_done }, .nic = nic };
	sh_job_begin(&nic->busy);
	if (!sh_worker_submit(nic->worker, &task->job))
		return;
	sh_job_end(&nic->busy);
	free(task);
}
