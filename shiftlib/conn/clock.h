/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The clocks of all connections. */
#ifndef SHIFTLIB_CONN_CLOCK_H
#define SHIFTLIB_CONN_CLOCK_H

#include "shiftlib/base/list.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/loop/loop.h"

struct sh_qp;

/* In struct sh_qp. */
struct sh_qp_clock {
	struct sh_timer timer; /* entry in sh_conns.timers: when the first part is due */
	struct list_node link; /* entry in sh_conns.touched: the timer may be another by now */
	bool touched;
};

/* The first part may be due at another time now. */
void sh_clock_touch(struct sh_qp *qp) SH_LOCKED;
void sh_clock_untouch(struct sh_qp *qp) SH_LOCKED; /* removes the timer: the QP is freed */

uint64_t sh_clock_next(const struct sh_qp *qp); /* when the first of its parts is due; 0: none is */
void sh_clock_run(struct sh_qp *qp, uint64_t now); /* the parts that are due */

/*
 * Wakes the background thread when a timer of the connection, of its peer or of the detector is
 * due.
 */
void sh_clock_wake_for(struct sh_qp *qp) SH_LOCKED;

extern const struct sh_module sh_clock_module;

#endif
