/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The trial whether a NIC still obeys: of NICs that have not shown it lately, before something
 * waits for them.
 */
#include <stdlib.h>
#include "shiftlib/base/apart.h"
#include "shiftlib/nic/internal.h"

/* time after a returned command in which a NIC is trusted to obey */
#define TRY_TRUST_NS (100 * SH_NS_PER_MS)
#define TRY_LOOK_NS  (10 * SH_NS_PER_MS)

struct try_job {
	struct sh_job job;
	struct sh_nic *nic;
	struct ibv_context *ctx;
	uint32_t incarnation;
};

static void try_command(void *context)
{
	struct ibv_port_attr attr = { 0 };

	(void)sh.real->query_port(context, NIC_PORT, (struct _compat_ibv_port_attr *)&attr);
}

static void try_run(struct sh_job *job)
{
	struct ibv_context *context = ((struct try_job *)job)->ctx;

	sh.real->thread_inside();
	sh_apart(context->cmd_fd, try_command, context);
}

static void try_done(struct sh_job *job)
{
	struct try_job *task = (struct try_job *)job;

	sh_lock();
	sh_nic_release(task->nic, task->incarnation);
	sh_job_end(&task->nic->busy);
	pthread_cond_broadcast(&sh.idle);
	sh_unlock();
	free(task);
}

static uint64_t try_returned(const struct sh_nic *nic)
{
	uint64_t a = sh_worker_returned_ns(nic->worker), b = sh_worker_returned_ns(nic->prompt);

	return a > b ? a : b;
}

static bool try_trusted(const struct sh_nic *nic, uint64_t since)
{
	return !sh_nic_up(nic) || !nic->worker || !nic->prompt || try_returned(nic) >= since;
}

static void try_begin(struct sh_nic *nic) SH_LOCKED
{
	struct try_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct try_job){ .job = { .fn = try_run, .done = try_done, .urgent = true },
				  .nic = nic,
				  .ctx = nic->ctx,
				  .incarnation = nic->incarnation };
	sh_job_begin(&nic->busy);
	sh_nic_hold(nic, nic->incarnation);
	if (!sh_worker_submit(nic->prompt, &task->job))
		return;
	sh_nic_release(nic, nic->incarnation);
	sh_job_end(&nic->busy);
	free(task);
}

bool sh_nic_tried(struct sh_nic *nic, uint64_t since)
{
	uint64_t until = sh_now_ns() + sh.config.hang.command_ns;

	if (sh_nic_up(nic) && !try_trusted(nic, since))
		try_begin(nic);
	while (sh_nic_up(nic) && !try_trusted(nic, since) && sh_now_ns() < until)
		sh_wait_some(TRY_LOOK_NS);
	return sh_nic_up(nic) && try_trusted(nic, since);
}

static bool try_all_trusted(struct sh_nic *const *nics, uint32_t n, uint64_t since) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (sh_nic_prompt(nics[i]) && !try_trusted(nics[i], since))
			return false;
	return true;
}

void sh_nics_try(struct sh_nic *const *nics, uint32_t n)
{
	uint64_t now = sh_now_ns(), until = now + sh.config.hang.command_ns;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (sh_nic_prompt(nics[i]) && !try_trusted(nics[i], now - TRY_TRUST_NS))
			try_begin(nics[i]);
	while (!try_all_trusted(nics, n, now - TRY_TRUST_NS) && sh_now_ns() < until) {
		sh_wait_some(TRY_LOOK_NS);
	}
}
