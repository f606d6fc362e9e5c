/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ordered moves of many connections, when a NIC is drained or comes back, take turns. One that
 * moves stands still until its queue pair on the NIC that it leaves has stopped, and those stop
 * one after the other: if all began at once, each would stand still until the last was done. So
 * TURNS are on their way at a time, and the others carry their traffic meanwhile. A turn goes on
 * to the next after TURN_NS, whatever has become of the one that has it: it may be waiting for a
 * peer that is gone.
 */
#ifndef SHIFTLIB_CONN_TURN_H
#define SHIFTLIB_CONN_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/list.h"
#include "shiftlib/loop/loop.h"

struct sh_qp;

/* In struct sh_qp_paths. */
struct sh_turn {
	enum { SH_TURN_NONE, SH_TURN_WAITS, SH_TURN_HAS } state;
	uint64_t since; /* HAS */
	struct list_node link;
};

/* May it begin? If not, its paths are looked at again when it may. */
bool sh_turn_take(struct sh_qp *qp) SH_LOCKED;
/* There is nothing that it would begin. */
void sh_turn_waits_no_more(struct sh_qp *qp) SH_LOCKED;
void sh_turn_over(struct sh_qp *qp) SH_LOCKED; /* the move has arrived, or ends */

extern const struct sh_module sh_turns_module;

#endif
