/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A command on another NIC that the application's verb has to wait for: command.c. */
#ifndef SHIFTLIB_COMMAND_H
#define SHIFTLIB_COMMAND_H

#include "shiftlib/nic/nic.h"

/* Not on a stack: who waits may give it up. */
struct sh_command {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	struct sh_worker *worker; /* of it; NULL: the one that makes things */
	void (*run)(
		struct sh_command *command); /* gives the command; lock not held, in any thread */
	struct sh_busy *waiting;
	bool under_way; /* given away, and not over */
};

/*
 * Lock held. True: it is on its way, to be awaited. False: its NIC's worker takes no more; it is the caller's,
 * by command->run() with the lock not held.
 */
bool sh_command_send(struct sh_command *command, struct sh_busy *waiting);
/* Lock held, given up meanwhile: by the caller's thread. */
void sh_command_here(struct sh_command *command);
/* Lock held, may be given up meanwhile: it is sent, or, where that cannot be, over when this returns. */
void sh_command_give(struct sh_command *command, struct sh_busy *waiting);
/*
 * Lock held, given up meanwhile. True: all that wait on it are over. False: the NIC of one does not obey; it
 * stays under way, with its struct and waiting, until sh_wait_idle(waiting) returns.
 */
bool sh_commands_await(struct sh_command *const *commands, uint32_t n, struct sh_busy *waiting);

#endif
