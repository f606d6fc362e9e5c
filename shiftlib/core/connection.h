/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a connection knows. The shell reads it, and changes nothing but by sc_step(). */
#ifndef SHIFTLIB_CORE_CONNECTION_H
#define SHIFTLIB_CORE_CONNECTION_H

#include <stdbool.h>

#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

/* IBA 9.7.6.1.3: a QP's timer of T expires after T at the earliest and 4 T at the latest, as its NIC likes. */
enum { SC_RETRY_STRETCH = 4 };

struct sc_config {
	uint64_t resend_min_ns, resend_max_ns; /* retransmission of messages, doubling */
	uint64_t busy_ns;	/* both ends have so much to do: nothing is repeated sooner */
	uint64_t retry_time_ns; /* of the QP: 4.096 us * 2^timeout * (retry_cnt + 1); 0: none */
	uint32_t retry_stretch; /* most times that that its NIC retries: sc_retries_ns() */
	uint64_t silence_ns;	/* who is fenced waits for a silent peer so long */
	uint64_t deadline_ns;	/* a move has so long, also where the QP retries for less */
	uint64_t limit_ns; /* a move takes no longer, says the operator; 0: as the QP retries */
	uint64_t packet_lifetime_ns; /* longest packet lifetime on the fabric */
	uint64_t settle_ns;	     /* sick NIC: what it has taken in is in memory after so long */
	uint64_t exact_ns;	     /* a NIC has so long to tell an expected PSN */
	uint64_t fence_ns;	     /* an ordered switch waits so long for its fences */
	uint64_t stay_ns;	     /* a flap is waited out no longer; 0: not at all */
	uint64_t standby_ns; /* making a standby takes no longer, or another one is chosen */
	uint64_t choose_min_ns, choose_max_ns; /* pause after one failed, doubling */
	bool atomics;			       /* the QP takes atomics of the peer */
	bool exact; /* expected PSNs are asked for and told, if the peer does so too */
	bool lazy;  /* a standby is made when it is needed, if the peer is lazy too */
};
void sc_config_default(struct sc_config *config);

struct sc_masks {
	uint8_t up;	 /* its NIC is well and the peer answers on it */
	uint8_t steady;	 /* up for the hold-down time */
	uint8_t drained; /* not to be used, says the operator; or its side, for a while */
	uint8_t homed;	 /* of these: no operator says so, but atomics are at home elsewhere */
	uint8_t no;	 /* rises with every change */
	uint8_t well;	 /* own side: its NIC and port are, whatever the peer answers */
	uint32_t cannot; /* where that home cannot be: see sc_home_cannot() */
};

/* The way to the next epoch. */
struct sc_standby {
	enum sc_standby_phase phase; /* own */
	enum sc_standby_phase peer;  /* as last heard */
	uint32_t epoch;		     /* of this one or, when there is none, of the last */
	uint8_t path;
	uint8_t seen; /* own phase, as the peer last showed to have seen it */
	uint8_t masks_seen;
	bool both;	/* it has been ready at both ends */
	uint8_t avoid;	/* paths that failed since one worked */
	uint32_t order; /* in which they are preferred; the leader's, since the introduction */
	struct sc_address local, remote;
	uint64_t resend_at, resend_interval;
	uint64_t deadline_at;		     /* of making it */
	uint64_t choose_at, choose_interval; /* after a failure: when the next is chosen */
	bool rests;			     /* lazy: there need be none */
	uint64_t rest_until; /* lazy: the path in use may come up so long at first */
};

/* The ordered switch. */
struct sc_switch {
	enum sc_switch_phase phase;
	uint32_t no;	 /* of this attempt, or the last one heard of: burnt unless under way */
	uint32_t target; /* epoch */
	bool peer_fenced;
	bool atomics; /* some are outstanding before the fence */
	bool led;     /* to the last move, which nothing forced: the path that was left is well */
	bool turned_back; /* such a move could not go on where it led, so the next one may wait */
	enum sc_reason reason;
	uint64_t deadline_at;
	uint64_t next_at, interval; /* after a CANCEL */
};

