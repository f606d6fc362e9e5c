/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A command on another NIC that the application's verb has to wait for: errand.c. */
#ifndef SHIFTLIB_ERRAND_H
#define SHIFTLIB_ERRAND_H

#include "shiftlib/shell.h"

struct sh_errand {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	void (*run)(struct sh_errand *errand); /* gives the command; lock not held, in any thread */
	struct sh_busy *waiting;
	bool sent;
};

/*
 * Lock held. True: it is on its way; behind sh_errand_back(), sh_wait_idle(waiting) returns when it is
 * done. False: it is the caller's, by sh_errand_here() with the lock not held.
 */
bool sh_errand_send(struct sh_errand *errand, struct sh_busy *waiting);
void sh_errand_here(struct sh_errand *errand);
/* When the caller has done its own part: what the worker has not begun is done here. Lock not held. */
void sh_errand_back(struct sh_errand *errand);

#endif
