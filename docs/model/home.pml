/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One NIC for the atomics of a group (shiftlib/core/home.c), for spin; tests/model/run_model.py runs it, and its
 * wrong variants.
 *
 * The world. A responder with two NICs, each of which reads a word and writes it in two steps, one atomic at a
 * time; two connections to it, of which path k leads to its k-th NIC; each posts some atomics, at any moment at
 * which it may. Paths fail and come back. A connection whose path is down leaves: first the responder, or the
 * requester has heard of it before the old carrier is quiesced, or after; an ordered move leaves when nothing is
 * outstanding. What a side says arrives at any time, any number of times or never; so does one thing that it said
 * before, whichever, LATE times. The responder looks at the group as soon as something has changed for it.
 *
 * With PROCESSES each connection is one of a process of its own, both of one SHIFT_ATOMIC_GROUP: they agree on a home by
 * a board, which one at a time has in its hands (home_board.c). A process looks at it some time after something has changed for
 * its own connection, or the other one has changed the board. With DEATHS one process dies at any moment, between
 * any two things that it writes there too; its queue pair runs what it may until it is closed, and only then the other one
 * clears its place. With NEWCOMER the second process comes at any moment.
 *
 * Not modelled: members that take no part (home_test.c has them), or that come later in one process; three paths; paths that are
 * up and not steady; the standby and the move itself; time: nobody's patience ends. What a dead process had said before
 * arrives as it was when it died.
 *
 * N1 (6 here): no NIC begins an atomic while the other one is in the middle of one. P7: when nothing can happen
 * any more, all whose process lives are on path 0, nobody waits, and nobody has to ask.
 *
 *	may, takes, obey, answered	home.c sc_home_may, sc_home_takes, sc_home_obey, sc_home_answered
 *	heard_by_responder		sc_home_heard, home_hear_bar
 *	step				sc_home_step: home_choose_again, home_bar_all, sc_home_may_run_any,
 *					home_grant_all, home_lift_all
 *	board_step			sc_home_board_step: board_say, board_fits_of_all, sc_home_choose,
 *					board_claim
 *	CLAIMED_AWAY			sc_home_board_away
 *	enter, opens			sc_home_board_enter, home_open (conn/atomics/home_group.c)
 *	DRAINED				sc_home_drained
 */
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef POSTS
#define POSTS 2
#endif
#ifndef LATE
#define LATE 1 /* things said before that arrive later */
#endif
#define EPOCHS 6 /* none higher is used, */
#define BARS   6 /* nor of these */
#ifndef CHECK_ONLY
#define CHECK_ONLY 1023
#endif
#define PROMISE(n, x) assert(!(n) || !(CHECK_ONLY & (1 << (n))) || (x))

#define CONNS 2
#define ODD(n) ((n) & 1)

/* An atomic: none, shown to the NIC, the NIC has read the word. */
#define IDLE 0
#define SHOWN 1
#define READ 2

/* ---- who requests: his carrier in use and its path; what he was told, and how he obeyed */
byte carrier[CONNS], on[CONNS], bar_seen[CONNS], free_of[CONNS], used_of[CONNS], right_of[CONNS];
bool has_right[CONNS], posted[CONNS], used[CONNS], waits[CONNS], gone[CONNS];
/* Its atomic: on which carrier, at which NIC. */
byte stage[CONNS], shown_on[CONNS], nic[CONNS], posts[CONNS];
/* ---- who responds */
byte epoch[CONNS], path[CONNS], quiesced[CONNS], bar_no[CONNS], unasked_of[CONNS], wants_of[CONNS], granted_of[CONNS],
	granted_on[CONNS];
