/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The one NIC for atomics of several processes of a host that share the memory of the atomics
 * (SHIFT_ATOMIC_GROUP). Each process writes the state of its own group (home.h) on a *board*, which
 * one process at a time holds; each default NIC has its own board.
 *
 * N1 depends on one rule: a process *claims* a NIC on the board before it lets atomics run there,
 * and claims none while another process may run some on another NIC. The home is only the place
 * where all are to go: a process that was told late, or never, keeps the others waiting, and no
 * more.
 *
 * Pure. A process may die between any two words that it writes: it tells its peers only what is on
 * the board already. The place of a dead process is cleared by one that knows that its queue pairs
 * are gone.
 */
#ifndef SHIFTLIB_CORE_HOME_BOARD_H
#define SHIFTLIB_CORE_HOME_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/home.h"
#include "shiftlib/core/state.h"

#define SC_HOME_NICS	   32 /* NICs of a host; 0 is the default NIC of the board */
#define SC_HOME_PROCESSES  256
#define SC_HOME_BUSY_APART 2 /* as in sc_home_fits */
#define SC_HOME_BUSY_ODDS  4
#define SC_HOME_NOWHERE	   SC_MAX_PATHS /* home of a group: the NIC is on none of its paths */

/* The words of a process, in sets of NICs. All zero: the place is free. */
struct sc_home_process {
	uint32_t runs;	     /* NICs that may execute its atomics: its claim */
	uint32_t ready, can; /* as in sc_home_fits */
	uint8_t taken, takes_part;
	uint8_t busy; /* somebody wants to run them elsewhere, or is barred; and SC_HOME_BUSY_ */
	uint8_t far;  /* sc_home_far of NIC 0, without that of the others */
};

struct sc_home_board {
	uint32_t home;
	struct sc_home_process process[SC_HOME_PROCESSES];
};

/* The seat of one process at the board. */
struct sc_home_seat {
	struct sc_home_board *board;
	uint32_t me;
	uint32_t n_paths;
	uint8_t nic[SC_MAX_PATHS]; /* NIC of each path; nic[0] is 0 */
};

/*
 * Does sc_home_step() for a group that is not alone. True: the board has changed, so the others are
 * to be told.
 */
bool sc_home_board_step(const struct sc_home_seat *seat, struct sc_home_group *group);
/* True if somebody on the board has something to do. */
bool sc_home_board_busy(const struct sc_home_board *board);
/* Admits a member that may run atomics on the default NIC unasked. False: not allowed. */
bool sc_home_board_enter(const struct sc_home_seat *seat);
/* Returns another process that may run atomics elsewhere than at home; -1: there is none. */
int sc_home_board_away(const struct sc_home_seat *seat);
/* Returns another process that takes no part, by its last words; -1: there is none. */
int sc_home_board_silent(const struct sc_home_seat *seat);
/* Clears a place that nobody has any more; no queue pair of its process is left. */
void sc_home_board_clear(struct sc_home_board *board, uint32_t place);

#endif
