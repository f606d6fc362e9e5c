/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Figures: what the schedules reached. */
#include "shiftlib/core/core.h"
#include "sim_check.h"
#include "sim_fault.h"
#include "sim_limits.h"
#include "sim_report.h"

#include <stdio.h>

static const char *const promises[SIM_PROMISES] = {
	[1] = "P1 completions withheld in a move",
	[2] = "P2 two-sided requests outstanding at settling",
	[3] = "P3 writes outstanding at settling",
	[4] = "P4 atomics outstanding at settling",
	[5] = "P5 requests sent again",
	[6] = "P6 application error",
	[7] = "P7 moved, and back on the default NIC",
	[8] = "P8 protected, and nothing wrong",
};

static const char *const excuses[SIM_EXCUSES] = {
	"not yet protected",
	"process killed",
	"application closed",
	"application error",
	"atomic of unknown fate",
	"fenced READ",
	"acknowledged, completion lost",
	"no path for longer than the deadline",
	"NICs of both ends sick",
	"process halted for longer than the deadline",
};

void sim_report_add(struct sim_totals *to, const struct sim_totals *from)
{
	uint64_t *a = (uint64_t *)to;
	const uint64_t *b = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*a); i++)
		a[i] += b[i];
}

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

/* The shell gives INTRODUCED before the peer has said anything, and LAY_RECEIVES and SETTLE answer in line. */
static bool can_be(enum sc_send_state send, enum sc_move_phase move, enum sc_event_type event)
{
	if (event == SC_EV_INTRODUCED)
		return send == SC_SEND_DEFAULT && (move == SC_MOVE_NONE || move == SC_MOVE_ENDED);
	if (event == SC_EV_RECEIVES_LAID)
		return move == SC_MOVE_LAYING;
	if (event == SC_EV_SETTLED)
		return move == SC_MOVE_SETTLING;
	return true;
}

static void print_cell(const struct sim_totals *t, int row, enum sc_event_type event, bool can)
{
	if (t->pairs[row][event])
		printf(" %6.2f", percent(t->pairs[row][event], t->schedules));
	else
		printf(" %6s", can ? "0" : "-");
}

static void print_row(const struct sim_totals *t, int row, uint32_t *possible, uint32_t *reached)
{
	enum sc_send_state s = (enum sc_send_state)(row / (SC_MOVE_ENDED + 1));
	enum sc_move_phase m = (enum sc_move_phase)(row % (SC_MOVE_ENDED + 1));

	printf("%-13s %-9s", sc_send_state_name(s), sc_move_phase_name(m));
	for (int e = 0; e < SC_EVENT_TYPES; e++) {
		bool can = can_be(s, m, (enum sc_event_type)e);

		*possible += can || t->pairs[row][e];
		*reached += t->pairs[row][e] > 0;
		print_cell(t, row, (enum sc_event_type)e, can);
	}
	printf("\n");
}

static void print_pairs(const struct sim_totals *t)
{
	uint32_t possible = 0, reached = 0;

	printf("\nshare of schedules that met each pair of state and event, in %%; -: cannot be\n");
	for (int e = 0; e < SC_EVENT_TYPES; e++)
		printf("%s %d %s", e ? "," : "", e + 1, sc_event_name((enum sc_event_type)e));
	printf("\n%-13s %-9s", "send", "move");
	for (int e = 0; e < SC_EVENT_TYPES; e++)
		printf(" %6d", e + 1);
	printf("\n");
	for (int row = 0; row < SIM_ROWS; row++)
		print_row(t, row, &possible, &reached);
	printf("%u of %u possible pairs reached\n", reached, possible);
}

static void print_faults(const struct sim_totals *t)
{
	printf("faults %llu, %.1f %% during a move; schedules with one during a move: %.1f %%\n",
	       (unsigned long long)t->faults, percent(t->faults_in_move, t->faults),
	       percent(t->with_fault_in_move, t->schedules));
	printf("schedules of %u steps and more: %.1f %%\n", SIM_STEPS_MIN,
	       percent(t->long_enough, t->schedules));
	printf("struck at:");
	for (int i = 1; i < SIM_TRIGGERS; i++)
		printf(" %s %llu%s", sim_trigger_name((enum sim_trigger)i),
		       (unsigned long long)t->triggers[i], i + 1 < SIM_TRIGGERS ? "," : "\n");
}

void sim_report_print(const struct sim_totals *t, double seconds, bool coverage)
{
	uint64_t n = t->schedules ? t->schedules : 1;

	printf("%llu schedules in %.1f s: %.0f a minute; %.0f steps, %.1f connections, %.1f "
	       "carriers each\n",
	       (unsigned long long)t->schedules, seconds, 60 * (double)t->schedules / seconds,
	       (double)t->steps / (double)n, (double)t->connections / (double)n,
	       (double)t->carriers / (double)n);
	print_faults(t);
	printf("moves %llu, fences begun %llu, cancelled %llu, stranded %llu; requests sent again "
	       "%llu, settled %llu\n",
	       (unsigned long long)t->moves, (unsigned long long)t->ordered,
	       (unsigned long long)t->cancels, (unsigned long long)t->stranded,
	       (unsigned long long)t->resent, (unsigned long long)t->settled);
	printf("settled by an expected PSN %llu, without though it was wanted %llu, doubted %llu, "
	       "misled %llu; WRITEs spared %llu, atomics that never ran %llu; overwritten by "
	       "somebody "
	       "else %llu\n",
	       (unsigned long long)t->exact, (unsigned long long)t->inexact,
	       (unsigned long long)t->doubted, (unsigned long long)t->misled,
	       (unsigned long long)t->spared, (unsigned long long)t->atomics,
	       (unsigned long long)t->thirds);
	printf("compare-and-swaps known by their word to have swapped %llu, run again as they had "
	       "not "
	       "%llu\n",
	       (unsigned long long)t->won, (unsigned long long)t->lost);
	printf("settled by the log's word %llu, of a dead NIC %llu; WRITEs spared by it %llu\n",
	       (unsigned long long)t->logged, (unsigned long long)t->log_recalled,
	       (unsigned long long)t->log_spared);
	printf("calls of the library uid/ %llu, swapped by UIDs %llu; answers that never came "
	       "%llu, gone on "
	       "over another connection %llu\n",
	       (unsigned long long)t->uid_calls, (unsigned long long)t->uids,
	       (unsigned long long)t->uid_unanswered, (unsigned long long)t->uid_resumed);
	printf("waited out a flap %llu times: went on %llu, left %llu\n",
	       (unsigned long long)t->stays, (unsigned long long)t->stays_on,
	       (unsigned long long)t->stays_left);
	printf("at stake, share of schedules:\n");
	for (int i = 1; i < SIM_PROMISES; i++)
		printf("  %-48s %5.1f %%\n", promises[i], percent(t->reached[i], n));
	printf("connections ended with errors: %.2f %%; excuses met:\n",
	       percent(t->ended, t->connections));
	for (int i = 0; i < SIM_EXCUSES; i++)
		printf("  %-48s %5.2f %%\n", excuses[i], percent(t->excused[i], t->connections));
	if (coverage)
		print_pairs(t);
}
