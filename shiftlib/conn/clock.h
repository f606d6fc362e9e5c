/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The clocks of all connections. Lock held. */
#ifndef SHIFTLIB_CONN_CLOCK_H
#define SHIFTLIB_CONN_CLOCK_H

#include "shiftlib/base/list.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/loop/loop.h"

struct sh_qp;

/* In struct sh_qp. */
struct sh_qp_clock {
	struct sh_timer timer; /* in sh_conns.timers: the next thing of it that needs the clock */
	struct list_node link; /* in sh_conns.touched: its timer may be another by now */
	bool touched;
};

void sh_clock_touch(struct sh_qp *qp);	 /* its next instant may be another by now */
void sh_clock_untouch(struct sh_qp *qp); /* it has none any more: it is freed */

uint64_t sh_clock_next(const struct sh_qp *qp); /* when the first of its parts is due; 0: none is */
void sh_clock_run(struct sh_qp *qp, uint64_t now); /* the parts that are due */

/* As sh_wake_at(), or when a timer of the connection, of its peer or of the detector is due. */
void sh_clock_wake_for(struct sh_qp *qp);

extern const struct sh_module sh_clock_module;

#endif
