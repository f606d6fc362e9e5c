/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The states of a connection, the reasons for their changes, and their names. */
#ifndef SHIFTLIB_CORE_STATE_H
#define SHIFTLIB_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum sc_send_state {
	SC_SEND_DEFAULT,
	SC_SEND_FALLBACK,
	SC_SEND_WAIT_SIGNALED,
	SC_SEND_WAIT_DRAINED
};
enum sc_recv_state { SC_RECV_DEFAULT, SC_RECV_FALLBACK };

/* How far the way to the next epoch is prepared. */
enum sc_standby_phase {
	SC_STANDBY_NONE,       /* nothing asked for */
	SC_STANDBY_MAKING,     /* STANDBY_MAKE given, not answered yet */
	SC_STANDBY_MADE,       /* QP exists; the peer gets its address */
	SC_STANDBY_CONNECTING, /* peer's address known, STANDBY_CONNECT given */
	SC_STANDBY_READY,      /* RTS at this end; protected once the peer says READY too */
	SC_STANDBY_FAILED,     /* the backup cannot do what the default does */
};

/* Where in a move the connection is. */
enum sc_move_phase {
	SC_MOVE_NONE,
	SC_MOVE_QUIESCING,	/* carrier given up; old carriers are put to ERR and collected */
	SC_MOVE_COUNTING,	/* the NIC is sick, so the count is not final: waits for the peer's
			    * quiesce, then for the packet lifetime */
	SC_MOVE_LAYING,		/* receives being laid into the new carrier */
	SC_MOVE_AWAITING_COUNT, /* final count sent in the own STATE; waits for the peer's */
	SC_MOVE_SETTLING,	/* SETTLE given, no answer yet */
	SC_MOVE_STRANDED,	/* the carrier is lost, no standby is ready: sends are withheld */
	SC_MOVE_ENDED,		/* FATAL, CLOSED or failed: nothing moves any more */
};

/* Phases of an ordered switch, as told to the peer. The fence itself is part of the send state. */
enum sc_switch_phase {
	SC_SWITCH_NONE,
	SC_SWITCH_PREP,	  /* a switch is asked for; the own fence is not complete */
	SC_SWITCH_FENCED, /* nothing is outstanding here */
	SC_SWITCH_CANCEL, /* cancelled: the number of this attempt is burnt */
};

/* Phases of leaving a path that is down, as told to the peer. */
enum sc_stay_phase {
	SC_STAY_NONE,
	SC_STAY_WAIT, /* sends withheld; some requests must have their answers here */
	SC_STAY_GO,   /* sends withheld, no such request is left: the receiver may leave */
	SC_STAY_BACK, /* GO is taken back; asks whether the receiver has left */
	SC_STAY_OVER, /* cancelled, or over: the number of this wait is burnt */
	SC_STAYS_TOLD,
	SC_STAY_ASK = SC_STAYS_TOLD, /* told as WAIT: nothing withheld, no answer yet */
	SC_STAYS,
};

/*
 * Path k of a connection leads from the k-th NIC of this side to the k-th NIC of the peer; 0 is the
 * default. Sets of paths are bit masks of one byte.
 */
#define SC_MAX_PATHS 8

/*
 * The order in which a connection prefers its paths, behind path 0: three bits for each place, the
 * first choice in the lowest bits, 0 behind the last place. Paths that the order does not name
 * follow by their numbers, so an order of 0 is the order of the numbers. The leader draws the order
 * (backup/spread.h) and tells the other end.
 */
#define SC_ORDER_BITS  3
#define SC_ORDER_WHOLE ((1u << SC_ORDER_BITS * (SC_MAX_PATHS - 1)) - 1)
bool sc_order_valid(uint32_t order); /* no path is named twice */
/* Returns the place of a path: 0 for path 0, 1 for the first choice, and so on. */
uint8_t sc_order_rank(uint32_t order, uint8_t path);

enum sc_reason {
	SC_REASON_NONE,
	SC_REASON_TRANSPORT,   /* error completion: retry exceeded, flush without cause */
	SC_REASON_PORT,	       /* port or carrier down on this host */
	SC_REASON_DEVICE,      /* device fatal */
	SC_REASON_PEER,	       /* the peer has gone to a higher epoch */
	SC_REASON_ORDER,       /* operator: drained */
	SC_REASON_SILENCE,     /* heartbeat lost, and no progress of the work */
	SC_REASON_RETURN,      /* the default NIC (or a preferred one) is well again */
	SC_REASON_NO_STANDBY,  /* the carrier is lost and nothing is ready to take over */
	SC_REASON_DEADLINE,    /* the peer did not answer in time */
	SC_REASON_PEER_FATAL,  /* the peer cannot go on */
	SC_REASON_PEER_CLOSED, /* the peer closed its QP or is gone */
	SC_REASON_MISCOUNT,    /* the peer's count contradicts ours, or its NIC lost what it had
				* acknowledged */
	SC_REASON_ATOMIC,      /* an atomic of unknown fate (P4) */
	SC_REASON_FENCED_READ, /* a READ before a request with the fence flag, of unknown fate */
	SC_REASON_KEY,	       /* a memory key is not known on the backup */
	SC_REASON_APPLICATION, /* the application's own error, modify or destroy */
	SC_REASON_RESOURCE,    /* the backup NIC lacks something */
	SC_REASON_HOME,	       /* atomics may not run on the NIC of this connection: see home.h */
	SC_REASON_PEER_APPLICATION, /* the peer has met an error of a program (P6) */
	SC_REASON_OVERRUN,	    /* a completion queue lost what nobody polled */
	SC_REASONS,
};

/* Names for logs and tests. */
const char *sc_send_state_name(enum sc_send_state state);
const char *sc_recv_state_name(enum sc_recv_state state);
const char *sc_standby_phase_name(enum sc_standby_phase phase);
const char *sc_move_phase_name(enum sc_move_phase phase);
const char *sc_switch_phase_name(enum sc_switch_phase phase);
const char *sc_stay_phase_name(enum sc_stay_phase phase);
const char *sc_reason_name(enum sc_reason reason); /* "transport-error", for programs */
const char *sc_reason_text(enum sc_reason reason); /* a clause for people */

#endif