bool heard[CONNS], unasked[CONNS], user[CONNS], wants[CONNS], granted[CONNS];
#ifdef PROCESSES
#ifndef DEATHS
#define DEATHS 0
#endif
/* The board: sets of NICs, as bits. Of the processes: the home as each has read it last. */
byte board_home, runs[CONNS], ready[CONNS], home_of[CONNS], deaths;
bool taken[CONNS], busy[CONNS], due[CONNS];
bool dead[CONNS], closed[CONNS]; /* closed: with its queue pair */
bool shut[CONNS]; /* its queue pair refuses atomics */
#define HOME(i) home_of[i]
#define LIVES(i) (taken[i] && !dead[i])
#define TAKES_ATOMICS(i) (!shut[i] && !closed[i])
#else
byte home;
#define HOME(i) home
#define LIVES(i) true
#define TAKES_ATOMICS(i) true
#endif
/* ---- one thing that was said before, of each */
bool old_r[CONNS], old_granted[CONNS], old_u[CONNS], old_used[CONNS], old_wants[CONNS];
byte old_bar[CONNS], old_granted_of[CONNS], old_seen[CONNS], old_used_of[CONNS], old_wants_of[CONNS];
/* ---- paths: 2 of each connection */
bool down[4];
byte faults, late = LATE;

#define IS_DOWN(i, p) down[2 * (i) + (p)]

#ifdef W_GATE_OPEN
#define FREE(i) true
#else
#define FREE(i) (on[i] == 0 && !ODD(bar_seen[i]))
#endif
#ifdef W_GRANT_OF_ANY
#define IS_OF(i, e) true
#define RIGHT_ENDS(i) skip
#else
#define IS_OF(i, e) ((e) == carrier[i])
#define RIGHT_ENDS(i) has_right[i] = false; right_of[i] = 0
#endif
#define MAY(i) (FREE(i) || (has_right[i] && IS_OF(i, right_of[i])))
#define SAYS_WANTS(i) (waits[i] && !MAY(i) && !gone[i])

inline takes(i)
{
	if
	:: FREE(i) -> free_of[i] = carrier[i]
	:: else
	fi
}

inline keep_what_responder_said(i)
{
	if
	:: late > 0 ->
		late--;
		old_r[i] = true; old_bar[i] = bar_no[i]; old_granted[i] = granted[i];
		old_granted_of[i] = granted_of[i]
	:: true
	fi
}

inline keep_what_requester_said(i)
{
	if
	:: late > 0 -> late--; old_u[i] = true; old_seen[i] = bar_seen[i]; old_used[i] = used[i]; old_used_of[i] = used_of[i];
	   old_wants[i] = SAYS_WANTS(i); old_wants_of[i] = carrier[i]
	:: true
	fi
}

inline obey(i, b)
{
	keep_what_requester_said(i);
	bar_seen[i] = b;
	if
	:: ODD(b) -> used[i] = posted[i]; used_of[i] = free_of[i]
	:: !ODD(b) && !gone[i] -> takes(i)
	:: else
	fi
}

inline heard_by_requester(i, b, g, e)
{
	if
	:: b > bar_seen[i] -> obey(i, b)
	:: else
	fi;
	if
	:: g && IS_OF(i, e) -> has_right[i] = true; right_of[i] = e
	:: else
	fi;
	if
	:: MAY(i) -> waits[i] = false
	:: else
	fi
}

/* ---- the group */

#ifdef W_BAR_UNHEARD
#define IS_BARRED(i) ODD(bar_no[i])
#else
#define IS_BARRED(i) (ODD(bar_no[i]) && heard[i])
#endif
#ifdef W_NOT_QUIESCED
#define STILL(i, e) ((e) >= epoch[i])
#else
#define STILL(i, e) ((e) >= quiesced[i])
#endif
#define MAY_RUN_0(i) (!IS_BARRED(i) || (unasked[i] && STILL(i, unasked_of[i])) || \
		      (granted[i] && granted_on[i] == 0 && STILL(i, granted_of[i])))
#define MAY_RUN_1(i) (granted[i] && granted_on[i] == 1 && STILL(i, granted_of[i]))
#define HAS_WANT(i) (wants[i] && wants_of[i] >= epoch[i] && !(granted[i] && granted_of[i] == epoch[i]) && \
		     (path[i] || ODD(bar_no[i])))
