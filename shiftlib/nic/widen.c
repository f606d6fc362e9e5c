/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Control queue pairs that get room for more datagrams: they open with little, since locked memory
 * counts on each NIC, and most processes have few peers. What is lost for want of room is sent
 * again, which takes time: so the room comes as soon as many datagrams are to be expected, or once
 * many came at once.
 */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/yield.h"

#define WIDEN_PAUSE_NS (10 * SH_NS_PER_S) /* from a try that found no memory to the next */

void sh_nics_expect(uint32_t datagrams)
{
	bool many = datagrams > SH_CONTROL_RECEIVES_FIRST;

	if (many && !sh_nics.many)
		sh_kick();
	sh_nics.many = many;
}

/* What closes the control queue pair is a job of this worker, too, and comes later. */
static void widen_run(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_control *control;

	sh_job_lock();
	control = task->nic->control;
	sh_job_unlock();
	sh.real->thread_inside();
	task->ret = control && !sh_control_dead(control) ? sh_control_widen(control) : 0;
}

static void widen_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	sh_nics.widen[nic->index].asked = false;
	if (task->ret || job->canceled) {
		sh_nics.widen[nic->index].not_before = sh_now_ns() + WIDEN_PAUSE_NS;
		sh_log(SH_LOG_INFO, "%s: no room for more control datagrams at once: %s", nic->name,
		       job->canceled ? "SHIFT is ending" : strerror(-task->ret));
	} else {
		sh_log(SH_LOG_DEBUG, "%s: room for %d control datagrams at once", nic->name,
		       SH_CONTROL_RECEIVES);
	}
	sh_job_end(&nic->busy);
	sh_unlock();
	free(task);
}

static bool widen_due(const struct sh_nic *nic, uint64_t now) SH_LOCKED
{
	return nic->state == SH_NIC_OPEN && nic->control && !sh_nics.widen[nic->index].asked &&
	       !sh_control_wide(nic->control) && (sh_nics.many || sh_control_tight(nic->control)) &&
	       !nic->fatal && !nic->sick && !nic->yield.closed && !sh_yields_memory(nic) &&
	       now >= sh_nics.widen[nic->index].not_before;
}

/*
 * Not by sh_nic_submit(): questions about the port need not wait for this. The worker gives it, and
 * what rests and wakes the control queue pair, one after the other.
 */
void sh_nic_widen_poll(struct sh_nic *nic, uint64_t now)
{
	struct nic_job *task;

	if (sh_nics.cramped || !widen_due(nic, now))
		return;
	task = nic->worker ? calloc(1, sizeof(*task)) : NULL;
	if (!task)
		return;
	*task = (struct nic_job){ .job = { .fn = widen_run, .done = widen_done }, .nic = nic };
	sh_nics.widen[nic->index].asked = true;
	sh_job_begin(&nic->busy);
	if (!sh_worker_submit(nic->worker, &task->job))
		return;
	sh_nics.widen[nic->index].asked = false;
	sh_nics.widen[nic->index].not_before = now + WIDEN_PAUSE_NS;
	sh_job_end(&nic->busy);
	free(task);
}
