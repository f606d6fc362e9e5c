/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which NIC runs atomics. Those of mlx5 are atomic with each other on one NIC only, and path k of a
 * connection leads to the responder's k-th NIC. So all connections of a responder that share a default
 * NIC form a *group*, with one *home* at a time: the NIC on which their atomics run. It begins on path 0, where nobody
 * asks. An atomic on another path waits at the requester until the responder has granted it for that
 * carrier, which it does when no other NIC can execute an atomic of the group any more.
 *
 * Evidence that a requester can run none on a NIC is its word that it will ask first (its answer to the
 * *bar*), and that the carriers that ran atomics are quiesced here. Members that have posted atomics are moved to the home: the other paths
 * count as drained for them. Those that never did stay where they are. Back at path 0, by the same rule, the bar is lifted.
 *
 * Where both ends of a connection respond, two groups want it at home. Neither takes the other's home for an operator's wish:
 * they would keep each other away from path 0 for ever. So each tells where it *cannot* be, and what it has heard of
 * that from its other peers, each time one step further, and goes to none of these. What was heard from a group is never told
 * it back, and nothing over more than SC_HOME_STEPS: so it ends with its cause, in a circle too.
 *
 * Pure: no clock, thread, verb or lock. Messages may be lost, doubled and overtaken.
 */
#ifndef SHIFTLIB_CORE_HOME_H
#define SHIFTLIB_CORE_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

#ifdef SC_MUTANTS
/* Rules broken on purpose; tests/unit/core/home_test.c must catch each. */
enum sc_home_mutant {
	SC_HOME_MUTANT_NONE,
	SC_HOME_MUTANT_GATE_OPEN,     /* the requester does not ask on another path */
	SC_HOME_MUTANT_GRANT_OF_ANY,  /* a grant for one carrier serves another */
	SC_HOME_MUTANT_BAR_UNHEARD,   /* the bar holds before it is answered */
	SC_HOME_MUTANT_ANSWER_OF_ANY, /* an answer to an earlier word counts */
	SC_HOME_MUTANT_USE_FORGOTTEN, /* who has posted atomics is taken for one who has not */
	SC_HOME_MUTANT_NOT_QUIESCED,  /* a carrier that was left counts as quiesced */
	SC_HOME_MUTANT_SPLIT,	      /* whoever asks gets the NIC that it is on */
	SC_HOME_MUTANT_LIFTED_EARLY,  /* the bar is lifted before all have come back */
	SC_HOME_MUTANT_SILENT_GONE,   /* who takes no part is taken for one that runs nothing */
	SC_HOME_MUTANT_OTHERS_UNSEEN, /* what other processes have claimed is not looked at */
	SC_HOME_MUTANT_UNCLAIMED,     /* what this process lets run stands on no board */
	SC_HOME_MUTANT_ENTERED_BLIND, /* who comes lets atomics run on the default NIC at once */
	SC_HOME_MUTANT_DEAD_EARLY, /* what a process claimed goes before its queue pairs (by the test) */
	SC_HOME_MUTANT_HEEDLESS, /* where the peer's group cannot be counts for nothing */
	SC_HOME_MUTANT_APART,	 /* two that are apart stay where they are */
	SC_HOME_MUTANT_ECHO,	 /* a group is told what it has said */
	SC_HOME_MUTANT_NO_END,	 /* what is heard goes round for ever */
	SC_HOME_MUTANT_NO_WAY,	 /* neither of two that are apart gives way */
	SC_HOME_MUTANTS,
};
extern enum sc_home_mutant sc_home_mutant;
#define SC_HOME_MUTANT(name) (sc_home_mutant == SC_HOME_MUTANT_##name)
#else
#define SC_HOME_MUTANT(name) false
#endif

/* ---- who requests ----------------------------------------------------------------------------- */

struct sc_home_user {
	uint32_t bar_seen; /* the last word that was obeyed */
	uint32_t free_of;  /* the last carrier that could run atomics without a grant */
	bool used;	   /* since some bar: atomics had been posted before it */
	uint32_t used_of;
	bool granted;
	uint32_t granted_of;
	enum sc_home_why why; /* as last heard */
};

/* May atomics run on that carrier? */
bool sc_home_may(const struct sc_home_user *user, uint32_t epoch, uint8_t path);
/* That carrier comes in use; before atomics are shown to it. */
void sc_home_takes(struct sc_home_user *user, uint32_t epoch, uint8_t path);
/* Is there a word in it that is not obeyed yet? */
bool sc_home_barred(const struct sc_home_user *user, const struct sc_msg_home *m, bool *bar);
/* It is: nothing more runs unasked (or may, again). used: atomics have been posted before that. */
void sc_home_obey(struct sc_home_user *user, const struct sc_msg_home *m, bool used);
/* The rest of the message. True: the carrier in use, epoch, may run them now. */
bool sc_home_answered(struct sc_home_user *user, const struct sc_msg_home *m, uint32_t epoch);

