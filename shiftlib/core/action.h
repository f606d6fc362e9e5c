/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a connection asks of the shell. */
#ifndef SHIFTLIB_CORE_ACTION_H
#define SHIFTLIB_CORE_ACTION_H

#include <stdbool.h>

#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

enum sc_action_type {
	SC_ACT_STANDBY_MAKE,	/* epoch, path -> STANDBY_MADE | STANDBY_FAILED */
	SC_ACT_STANDBY_CONNECT, /* address of the peer's -> STANDBY_CONNECTED | STANDBY_FAILED */
	SC_ACT_STANDBY_DROP,	/* destroy the standby of this epoch */
	SC_ACT_SEND_STANDBY,	/* standby: over its own path; on: over every live path */
	SC_ACT_SEND_STATE,	/* state: over every live path */
	SC_ACT_GUARD,		/* on/off: withhold transport errors */
	SC_ACT_WITHHOLD,	/* sends written, doorbell withheld -> WITHHELD, at once */
	SC_ACT_QUIESCE,		/* all carriers to ERR, flush -> QUIESCED */
	SC_ACT_RECOUNT,		/* collect again -> QUIESCED */
	SC_ACT_SEAL,	/* the count is final: later completions of old carriers are dropped */
	SC_ACT_ASK_PSN, /* expected PSN of carrier `epoch`, quiesced; before the DROP_OLD that destroys
			 * it -> PSN */
	SC_ACT_LAY_RECEIVES, /* into carrier `epoch` -> RECEIVES_LAID */
	SC_ACT_SETTLE, /* recv_count, dead, cut, exact* = the peer's; into carrier `epoch` -> SETTLED.
			 * See sc_settle_exact() */
	SC_ACT_FENCE,	/* lay a fence into the active send ring (try again until it fits), withhold
			 * what comes behind it -> FENCE_LAID, FENCED; epoch: switch_no, comes back */
	SC_ACT_UNFENCE, /* the fence is off: what is withheld runs on the active carrier */
	SC_ACT_STAY, /* on: sends written, doorbell withheld, if they are not already -> STAYS, at
			 * once; off: what is withheld runs on the active carrier. epoch: comes back */
	SC_ACT_FAIL, /* the application's completions and errors, in order: reason */
	SC_ACT_DROP_OLD, /* destroy carriers older than epoch (carrier 0 stays as a husk) */
	SC_ACT_REPORT,	 /* protection level or move changed: for status, log and figures;
			  * path: that a standby would be made on, if it rests */
};

struct sc_action {
	enum sc_action_type type;
	bool on;
	uint8_t path;
	enum sc_reason reason;
	uint32_t epoch;
	uint32_t recv_count, dead, cut;
	bool exact; /* exact_psn is known, of carrier exact_of */
	uint32_t exact_of, exact_psn;
	struct sc_address address;
	struct sc_msg_standby standby;
	struct sc_msg_state state;
};

#define SC_MAX_ACTIONS 32
struct sc_actions {
	uint32_t n;
	struct sc_action a[SC_MAX_ACTIONS];
};

const char *sc_action_name(enum sc_action_type type);

#endif
