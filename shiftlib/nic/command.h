/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A command on another NIC that the application's verb has to wait for: see command.c. */
#ifndef SHIFTLIB_COMMAND_H
#define SHIFTLIB_COMMAND_H

#include "shiftlib/base/locked.h"
#include "shiftlib/nic/nic.h"

/* A command, never on a stack: the waiting thread may give it up. */
struct sh_command {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	struct sh_worker *worker; /* worker of the NIC; NULL: the one that makes things */
	int device; /* descriptor that run() gives commands to, and uses alone; 0: any (apart.h) */
	void (*run)(struct sh_command *command); /* gives the command; lock not held, any thread */
	struct sh_busy *waiting;
	bool under_way; /* given to the worker, and not over */
};

/*
 * Sends a command. True: under way, to be awaited. False: the NIC's worker takes no more, so the
 * caller does command->run() with the lock not held.
 */
bool sh_command_send(struct sh_command *command, struct sh_busy *waiting) SH_LOCKED;
/* Gives the command in the caller's thread. */
void sh_command_here(struct sh_command *command) SH_DROPS;
/* Sends the command or, if that cannot be, returns when it is over. */
void sh_command_give(struct sh_command *command, struct sh_busy *waiting) SH_DROPS;
/*
 * Waits for commands. True: all that wait on `waiting` are over. False: the NIC of one does not
 * obey; that command stays under way, with its struct and waiting, until sh_wait_idle(waiting)
 * returns.
 */
bool sh_commands_await(struct sh_command *const *commands, uint32_t n,
		       struct sh_busy *waiting) SH_DROPS;

#endif
