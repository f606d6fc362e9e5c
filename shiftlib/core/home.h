/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The NIC that runs atomics. Atomics of mlx5 are atomic with each other on one NIC only, and path k
 * of a connection leads to the responder's k-th NIC. So all connections of a responder that share a
 * default NIC form a *group*, with one *home* at a time: the NIC on which their atomics run. The
 * home begins on path 0, where nobody asks. An atomic on another path waits at the requester until
 * the responder has granted it for that carrier. The responder does so when no other NIC can
 * execute an atomic of the group any more.
 *
 * A requester is known to run no atomics on a NIC once it has promised to ask first (its answer to
 * the *bar*) and the carriers that ran atomics are quiesced here. Members that have posted atomics
 * are moved to the home: the other paths count as drained for them. Other members stay where they
 * are. Back at path 0, by the same rule, the bar is lifted.
 *
 * Where both ends of a connection respond, two groups want it at home. Neither takes the other's
 * home for an operator's wish: they would keep each other away from path 0 for ever. So each tells
 * where it *cannot* be, and what its other peers told of that, one step further each time, and goes
 * to none of these. A group is never told its own words, and nothing is told over more than
 * SC_HOME_STEPS, so a word ends with its cause, in a circle too.
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
/* Rules of the home broken on purpose; tests/unit/core/home_test.c must catch each. */
enum sc_home_mutant {
	SC_HOME_MUTANT_NONE,
	SC_HOME_MUTANT_GATE_OPEN,     /* the requester does not ask on another path */
	SC_HOME_MUTANT_GRANT_OF_ANY,  /* a grant for one carrier serves another */
	SC_HOME_MUTANT_BAR_UNHEARD,   /* the bar holds before the answer */
	SC_HOME_MUTANT_ANSWER_OF_ANY, /* an answer to an earlier word counts */
	SC_HOME_MUTANT_USE_FORGOTTEN, /* a requester with atomics is taken for one without */
	SC_HOME_MUTANT_NOT_QUIESCED,  /* a carrier that was left counts as quiesced */
	SC_HOME_MUTANT_SPLIT,	      /* each asker gets the NIC that it is on */
	SC_HOME_MUTANT_LIFTED_EARLY,  /* the bar is lifted before all have come back */
	SC_HOME_MUTANT_SILENT_GONE,   /* a peer that takes no part is taken for idle */
	SC_HOME_MUTANT_OTHERS_UNSEEN, /* claims of other processes are ignored */
	SC_HOME_MUTANT_UNCLAIMED,     /* atomics of this process run without a claim on the board */
	SC_HOME_MUTANT_ENTERED_BLIND, /* a new member lets atomics run on the default NIC at once */
	SC_HOME_MUTANT_DEAD_EARLY,    /* a dead process's claim goes first (by the test) */
	SC_HOME_MUTANT_HEEDLESS,      /* paths where the peer's group cannot be are not avoided */
	SC_HOME_MUTANT_APART,	      /* two groups that are apart stay where they are */
	SC_HOME_MUTANT_ECHO,	      /* a group is told its own words */
	SC_HOME_MUTANT_NO_END,	      /* words go round for ever */
	SC_HOME_MUTANT_NO_WAY,	      /* neither of two groups that are apart gives way */
	SC_HOME_MUTANTS,
};
extern enum sc_home_mutant sc_home_mutant;
#define SC_HOME_MUTANT(name) (sc_home_mutant == SC_HOME_MUTANT_##name)
#else
#define SC_HOME_MUTANT(name) false
#endif

/* ---- who requests ---------------------------------------------------------------------------- */

struct sc_home_user {
	uint32_t bar_seen; /* the last word obeyed */
	uint32_t free_of;  /* the last carrier that could run atomics without a grant */
	bool used;	   /* atomics had been posted before the last bar */
	uint32_t used_of;
	bool granted;
	uint32_t granted_of;
	enum sc_home_why why; /* as last heard */
};

/* True if atomics may run on that carrier. */
bool sc_home_may(const struct sc_home_user *user, uint32_t epoch, uint8_t path);
/* Notes the carrier that comes into use, before atomics are shown to it. */
void sc_home_takes(struct sc_home_user *user, uint32_t epoch, uint8_t path);
/* True if the message has a word that is not obeyed yet. */
bool sc_home_barred(const struct sc_home_user *user, const struct sc_msg_home *m, bool *bar);
/* Obeys: nothing more runs unasked (or may, again). used: atomics have been posted before. */
void sc_home_obey(struct sc_home_user *user, const struct sc_msg_home *m, bool used);
/* Takes the rest of the message. True: the carrier in use, epoch, may run atomics now. */
bool sc_home_answered(struct sc_home_user *user, const struct sc_msg_home *m, uint32_t epoch);