#define FITS(i, p) (!user[i] || !IS_DOWN(i, p))
#define ALL_FIT(p) (FITS(0, p) && FITS(1, p))
#ifndef PROCESSES
#define AT_REST (home == 0 && !ODD(bar_no[0]) && !ODD(bar_no[1]) && !HAS_WANT(0) && !HAS_WANT(1))
#define ELSEWHERE ((home == 1 && (MAY_RUN_0(0) || MAY_RUN_0(1))) || (home == 0 && (MAY_RUN_1(0) || MAY_RUN_1(1))))
#ifdef W_SPLIT
#define IS_CLEAR true
#else
#ifdef W_LIFTED_EARLY
#define IS_CLEAR (!ELSEWHERE || home == 0)
#else
#define IS_CLEAR (!ELSEWHERE)
#endif
#endif
#endif
#ifdef W_SPLIT
#define IS_HOME(i) true
#else
#define IS_HOME(i) (path[i] == HOME(i))
#endif

#ifndef PROCESSES
inline choose()
{
	if
	:: ALL_FIT(0) -> home = 0
	:: !ALL_FIT(0) && home == 0 && ALL_FIT(1) -> home = 1
	:: else
	fi
}
#endif

inline word(i)
{
	keep_what_responder_said(i);
	bar_no[i]++;
	heard[i] = false;
	unasked[i] = false;
	unasked_of[i] = 0
}

inline bar(i)
{
	if
	:: HOME(i) && !ODD(bar_no[i]) -> word(i)
	:: else
	fi
}

inline grant(i)
{
	if
	:: HAS_WANT(i) && wants_of[i] == epoch[i] && quiesced[i] == epoch[i] && IS_HOME(i) ->
		keep_what_responder_said(i);
		granted[i] = true;
		granted_of[i] = epoch[i];
		granted_on[i] = path[i]
	:: else
	fi
}

inline lift(i)
{
	if
	:: HOME(i) == 0 && ODD(bar_no[i]) -> word(i)
	:: else
	fi
}

/* Of a carrier that is gone nothing is left to say. */
inline forget(i)
{
	if
	:: granted[i] && granted_of[i] < quiesced[i] -> granted[i] = false; granted_of[i] = 0; granted_on[i] = 0
	:: else
	fi
}

#ifdef PROCESSES
/* ---- the board */

#define BIT(p) (1 << (p))
#define RUNS(i) ((!shut[i] && MAY_RUN_0(i) -> 1 : 0) + (MAY_RUN_1(i) -> 2 : 0))
#define READY(i) ((FITS(i, 0) -> 1 : 0) + (FITS(i, 1) -> 2 : 0))
#define RESTS(i) (home_of[i] == 0 && !ODD(bar_no[i]) && !HAS_WANT(i))
#define READY_ALL ((taken[0] -> ready[0] : 3) & (taken[1] -> ready[1] : 3))
#define IS_BUSY(i) (taken[i] && busy[i])
#define BOARD_IS_BUSY (board_home || IS_BUSY(0) || IS_BUSY(1))
#define HOME_BITS (board_home -> 2 : 1)
#define CLAIMED_AWAY(i) (taken[1 - (i)] && (runs[1 - (i)] & (3 - HOME_BITS)))
#ifdef W_OTHERS_UNSEEN
#define MAY_LET(i) true
#else
#define MAY_LET(i) (!CLAIMED_AWAY(i))
#endif
#ifdef W_ENTERED_BLIND
#define MAY_ENTER(i) true
#else
#define MAY_ENTER(i) (board_home == 0 && !CLAIMED_AWAY(i))
#endif
#ifdef W_UNCLAIMED
#define CLAIM(i) (runs[i] & RUNS(i))
#else
#define CLAIM(i) RUNS(i)
#endif
#ifdef W_DEAD_EARLY
#define IS_OUT(i) dead[i]
#else
#define IS_OUT(i) closed[i]
#endif

