/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What core_table_test expects of every state and every event. */
#ifndef TESTS_UNIT_CORE_TABLE_H
#define TESTS_UNIT_CORE_TABLE_H

#include "tests/lib/core_fixture.h"

/* Inputs: events, with the contents that matter. */
enum input {
	IN_INTRODUCED,
	IN_PATHS_DOWN, /* of path 0 */
	IN_PATHS_WELL,
	IN_DRAIN, /* path 0 */
	IN_MADE,
	IN_CONNECTED,
	IN_STANDBY_FAILED,
	IN_STANDBY_LOST,
	IN_PEER_MADE,
	IN_PEER_READY,
	IN_PEER_STANDBY_FAILED,
	IN_LEAVING, /* for the epoch that is next or under way */
	IN_WANTS,   /* the same, and the expected PSN of carrier 0 */
	IN_FINAL,
	IN_STATE_LOWER,
	IN_STATE_SKIPPED, /* an epoch for which there is no standby */
	IN_PEER_STRANDED,
	IN_PEER_PREP,	/* of the next number */
	IN_PEER_FENCED, /* of the number under way */
	IN_PEER_CANCEL,
	IN_FATAL,
	IN_CLOSED,
	IN_UNKNOWN,
	IN_FAULT, /* of the carrier in use or to come */
	IN_FAULT_OLD,
	IN_FAULT_NEXT, /* of the standby */
	IN_PORT,
	IN_APP_ERROR,
	IN_APP_CLOSED,
	IN_WITHHELD, /* with requests in carrier 0 whose fate the count does not tell */
	IN_QUIESCED,
	IN_QUIESCED_SICK,
	IN_PSN, /* of carrier 0 */
	IN_LAID,
	IN_LAID_KEY,
	IN_LAID_BAD,
	IN_SETTLED,
	IN_SETTLED_KEY,
	IN_SETTLED_ATOMIC,
	IN_FENCE_LAID,
	IN_FENCED,
	IN_PATH_UP,
	IN_TIMER, /* when it is due */
	INPUTS,
};
extern const char *const input_names[INPUTS];

/* A cell that is not there: the event means nothing here, no action, same place. */
struct cell {
	const char *actions;
	enum sc_send_state send;
	enum sc_move_phase move;
	enum sc_standby_phase standby;
};
extern const struct cell table[FIXTURE_STATES][INPUTS];

#endif
