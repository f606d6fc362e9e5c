/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Watch of dead and sick NICs that may be cut off from memory: nobody has to wait for what such a
 * NIC may still do. The looks have a worker of their own: the NIC's other ones wait in the driver,
 * for as long as a command of a NIC that hangs may take.
 */
#include <stdlib.h>
#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/pci.h"

/* time between two looks: a driver that loads anew switches the device off and on faster */
#define CUT_TWICE_NS SH_NS_PER_MS
#define CUT_MAX_NS   (500 * SH_NS_PER_MS)

struct cut_job {
	struct sh_job job;
	struct sh_nic *nic;
	uint32_t incarnation;
	bool off, gone;
};

static void cut_run(struct sh_job *job)
{
	struct cut_job *task = (struct cut_job *)job;

	task->off = sh_pci_cut_off(task->nic->cut.fd, &task->gone);
}

static bool cut_matters(const struct sh_nic *nic)
{
	return (nic->fatal || nic->sick) && nic->cut.fd >= 0 && !nic->cut.off;
}

static void cut_seen(struct sh_nic *nic, bool off) SH_LOCKED
{
	if (!off) {
		sh_log(SH_LOG_DEBUG, "%s: it reaches memory", nic->name);
		nic->cut.once = false;
		nic->cut.on_at = sh_now_ns();
		nic->cut.on_of = nic->incarnation;
		nic->cut.interval = sh_min_ns(2 * nic->cut.interval, CUT_MAX_NS);
		nic->cut.look_at = sh_earlier_ns(nic->cut.look_at, sh_now_ns() + nic->cut.interval);
	} else if (!nic->cut.once) {
		nic->cut.once = true;
		nic->cut.look_at = sh_now_ns() + CUT_TWICE_NS;
	} else {
		nic->cut.off = true;
		sh_log(SH_LOG_INFO, "%s: it is cut off from memory", nic->name);
		sh_news_nic_cut_off(nic);
	}
}

static void cut_done(struct sh_job *job)
{
	struct cut_job *task = (struct cut_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->cut.asked = false;
	if (!job->canceled && task->incarnation == nic->incarnation && cut_matters(nic)) {
		nic->cut.seen = true;
		nic->cut.seen_at = sh_now_ns();
		nic->cut.gone |= task->gone;
		cut_seen(nic, task->off);
	}
	sh_job_end(&nic->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

void sh_nic_cut_poll(struct sh_nic *nic)
{
	struct cut_job *task;

	nic->cut.look_at = 0;
	if (nic->cut.asked || !cut_matters(nic))
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct cut_job){ .job = { .fn = cut_run, .done = cut_done, .urgent = true },
				  .nic = nic,
				  .incarnation = nic->incarnation };
	sh_job_begin(&nic->busy);
	nic->cut.asked = sh_nic_worker(&nic->cut.eyes, nic->name) &&
			 !sh_worker_submit(nic->cut.eyes, &task->job);
	if (nic->cut.asked)
		return;
	sh_job_end(&nic->busy);
	free(task);
}

bool sh_nic_drained(const struct sh_nic *nic, uint32_t incarnation, uint64_t since)
{
	if (incarnation == nic->incarnation && !nic->fatal && !nic->sick)
		return true;
	return nic->cut.on_of == incarnation && nic->cut.on_at > since + sh.config.core.settle_ns;
}

bool sh_nic_drain_unknown(const struct sh_nic *nic, uint32_t incarnation, uint64_t since)
{
	return cut_matters(nic) && incarnation == nic->incarnation &&
	       nic->cut.seen_at <= since + sh.config.core.settle_ns;
}

void sh_nic_drains(struct sh_nic *nic, uint64_t since)
{
	if (cut_matters(nic))
		nic->cut.look_at =
			sh_earlier_ns(nic->cut.look_at, since + sh.config.core.settle_ns + 1);
}

void sh_nic_cut_begin(struct sh_nic *nic)
{
	nic->cut.once = nic->cut.off = nic->cut.seen = nic->cut.gone = false;
	nic->cut.on_at = nic->cut.seen_at = 0;
	nic->cut.interval = CUT_TWICE_NS;
	if (nic->cut.fd >= 0)
		sh_nic_cut_poll(nic);
}
