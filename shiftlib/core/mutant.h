/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The core's rules broken on purpose, as tests of the tests (docs/mutants.md). Included by
 * internal.h alone.
 */
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
	SC_MUTANT_ACKED_IS_PLACED, /* data that a dead NIC acknowledged is taken to be in memory */
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
	SC_MUTANT_REST_ALONE, /* a lazy end does not ask whether the peer is lazy */
	SC_MUTANT_REST_AWAY,  /* no standby for the way back */
	SC_MUTANT_DOUBT_UNTOLD,	   /* a lazy leader is not told that the other end is in doubt */
	SC_MUTANT_LEFT_OVER_LEADS, /* an end that an ended process made the leader, or not, stays
				    * so */
	SC_MUTANT_NO_TURN,	   /* a switch to a NIC whose key never comes ends the connection */
	/* several paths: */
	SC_MUTANT_OTHER_PATH,	/* the end that follows makes its standby on a path of its own
				 * choice */
	SC_MUTANT_STAMPEDE,	/* every connection goes to the path of the lowest number, whatever
				 * its order */
	SC_MUTANT_DRAINED_LAST, /* a drained path is not used, though it is the last */
	/* waiting out a flap: */
	SC_MUTANT_STAY_FOREVER,	    /* a flap is waited out without an end */
	SC_MUTANT_LEAVE_WITHOUT_GO, /* a waiting end leaves though the peer waits for an answer */
	SC_MUTANT_LEAVE_UNHEARD,    /* an end without atomics does not ask whether the peer can
				     * follow */
	/* the exact count, rules of the expected PSN: */
	SC_MUTANT_OTHER_PSN,	      /* another carrier's PSN is told, and believed */
	SC_MUTANT_SICK_PSN,	      /* a NIC that did not show that it obeys is asked for its
				       * PSN */
	SC_MUTANT_EARLY_PSN,	      /* the PSN is asked for before the carrier is quiesced */
	SC_MUTANT_CUT_IS_DELIVERED,   /* a request that the PSN lies within counts as executed */
	SC_MUTANT_WRAP_24,	      /* the PSN is compared without its wrap */
	SC_MUTANT_TRUST_UNCHECKED,    /* the PSN is believed against the count */
	SC_MUTANT_ATOMIC_RAN_AGAIN,   /* an atomic before the PSN runs again */
	SC_MUTANT_ATOMIC_RAN_DROPPED, /* an atomic before the PSN completes without its value */
	SC_MUTANT_OWN_IS_LOST,	      /* a CAS whose value is in the word runs again */
	SC_MUTANT_UID_AGAIN,	      /* uid: the swap that decides is made again */
	SC_MUTANT_UID_STEP_DROPPED,   /* uid: a swap that does not decide is not made again */
	SC_MUTANT_OTHER_IS_WON,	      /* a CAS whose value is not in the word is taken for won */
	/* the log's word: */
	SC_MUTANT_LOG_OF_OLD,	/* the word is believed under any tag */
	SC_MUTANT_LOG_OF_OTHER, /* another carrier's word is believed */
	SC_MUTANT_LOG_BEYOND,	/* the word counts the request behind it, too */
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