/* For the time of a step. */
hidden byte was_bar, was_unasked_of, was_granted_of, was_granted_on, was_heard, was_unasked, was_granted, changed;

inline may_die(i)
{
	if
	:: deaths < DEATHS -> deaths++; dead[i] = true
	:: true
	fi
}

inline choose_of_all()
{
	if
	:: board_home && (READY_ALL & 1) -> board_home = 0; changed = true
	:: !board_home && READY_ALL == 2 -> board_home = 1; changed = true
	:: else
	fi
}

inline remember(i)
{
	was_bar = bar_no[i]; was_heard = heard[i]; was_unasked = unasked[i]; was_unasked_of = unasked_of[i];
	was_granted = granted[i]; was_granted_of = granted_of[i]; was_granted_on = granted_on[i]
}

/* Nobody has been told of what it had decided last. */
inline unsaid(i)
{
#ifndef W_TOLD_UNCLAIMED
	bar_no[i] = was_bar; heard[i] = was_heard; unasked[i] = was_unasked; unasked_of[i] = was_unasked_of;
	granted[i] = was_granted; granted_of[i] = was_granted_of; granted_on[i] = was_granted_on
#else
	skip
#endif
}

inline say(i)
{
	changed = changed || ready[i] != READY(i) || busy[i] == RESTS(i);
	ready[i] = READY(i);
	busy[i] = !RESTS(i)
}

inline claim(i)
{
	changed = changed || runs[i] != CLAIM(i) || busy[i] == RESTS(i);
	runs[i] = CLAIM(i);
	busy[i] = !RESTS(i)
}

inline decide(i)
{
	home_of[i] = board_home;
	remember(i);
	if
	:: RESTS(i)
	:: else ->
		bar(i);
		if
		:: !(RUNS(i) & (3 - HOME_BITS)) && MAY_LET(i) -> grant(i); lift(i)
		:: else
		fi
	fi
}

inline enter(i)
{
	if
	:: MAY_ENTER(i) ->
		changed = changed || !(runs[i] & 1);
		runs[i] = runs[i] | 1;
		shut[i] = false
	:: else
	fi
}

/* The board was put down in between. */
inline opens(i)
{
	if
	:: shut[i] && ODD(bar_no[i]) && heard[i] -> shut[i] = false
	:: shut[i] && !(ODD(bar_no[i]) && heard[i]) && !BOARD_IS_BUSY -> enter(i)
	:: else
	fi
}
inline board_step(i)
{
	if
	:: !LIVES(i) || bar_no[i] >= BARS
	:: else ->
		changed = false;
		say(i);
		may_die(i);
		if
		:: !dead[i] && BOARD_IS_BUSY -> choose_of_all(); may_die(i)
		:: else
		fi;
		if
		:: dead[i]
		:: else ->
			decide(i);
			may_die(i);
			if
			:: dead[i] -> unsaid(i)
			:: else ->
				claim(i);
				forget(i);
				opens(i);
				due[1 - (i)] = due[1 - (i)] || (changed && LIVES(1 - (i)))
			fi
		fi;
		changed = false
	fi;
	was_bar = 0; was_heard = false; was_unasked = false; was_unasked_of = 0; was_granted = false;
	was_granted_of = 0; was_granted_on = 0
}

/* Nothing of its connection matters any more. */
inline bury(i)
{
	stage[i] = IDLE; shown_on[i] = 0; nic[i] = 0; posts[i] = 0; posted[i] = false; waits[i] = false; gone[i] = false;
	carrier[i] = 0; on[i] = 0; bar_seen[i] = 0; free_of[i] = 0; used[i] = false; used_of[i] = 0; has_right[i] = false;
	right_of[i] = 0; epoch[i] = 0; path[i] = 0; quiesced[i] = 0; bar_no[i] = 0; heard[i] = false; unasked[i] = false;
	unasked_of[i] = 0; user[i] = false; wants[i] = false; wants_of[i] = 0; granted[i] = false; granted_of[i] = 0;
	granted_on[i] = 0; home_of[i] = 0
}

