/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Names of everything that logs and tests show. Values may come off the wire, so they are checked.
 */
#include "shiftlib/core/internal.h"

#define NAME(table, value)                                                                         \
	((size_t)(value) < sizeof(table) / sizeof(*(table)) && (table)[value] ? (table)[value]     \
									      : "unknown")

const char *sc_send_state_name(enum sc_send_state state)
{
	static const char *const names[] = {
		[SC_SEND_DEFAULT] = "DEFAULT",
		[SC_SEND_FALLBACK] = "FALLBACK",
		[SC_SEND_WAIT_SIGNALED] = "WAIT_SIGNALED",
		[SC_SEND_WAIT_DRAINED] = "WAIT_DRAINED",
	};

	return NAME(names, state);
}

const char *sc_recv_state_name(enum sc_recv_state state)
{
	static const char *const names[] = {
		[SC_RECV_DEFAULT] = "DEFAULT",
		[SC_RECV_FALLBACK] = "FALLBACK",
	};

	return NAME(names, state);
}

const char *sc_standby_phase_name(enum sc_standby_phase phase)
{
	static const char *const names[] = {
		[SC_STANDBY_NONE] = "NONE",   [SC_STANDBY_MAKING] = "MAKING",
		[SC_STANDBY_MADE] = "MADE",   [SC_STANDBY_CONNECTING] = "CONNECTING",
		[SC_STANDBY_READY] = "READY", [SC_STANDBY_FAILED] = "FAILED",
	};

	return NAME(names, phase);
}

const char *sc_move_phase_name(enum sc_move_phase phase)
{
	static const char *const names[] = {
		[SC_MOVE_NONE] = "NONE",
		[SC_MOVE_QUIESCING] = "QUIESCING",
		[SC_MOVE_COUNTING] = "COUNTING",
		[SC_MOVE_LAYING] = "LAYING",
		[SC_MOVE_AWAITING_COUNT] = "AWAITING_COUNT",
		[SC_MOVE_SETTLING] = "SETTLING",
		[SC_MOVE_STRANDED] = "STRANDED",
		[SC_MOVE_ENDED] = "ENDED",
	};

	return NAME(names, phase);
}

const char *sc_switch_phase_name(enum sc_switch_phase phase)
{
	static const char *const names[] = {
		[SC_SWITCH_NONE] = "NONE",
		[SC_SWITCH_PREP] = "PREP",
		[SC_SWITCH_FENCED] = "FENCED",
		[SC_SWITCH_CANCEL] = "CANCEL",
	};

	return NAME(names, phase);
}

const char *sc_stay_phase_name(enum sc_stay_phase phase)
{
	static const char *const names[SC_STAYS] = {
		[SC_STAY_NONE] = "NONE", [SC_STAY_WAIT] = "WAIT", [SC_STAY_GO] = "GO",
		[SC_STAY_BACK] = "BACK", [SC_STAY_OVER] = "OVER", [SC_STAY_ASK] = "ASK",
	};

	return NAME(names, phase);
}

const char *sc_exact_name(enum sc_exact exact)
{
	static const char *const names[SC_EXACTS] = {
		[SC_EXACT_SILENT] = "silent",
		[SC_EXACT_LATER] = "later",
		[SC_EXACT_TOLD] = "told",
		[SC_EXACT_UNKNOWN] = "not-known",
	};

	return NAME(names, exact);
}

const char *sc_reason_name(enum sc_reason reason)
{
	static const char *const names[SC_REASONS] = {
		[SC_REASON_NONE] = "none",
		[SC_REASON_TRANSPORT] = "transport-error",
		[SC_REASON_PORT] = "port-down",
		[SC_REASON_DEVICE] = "device-fatal",
		[SC_REASON_PEER] = "peer-moved",
		[SC_REASON_ORDER] = "ordered",
		[SC_REASON_DEADLINE] = "deadline",
		[SC_REASON_PEER_FATAL] = "peer-fatal",
		[SC_REASON_PEER_CLOSED] = "peer-closed",
		[SC_REASON_MISCOUNT] = "miscount",
		[SC_REASON_ATOMIC] = "atomic-unknown",
		[SC_REASON_FENCED_READ] = "fenced-read",
		[SC_REASON_KEY] = "key-missing",
		[SC_REASON_APPLICATION] = "application",
		[SC_REASON_RESOURCE] = "resource",
		[SC_REASON_SILENCE] = "silence",
		[SC_REASON_RETURN] = "return",
		[SC_REASON_NO_STANDBY] = "no-standby",
		[SC_REASON_HOME] = "atomics-wait",
		[SC_REASON_PEER_APPLICATION] = "peer-application",
		[SC_REASON_OVERRUN] = "cq-overrun",
	};

	return NAME(names, reason);
}

