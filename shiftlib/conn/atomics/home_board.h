/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT_ATOMIC_GROUP: the processes of this host that share memory under atomics, and the boards
 * on which they agree (core/home_board.h): a file in the run directory for each default NIC,
 * which all of them have mapped.
 */
#ifndef SHIFTLIB_CONN_ATOMICS_HOME_BOARD_H
#define SHIFTLIB_CONN_ATOMICS_HOME_BOARD_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/home.h"

struct sh_ctx;
struct sh_home_board; /* NULL: not joined yet */

/* A member of that default NIC is about to be connected. False: it must not take atomics yet. */
bool sh_home_board_enter(struct sh_home_board **board, const struct sh_ctx *ctx) SH_LOCKED;
/*
 * sc_home_step() among all processes. ctx: of some member, or NULL. False: nothing was done,
 * and nobody may be told anything. busy: of all together.
 */
bool sh_home_board_step(struct sh_home_board **board, const struct sh_ctx *ctx,
			struct sc_home_group *group, bool *busy) SH_LOCKED;
/* Nobody tells this process when another has changed something. */
bool sh_home_boards_deaf(void) SH_LOCKED;
/* How many processes sit there. */
uint32_t sh_home_board_processes(const struct sh_home_board *board) SH_LOCKED;
/*
 * Forgets the board in the child of a fork. The parent goes on sitting there as long as its
 * queue pairs are open.
 */
void sh_home_board_abandon(struct sh_home_board *board);

#endif
