/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands on other NICs that the application's verb has to wait for: each is given by the worker of
 * its NIC while the application's thread gives its own. But one that is over sooner than the worker
 * would wake up is the caller's to give; and so is one that the worker has not come to by then, as it
 * may be at something that takes long.
 */
#include "shiftlib/nic/command.h"

#define COMMAND_SHORT_NS (10 * SH_NS_PER_US)

void sh_command_here(struct sh_command *command)
{
	uint64_t since = sh_now_ns();

	command->run(command);
	atomic_store_explicit(&command->nic->command_ns, sh_now_ns() - since, memory_order_relaxed);
}

static void command_run(struct sh_job *job)
{
	sh.real->thread_inside();
	sh_command_here((struct sh_command *)job);
}

static void command_done(struct sh_job *job)
{
	struct sh_command *command = (struct sh_command *)job;

	if (job->canceled)
		command_run(job);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(command->waiting);
	pthread_mutex_unlock(&sh.lock);
}

bool sh_command_send(struct sh_command *command, struct sh_busy *waiting)
{
	struct sh_worker *worker = command->nic->worker;
	uint64_t ns = atomic_load_explicit(&command->nic->command_ns, memory_order_relaxed);

	command->sent = false;
	if (ns && ns < COMMAND_SHORT_NS)
		return false;
	command->job = (struct sh_job){ .fn = command_run, .done = command_done, .urgent = true };
	command->waiting = waiting;
	sh_job_begin(waiting);
	command->sent = !sh_worker_submit(worker, &command->job);
	if (!command->sent)
		sh_job_end(waiting);
	return command->sent;
}

void sh_command_back(struct sh_command *command)
{
	if (!command->sent || !sh_worker_withdraw(command->nic->worker, &command->job))
		return;
	sh_command_here(command);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(command->waiting);
	pthread_mutex_unlock(&sh.lock);
}
