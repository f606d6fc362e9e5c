/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The messages between two ends, decoded; the shell has their wire form. */
#ifndef SHIFTLIB_CORE_MESSAGE_H
#define SHIFTLIB_CORE_MESSAGE_H

#include <stdint.h>

enum sc_flags { SC_FLAG_FATAL = 1, SC_FLAG_CLOSED = 2 };

/* Answers about the expected PSN that the peer has asked for. */
enum sc_exact {
	SC_EXACT_SILENT, /* the sender never tells: it is off there */
	SC_EXACT_LATER,	 /* not asked for, or not known yet */
	SC_EXACT_TOLD,
	SC_EXACT_UNKNOWN, /* the PSN will not be known */
	SC_EXACTS,
};

const char *sc_exact_name(enum sc_exact exact);

/* Whether the sender waits out a flap, where needed. */
enum sc_stays {
	SC_STAYS_NOT,	  /* the sender waits out nothing: it is off there */
	SC_STAYS_REPEATS, /* it does; its QP takes no atomics, so none of them is outstanding */
	SC_STAYS_ATOMICS, /* it does, and its QP takes atomics */
};

/* Reasons why atomics of a connection may not run yet on its NIC. */
enum sc_home_why {
	SC_HOME_NOT_ASKED,
	SC_HOME_ELSEWHERE, /* the home of the group is another NIC, where this connection is to
			    * go */
	SC_HOME_UNHEARD,   /* some connection of the group has not promised yet to ask first */
	SC_HOME_LEAVING,   /* some connection is still on another NIC */
	SC_HOME_SILENT,	   /* some peer takes no part, and may use its default NIC at any time */
	SC_HOME_WHYS,
};

const char *sc_home_why_name(enum sc_home_why why);
const char *sc_home_why_text(enum sc_home_why why); /* a clause for people */

struct sc_address { /* address of a standby QP, opaque to the core */
	uint8_t gid[16];
	uint16_t lid;
	uint8_t nic, mtu;
	uint32_t qpn, psn;
	uint16_t pkey, vlan; /* partition and VLAN of the QP; 0: none, or not told */
	uint8_t reads;	     /* limit of READs and atomics at once, plus one; 0: not told */
};

struct sc_msg_standby {
	uint32_t epoch; /* epoch that this standby is for */
	uint8_t phase;	/* enum sc_standby_phase of the sender: MADE, CONNECTING, READY, FAILED */
	uint8_t seen;	/* phase of the receiver's standby, as last heard by the sender */
	uint8_t ask;	/* 1: answer at once, whatever you know; answers never ask */
	uint8_t lazy;	/* 1: the sender needs no standby now, if the receiver does not */
	uint8_t path;	/* path of the standby: the leader's choice */
	uint8_t up, steady, drained, homed; /* the sender's masks of paths */
	uint8_t masks_no, masks_seen;	    /* number of these masks; of the receiver's, as heard */
	uint8_t beyond;	 /* 1: without SHIFT the sender's connection would have ended */
	uint8_t stays;	 /* enum sc_stays */
	uint32_t order;	 /* the leader's order of paths, see SC_ORDER_BITS; else 0 */
	uint32_t cannot; /* paths where the sender's home cannot be: see sc_home_cannot() */
	struct sc_address address;
};

struct sc_msg_state {
	uint32_t epoch;	     /* the sender's epoch: RTS, older ones quiesced, receives laid (if
			      * final) */
	uint32_t seen_epoch; /* receiver's epoch as last heard with final count by the sender */
	uint32_t recv_count;
	uint8_t leaving;    /* 1: on the way to epoch, quiesced as far as possible; count not
			     * final */
	uint8_t final;	    /* recv_count is final: epoch reached */
	uint8_t quiesced;   /* no carrier older than epoch can send any more (QPs in ERR or dead) */
	uint8_t flags;	    /* enum sc_flags */
	uint8_t reason;	    /* enum sc_reason, for the log */
	uint8_t ask;	    /* 1: answer at once, whatever you know; answers never ask */
	uint8_t phase;	    /* enum sc_switch_phase */
	uint8_t stranded;   /* 1: the carrier of `epoch` is lost too, and sends are withheld */
	uint32_t switch_no; /* number of the attempt that the phase is about; never used twice */
	uint32_t target;    /* PREP, FENCED: epoch of the standby that the switch leads to */
	uint32_t lost;	    /* highest epoch whose carrier is lost at the sender; 0: none */
	uint32_t dead;	    /* carriers below were counted on a sick or lost NIC: data that it
			     * acknowledged behind the count may not be in memory; 0: none */
	uint32_t cut;	    /* the same, for a NIC that may have lost its way to memory */
	uint8_t wants;	    /* 1: the expected PSN of carrier wants_of is wanted, as the count does
			     * not tell the fate of requests in it */
	uint8_t exact;	    /* enum sc_exact; TOLD, UNKNOWN: about the receiver's wants_of */
	uint8_t exact_seen; /* 1, with wants: the receiver's TOLD or UNKNOWN has come */
	uint8_t stay;	    /* enum sc_stay_phase */
	uint32_t wants_of;  /* epoch of a carrier */
	uint32_t exact_of;  /* epoch of a carrier */
	uint32_t exact_psn; /* TOLD */
	uint32_t stay_no;   /* number of the wait that `stay` is about; never used twice */
};

/*
 * Message about the NIC that runs atomics (home.h). Each end sends all fields, as requester and as
 * responder.
 */
struct sc_msg_home {
	uint32_t bar_no;     /* the sender's word; odd: ask before any atomic, on path 0 too */
	uint32_t bar_seen;   /* the receiver's word that the sender obeys */
	uint32_t used_of;    /* if used, bar_seen odd: the last carrier for atomics unasked */
	uint32_t wants_of;   /* if wants: the carrier on which atomics wait */
	uint32_t granted_of; /* if granted: the receiver's carrier that may run atomics */
	uint8_t used;	     /* 1: atomics have been posted */
	uint8_t wants, granted;
	uint8_t why; /* enum sc_home_why, if not granted */
	uint8_t ask; /* 1: answer at once, whatever you know; answers never ask */
};

#endif
