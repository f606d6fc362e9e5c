/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rules broken on purpose: tests of the tests (docs/mutants.md). Included by internal.h alone. */
#ifndef SHIFTLIB_CORE_MUTANT_H
#define SHIFTLIB_CORE_MUTANT_H

/* Numbers 1 and 2 exist as builds too (SHIFT_MUTANT), the others only in the simulation. */
enum sc_mutant {
	SC_MUTANT_NONE,
	SC_MUTANT_COUNT_EARLY,	   /* receive count final before the carrier is quiesced */
	SC_MUTANT_NO_ANSWER,	   /* resubmit before the peer's answer, as if nothing arrived */
	SC_MUTANT_NO_LIFETIME,	   /* sick NIC: no wait for packets still on their way */
	SC_MUTANT_NO_PEER_QUIESCE, /* sick NIC: no wait for the peer's carriers to be in ERR */
	SC_MUTANT_RECEIVES_LATE,   /* "I am there" before the receives are laid */
	SC_MUTANT_ANY_EPOCH,	   /* answer of another epoch accepted */
	SC_MUTANT_NO_RESEND,	   /* lost messages stay lost */
	SC_MUTANT_READ_NOP,	   /* a delivered READ counts as complete */
	SC_MUTANT_WRITE_AGAIN,	   /* a delivered WRITE is sent again */
	SC_MUTANT_ATOMIC_AGAIN,	   /* an atomic of unknown fate is sent again */
	SC_MUTANT_FENCED_READ, /* a READ is repeated behind a fenced request that may have run */
	SC_MUTANT_COUNT_UNCHECKED, /* a count outside of what is possible is believed */
	SC_MUTANT_ACKED_IS_PLACED, /* what a dead NIC acknowledged is taken to be in memory */
	SC_MUTANT_NO_LOST,	   /* the peer is not told of a lost carrier */
	SC_MUTANT_LOWER_STANDBY,   /* a standby of a lower number replaces a later one */
	SC_MUTANT_EPOCH_AGAIN,	   /* a number of a lost standby serves another one */
	SC_MUTANT_KEEP_ANSWER,	   /* the answer for the last carrier serves for the next */
	SC_MUTANT_NUMBER_AGAIN,	   /* a cancelled switch's number serves the next */
	SC_MUTANT_OBEY_LATE,	   /* a late FENCED of another attempt is obeyed */
	SC_MUTANT_ALONE,	   /* own FENCED is enough to leave */
	SC_MUTANT_GO_BACK,	   /* after FENCED a side goes back by itself */
	SC_MUTANT_FENCE_ATOMICS,   /* a fence that times out leaves, whatever is outstanding */
	SC_MUTANT_IMPATIENT,	   /* a move has its own time, however long the QP retries */
	SC_MUTANT_NOMINAL,    /* the QP's retries are taken to last as long as their nominal time */
	SC_MUTANT_FOR_EVER,   /* no deadline for a connection without a carrier */
	SC_MUTANT_REST_ALONE, /* who is lazy does not ask whether the peer is */
	SC_MUTANT_REST_AWAY,  /* no standby for the way back */
	SC_MUTANT_DOUBT_UNTOLD,	   /* a lazy leader is not told that the other end is in doubt */
	SC_MUTANT_LEFT_OVER_LEADS, /* who a process that has ended made the leader, or not, stays it */
	SC_MUTANT_NO_TURN, /* a switch that meets a key that does not come ends the connection */
	/* of several paths: */
	SC_MUTANT_OTHER_PATH,	/* who follows makes its standby on a path of its own choice */
	SC_MUTANT_STAMPEDE,	/* all go to the path of the lowest number, whatever their order */
	SC_MUTANT_DRAINED_LAST, /* a drained path is not used, though it is the last */
	/* of waiting out a flap: */
	SC_MUTANT_STAY_FOREVER,	    /* a flap is waited out without an end */
	SC_MUTANT_LEAVE_WITHOUT_GO, /* who waits leaves though the peer waits for an answer */
	SC_MUTANT_LEAVE_UNHEARD, /* who has no atomics does not ask whether the peer can follow */
	/* of the exact count: the expected PSN ... */
	SC_MUTANT_OTHER_PSN,	      /* of another carrier is told, and believed */
	SC_MUTANT_SICK_PSN,	      /* of a NIC that did not show that it obeys is asked for */
	SC_MUTANT_EARLY_PSN,	      /* is asked for before the carrier is quiesced */
	SC_MUTANT_CUT_IS_DELIVERED,   /* lies within a request: that counts as executed */
	SC_MUTANT_WRAP_24,	      /* is compared without its wrap */
	SC_MUTANT_TRUST_UNCHECKED,    /* is believed against the count */
	SC_MUTANT_ATOMIC_RAN_AGAIN,   /* is behind an atomic, which runs again */
	SC_MUTANT_ATOMIC_RAN_DROPPED, /* ... which completes without its value */
	SC_MUTANT_OWN_IS_LOST,	      /* a CAS whose value is in the word runs again */
	SC_MUTANT_UID_AGAIN,	      /* the swap that decides is made again */
	SC_MUTANT_UID_STEP_DROPPED,   /* another one is not */
	SC_MUTANT_OTHER_IS_WON,	      /* one whose value is not there is taken for won */
	/* of the log: its word ... */
	SC_MUTANT_LOG_OF_OLD,	/* is believed under any tag */
	SC_MUTANT_LOG_OF_OTHER, /* of another carrier is believed */
	SC_MUTANT_LOG_BEYOND,	/* counts the request behind it, too */
};

#ifdef SC_MUTANTS
extern enum sc_mutant sc_mutant;
#define SC_MUTANT(name) (sc_mutant == SC_MUTANT_##name)
#elif defined(SHIFT_MUTANT)
/* 3 and on break a rule of the ring engine. */
#define SC_MUTANT(name) (SHIFT_MUTANT <= SC_MUTANT_NO_ANSWER && SC_MUTANT_##name == SHIFT_MUTANT)
#else
#define SC_MUTANT(name) false
#endif

#endif
