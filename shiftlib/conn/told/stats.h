/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Figures of moves and connections, kept for status and SHIFT_STATS. */
#ifndef SHIFTLIB_CONN_TOLD_STATS_H
#define SHIFTLIB_CONN_TOLD_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/list.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"

struct sp_settled;
struct sh_qp;

/* Figures of one move, kept for status and SHIFT_STATS. */
struct sh_move {
	struct list_node link;
	uint32_t qpn;
	const char *reason;
	char from[64], to[64];
	uint64_t error_ns, settled_ns, first_completion_ns;
	uint32_t resubmitted, settled, published;
	bool ended;   /* ended by errors instead of completions */
	bool ordered; /* ordered by fences: nothing was outstanding */
	uint8_t path; /* path that the move led to */
};

/* A QP as it was when it was destroyed, for SHIFT_STATS. */
struct sh_connection {
	struct list_node link;
	uint32_t qpn;
	enum sh_level level;
	const char *why;
};

void sh_stats_keep(const struct sh_qp *qp);
void sh_stats_write(void);

extern const struct sh_module sh_stats_module;
extern const struct sh_conn_part sh_stats_part;

#endif
