/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands on other NICs that the application's verb has to wait for. Each is given by the worker
 * of its NIC while the application's thread gives its own. That thread gives none to a NIC that may
 * hang by now: the thread would not come back. But a command that waits in the worker's line behind
 * a long one is taken back from it when the NIC has just shown that it obeys, and given to the
 * NIC's other worker: it may hang in the next moment.
 */
#include "shiftlib/base/apart.h"
#include "shiftlib/nic/command.h"

#define COMMAND_LOOK_NS (5 * SH_NS_PER_MS)

static struct sh_worker *command_worker(const struct sh_command *command)
{
	return command->worker ? command->worker : command->nic->worker;
}

static void command_process(void *command)
{
	((struct sh_command *)command)->run(command);
}

static void command_run(struct sh_job *job)
{
	struct sh_command *command = (struct sh_command *)job;

	sh.real->thread_inside();
	if (command->device)
		sh_apart_next(command->device, command_process, command);
	else
		command->run(command);
}

static void command_over_locked(struct sh_command *command) SH_LOCKED
{
	command->under_way = false;
	sh_job_end(command->waiting);
}

static void command_done(struct sh_job *job)
{
	if (job->canceled)
		command_process(job);
	sh_lock();
	command_over_locked((struct sh_command *)job);
	sh_unlock();
}

bool sh_command_send(struct sh_command *command, struct sh_busy *waiting)
{
	command->job = (struct sh_job){ .fn = command_run, .done = command_done, .urgent = true };
	command->waiting = waiting;
	command->under_way = true;
	sh_job_begin(waiting);
	if (!sh_worker_submit(command_worker(command), &command->job))
		return true;
	command_over_locked(command);
	return false;
}

void sh_command_here(struct sh_command *command)
{
	sh_unlock();
	command->run(command);
	sh_lock();
}

void sh_command_give(struct sh_command *command, struct sh_busy *waiting)
{
	if (!sh_command_send(command, waiting))
		sh_command_here(command);
}

/* False: the command waited there, or there is no other worker. */
static bool command_to_other(struct sh_command *command) SH_LOCKED
{
	struct sh_worker *prompt = command->nic->prompt;

	if (!prompt || command_worker(command) == prompt || sh_worker_submit(prompt, &command->job))
		return false;
	command->worker = prompt;
	return true;
}

/* Looks after one command. False: its NIC does not obey. */
static bool command_poll(struct sh_command *command) SH_DROPS
{
	uint64_t now = sh_now_ns();

	if (!sh_nic_tried(command->nic, now))
		return !command->under_way;
	if (!command->under_way || !sh_worker_withdraw(command_worker(command), &command->job))
		return true;
	if (command_to_other(command))
		return true;
	sh_command_here(command);
	command_over_locked(command);
	return true;
}

bool sh_commands_await(struct sh_command *const *commands, uint32_t n, struct sh_busy *waiting)
{
	uint32_t i;

	for (;;) {
		if (waiting->jobs)
			sh_wait_some(COMMAND_LOOK_NS);
		if (!waiting->jobs)
			return true;
		for (i = 0; i < n; i++)
			if (commands[i]->under_way && !command_poll(commands[i]))
				return false;
	}
}