/* Leaving a path that is down (stay.c). */
struct sc_stay {
	enum sc_stay_phase phase;
	uint32_t no; /* of this wait, or the last one heard of: burnt unless under way */
	bool wished; /* this end wants to leave; else its peer does */
	bool peer_goes, told;
	bool clear; /* at the last look nothing was outstanding that has to be waited for */
	bool was_down, was_unwell;	 /* the path, and the own NIC there, since then */
	enum sc_reason reason;		 /* why it wants to */
	uint64_t since;			 /* sends are withheld */
	uint64_t look_at, look_interval; /* are there still requests that wait? */
};

/* The exact count: expected PSNs of quiesced carriers (exact.c). */
struct sc_exact_count {
	bool wants; /* of the peer: there are requests of ours whose fate its count does not tell */
	uint32_t wants_of; /* carrier that they lie in */
	bool asked;	   /* our shell, of what the peer wants; no answer yet */
	uint64_t asked_until;
	bool answered, known; /* the last answer, of carrier `of`: it stays true */
	uint32_t of, psn;
};

/* What the other end has said. */
struct sc_peer {
	bool introduced;
	bool known; /* any message of it was heard */
	bool ended; /* it said FATAL or CLOSED */
	bool masks_known;
	bool lazy; /* told with the masks */
	enum sc_stays stays;
	struct sc_masks paths;
	uint32_t epoch;		  /* last heard, any */
	uint32_t seen_epoch;	  /* of ours, as last heard */
	uint32_t recv_count;	  /* with final */
	uint32_t lost, dead, cut; /* as our own */
	bool quiesced;		  /* heard for the epoch under way */
	uint64_t quiesced_at;	  /* ... when; with quiesced */
	bool final;		  /* has a final count for the epoch under way */
	bool wants;		  /* in the move under way, or the last one: the expected PSN ... */
	uint32_t wants_of;	  /* ... of that carrier */
	bool exact_seen;	  /* ... and has it, or knows that it will not come */
	enum sc_exact exact;	  /* what it has said of ours, in the same */
	uint32_t exact_psn;
	uint64_t heard_at;
};

struct sc_conn {
	struct sc_config config;
	enum sc_send_state send;
	enum sc_recv_state recv;
	enum sc_move_phase move;
	enum sc_reason reason; /* of the move under way, of the end, or of no protection */
	uint32_t epoch;	       /* of the carrier in use; during a move: the one to come */
	uint8_t path;	       /* that it runs on */
	bool suspect;	       /* its path is down: leave as soon as a standby is ready */
	bool suspicious;       /* lazy: a standby may be impossible here */
	bool beyond;	       /* stock would have ended by now: the default NIC died, or retries on
				   * the default path were spent, at either end (P9) */
	bool fault_later;      /* RESUMING: it died while the answer of SETTLE was under way */
	uint32_t lost;	       /* highest epoch whose carrier is lost here; 0: none */
	uint32_t dead;	       /* own carriers below were counted on a NIC that is sick or gone */
	uint32_t cut;	       /* ... that could not reach memory any more, for all that is known */
	uint32_t fruitless;    /* carriers in a row that passed nothing */
	uint64_t fruitless_since; /* the first of them was given up */
	bool leader;		  /* chooses standbys and begins ordered switches */
	struct sc_masks paths;
	struct sc_standby standby;
	struct sc_switch sw;
	struct sc_stay stay;
	struct sc_exact_count exact;
	struct sc_peer peer;
	bool guarded;	     /* transport errors are withheld: from the first standby, or the
			      * first rest without one, to the end */
	bool failed;	     /* SC_ACT_FAIL was given */
	bool count_final;    /* own carriers older than epoch are quiesced, recv_count is fixed */
	bool counted;	     /* sick NIC: recv_count is that of the last recount */
	bool recounting;     /* sick NIC: RECOUNT given, no answer yet */
	uint8_t flags;	     /* enum sc_flags, once ended: told to the peer */
	uint8_t last_words;  /* how often that is still sent unasked */
	uint32_t recv_count; /* fixed when count_final */
	uint64_t dark_since; /* no path to the peer has had an answer since; 0: one has */
	uint64_t deadline_at, lifetime_until;
	struct { /* LAY_RECEIVES or SETTLE again: */
		uint64_t at, interval, since;
		enum sc_reason reason; /* a key was missing, or an atomic may not run yet */
	} retry;
	uint64_t resend_at, resend_interval; /* STATE */
	uint64_t told_at;		     /* the last STATE went out, whatever for */
	uint64_t timer_at;		     /* out: when to send SC_EV_TIMER; 0: not at all */
};

#endif
