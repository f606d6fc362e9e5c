/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The VLAN of SHIFT's datagrams: that of the first connection of the process. They show then that
 * the switches pass it, and hosts whose tables have several VLANs in other orders find each other.
 */
#include <stdlib.h>
#include "shiftlib/control/address.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"

struct vlan_job {
	struct sh_job job;
	struct sh_nic *nic;
	struct sh_gid_place place;
	uint16_t vlan;
	struct sh_address address;
	bool found, answered;
};

/* Finds the GID; not of RoCE v1, which is not for datagrams: see gid_rank(). */
static void vlan_run(struct sh_job *job)
{
	struct vlan_job *task = (struct vlan_job *)job;
	struct sh_nic *nic = task->nic;

	sh.real->thread_inside();
	if (!nic->ctx || !nic->control)
		return;
	task->found = !sh_gid_on_vlan(sh.real, nic->ctx, NIC_PORT, 0, task->vlan, &task->place) &&
		      task->place.kind & (SH_GID_V2_IPV4 | SH_GID_V2_IPV6);
	task->answered =
		task->found && !sh_control_refresh(nic->control, &task->place, &task->address);
}

static void vlan_done(struct sh_job *job)
{
	struct vlan_job *task = (struct vlan_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->tenant.vlan_asked = false;
	if (task->answered && !job->canceled)
		sh_nic_set_address(nic, &task->address, false);
	if (!task->found && !job->canceled && task->vlan)
		sh_log(SH_LOG_WARN,
		       "%s: no GID on VLAN %u, which the program uses: no backup for its "
		       "connections there",
		       nic->name, task->vlan);
	sh_news_nic_opened(nic);
	sh_job_end(&nic->busy);
	sh_unlock();
	free(task);
}

void sh_nic_vlan_ask(struct sh_nic *nic)
{
	struct vlan_job *task;

	if (!sh_nics.vlan.known || nic->state != SH_NIC_OPEN || nic->tenant.vlan_asked ||
	    nic->address.link_layer != IBV_LINK_LAYER_ETHERNET ||
	    nic->address.vlan == sh_nics.vlan.id)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct vlan_job){ .job = { .fn = vlan_run, .done = vlan_done },
				   .nic = nic,
				   .vlan = sh_nics.vlan.id };
	sh_job_begin(&nic->busy);
	nic->tenant.vlan_asked = true;
	if (!sh_worker_submit(nic->worker, &task->job))
		return;
	nic->tenant.vlan_asked = false;
	sh_job_end(&nic->busy);
	free(task);
}

bool sh_nics_on_vlan(uint16_t vlan)
{
	bool first = !sh_nics.vlan.known && !sh.config.any_vlan;
	uint32_t i, n_asked = 0;

	if (first) {
		sh_nics.vlan.known = true;
		sh_nics.vlan.id = vlan;
	}
	for (i = 0; i < sh_nics.n; i++) {
		if (first)
			sh_nic_vlan_ask(&sh_nics.nic[i]);
		n_asked += sh_nics.nic[i].tenant.vlan_asked;
	}
	return !n_asked;
}
