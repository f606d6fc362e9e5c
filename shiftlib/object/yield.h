/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shadows that make place where the application's own call finds none. */
#ifndef SHIFTLIB_OBJECT_YIELD_H
#define SHIFTLIB_OBJECT_YIELD_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum sh_yield_step {
	SH_YIELD_LATE,	/* regions that are gone, and not deregistered on other NICs yet */
	SH_YIELD_FAR,	/* regions on other NICs than those of pairs, with SHIFT_BACKUP=spread */
	SH_YIELD_SOME,	/* a few queue pairs on the NIC of the call */
	SH_YIELD_NIC,	/* all that is idle there */
	SH_YIELD_ALL,	/* all that is idle on every NIC: locked memory counts for the process */
	SH_YIELD_AGAIN, /* the same: something may have come back meanwhile */
	SH_YIELD_NICS,	/* NICs that carry nothing, with their control queue pairs */
	SH_YIELD_OWN,	/* and the memory of control queue pairs of default NICs */
	SH_YIELD_NO_MORE,
};
struct sh_yield {
	struct ibv_context *context; /* the call's */
	enum sh_yield_step step;     /* first step to try */
};
/*
 * Gives something back, as the call has just failed. True: make it again; else errno is as it
 * was. Lock not held.
 */
bool sh_yield(struct sh_yield *yield);

#endif
