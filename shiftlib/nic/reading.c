/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/apart.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/reading.h"

static void reading_command(void *reading)
{
	((struct sh_reading *)reading)->read(reading);
}

static void reading_run(struct sh_job *job)
{
	sh_apart(((struct sh_reading *)job)->device, reading_command, job);
}

static void reading_over(struct sh_reading *reading) SH_LOCKED
{
	sh_job_end(&reading->nic->busy);
	free(reading);
}

static void reading_done(struct sh_job *job)
{
	struct sh_reading *reading = (struct sh_reading *)job;

	sh_job_lock();
	*reading->under_way = false;
	if (!job->canceled && !sh.stopping)
		reading->told(reading);
	reading_over(reading);
	sh_job_unlock();
}

void sh_reading_begin(struct sh_reading *reading, struct sh_nic *nic, bool *under_way)
{
	reading->job = (struct sh_job){ .fn = reading_run, .done = reading_done };
	reading->nic = nic;
	reading->incarnation = nic->incarnation;
	reading->device = nic->ctx ? nic->ctx->cmd_fd : -1;
	memcpy(reading->name, nic->name, sizeof(reading->name));
	reading->under_way = under_way;
	sh_job_begin(&nic->busy);
	*under_way = !sh_worker_submit(nic->worker, &reading->job);
	if (!*under_way)
		reading_over(reading);
}