/* ---- who responds ---------------------------------------------------------------------------- */

struct sc_home_member {
	/* set by the shell before each step */
	uint32_t epoch; /* epoch of the carrier in use at this end, or of the one to come */
	uint8_t path;
	uint32_t quiesced;  /* carriers below can execute nothing more */
	uint8_t ok, steady; /* sets of paths: up at both ends and not drained by an operator */
	uint8_t asked;	    /* set of paths that the peer's group keeps the connection away from */
	uint32_t cannot;    /* sc_home_cannot() of the peer's group */
	uint64_t from;	    /* number of the peer's group, unique and not 0 */
	bool silent;	    /* the peer takes no part, or cannot be asked */
	bool gone;	    /* the default NIC is gone for good, and executes nothing */
	bool shut;	    /* the default queue pair refuses atomics for the time being */
	/* set by the module */
	uint32_t bar_no; /* odd: barred */
	bool heard;	 /* bar_no has been answered */
	bool user;	 /* the peer has posted atomics */
	bool left;	 /* barred, heard: atomics ran unasked, on carriers up to left_of */
	uint32_t left_of;
	bool wants, granted;
	uint32_t wants_of, granted_of;
	uint8_t granted_path;
	enum sc_home_why why;
	bool news; /* output: the peer is to be told */
};

#define SC_HOME_STEPS 15

/* Steps to the nearest group that cannot be on a path. 1: this one; n: one n - 1 away; 0: none. */
struct sc_home_far {
	uint8_t steps, others; /* others: without the words of `from` */
	uint64_t from;
};

struct sc_home_group {
	struct sc_home_member **members;
	uint32_t n;
	uint8_t home;
	bool any; /* atomics are atomic over all NICs: all is granted */
	/* set by home_board.h, for other processes on the same memory */
	bool shared;	    /* other processes may be there: all choose the home together */
	bool elsewhere;	    /* some process may run atomics on another NIC than the home */
	bool others_silent; /* some process has a member that takes no part */
	uint8_t far_beside; /* steps for path 0 that the other processes have heard */
	/* set by the module */
	struct sc_home_far far[SC_MAX_PATHS];
};

/*
 * NICs that fit all members with atomics. ready: all can be there at once; can: all could be there.
 */
struct sc_home_fits {
	uint32_t ready, can;
	bool take_part; /* all members take part */
	bool apart;	/* some peer's group is elsewhere, and has reason not to be on path 0 */
	bool odds;	/* no NIC suits all peers' groups: their words are not heeded */
};

/* Takes the peer's message. */
void sc_home_heard(struct sc_home_member *member, const struct sc_msg_home *m);
/* Decides after something has changed. */
void sc_home_step(struct sc_home_group *group);
/*
 * Computes the fitting paths: own, of its members alone; heeded, without those where their peers'
 * groups cannot be. False: no member uses atomics, so each NIC will do.
 */
bool sc_home_fit(struct sc_home_group *group, struct sc_home_fits *own,
		 struct sc_home_fits *heeded);
/*
 * Returns the home: 0, the default, if all can be there; else the present one as long as that will
 * do. At odds it does: at path 0 the group would tell nothing, its peers would go home for that,
 * and drive it away again, for ever.
 */
uint8_t sc_home_choose(const struct sc_home_fits *fits, uint8_t home);
/* Returns the set of paths whose NICs may execute atomics of some member. */
uint8_t sc_home_may_run_any(const struct sc_home_group *group);
/* True if nobody is barred: nothing to do before somebody wants something. */
bool sc_home_at_rest(const struct sc_home_group *group);
/*
 * Returns the word for a member's peer about paths where the home cannot be: four bits each, as in
 * sc_home_far. Valid after sc_home_step(); 0 if nothing is asked of the peer.
 */
uint32_t sc_home_cannot(const struct sc_home_group *group, const struct sc_home_member *member);
/* Returns the set of paths that count as drained for the member. */
uint8_t sc_home_drained(const struct sc_home_group *group, const struct sc_home_member *member);
/* Returns the set of paths whose NICs may execute atomics of the member. */
uint8_t sc_home_may_run(const struct sc_home_member *member);

/* ---- both ------------------------------------------------------------------------------------ */

/* True if the peer has not answered something, so the message is repeated. */
bool sc_home_unheard(const struct sc_home_member *member);
void sc_home_fill(const struct sc_home_user *user, const struct sc_home_member *member,
		  struct sc_msg_home *m);

#endif
