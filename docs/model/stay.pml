/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waiting out a flap (shiftlib/core/stay.c), for spin; tests/model/run_model.py runs it, and its wrong variants.
 *
 * The world. Two sides that are alike, one path that fails and comes back, one atomic of each side, posted at any
 * moment at which sends are not withheld. It runs, and is answered, while the path is up and neither side has
 * left; who leaves takes its queue pair to ERR, and so no answer comes any more. Each side sees the path fail and
 * come back late, or never sees it. What a side says arrives at any time, any number of times or never; so does
 * one thing that it said before, whichever.
 *
 * Not modelled: the standby (it is always ready), what the move does, the ordered switch, time: no QP's retries
 * are spent, and 10 s are long.
 *
 * P9 (8 here): who leaves because both said GO destroys no answer. P7: when nothing can happen any more, nobody waits.
 *
 *	begin, join, over, back		stay.c stay_ask_peer, stay_message_newer, stay_end, stay_go_back
 *	look				sc_stay_looked
 *	heard				sc_stay_message, stay_message_newer, stay_message_equal
 *	leave				sc_stay_advance, where both said GO
 */
#ifndef FLAPS
#define FLAPS 2
#endif
#define NUMBERS 5 /* none higher is used */
#ifndef CHECK_ONLY
#define CHECK_ONLY 1023
#endif
#define PROMISE(n, x) assert(!(n) || !(CHECK_ONLY & (1 << (n))) || (x))

#define NONE 0
#define WAIT 1
#define GO 2
#define BACK 3
#define OVER 4
#define STAYING(s) (phase[s] == WAIT || phase[s] == GO || phase[s] == BACK)

/* An atomic: posted, ran, answered. */
#define UNPOSTED 0
#define POSTED 1
#define RAN 2
#define ANSWERED 3
#define IS_OUT(s) (atomic_[s] == POSTED || atomic_[s] == RAN)

#define peer (1 - s)

byte phase[2], no[2], atomic_[2];
bool wished[2], peer_goes[2], left[2], sees_down[2];
bool doubts[2]; /* `suspect`: it would rather leave */
byte old_phase[2], old_no[2];
bool fresh[2]; /* the peer's word may change something here */
bool down;
byte flaps;

/* What was said before may arrive for as long as it likes. */
inline said(s)
{
	fresh[0] = true;
	fresh[1] = true
}

inline keep_old(s)
{
	if
	:: old_phase[s] = phase[s]; old_no[s] = no[s]
	:: true
	fi
}

inline begin(s, n, own)
{
	keep_old(s);
	phase[s] = WAIT;
	no[s] = n;
	wished[s] = own;
	peer_goes[s] = false;
	said(s)
}

inline over(s)
{
	keep_old(s);
	phase[s] = OVER;
	doubts[s] = doubts[s] || wished[s];
	wished[s] = false;
	said(s)
}

inline newer(s, p, n)
{
	if
	:: STAYING(s) && ((p != WAIT && p != GO) || phase[s] == BACK) -> over(s)
	:: else
	fi;
	if
	:: STAYING(s) -> begin(s, n, wished[s])
	:: !STAYING(s) && (p == WAIT || p == GO) -> begin(s, n, false)
	:: else -> keep_old(s); no[s] = n; phase[s] = OVER; said(s)
	fi
}

inline equal(s, p)
{
	if
	:: p == GO && !peer_goes[s] -> peer_goes[s] = true; said(s)
	:: p == BACK || p == OVER -> over(s)
	:: else
	fi
}

#ifdef W_ANY_NUMBER
#define IS_OURS(s, n) true
#else
#define IS_OURS(s, n) (n == no[s])
#endif

inline heard(s, p, n)
{
	if
	:: p != NONE && n > no[s] -> newer(s, p, n)
	:: else
	fi;
	if
	:: p != NONE && STAYING(s) && IS_OURS(s, n) -> equal(s, p)
	:: else
	fi
}

#ifdef W_WITHOUT_GO
#define MAY_LEAVE(s) (phase[s] == GO)
#else
#define MAY_LEAVE(s) (phase[s] == GO && peer_goes[s])
#endif
#ifdef W_OPEN
#define IS_WITHHELD(s) left[s]
#else
#define IS_WITHHELD(s) (STAYING(s) || left[s])
#endif

proctype Side(bit s)
{
	end:
	do
	:: d_step { atomic_[s] == UNPOSTED && !IS_WITHHELD(s) -> atomic_[s] = POSTED }
	:: d_step { atomic_[s] == POSTED && !down && !left[0] && !left[1] -> atomic_[s] = RAN }
	:: d_step { atomic_[s] == RAN && !down && !left[0] && !left[1] ->
		atomic_[s] = ANSWERED; fresh[s] = true }
	/* It sees what the path does, and would leave. */
	:: d_step { down && !sees_down[s] && !left[s] ->
		sees_down[s] = true;
		if
		:: STAYING(s) && phase[s] != BACK -> wished[s] = true
		:: else -> doubts[s] = true
		fi }
	:: d_step { !down && sees_down[s] -> sees_down[s] = false; doubts[s] = false }
	:: atomic { doubts[s] && !left[s] && !STAYING(s) && no[s] < NUMBERS ->
		doubts[s] = false;
		begin(s, no[s] + 1, true) }
	:: atomic { phase[s] == WAIT && !left[s] && !IS_OUT(s) -> keep_old(s); phase[s] = GO; said(s) }
	/* Back. */
	:: atomic { phase[s] == WAIT && wished[s] && !sees_down[s] && !left[s] -> wished[s] = false; over(s) }
	:: atomic { phase[s] == GO && wished[s] && !sees_down[s] && !left[s] ->
		wished[s] = false;
#ifdef W_BACK_ALONE
		over(s) }
#else
		keep_old(s);
		phase[s] = BACK;
		said(s) }
#endif
	:: d_step { wished[s] && MAY_LEAVE(s) && !left[s] && !left[peer] ->
		left[s] = true;
		PROMISE(8, atomic_[0] != RAN && atomic_[1] != RAN);
		said(s) }
	/* The peer's word. */
	:: d_step { left[peer] && !left[s] -> left[s] = true }
	:: atomic { fresh[s] && !left[s] && !left[peer] ->
		fresh[s] = false;
		heard(s, phase[peer], no[peer]) }
	:: atomic { !left[s] && old_phase[peer] != NONE ->
		heard(s, old_phase[peer], old_no[peer]);
		old_phase[peer] = NONE }
	od
}

init
{
	atomic { run Side(0); run Side(1) }
	do
	:: d_step { !down && flaps < FLAPS -> down = true; flaps++ }
	:: d_step { down -> down = false }
	:: timeout -> break
	od;
	PROMISE(7, left[0] == left[1]);
	PROMISE(7, left[0] || (!STAYING(0) && !STAYING(1)) || no[0] >= NUMBERS || no[1] >= NUMBERS);
	PROMISE(7, left[0] || (!IS_OUT(0) && !IS_OUT(1)))
}