/* ---- who responds ----------------------------------------------------------------------------- */

struct sc_home_member {
	/* as it is, says the shell before each step */
	uint32_t epoch; /* of the carrier in use at this end, or of the one to come */
	uint8_t path;
	uint32_t quiesced;  /* carriers below can execute nothing more */
	uint8_t ok, steady; /* sets of paths: up at both ends, and not drained by an operator */
	uint8_t asked;	    /* ... that the peer's group keeps it away from */
	uint32_t cannot;    /* what sc_home_cannot() says at the peer's group */
	uint64_t from;	    /* that group: each has another number, none 0 */
	bool silent;	    /* the peer takes no part: it was asked, or cannot be */
	bool gone;	    /* the default NIC is gone for good, and executes nothing */
	bool shut;	    /* the default queue pair refuses atomics for the time being */
	/* the module's */
	uint32_t bar_no; /* odd: barred */
	bool heard;	 /* bar_no was answered */
	bool user;	 /* it has posted atomics */
	bool left;	 /* barred, heard: it ran some unasked, on carriers up to left_of */
	uint32_t left_of;
	bool wants, granted;
	uint32_t wants_of, granted_of;
	uint8_t granted_path;
	enum sc_home_why why;
	bool news; /* out: the peer is to be told */
};

#define SC_HOME_STEPS 15

/* The nearest group that cannot be on a path: 1: this one; n: one that is n - 1 steps away; 0: there is none. */
struct sc_home_far {
	uint8_t steps, others; /* others: without what `from` said */
	uint64_t from;
};

struct sc_home_group {
	struct sc_home_member **members;
	uint32_t n;
	uint8_t home;
	bool any; /* atomics are atomic over all NICs: everything is granted */
	/* of other processes on the same memory, by home_board.h */
	bool shared;	    /* there may be some: they choose the home together */
	bool elsewhere;	    /* one may run atomics on another NIC than the home */
	bool others_silent; /* one has a member that takes no part */
	uint8_t far_beside; /* of path 0, what they have heard */
	/* the module's */
	struct sc_home_far far[SC_MAX_PATHS];
};

/* Sets of NICs: all members that use atomics are there or can go at once; could be there. */
struct sc_home_fits {
	uint32_t ready, can;
	bool take_part; /* all do */
	bool apart;	/* a peer's group is elsewhere, and has reason not to be on path 0 */
	bool odds;	/* no NIC is left where all peers' groups can be: these are not heeded */
};

/* What the peer says. */
void sc_home_heard(struct sc_home_member *member, const struct sc_msg_home *m);
/* Something has changed. */
void sc_home_step(struct sc_home_group *group);
/* By paths: of its members alone; and where their peers' groups can be. False: no member uses atomics, so each NIC will do. */
bool sc_home_fit(struct sc_home_group *group, struct sc_home_fits *own,
		 struct sc_home_fits *heeded);
/*
 * The default, 0, if all can be there; else one stays where one is, as long as that will do. So it does at odds: there it would
 * tell nothing, its peers go home for that, and it go away with them again, for ever.
 */
uint8_t sc_home_choose(const struct sc_home_fits *fits, uint8_t home);
/* Set of paths whose NICs may execute atomics of some member. */
uint8_t sc_home_may_run_any(const struct sc_home_group *group);
/* Nobody is barred: nothing to do before somebody wants something. */
bool sc_home_at_rest(const struct sc_home_group *group);
/*
 * What its peer is told of paths where the home cannot be, behind sc_home_step(): four bits for each, as in sc_home_far. 0 where
 * nothing is asked of the peer.
 */
uint32_t sc_home_cannot(const struct sc_home_group *group, const struct sc_home_member *member);
/* Set of paths that count as drained for it. */
uint8_t sc_home_drained(const struct sc_home_group *group, const struct sc_home_member *member);
/* Set of paths whose NICs may execute atomics of it. */
uint8_t sc_home_may_run(const struct sc_home_member *member);

/* ---- both -------------------------------------------------------------------------------------- */

/* Is there something that the peer has not answered? Then the message is repeated. */
bool sc_home_unheard(const struct sc_home_member *member);
void sc_home_fill(const struct sc_home_user *user, const struct sc_home_member *member,
		  struct sc_msg_home *m);

#endif