const char *sc_reason_text(enum sc_reason reason)
{
	static const char *const texts[SC_REASONS] = {
		[SC_REASON_NONE] = "no reason",
		[SC_REASON_TRANSPORT] = "the path stopped answering",
		[SC_REASON_PORT] = "the port of this host is down",
		[SC_REASON_DEVICE] = "the NIC reported a fatal error",
		[SC_REASON_PEER] = "the peer moved to its other NIC",
		[SC_REASON_ORDER] = "the operator asked for it",
		[SC_REASON_DEADLINE] = "the peer did not answer in time",
		[SC_REASON_PEER_FATAL] = "the peer cannot go on",
		[SC_REASON_PEER_CLOSED] = "the peer closed the connection or is gone",
		[SC_REASON_MISCOUNT] = "a NIC died with data that it had acknowledged",
		[SC_REASON_ATOMIC] = "an atomic may have been executed and must not run twice",
		[SC_REASON_FENCED_READ] =
			"a request with the fence flag behind a READ may have been executed",
		[SC_REASON_KEY] = "a memory region is not registered on the backup NIC",
		[SC_REASON_APPLICATION] = "the application's own error or close",
		[SC_REASON_RESOURCE] = "the backup NIC lacks what the default NIC has",
		[SC_REASON_SILENCE] = "neither the peer's heartbeat nor any completion came",
		[SC_REASON_RETURN] = "a better NIC has recovered",
		[SC_REASON_NO_STANDBY] = "no other NIC is ready to take over",
		[SC_REASON_HOME] =
			"its atomics waited too long for a NIC that runs all those of the peer",
		[SC_REASON_PEER_APPLICATION] =
			"a program's own error (key, length, rights), met at the other end",
		[SC_REASON_OVERRUN] =
			"completions were lost: more lay unpolled than a completion queue holds",
	};

	return NAME(texts, reason);
}

const char *sc_event_name(enum sc_event_type type)
{
	static const char *const names[SC_EVENT_TYPES] = {
		[SC_EV_INTRODUCED] = "INTRODUCED",
		[SC_EV_STANDBY_MADE] = "STANDBY_MADE",
		[SC_EV_STANDBY_CONNECTED] = "STANDBY_CONNECTED",
		[SC_EV_STANDBY_FAILED] = "STANDBY_FAILED",
		[SC_EV_MSG_STANDBY] = "MSG_STANDBY",
		[SC_EV_MSG_STATE] = "MSG_STATE",
		[SC_EV_MSG_UNKNOWN] = "MSG_UNKNOWN",
		[SC_EV_FAULT] = "FAULT",
		[SC_EV_STANDBY_LOST] = "STANDBY_LOST",
		[SC_EV_APP_ERROR] = "APP_ERROR",
		[SC_EV_APP_CLOSED] = "APP_CLOSED",
		[SC_EV_WITHHELD] = "WITHHELD",
		[SC_EV_QUIESCED] = "QUIESCED",
		[SC_EV_PSN] = "PSN",
		[SC_EV_RECEIVES_LAID] = "RECEIVES_LAID",
		[SC_EV_SETTLED] = "SETTLED",
		[SC_EV_PATHS] = "PATHS",
		[SC_EV_FENCE_LAID] = "FENCE_LAID",
		[SC_EV_FENCED] = "FENCED",
		[SC_EV_STAYS] = "STAYS",
		[SC_EV_PATH_UP] = "PATH_UP",
		[SC_EV_DARK] = "DARK",
		[SC_EV_TIMER] = "TIMER",
	};

	return NAME(names, type);
}

const char *sc_action_name(enum sc_action_type type)
{
	static const char *const names[] = {
		[SC_ACT_STANDBY_MAKE] = "STANDBY_MAKE",
		[SC_ACT_STANDBY_CONNECT] = "STANDBY_CONNECT",
		[SC_ACT_STANDBY_DROP] = "STANDBY_DROP",
		[SC_ACT_SEND_STANDBY] = "SEND_STANDBY",
		[SC_ACT_SEND_STATE] = "SEND_STATE",
		[SC_ACT_GUARD] = "GUARD",
		[SC_ACT_WITHHOLD] = "WITHHOLD",
		[SC_ACT_QUIESCE] = "QUIESCE",
		[SC_ACT_RECOUNT] = "RECOUNT",
		[SC_ACT_SEAL] = "SEAL",
		[SC_ACT_ASK_PSN] = "ASK_PSN",
		[SC_ACT_LAY_RECEIVES] = "LAY_RECEIVES",
		[SC_ACT_SETTLE] = "SETTLE",
		[SC_ACT_FENCE] = "FENCE",
		[SC_ACT_UNFENCE] = "UNFENCE",
		[SC_ACT_STAY] = "STAY",
		[SC_ACT_FAIL] = "FAIL",
		[SC_ACT_DROP_OLD] = "DROP_OLD",
		[SC_ACT_REPORT] = "REPORT",
	};

	return NAME(names, type);
}

const char *sc_home_why_name(enum sc_home_why why)
{
	static const char *const names[SC_HOME_WHYS] = {
		[SC_HOME_NOT_ASKED] = "none",	    [SC_HOME_ELSEWHERE] = "elsewhere",
		[SC_HOME_UNHEARD] = "unheard",	    [SC_HOME_LEAVING] = "leaving",
		[SC_HOME_SILENT] = "takes-no-part",
	};

	return NAME(names, why);
}

const char *sc_home_why_text(enum sc_home_why why)
{
	static const char *const texts[SC_HOME_WHYS] = {
		[SC_HOME_NOT_ASKED] = "the peer has not answered yet",
		[SC_HOME_ELSEWHERE] =
			"the peer's atomics are at home on another NIC, to which this "
			"connection cannot go now",
		[SC_HOME_UNHEARD] = "another connection of the peer has not answered it",
		[SC_HOME_LEAVING] =
			"another connection of the peer is still on another of its NICs",
		[SC_HOME_SILENT] = "the peer has a connection that takes no part in this "
				   "(unprotected, without SHIFT, or on "
				   "memory that other processes may have)",
	};

	return NAME(texts, why);
}
