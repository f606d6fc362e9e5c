/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The state of a connection. The shell reads it, and changes it by sc_step() only. */
#ifndef SHIFTLIB_CORE_CONNECTION_H
#define SHIFTLIB_CORE_CONNECTION_H

#include <stdbool.h>

#include "shiftlib/core/config.h"
#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

struct sc_masks {
	uint8_t up;	 /* NIC well, and the peer answers on the path */
	uint8_t steady;	 /* up for the hold-down time */
	uint8_t drained; /* not to be used: the operator's word, or that of its side for a while */
	uint8_t homed;	 /* part of drained: no operator's word, but atomics are at home
			  * elsewhere */
	uint8_t no;	 /* number of the masks; rises with every change */
	uint8_t well;	 /* own side: NIC and port well, whatever the peer answers */
	uint32_t cannot; /* paths where that home cannot be: see sc_home_cannot() */
};

/* The way to the next epoch. */
struct sc_standby {
	enum sc_standby_phase phase; /* own */
	enum sc_standby_phase peer;  /* as last heard */
	uint32_t epoch;		     /* own epoch; if there is none, that of the last one */
	uint8_t path;
	uint8_t seen; /* own phase, as the peer last showed to have seen it */
	uint8_t masks_seen;
	bool both;	/* set once the standby has been ready at both ends */
	uint8_t avoid;	/* paths on which standbys failed since one was ready at both ends */
	uint32_t order; /* order of preference of the paths; the leader's, since the introduction */
	struct sc_address local, remote;
	uint64_t resend_at, resend_interval;
	uint64_t deadline_at;		     /* limit of making the standby */
	uint64_t choose_at, choose_interval; /* after a failure: time of the next choice */
	bool rests;			     /* lazy: no standby is needed now */
	uint64_t rest_until; /* lazy, at first: end of the wait for the path in use to come up */
};

/* The ordered switch. */
struct sc_switch {
	enum sc_switch_phase phase;
	uint32_t no;	 /* number of the attempt, or of the last one heard of: burnt unless under
			  * way */
	uint32_t target; /* epoch */
	bool peer_fenced;
	bool atomics;	  /* requests before the fence include some that may not be repeated */
	bool led;	  /* a switch led to the last move, so the path that was left is well */
	bool turned_back; /* a move could not go on where a switch led: the next switch may wait */
	enum sc_reason reason;
	uint64_t deadline_at;
	uint64_t next_at, interval; /* after a CANCEL */
};

/* Leaving a path that is down (stay.c). */
struct sc_stay {
	enum sc_stay_phase phase;
	uint32_t no; /* number of the wait, or of the last one heard of: burnt unless under way */
	bool wished; /* set if this end wants to leave; else the peer does */
	bool peer_goes, told;
	bool clear;		   /* no request had to be waited for when the shell last looked */
	bool was_down, was_unwell; /* the path (the own NIC) was down since the wait began */
	enum sc_reason reason;	   /* reason to leave */
	uint64_t since;		   /* start of withholding sends */
	uint64_t look_at, look_interval; /* next question to the shell for requests that wait */
};

/* The exact count: expected PSNs of quiesced carriers (exact.c). */
struct sc_exact_count {
	bool wants;	   /* the peer's PSN is wanted, as its count does not tell some fates */
	uint32_t wants_of; /* carrier that those requests lie in */
	bool asked;	   /* our shell has a question open: the PSN that the peer wants */
	uint64_t asked_until;
	bool answered, known; /* the shell's last answer, for carrier `of`; stays true */
	uint32_t of, psn;
};

/* The peer's words, as last heard. */
struct sc_peer {
	bool introduced;
	bool known; /* some message of the peer was heard */
	bool ended; /* the peer said FATAL or CLOSED */
	bool masks_known;
	bool lazy; /* told together with the masks */
	enum sc_stays stays;
	struct sc_masks paths;
	uint32_t epoch;		  /* epoch last heard, of any message */
	uint32_t seen_epoch;	  /* our epoch that the peer has seen, as last heard */
	uint32_t recv_count;	  /* the peer's count; valid if final */
	uint32_t lost, dead, cut; /* same meaning as lost, dead and cut of sc_conn */
	bool quiesced;		  /* the peer's quiesced was heard for the epoch under way */
	uint64_t quiesced_at;	  /* time of hearing it; valid if quiesced */
	bool final;		  /* the peer has a final count for the epoch under way */
	bool wants;		  /* the peer wants a PSN of ours, in this move or the last one */
	uint32_t wants_of;	  /* carrier whose PSN the peer wants */
	bool exact_seen;	  /* the peer has that PSN, or knows that it will not come */
	enum sc_exact exact;	  /* the peer's answer to our own wish, in the same move */
	uint32_t exact_psn;
	uint64_t heard_at;
};

struct sc_conn {
	struct sc_config config;
	enum sc_send_state send;
	enum sc_recv_state recv;
	enum sc_move_phase move;
	enum sc_reason reason; /* reason of the move under way, of the end, or of no protection */
	uint32_t epoch;	       /* epoch of the carrier in use; during a move: of the one to come */
	uint8_t path;	       /* path of that carrier */
	bool suspect;	       /* the carrier's path is down: leave as soon as a standby is ready */
	bool suspicious;       /* lazy: a standby may be impossible here */
	bool beyond;	       /* stock would have ended by now: the default NIC died, or retries on
				* the default path were spent, at either end (P9) */
	bool fault_later;      /* the carrier died while the answer to SETTLE was under way */
	uint32_t lost;	       /* highest epoch whose carrier is lost at this end; 0: none */
	uint32_t dead;	       /* carriers below this epoch were counted on a sick or lost NIC */
	uint32_t cut;	       /* the same, if that NIC may have lost its way to memory */
	uint32_t fruitless;    /* number of carriers in a row that passed nothing */
	uint64_t fruitless_since; /* time when the first of these was given up */
	bool leader;		  /* chooses standbys and begins ordered switches */
	struct sc_masks paths;
	struct sc_standby standby;
	struct sc_switch sw;
	struct sc_stay stay;
	struct sc_exact_count exact;
	struct sc_peer peer;
	bool guarded;	     /* transport errors are withheld: from the first standby, or the first
			      * rest without one, to the end */
	bool failed;	     /* SC_ACT_FAIL was given */
	bool count_final;    /* own carriers older than epoch are quiesced, recv_count is fixed */
	bool counted;	     /* sick NIC: recv_count is the last recount's */
	bool recounting;     /* sick NIC: RECOUNT given, no answer yet */
	uint8_t flags;	     /* enum sc_flags, once ended: told to the peer */
	uint8_t last_words;  /* how often flags are still sent unasked */
	uint32_t recv_count; /* fixed when count_final */
	uint64_t dark_since; /* start of the time without an answer on any path; 0: some path
			      * answers */
	uint64_t deadline_at, lifetime_until;
	struct { /* repetition of LAY_RECEIVES or SETTLE: */
		uint64_t at, interval, since;
		enum sc_reason reason; /* a missing key, or an atomic that may not run yet */
	} retry;
	uint64_t resend_at, resend_interval; /* next repetition of STATE */
	uint64_t told_at;		     /* time of the last STATE, sent for any reason */
	uint64_t timer_at;		     /* output: time for the next SC_EV_TIMER; 0: none */
};

#endif
