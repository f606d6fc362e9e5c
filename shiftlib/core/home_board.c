/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The choice of the NIC that runs atomics of several processes: see home_board.h. */
#include <assert.h>
#include <string.h>

#include "shiftlib/core/home_board.h"

static_assert(sizeof(struct sc_home_process) == 16, "as processes of other builds read it");
static_assert(SC_HOME_NICS == 32, "sets of them are of 32 bits");

static uint32_t board_nic_bit(uint32_t number)
{
	return 1u << number;
}

static uint32_t board_nics_of(const struct sc_home_seat *seat, uint32_t paths)
{
	uint32_t path, nics = 0;

	for (path = 0; path < seat->n_paths; path++)
		if (paths & 1u << path)
			nics |= board_nic_bit(seat->nic[path]);
	return nics;
}

static uint8_t board_path_to(const struct sc_home_seat *seat, uint32_t number)
{
	uint8_t path;

	for (path = 0; path < seat->n_paths; path++)
		if (seat->nic[path] == number)
			return path;
	return SC_HOME_NOWHERE;
}

static uint8_t board_far_of_others(const struct sc_home_seat *seat)
{
	const struct sc_home_process *p = seat->board->process;
	uint8_t far = 0;
	uint32_t i;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		if (i != seat->me && p[i].taken && p[i].far && (!far || p[i].far < far))
			far = p[i].far;
	return far;
}

static uint8_t board_busy_flags(const struct sc_home_group *group, uint8_t flags)
{
	if (sc_home_at_rest(group))
		return 0;
	return 1 | (flags & (SC_HOME_BUSY_APART | SC_HOME_BUSY_ODDS));
}

static uint32_t board_can_of_others(const struct sc_home_seat *seat)
{
	const struct sc_home_process *p = seat->board->process;
	uint32_t i, can = ~0u;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		if (i != seat->me && p[i].taken)
			can &= p[i].can;
	return can;
}

/*
 * Writes this process's words on the board. It heeds its peers only if that leaves all processes a
 * NIC in common. So in the end as many as possible do so, and no word goes back and forth.
 */
static void board_say(const struct sc_home_seat *seat, struct sc_home_group *group)
{
	struct sc_home_process *own = &seat->board->process[seat->me];
	struct sc_home_fits fits, heeded;
	bool asked;

	group->far_beside = board_far_of_others(seat);
	asked = sc_home_fit(group, &fits, &heeded);
	if (board_nics_of(seat, heeded.can) & board_can_of_others(seat))
		fits = heeded;
	own->ready = asked ? board_nics_of(seat, fits.ready) : ~0u;
	own->can = asked ? board_nics_of(seat, fits.can) : ~0u;
	own->takes_part = fits.take_part;
	own->busy = board_busy_flags(group, (fits.apart ? SC_HOME_BUSY_APART : 0) |
						    (fits.odds ? SC_HOME_BUSY_ODDS : 0));
	own->far = group->far[0].steps;
}

static struct sc_home_fits board_fits_of_all(const struct sc_home_board *board)
{
	struct sc_home_fits fits = { .ready = ~0u, .can = ~0u, .take_part = true };
	const struct sc_home_process *p;

	for (p = board->process; p < board->process + SC_HOME_PROCESSES; p++) {
		if (!p->taken)
			continue;
		fits.ready &= p->ready;
		fits.can &= p->can;
		fits.take_part = fits.take_part && p->takes_part;
		fits.apart |= p->busy & SC_HOME_BUSY_APART;
		fits.odds |= p->busy & SC_HOME_BUSY_ODDS;
	}
	return fits;
}

bool sc_home_board_busy(const struct sc_home_board *board)
{
	uint32_t i;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		if (board->process[i].taken && board->process[i].busy)
			return true;
	return board->home;
}

int sc_home_board_away(const struct sc_home_seat *seat)
{
	const struct sc_home_board *board = seat->board;
	uint32_t i;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		if (i != seat->me && board->process[i].taken &&
		    (board->process[i].runs & ~board_nic_bit(board->home)))
			return (int)i;
	return -1;
}

int sc_home_board_silent(const struct sc_home_seat *seat)
{
	const struct sc_home_process *p = seat->board->process;
	uint32_t i;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		if (i != seat->me && p[i].taken && !p[i].takes_part)
			return (int)i;
	return -1;
}

static void board_claim(const struct sc_home_seat *seat, const struct sc_home_group *group)
{
	struct sc_home_process *own = &seat->board->process[seat->me];
	uint32_t nics = board_nics_of(seat, sc_home_may_run_any(group));

	own->runs = SC_HOME_MUTANT(UNCLAIMED) ? own->runs & nics : nics;
	own->busy = board_busy_flags(group, own->busy);
}

bool sc_home_board_step(const struct sc_home_seat *seat, struct sc_home_group *group)
{
	struct sc_home_board *board = seat->board;
	struct sc_home_process *own = &board->process[seat->me], before = *own;
	uint32_t home = board->home;
	struct sc_home_fits fits;

	board_say(seat, group);
	fits = board_fits_of_all(board);
	if (sc_home_board_busy(board))
		board->home = sc_home_choose(&fits, (uint8_t)board->home);
	group->home = board_path_to(seat, board->home);
	group->shared = true;
	group->elsewhere = sc_home_board_away(seat) >= 0;
	group->others_silent = !fits.take_part;
	sc_home_step(group);
	board_claim(seat, group);
	return board->home != home || memcmp(own, &before, sizeof(before));
}

bool sc_home_board_enter(const struct sc_home_seat *seat)
{
	struct sc_home_board *board = seat->board;

	if ((board->home || sc_home_board_away(seat) >= 0) && !SC_HOME_MUTANT(ENTERED_BLIND))
		return false;
	board->process[seat->me].runs |= board_nic_bit(0);
	return true;
}

void sc_home_board_clear(struct sc_home_board *board, uint32_t place)
{
	memset(&board->process[place], 0, sizeof(board->process[place]));
}
