/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One NIC for the atomics of several processes of a host, which serve atomics on memory that they share
 * (SHIFT_ATOMIC_GROUP). What each says of its own group (home.h) stands on a *board*, which one process at a
 * time has in its hands; each default NIC has its own.
 *
 * N1 hangs on one rule: a process *claims* a NIC on the board before it lets atomics run there, and claims
 * none while another process may run some on another NIC. The home is only where all are to go, so that
 * a process that was told late, or never, keeps the others waiting, and no more.
 *
 * Pure. A process may die between any two words that it writes: it tells its peers only of what stands there
 * already. Whoever knows that the queue pairs of a dead one are gone clears its place.
 */
#ifndef SHIFTLIB_CORE_HOME_BOARD_H
#define SHIFTLIB_CORE_HOME_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/home.h"
#include "shiftlib/core/state.h"

#define SC_HOME_NICS	   32 /* of a host; 0 is the default NIC of the board */
#define SC_HOME_PROCESSES  256
#define SC_HOME_BUSY_APART 2 /* as in sc_home_fits; earlier builds ask only whether it is 0 */
#define SC_HOME_BUSY_ODDS  4
#define SC_HOME_NOWHERE	   SC_MAX_PATHS /* home of a group: the NIC is on none of its paths */

/* What a process says. All zero: the place is free. In sets of NICs. */
struct sc_home_process {
	uint32_t runs;	     /* may execute atomics of it: its claim */
	uint32_t ready, can; /* as in sc_home_fits */
	uint8_t taken, takes_part;
	uint8_t busy; /* somebody wants to run them elsewhere, or is barred; and SC_HOME_BUSY_ */
	uint8_t far;  /* sc_home_far of NIC 0, without that of the others; 0 of earlier builds */
};

struct sc_home_board {
	uint32_t home;
	struct sc_home_process process[SC_HOME_PROCESSES];
};

/* Of one process. */
struct sc_home_seat {
	struct sc_home_board *board;
	uint32_t me;
	uint32_t n_paths;
	uint8_t nic[SC_MAX_PATHS]; /* of each path; nic[0] is 0 */
};

/* sc_home_step(), for a group that is not alone. True: the board has changed, which the others are to hear. */
bool sc_home_board_step(const struct sc_home_seat *seat, struct sc_home_group *group);
/* Somebody on the board has something to do. */
bool sc_home_board_busy(const struct sc_home_board *board);
/* A member comes that may run atomics on the default NIC unasked. False: it may not. */
bool sc_home_board_enter(const struct sc_home_seat *seat);
/* One other process that may run atomics elsewhere than at home; -1: there is none. */
int sc_home_board_away(const struct sc_home_seat *seat);
/* One other process that takes no part, for all that it has said; -1: there is none. */
int sc_home_board_silent(const struct sc_home_seat *seat);
/* Nobody sits there any more, and no queue pair of it is left. */
void sc_home_board_clear(struct sc_home_board *board, uint32_t place);

#endif