inline clear(i)
{
	taken[i] = false; runs[i] = 0; ready[i] = 0; busy[i] = false;
	due[1 - (i)] = true
}

/* Soon. */
#define STEP(i) due[i] = LIVES(i)
#else
#define STEP(i) step()

/* At once, whenever something has changed for the responder. */
inline step()
{
	if
	:: AT_REST || bar_no[0] >= BARS || bar_no[1] >= BARS
	:: else ->
		choose();
		bar(0);
		bar(1);
		if
		:: IS_CLEAR -> grant(0); grant(1); lift(0); lift(1)
		:: else
		fi
	fi;
	forget(0);
	forget(1)
}
#endif

#ifdef W_USE_FORGOTTEN
#define SAYS_USED(u) false
#else
#define SAYS_USED(u) (u)
#endif

inline heard_by_responder(i, b, u, uo, w, wo)
{
	if
	:: b == bar_no[i] ->
		heard[i] = true;
		if
		:: ODD(b) && SAYS_USED(u) -> unasked[i] = true; unasked_of[i] = uo
		:: else
		fi
	:: else
	fi;
	user[i] = user[i] || u || w;
	wants[i] = w;
	wants_of[i] = (w -> wo : 0);
	STEP(i)
}

#define DRAINED(i, p) (user[i] && (HOME(i) || ODD(bar_no[i])) && (p) != HOME(i))

/* ---- moves */

#define SETTLED(i) (epoch[i] == quiesced[i] && carrier[i] == epoch[i])
#define TO(i) (1 - path[i])
#define BETTER(i) ((DRAINED(i, path[i]) || path[i] == 1) && !DRAINED(i, TO(i)) && !IS_DOWN(i, TO(i)))

inline leave(i)
{
	epoch[i]++;
	path[i] = TO(i);
	STEP(i)
}

#define other (1 - i)

