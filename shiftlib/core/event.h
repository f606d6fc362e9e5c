/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The events that the shell gives to a connection. */
#ifndef SHIFTLIB_CORE_EVENT_H
#define SHIFTLIB_CORE_EVENT_H

#include <stdbool.h>

#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

enum sc_event_type {
	SC_EV_INTRODUCED,   /* the peer and its control addresses are known, or have changed */
	SC_EV_PATHS,	    /* up, steady, drained, homed, well, cannot: the masks of this side;
			     * suspicious */
	SC_EV_STANDBY_MADE, /* address */
	SC_EV_STANDBY_CONNECTED, /* RTS */
	SC_EV_STANDBY_FAILED,	 /* make or connect failed: reason */
	SC_EV_MSG_STANDBY,	 /* standby */
	SC_EV_MSG_STATE,	 /* state */
	SC_EV_MSG_UNKNOWN,	 /* the peer's instance does not know this connection */
	SC_EV_FAULT,		 /* reason: TRANSPORT, PORT, DEVICE, ORDER */
	SC_EV_STANDBY_LOST,	 /* the standby of that epoch died: reason */
	SC_EV_APP_ERROR,	 /* an error completion was passed on to the application: its own
				  * error, or a transport error while unguarded */
	SC_EV_APP_CLOSED,	 /* modify to ERR or RESET, or destroy, by the application */
	SC_EV_WITHHELD, /* exact: sc_exact_wanted() holds for published requests; carrier: where
			 * those lie */
	SC_EV_QUIESCED, /* final, recv_count */
	SC_EV_PSN,	/* ok: 1, psn; else the PSN is not known, or the NIC may not obey */
	SC_EV_RECEIVES_LAID, /* ok: 1, recv_count; else reason (KEY: try again later) */
	SC_EV_SETTLED,	     /* ok: 1; else reason (KEY, HOME: try again later) */
	SC_EV_FENCE_LAID,    /* later sends are withheld; atomics: requests outstanding before the
			      * fence may not be repeated */
	SC_EV_FENCED,	     /* nothing is outstanding in the active send ring any more */
	SC_EV_STAYS,	     /* atomics: there are published requests that may not be repeated */
	SC_EV_PATH_UP,	     /* a control path to the peer came (back) up, or died: send again */
	SC_EV_DARK, /* ok: no path to the peer answered for silent_ns; else some path does */
	SC_EV_TIMER,
	SC_EVENT_TYPES,
};

struct sc_event {
	enum sc_event_type type;
	enum sc_reason reason;
	/*
	 * FAULT, STANDBY_*: epoch of the carrier concerned. WITHHELD, QUIESCED, PSN, RECEIVES_LAID,
	 * SETTLED, FENCE_LAID, FENCED, STAYS: the value that the action carried, which tells late
	 * answers apart.
	 */
	uint32_t epoch;
	bool ok;
	bool idle;	/* TIMER: no send is outstanding or withheld here */
	bool leader;	/* INTRODUCED: this end chooses standbys; exactly one end does */
	uint32_t order; /* INTRODUCED, leader: its order of preference of the paths */
	bool atomics;	/* FENCE_LAID, STAYS: atomics, or READs before a fence flag */
	bool fruitless; /* FAULT: retries had no answer, and nothing sent since the last such fault
			 * has come */
	uint64_t silent_ns;			  /* DARK */
	uint8_t up, steady, drained, homed, well; /* PATHS */
	uint32_t cannot;			  /* PATHS */
	bool suspicious;     /* PATHS: a standby may be impossible: better make it now */
	bool default_dead;   /* PATHS: the default NIC of this end died or obeys no more */
	bool final;	     /* QUIESCED: no receive of the old carriers can be counted any more */
	bool disassociated;  /* QUIESCED: the device is gone for good, so the count is final */
	bool dead;	     /* QUIESCED: one of the NICs is gone, or did not flush */
	bool cut;	     /* QUIESCED: a NIC may have lost its way to memory too early to write
			      * what it had acknowledged */
	bool exact;	     /* WITHHELD */
	uint32_t carrier;    /* WITHHELD */
	uint32_t psn;	     /* PSN; 24 bits */
	uint32_t recv_count; /* QUIESCED; RECEIVES_LAID: the sealed count, receives not laid */
	struct sc_address address;
	struct sc_msg_standby standby;
	struct sc_msg_state state;
	bool copy; /* MSG_STATE: came over another path before; no second answer */
};

const char *sc_event_name(enum sc_event_type type);

#endif
