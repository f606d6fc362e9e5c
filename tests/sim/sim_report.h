/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Figures: what the schedules reached. */
#ifndef TESTS_SIM_SIM_REPORT_H
#define TESTS_SIM_SIM_REPORT_H

#include "shiftlib/core/core.h"
#include "sim_check.h"
#include "sim_fault.h"

enum { SIM_ROWS = 4 * (SC_MOVE_ENDED + 1), SIM_PROMISES = 9 };

/* Of one schedule. */
struct sim_figures {
	uint32_t faults, faults_in_move, resent, settled;
	uint32_t exact, inexact; /* moves that wanted an expected PSN, and settled by one or not */
	uint32_t doubted, misled;
	uint32_t spared;    /* WRITEs that ran, and were not laid again as they would have been */
	uint32_t won, lost; /* compare-and-swaps: known by their word, and run again */
	uint32_t atomics;   /* that never ran, and ran behind the move */
	uint32_t logged, log_recalled; /* settled by the log's word; ... though the NIC is dead */
	uint32_t log_spared;	       /* WRITEs that had run again without it */
	uint32_t uids,
		uid_calls; /* of the library uid/: numbers that came into words, calls that came back, */
	uint32_t uid_unanswered,
		uid_resumed; /* swaps without an answer, clients that went on elsewhere */
	uint32_t thirds;     /* somebody else has overwritten what he saw */
	uint32_t reached;    /* bit per promise */
	bool pair[SIM_ROWS][SC_EVENT_TYPES];
};

/* Of all schedules; uint64_t only. */
struct sim_totals {
	uint64_t schedules, steps, connections, faults, faults_in_move, with_fault_in_move,
		long_enough;
	uint64_t moves, ordered, cancels, stranded, ended, resent, settled, carriers;
	uint64_t exact, inexact, doubted, misled, spared, atomics, thirds, won, lost;
	uint64_t logged, log_recalled, log_spared;
	uint64_t uids, uid_calls, uid_unanswered, uid_resumed;
	uint64_t stays, stays_on, stays_left;	  /* flaps waited out, gone on where it was, left */
	uint64_t reached[SIM_PROMISES];		  /* schedules in which promise i was at stake */
	uint64_t excused[SIM_EXCUSES];		  /* connections that ended so */
	uint64_t pairs[SIM_ROWS][SC_EVENT_TYPES]; /* schedules that met it */
	uint64_t triggers[SIM_TRIGGERS];
};

void sim_report_print(const struct sim_totals *t, double seconds, bool coverage);
void sim_report_add(struct sim_totals *to, const struct sim_totals *from);

#endif