proctype Conn(bit i)
{
	end:
	do
	/* The application, and the NICs. */
	:: d_step { posts[i] < POSTS && stage[i] == IDLE && !gone[i] && !waits[i] && TAKES_ATOMICS(i) ->
		posted[i] = true;
		if
		:: MAY(i) -> posts[i]++; stage[i] = SHOWN; shown_on[i] = carrier[i]; nic[i] = on[i]
		:: else -> waits[i] = true
		fi }
	:: d_step { stage[i] == SHOWN && shown_on[i] >= quiesced[i] && !(stage[other] == READ && nic[other] == nic[i]) ->
		PROMISE(6, stage[other] != READ);
		stage[i] = READ }
	:: d_step { stage[i] == READ -> stage[i] = IDLE; shown_on[i] = 0; nic[i] = 0 }
	/* Moves. */
	:: atomic { LIVES(i) && IS_DOWN(i, path[i]) && !IS_DOWN(i, TO(i)) && SETTLED(i) && epoch[i] < EPOCHS -> leave(i) }
	:: atomic { LIVES(i) && !IS_DOWN(i, path[i]) && BETTER(i) && SETTLED(i) && stage[i] == IDLE && epoch[i] < EPOCHS ->
		gone[i] = true;
		leave(i) }
	:: d_step { carrier[i] != epoch[i] && !gone[i] -> gone[i] = true }
	:: atomic { LIVES(i) && quiesced[i] != epoch[i] ->
		if
		:: stage[i] == SHOWN -> posts[i]-- /* it never ran, and is laid again */
		:: else
		fi;
		stage[i] = IDLE; shown_on[i] = 0; nic[i] = 0;
		quiesced[i] = epoch[i];
		STEP(i) }
	:: atomic { carrier[i] != epoch[i] && gone[i] && quiesced[i] == epoch[i] ->
		keep_what_requester_said(i);
		if
		:: stage[i] == SHOWN -> /* to the old one, behind its quiesce */
			posts[i]--; stage[i] = IDLE; shown_on[i] = 0; nic[i] = 0
		:: else
		fi;
		carrier[i] = epoch[i];
		on[i] = path[i];
		gone[i] = false;
		waits[i] = false;
		RIGHT_ENDS(i);
		takes(i) }
	/* Messages. */
	:: atomic { bar_no[i] > bar_seen[i] || (granted[i] && IS_OF(i, granted_of[i]) &&
						!(has_right[i] && right_of[i] == granted_of[i])) ->
		heard_by_requester(i, bar_no[i], granted[i], granted_of[i]) }
	:: atomic { LIVES(i) && ((bar_seen[i] == bar_no[i] && !heard[i] && bar_no[i]) || wants[i] != SAYS_WANTS(i) ||
		    (wants[i] && wants_of[i] != carrier[i])) ->
		heard_by_responder(i, bar_seen[i], used[i], used_of[i], SAYS_WANTS(i), carrier[i]) }
	:: atomic { old_r[i] ->
		heard_by_requester(i, old_bar[i], old_granted[i], old_granted_of[i]);
		old_r[i] = false; old_bar[i] = 0; old_granted[i] = false; old_granted_of[i] = 0 }
	:: atomic { old_u[i] && LIVES(i) ->
		heard_by_responder(i, old_seen[i], old_used[i], old_used_of[i], old_wants[i], old_wants_of[i]);
		old_u[i] = false; old_seen[i] = 0; old_used[i] = false; old_used_of[i] = 0;
		old_wants[i] = false; old_wants_of[i] = 0 }
#ifdef PROCESSES
	/* Its process: hears of the board, ends, and its queue pair is closed; the other one sees that. */
	:: atomic { due[i] && LIVES(i) -> due[i] = false; board_step(i) }
	:: d_step { LIVES(i) && deaths < DEATHS -> deaths++; dead[i] = true; due[i] = false }
	:: d_step { dead[i] && !closed[i] ->
		closed[i] = true;
		bury(i) }
	:: d_step { taken[i] && IS_OUT(i) && LIVES(other) -> clear(i) }
#ifdef NEWCOMER
	:: atomic { i == 1 && !taken[i] && !dead[i] ->
		taken[i] = true; ready[i] = 3; changed = false; enter(i);
		due[other] = due[other] || changed; changed = false; due[i] = true }
#endif
#endif
	od
}

#ifdef PROCESSES
#define IS_WELL(i) (!taken[i] || (path[i] == 0 && carrier[i] == epoch[i] && !waits[i] && !ODD(bar_no[i]) && !shut[i] && \
				  home_of[i] == 0))
#else
#define IS_WELL(i) (path[i] == 0 && carrier[i] == epoch[i] && !waits[i] && !ODD(bar_no[i]) && home == 0)
#endif
#define IS_SPENT (epoch[0] == EPOCHS || epoch[1] == EPOCHS || bar_no[0] >= BARS || bar_no[1] >= BARS)

init
{
	atomic {
#ifdef PROCESSES
		taken[0] = true; ready[0] = 3; runs[0] = 1;
#ifdef NEWCOMER
		shut[1] = true;
#else
		taken[1] = true; ready[1] = 3; runs[1] = 1;
#endif
#endif
		run Conn(0); run Conn(1) }
	do
	/* The first fault is of connection 0: they are alike. */
	:: atomic { faults < FAULTS && !down[0] && !down[1] ->
		faults++;
		if
		:: down[0] = true
		:: down[1] = true
		fi;
		STEP(0) }
	:: atomic { faults < FAULTS && faults && !down[2] && !down[3] ->
		faults++;
		if
		:: down[2] = true
		:: down[3] = true
		fi;
		STEP(1) }
#ifndef NO_HEALS
	:: atomic { down[0] || down[1] -> down[0] = false; down[1] = false; STEP(0) }
	:: atomic { down[2] || down[3] -> down[2] = false; down[3] = false; STEP(1) }
#endif
	:: timeout -> break
	od;
	PROMISE(7, IS_SPENT || (IS_WELL(0) && IS_WELL(1)))
}
