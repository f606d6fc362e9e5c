/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions that a connection asks of the shell. */
#ifndef SHIFTLIB_CORE_ACTION_H
#define SHIFTLIB_CORE_ACTION_H

#include <stdbool.h>

#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

enum sc_action_type {
	SC_ACT_STANDBY_MAKE,	/* epoch, path -> STANDBY_MADE | STANDBY_FAILED */
	SC_ACT_STANDBY_CONNECT, /* address of the peer's standby -> STANDBY_CONNECTED |
				 * STANDBY_FAILED */
	SC_ACT_STANDBY_DROP,	/* destroy the standby of this epoch */
	SC_ACT_SEND_STANDBY,	/* message `standby`, over its own path; on: over every live path */
	SC_ACT_SEND_STATE,	/* message `state`, over every live path */
	SC_ACT_GUARD,		/* start or stop (on) to withhold transport errors */
	SC_ACT_WITHHOLD,	/* sends written, doorbell withheld -> WITHHELD, at once */
	SC_ACT_QUIESCE,		/* take all carriers to ERR, flush -> QUIESCED */
	SC_ACT_RECOUNT,		/* collect again -> QUIESCED */
	SC_ACT_SEAL,	/* the count is final: later completions of old carriers are dropped */
	SC_ACT_ASK_PSN, /* read the expected PSN of quiesced carrier `epoch`, before the DROP_OLD
			 * that destroys it -> PSN */
	SC_ACT_LAY_RECEIVES, /* lay receives into carrier `epoch` -> RECEIVES_LAID */
	SC_ACT_SETTLE, /* settle into carrier `epoch` by the peer's recv_count, dead, cut, exact* ->
			* SETTLED. See sc_settle_exact() */
	SC_ACT_FENCE,  /* lay a fence into the active send ring (try again until it fits), withhold
			* later requests -> FENCE_LAID, FENCED; epoch: switch_no, comes back */
	SC_ACT_UNFENCE,	 /* the fence is off: withheld requests run on the active carrier */
	SC_ACT_STAY,	 /* on: write sends and withhold the doorbell, unless that is so already ->
			  * STAYS, at once; off: withheld requests run on the active carrier. epoch:
			  * comes back */
	SC_ACT_FAIL,	 /* give the application its completions and errors, in order: reason */
	SC_ACT_DROP_OLD, /* destroy carriers older than epoch (carrier 0 stays as a husk) */
	SC_ACT_REPORT,	 /* protection level or move changed: for status, log, figures; path: of the
			  * standby a rest would make */
};

struct sc_action {
	enum sc_action_type type;
	bool on;
	uint8_t path;
	enum sc_reason reason;
	uint32_t epoch;
	uint32_t recv_count, dead, cut;
	bool exact; /* exact_psn of carrier exact_of is known */
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
