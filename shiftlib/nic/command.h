/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A command on another NIC that the application's verb has to wait for: command.c. */
#ifndef SHIFTLIB_COMMAND_H
#define SHIFTLIB_COMMAND_H

#include "shiftlib/nic/nic.h"

struct sh_command {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	void (*run)(
		struct sh_command *command); /* gives the command; lock not held, in any thread */
	struct sh_busy *waiting;
	bool sent;
};

/*
 * Lock held. True: it is on its way; behind sh_command_back(), sh_wait_idle(waiting) returns when it is
 * done. False: it is the caller's, by sh_command_here() with the lock not held.
 */
bool sh_command_send(struct sh_command *command, struct sh_busy *waiting);
void sh_command_here(struct sh_command *command);
/* When the caller has done its own part: what the worker has not begun is done here. Lock not held. */
void sh_command_back(struct sh_command *command);

#endif
