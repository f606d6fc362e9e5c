/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The protocol of one connection, for spin: two sides, two paths, faults, late packets.
 * tests/model/run_model.py runs it in several configurations and in its wrong variants.
 *
 * The world. Two sides, the leader and the follower, and two paths. Each side posts up to three
 * requests and its receives when it likes, also in mid-move. Carriers have numbers and paths, and a
 * QP at each end that is RTS, in ERR, or on a NIC that hangs. Only fresh QPNs make a packet belong to
 * one carrier.
 * - Faults. A path dies, at any moment, and with it the carriers made on it; it may come back, they
 *   may not have noticed, one side may notice long before the other. A NIC hangs: it cannot be
 *   quiesced, and its responder goes on with whatever still arrives.
 * - Late packets. Any request that was rung on a carrier may arrive at its responder at any later
 *   time, until that QP is in ERR; on a hanging NIC until the longest packet lifetime after the
 *   sender's QP went to ERR. An acknowledgement may come late or never.
 * - Messages. What a side says now may arrive at any time, any number of times, or never. The newest
 *   LATE messages that it said before may too: so messages are lost, doubled, late, and cross.
 *   STANDBY is kept as the highest phase ever told, FAILED beside it.
 * - Time. There is none: timers may fire at any moment at which their deadline could have come.
 * - Calm may begin at any moment. Before it everything may happen. From then on nothing fails; what
 *   the core repeats arrives, if a path is up, and nothing else does; deadlines come only when
 *   nothing else can happen any more. Every step changes the state and none leads back, so that
 *   each run ends, and what it ends in is judged in judge(): that is P7.
 *
 * Not modelled:
 * - Time, and with it hold-down, backoffs, heartbeats, detection: a fault is noticed whenever it is.
 * - SRQs, shared completion queues, more than two paths (and so the choice among backups), more than
 *   one connection, fenced READs, RNR retries that run out; requests of more than one packet but with
 *   EXACT, where a WRITE has two.
 * - Keys that are not known yet (LAY_RECEIVES and SETTLE tried again), and the window between SETTLE
 *   and its answer: the core keeps a fault of that window until it is over.
 * - A NIC that acknowledges and dies before the receive completion is in memory: the count is then
 *   out of range and both ends get errors; the simulation does that. Here nothing excuses an
 *   impossible count (MISCOUNT): it is an error of the model. With LOSES a NIC that hangs may lose the
 *   WRITEs that it acknowledged behind the last SEND or READ; what is acknowledged is seen complete here.
 * - Ends by the application (errors, destroy) and CLOSED, a peer process that died, MSG_UNKNOWN: one
 *   end for all reasons (FATAL).
 * - Masks of paths and their numbers: a side knows which paths are up when it asks. A standby on a
 *   path that dies meanwhile is the same as one chosen in ignorance. `suspect` (a port went down, the
 *   standby is not ready yet) is a fault that is noticed later. A standby that is not READY is not
 *   replaced by one on a better path.
 * - Late STANDBY messages of an epoch before the slot's: the core ignores them but where a follower
 *   adopts an old number and drops it again for the newer one.
 *
 * The protocol has one property that the model rests on and does not show: a side that is STRANDED
 * has lost an epoch above 0 (it was protected, and that standby is gone), as STATE tells of a lost
 * carrier only by `lost` not being 0.
 *
 * EXACT: a side asks for the number of packets that the peer's responder has taken on the carrier that its
 * requests lie in (exact.c): request n has the numbers 2 n and, if it has a second packet, 2 n + 1; they
 * do not wrap here. Who is asked knows at once what is wanted, and answers late, or that he does not know.
 * A side that never tells is the same as one that does not know. No NIC lies about it.
 *
 * Known wrong variants that are harmless, so that there is nothing to catch: FENCED without the whole
 * state (a side that is fenced has settled and been answered before: its count was heard; that it has
 * left is told by the epoch); and going back after FENCED as far as P2 is concerned (every leave
 * quiesces, counts and settles, also one out of a fence; what breaks is that an ordered switch
 * repeats nothing).
 *
 * Rules here, and functions of the core (shiftlib/core/) that they stand for:
 *
 *	transition_*				the functions of that name; transition_any_to_none (of a
 *						standby, at the end) is in move_end
 *	NOTICED(epoch) of Side, leave_or_strand	move.c sc_move_fault, move_begin_or_strand
 *	NOTICED(sb_epoch), sb_drop		standby.c sc_standby_lost, standby_give_up,
 *						standby_drop
 *	move_begin, move_strand			move.c sc_move_begin, sc_move_strand
 *	M_STRANDED && READY_BOTH		move.c sc_move_advance
 *	quiesce, take_count			SC_ACT_QUIESCE by the engine; sc_move_quiesced,
 *						move_lay_receives
 *	lifetime_over				move_begin_counting, move_take_recount,
 *						move_recount: the wait and both recounts in one step
 *	exact_ask, exact_hear, exact_bound	exact.c advance, heard; settle.c exact_of
 *	lay					SC_ACT_LAY_RECEIVES; sc_move_laid
 *	move_settled, find_bound,		settle.c sc_settle; SC_ACT_SETTLE; move.c
 *	mark_delivered				move_begin_settling, sc_move_settled, move_arrive
 *	STATE_OF, says				message.c state_fill, sc_state_send
 *	STATE_WANTED, STATE_COMES		message.c state_is_wanted, sc_state_timer; the answers
 *						to `ask`
 *	state_message, move_message		sc_state_message, end.c sc_end_peer, move.c
 *						sc_move_message
 *	message_equal, _higher, _lost		move.c move_message_equal, _higher, _lost
 *	switch_begin, _cancel, _deadline,	switch.c switch_begin, _cancel, _deadline and
 *	leave_if_both				_deadline_fenced, switch_move_if_both
 *	CAN_BEGIN, SWITCH_WANTED,		switch.c switch_can_begin, switch_wanted,
 *	"the ordered switch"			sc_switch_advance
 *	SW_PREP options of Side			switch.c sc_switch_laid, sc_switch_fenced
 *	message_asks, message_cancels,		switch.c switch_message_asks, _cancels,
 *	switch_message				sc_switch_message
 *	switch_standby_gone, switch_forget,	switch.c sc_switch_standby_gone, sc_switch_forget,
 *	send_state_of_path			switch_set_send_state
 *	"the leader's choice", next_number	standby.c sc_standby_choose, standby_next_number;
 *						paths.c sc_paths_choose
 *	"the leader's is newer", sb_start	standby.c standby_adopt, standby_start
 *	SB_PEER_SAYS, sb_connect_if_possible	standby.c standby_record, standby_take_phase,
 *						standby_try_connect
 *	move_end				end.c end_connection
 *	World, deadlines in calm		sc_move_timer, sc_switch_timer
 */

#ifndef FAULTS
#define FAULTS 1 /* how often a path or a NIC dies */
#endif
#ifndef SICK
#define SICK 0 /* how many of them are a NIC that hangs: it cannot be quiesced */
#endif
/* LOSES: it loses WRITEs that it has acknowledged, and executes nothing more */
#ifndef LATE
#define LATE 1 /* that many STATE messages before the current one may still arrive */
#endif
#ifndef EARLY
#define EARLY 0 /* so many moves are given up though there was a way: a deadline in the faults */
#endif
#ifndef ORDERED
#define ORDERED 0 /* attempts at an ordered switch before calm; 0: none at all */
#endif
#ifndef DRAIN
#define DRAIN 0 /* the operator wants path 0 empty */
#endif
#ifndef START_PATH
#define START_PATH 0 /* that epoch 0 is on */
#endif
#ifndef PROTECTED
#define PROTECTED 1 /* a standby is READY at both when it begins; 0: the first one is lost */
#endif
#ifndef HEALS
#define HEALS 1 /* a path comes back so often before calm */
#endif

#define SEND 1
#define WRITE 2
#define READ 3
#define ATOMIC 4

/* What each side posts, in order, and how many receives are there from the start. */
#ifndef A0
#define A0 WRITE
#endif
#ifndef A1
#define A1 SEND
#endif
#ifndef A2
#define A2 0
#endif
#ifndef B0
#define B0 SEND
#endif
#ifndef B1
#define B1 0
#endif
#ifndef RECV_A
#define RECV_A 1
#endif
#ifndef RECV_B
#define RECV_B 1
#endif
#define NUM_A ((A0 != 0) + (A1 != 0) + (A2 != 0))
#define NUM_B ((B0 != 0) + (B1 != 0))
#define NUM(s) ((s) == 0 -> NUM_A : NUM_B)
#ifdef ANY_KINDS /* instead of A0, A1 and B0: all there are */
byte kind_a[3], kind_b[2];
#define KA(i) kind_a[i]
#define KB(i) kind_b[i]
#define KIND(s, i) ((s) == 0 -> kind_a[i] : kind_b[i])
#else
#define KA(i) ((i) == 0 -> A0 : ((i) == 1 -> A1 : A2))
#define KB(i) ((i) == 0 -> B0 : B1)
#define KIND(s, i) ((s) == 0 -> KA(i) : KB(i))
#endif
/* How many of the requests 0..i-1 of side s are two-sided. */
#define RANK_A(i) \
	(((i) > 0 && KA(0) == SEND) + ((i) > 1 && KA(1) == SEND) + ((i) > 2 && KA(2) == SEND))
#define RANK_B(i) (((i) > 0 && KB(0) == SEND) + ((i) > 1 && KB(1) == SEND))
#define RANK(s, i) ((s) == 0 -> RANK_A(i) : RANK_B(i))
#define RECV(s) ((s) == 0 -> RANK_B(2) : RANK_A(3))
#define RECV_FIRST(s) ((s) == 0 -> RECV_A : RECV_B)

/* The number is what a failure prints, and what tests/model/run_model.py looks for. A wrong variant
 * checks only the promise that its rule is there for, so that the harm itself is found and not a sign
 * of it. */
#ifndef CHECK_ONLY
#define CHECK_ONLY 1023
#endif
#define PROMISE(n, x) assert(!(n) || !(CHECK_ONLY & (1 << (n))) || (x))

#define peer (1 - s)
#define BIT(e) (1 << (e))
#define LEADER 0
#define EPOCHS 8
#define NOWHERE 7 /* above every epoch in use: all carriers are in ERR */

/* enum sc_send_state, sc_recv_state */
#define S_DEFAULT 0
#define S_FALLBACK 1
#define S_WAIT_SIGNALED 2
#define S_WAIT_DRAINED 3
/* enum sc_move_phase; SETTLING takes no time here, see move_settled() */
#define M_NONE 0
#define M_QUIESCING 1
#define M_COUNTING 2
#define M_LAYING 3
#define M_AWAITING_COUNT 4
#define M_SETTLING 5
#define M_STRANDED 6
#define M_ENDED 7
/* enum sc_standby_phase */
#define SB_NONE 0
#define SB_MAKING 1
#define SB_MADE 2
#define SB_CONNECTING 3
#define SB_READY 4
#define SB_FAILED 5
/* enum sc_switch_phase */
#define SW_NONE 0
#define SW_PREP 1
#define SW_FENCED 2
#define SW_CANCEL 3

/* ---- state: one side each, [s] -------------------------------------------------------------- */

byte move[2], snd[2], rcv[2];
byte epoch[2]; /* in use; during a move: the one to come */
byte lost[2];  /* highest epoch whose carrier is lost here, as told to the peer */
bool final[2]; /* own count is final: count[] */
byte count[2];
bool p_final[2], p_quiet[2]; /* what the peer said for the epoch under way */
byte p_count[2];
byte p_lost; /* as the leader heard it: for the next number */

byte sb[2], sb_epoch[2], sb_peer[2]; /* own phase, the number, the peer's phase as heard */
byte sb_said[2];		     /* highest phase that was told for sb_epoch: may come late */

byte sw[2], sw_no[2], sw_target[2];
bool sw_peer[2];    /* the peer is FENCED */
bool sw_atomics[2]; /* atomics are outstanding before the fence */

/* ---- state: carriers and requests ----------------------------------------------------------- */

byte path_of[EPOCHS];
byte err[2];  /* own QPs of epochs below are in ERR, but sick ones */
byte seal[2]; /* what carriers below still complete is dropped */
byte sick[2]; /* set of own carriers whose NIC hangs */
byte gone[2]; /* packets sent on carriers below have left the network */
byte hurt;    /* set of carriers whose path died once */

byte posted[2], public[2], done[2]; /* requests: written, rung, completed to the application */
byte act[2], old[2];		    /* carrier that requests are in; the one before */
byte expected[2], old_expected[2];	    /* what the peer's responder expects there */
byte old_end[2];		    /* what was rung on the old one ends here; 0: all dead */
byte nop[2];			    /* set of requests that became NOPs in the new ring */

byte r_posted[2]; /* receives */
byte consumed[2]; /* SENDs executed here, over all carriers */
byte laid[2];	  /* newest carrier with receives */
byte r_head[2];	  /* next receive in its ring */
byte written[2];  /* set of requests of that side whose WRITE is in the memory here */
byte atomics[2];  /* set of those whose ATOMIC was executed */

/* ---- state: the world ----------------------------------------------------------------------- */

bool up[2];
byte faults, heals, sicks, earlies;
bool calm, over, no_way;
bool excused[2]; /* ended for a reason that the design names */
int says[2]; /* STATE of each side, as it is sent at any time */
int late[4];	 /* [2 * s + k]: STATE messages of s, older than the current one; 0: none */

/* Scratch, not part of the state. */
hidden byte i, m_epoch, m_stage, m_lost, m_phase, m_no, m_target, m_count, bound;
hidden byte m_stranded, m_fatal, unknown;
hidden int msg;

#ifdef LOSES
byte dead[2];	/* own carriers below were counted on a NIC that hangs */
byte p_dead[2]; /* as the peer said, with its count */
byte from[2];	/* the first request that was laid into the carrier in use */
bool doubt[2];	/* only WRITEs may run */
hidden byte m_dead;
#define DEAD_TOLD(s) (dead[s] << 21)
#define DIES(s, e) SICK_AT(s, e)
#define DOUBTED(s) doubt[s]
#else
#define DEAD_TOLD(s) 0
#define DIES(s, e) false
#define DOUBTED(s) false
#endif
#ifdef EXACT
#define X_LATER 0
#define X_TOLD 1
#define X_UNKNOWN 2
byte part[2], old_part[2];  /* packets of the request that is expected, taken: 0 or 1 */
byte x[2], x_of[2], x_n[2]; /* what is told of a carrier of the peer's; X_LATER: nothing yet */
byte p_x[2], p_x_n[2];	    /* what the peer has told */
hidden byte m_x, m_x_of, m_x_n;
/* 2 bits do for the carrier: of the four that may be meant only one is there */
#define EXACT_TOLD(s) \
	(final[s] -> ((x[s] << 24) + ((x[s] == X_TOLD -> x_n[s] : 0) << 26) + ((x_of[s] & 3) << 29)) : 0)
#define PACKETS(s, n) (KIND(s, n) == WRITE -> 2 : 1)
#define TAKEN(s) (2 * expected[s] + part[s])
#else
#define EXACT_TOLD(s) 0
#define PACKETS(s, n) 1
#endif
#ifdef W_COUNT_PER_CARRIER
byte c_base[2], s_base[2];
#endif
#ifdef W_SAME_QPN
byte psn[2]; /* of the newest carrier at that responder */
#endif
#ifdef W_LEFTOVERS
byte left_at[4]; /* [2 * s + path]: head of the receive ring when that path was left, + 1 */
#endif
#ifdef W_RECEIVES_LATE
byte r_mark[2];
#endif
#if defined(W_NUMBER_AGAIN) || defined(W_EPOCH_AGAIN)
byte tries; /* with a number that serves twice they would never end */
#endif
#ifdef W_NO_RESEND
bool fresh[2]; /* the current message was sent in calm */
#endif

#define MOVING(s) (move[s] != M_NONE && move[s] != M_ENDED)
#ifdef W_EPOCH_AGAIN
#define MAY_CHOOSE (tries < 6)
#else
#define MAY_CHOOSE true
#endif
#define MAY_MAKE(s) (move[s] == M_NONE || move[s] == M_STRANDED)
#define SWITCHING(s) (sw[s] == SW_PREP || sw[s] == SW_FENCED)
#define SB_HERE(s) (sb[s] != SB_NONE && sb[s] != SB_FAILED)
#define READY_BOTH(s) (sb[s] == SB_READY && sb_peer[s] == SB_READY)
#define READY_FOR(s, e) (sb[s] == SB_READY && sb_epoch[s] == (e))
#define WITHHELD(s) (move[s] != M_NONE || snd[s] == S_WAIT_DRAINED)
#define OUTSTANDING(s) (done[s] < public[s])
#define SICK_AT(r, e) ((sick[r] & BIT(e)) != 0)
/* A packet of requester 1-r on carrier e can still be executed at r. */
#define ALIVE(r, e) (move[r] != M_ENDED && (e) >= gone[1 - (r)] && ((e) >= err[r] || SICK_AT(r, e)))
/* Completions of requests on carrier e still reach the application of s. */
#define COMPLETES(s, e) \
	(move[s] != M_ENDED && ((e) >= err[s] || (SICK_AT(s, e) && (e) >= seal[s])))
#define IS_ATOMIC_OUT(s) \
	((done[s] <= 0 && 0 < public[s] && KIND(s, 0) == ATOMIC) || \
	 (done[s] <= 1 && 1 < public[s] && KIND(s, 1) == ATOMIC) || \
	 (done[s] <= 2 && 2 < public[s] && s == 0 && KA(2) == ATOMIC))

/* ---- STATE, as an integer ------------------------------------------------------------------- */

/* Stages: 0 leaving, 1 leaving and quiesced, 2 there, 3 there with a final count. */
#ifdef W_RECEIVES_LATE
#define THERE(s) (move[s] == M_NONE || move[s] == M_AWAITING_COUNT || move[s] == M_LAYING)
#else
#define THERE(s) (move[s] == M_NONE || move[s] == M_AWAITING_COUNT)
#endif
#define STAGE(s) (THERE(s) * 2 + final[s])
#ifdef W_LOST_UNTOLD
#define LOST_TOLD(s) 0
#define STRANDED_TOLD(s) 0
#else
#define LOST_TOLD(s) lost[s]
#define STRANDED_TOLD(s) (move[s] == M_STRANDED)
#endif
#ifdef W_FATAL_UNTOLD
#define FATAL_TOLD(s) 0
#else
#define FATAL_TOLD(s) (move[s] == M_ENDED)
#endif
#define STATE_OF(s) \
	(1 + 2 * FATAL_TOLD(s) + (epoch[s] << 2) + (STAGE(s) << 5) + \
	 (STRANDED_TOLD(s) << 7) + (LOST_TOLD(s) << 8) + (sw[s] << 11) + (sw_no[s] << 13) + \
	 (sw_target[s] << 16) + ((final[s] -> count[s] : 0) << 19) + DEAD_TOLD(s) + \
	 EXACT_TOLD(s))

inline decode(m)
{
	m_fatal = (m >> 1) & 1;
	m_epoch = (m >> 2) & 7;
	m_stage = (m >> 5) & 3;
	m_stranded = (m >> 7) & 1;
	m_lost = (m >> 8) & 7;
	m_phase = (m >> 11) & 3;
	m_no = (m >> 13) & 7;
	m_target = (m >> 16) & 7;
#ifdef LOSES
	m_dead = (m >> 21) & 7;
#endif
#ifdef EXACT
	m_x = (m >> 24) & 3;
	m_x_n = (m >> 26) & 7;
	m_x_of = (m >> 29) & 3;
#endif
	m_count = (m >> 19) & 3
}

inline forget_late(s, k)
{
	/* a message that the core would ignore for ever */
	if
	:: late[2 * (s) + k] != 0 && ((late[2 * (s) + k] >> 2) & 7) < epoch[1 - (s)] &&
	   ((late[2 * (s) + k] >> 8) & 7) < epoch[1 - (s)] && !((late[2 * (s) + k] >> 1) & 1) ->
		late[2 * (s) + k] = 0
	:: else
	fi
}

/* Behind every step of a side: what it says from now on. What it said before may come late. */
inline said(s)
{
	msg = STATE_OF(s);
	if
	:: LATE > 0 && says[s] != msg && !calm ->
		if
		:: LATE > 1 -> late[2 * (s) + 1] = late[2 * (s)]
		:: else
		fi;
		late[2 * (s)] = says[s]
	:: else
	fi;
	if
	:: calm -> late[0] = 0; late[1] = 0; late[2] = 0; late[3] = 0
	:: else ->
#ifndef W_ANY_EPOCH
		forget_late(0, 0); forget_late(0, 1); forget_late(1, 0); forget_late(1, 1)
#endif
	fi;
#ifdef W_NO_RESEND
	if
	:: says[s] != msg && calm -> fresh[s] = true
	:: else
	fi;
#endif
	says[s] = msg;
	msg = 0
}

/* ---- transitions, named as in the core ------------------------------------------------------ */

inline transition_none_to_quiescing(s) { assert(move[s] == M_NONE); move[s] = M_QUIESCING }
inline transition_stranded_to_quiescing(s) { assert(move[s] == M_STRANDED); move[s] = M_QUIESCING }
inline transition_none_to_stranded(s) { assert(move[s] == M_NONE); move[s] = M_STRANDED }
inline transition_moving_to_stranded(s)
{
	assert(MOVING(s) && move[s] != M_STRANDED);
	move[s] = M_STRANDED
}
inline transition_quiescing_to_counting(s) { assert(move[s] == M_QUIESCING); move[s] = M_COUNTING }
inline transition_quiescing_to_laying(s) { assert(move[s] == M_QUIESCING); move[s] = M_LAYING }
inline transition_counting_to_laying(s) { assert(move[s] == M_COUNTING); move[s] = M_LAYING }
inline transition_laying_to_awaiting_count(s) { assert(move[s] == M_LAYING); move[s] = M_AWAITING_COUNT }
inline transition_awaiting_count_to_settling(s) { assert(move[s] == M_AWAITING_COUNT); move[s] = M_SETTLING }
inline transition_settling_to_none(s) { assert(move[s] == M_SETTLING); move[s] = M_NONE }
inline transition_any_to_ended(s) { assert(move[s] != M_ENDED); move[s] = M_ENDED }

inline transition_recv_default_to_fallback(s) { assert(rcv[s] == S_DEFAULT); rcv[s] = S_FALLBACK }
inline transition_recv_fallback_to_default(s) { assert(rcv[s] == S_FALLBACK); rcv[s] = S_DEFAULT }

inline transition_send_default_to_wait_signaled(s)
{
	assert(snd[s] == S_DEFAULT);
	snd[s] = S_WAIT_SIGNALED
}
inline transition_send_fallback_to_wait_signaled(s)
{
	assert(snd[s] == S_FALLBACK);
	snd[s] = S_WAIT_SIGNALED
}
inline transition_send_wait_signaled_to_wait_drained(s)
{
	assert(snd[s] == S_WAIT_SIGNALED);
	snd[s] = S_WAIT_DRAINED
}
inline transition_send_wait_signaled_to_default(s)
{
	assert(snd[s] == S_WAIT_SIGNALED);
	snd[s] = S_DEFAULT
}
inline transition_send_wait_signaled_to_fallback(s)
{
	assert(snd[s] == S_WAIT_SIGNALED);
	snd[s] = S_FALLBACK
}
inline transition_send_wait_drained_to_default(s)
{
	assert(snd[s] == S_WAIT_DRAINED);
	snd[s] = S_DEFAULT
}
inline transition_send_wait_drained_to_fallback(s)
{
	assert(snd[s] == S_WAIT_DRAINED);
	snd[s] = S_FALLBACK
}
inline transition_send_default_to_fallback(s) { assert(snd[s] == S_DEFAULT); snd[s] = S_FALLBACK }
inline transition_send_fallback_to_default(s) { assert(snd[s] == S_FALLBACK); snd[s] = S_DEFAULT }

inline transition_any_to_making(s) { assert(!SB_HERE(s)); sb[s] = SB_MAKING }
inline transition_making_to_made(s) { assert(sb[s] == SB_MAKING); sb[s] = SB_MADE }
inline transition_made_to_connecting(s) { assert(sb[s] == SB_MADE); sb[s] = SB_CONNECTING }
inline transition_connecting_to_ready(s) { assert(sb[s] == SB_CONNECTING); sb[s] = SB_READY }
inline transition_ready_to_none(s) { assert(sb[s] == SB_READY); sb[s] = SB_NONE }
inline transition_any_to_failed(s) { assert(sb[s] != SB_FAILED); sb[s] = SB_FAILED }

/* ---- core_switch.c -------------------------------------------------------------------------- */

/* Where traffic is now; path_in_use is that of the carrier in use. */
inline send_state_of_path(s, path_in_use)
{
	if
	:: snd[s] == S_DEFAULT && path_in_use != 0 ->
		transition_send_default_to_fallback(s)
	:: snd[s] == S_FALLBACK && path_in_use == 0 ->
		transition_send_fallback_to_default(s)
	:: snd[s] == S_WAIT_SIGNALED && path_in_use != 0 ->
		transition_send_wait_signaled_to_fallback(s)
	:: snd[s] == S_WAIT_SIGNALED && path_in_use == 0 ->
		transition_send_wait_signaled_to_default(s)
	:: snd[s] == S_WAIT_DRAINED && path_in_use != 0 ->
		transition_send_wait_drained_to_fallback(s)
	:: snd[s] == S_WAIT_DRAINED && path_in_use == 0 ->
		transition_send_wait_drained_to_default(s)
	:: else
	fi
}

inline sw_stop(s, phase)
{
	sw[s] = phase;
	sw_peer[s] = false;
	sw_atomics[s] = false
}

inline switch_begin(s, no)
{
	if
	:: snd[s] == S_DEFAULT -> transition_send_default_to_wait_signaled(s)
	:: else -> transition_send_fallback_to_wait_signaled(s)
	fi;
	sw[s] = SW_PREP;
	sw_no[s] = no;
	sw_target[s] = sb_epoch[s];
	sw_peer[s] = false;
	sw_atomics[s] = false
}

#ifdef W_NUMBER_AGAIN
#define TRIES(s) tries
#else
#define TRIES(s) sw_no[s]
#endif
#define CAN_BEGIN(s) (move[s] == M_NONE && !SWITCHING(s) && sb[s] == SB_READY)
#define EMPTY_WANTED(p) (DRAIN && (p) == 0)
#define SWITCH_WANTED(s) \
	((EMPTY_WANTED(path_of[epoch[s]]) && !EMPTY_WANTED(path_of[sb_epoch[s]])) || \
	 (path_of[sb_epoch[s]] < path_of[epoch[s]] && !EMPTY_WANTED(path_of[sb_epoch[s]])))

inline unfence(s)
{
	public[s] = posted[s]
}

inline switch_cancel(s)
{
	sw_stop(s, SW_CANCEL);
	send_state_of_path(s, path_of[epoch[s]]);
	unfence(s)
}

inline switch_standby_gone(s)
{
	if
	:: sw[s] == SW_PREP -> switch_cancel(s)
	:: else
	fi
}

inline switch_forget(s)
{
	sw_stop(s, SW_NONE)
}

/* ---- core_standby.c ------------------------------------------------------------------------- */

inline sb_drop(s)
{
	if
	:: SB_HERE(s) ->
		if
		:: sb_epoch[s] > lost[s] -> lost[s] = sb_epoch[s]
		:: else
		fi;
		transition_any_to_failed(s);
		switch_standby_gone(s)
	:: else
	fi
}

inline sb_start(s, e)
{
	transition_any_to_making(s);
	sb_epoch[s] = e;
	sb_peer[s] = SB_NONE;
	sb_said[s] = SB_MAKING;
#ifndef FINE
	transition_making_to_made(s);
	sb_said[s] = SB_MADE;
#endif
	skip
}

inline sb_connect(s)
{
	transition_made_to_connecting(s);
#ifndef FINE
	transition_connecting_to_ready(s);
	sb_said[s] = SB_READY;
#endif
	skip
}

inline sb_connect_if_possible(s)
{
	if
	:: sb[s] == SB_MADE && sb_peer[s] >= SB_MADE && sb_peer[s] != SB_FAILED -> sb_connect(s)
	:: else
	fi
}

/* ---- core_end.c ----------------------------------------------------------------------------- */

inline move_end(s)
{
	transition_any_to_ended(s);
	err[s] = NOWHERE;
	seal[s] = NOWHERE;
	sw_stop(s, SW_NONE);
	final[s] = false; count[s] = 0; p_final[s] = false; p_quiet[s] = false; p_count[s] = 0;
	sb[s] = SB_NONE; sb_peer[s] = SB_NONE; sb_said[s] = SB_NONE;
#ifdef EXACT
	x[s] = X_LATER; x_of[s] = 0; x_n[s] = 0; p_x[s] = X_LATER; p_x_n[s] = 0;
#endif
	sw_target[s] = 0
}

/* ---- core_move.c: leave, strand ------------------------------------------------------------- */

inline forget_last_move(s)
{
	final[s] = false;
	count[s] = 0;
	p_final[s] = false;
	p_quiet[s] = false;
#ifdef EXACT
	p_x[s] = X_LATER; p_x_n[s] = 0;
#endif
	p_count[s] = 0
}

inline move_begin(s)
{
	assert(sb[s] == SB_READY && sb_epoch[s] > epoch[s]);
	if
	:: move[s] == M_STRANDED -> transition_stranded_to_quiescing(s)
	:: else -> transition_none_to_quiescing(s)
	fi;
	switch_forget(s);
	epoch[s] = sb_epoch[s];
	forget_last_move(s);
	transition_ready_to_none(s);
	sb_peer[s] = SB_NONE;
	hurt = hurt & ~(BIT((epoch[0] < epoch[1] -> epoch[0] : epoch[1])) - 1)
}

inline move_strand(s)
{
	if
	:: move[s] != M_STRANDED ->
#ifdef W_NO_STRANDED
		move_end(s)
#else
		if
		:: move[s] == M_NONE -> transition_none_to_stranded(s)
		:: else -> transition_moving_to_stranded(s)
		fi;
		switch_forget(s);
		forget_last_move(s);
		if
		:: epoch[s] > lost[s] -> lost[s] = epoch[s]
		:: else
		fi
#endif
	:: else
	fi
}

inline leave_or_strand(s)
{
	if
	:: move[s] == M_NONE && READY_BOTH(s) -> move_begin(s)
	:: else -> move_strand(s)
	fi
}

/* ---- core_move.c: count, lay ---------------------------------------------------------------- */

inline take_count(s)
{
	final[s] = true;
#ifdef W_COUNT_PER_CARRIER
	count[s] = consumed[s] - c_base[s];
	c_base[s] = consumed[s];
#else
	count[s] = consumed[s];
#endif
#ifdef W_RECEIVES_LATE
	r_mark[s] = r_posted[s];
	laid[s] = epoch[s];
	r_head[s] = r_posted[s];
#endif
	seal[s] = epoch[s]
}

/* The peer's request that the responder here expects next on the old carrier is of no matter once
 * that carrier is dead. */
inline bury(s)
{
	if
	:: old_end[1 - (s)] != 0 && !ALIVE(s, old[1 - (s)]) ->
#ifdef EXACT
		old_part[1 - (s)] = 0;
#endif
		old_end[1 - (s)] = 0; old_expected[1 - (s)] = 0; old[1 - (s)] = 0
	:: else
	fi
}

/* SC_ACT_QUIESCE: the QPs of older carriers go to ERR and flush, but on a NIC that hangs. */
inline quiesce(s)
{
#ifdef W_LEFTOVERS
	left_at[2 * (s) + path_of[laid[s]]] = r_head[s] + 1;
#endif
#ifdef W_COUNT_EARLY
	take_count(s);
	transition_quiescing_to_laying(s)
#else
	err[s] = epoch[s];
	if
	:: (sick[s] & (BIT(epoch[s]) - 1) & ~(BIT(gone[1 - (s)]) - 1)) != 0 ->
		transition_quiescing_to_counting(s)
	:: else ->
		take_count(s);
		transition_quiescing_to_laying(s)
	fi;
	bury(s)
#endif
}

/* The longest packet lifetime has passed since the peer said that it is quiesced: so long after its
 * QPs went to ERR, nothing that they sent is on its way. A hanging NIC there would send on. */
inline lifetime_over(s)
{
#ifndef W_NO_LIFETIME
	if
	:: err[1 - (s)] >= epoch[s] && (sick[1 - (s)] & (BIT(epoch[s]) - 1)) == 0 ->
		gone[1 - (s)] = epoch[s]
	:: else
	fi;
#endif
	take_count(s);
#if defined(LOSES) && !defined(W_ACKED_IS_PLACED)
	dead[s] = epoch[s];
#endif
	transition_counting_to_laying(s);
	bury(s)
}

inline lay(s)
{
#ifdef W_RECEIVES_LATE
	if
	:: r_mark[s] == r_posted[s] -> r_head[s] = consumed[s]
	:: else
	fi;
#else
	laid[s] = epoch[s];
	r_head[s] = consumed[s];
#endif
#ifdef W_LEFTOVERS
	if
	:: left_at[2 * (s) + path_of[epoch[s]]] != 0 ->
		r_head[s] = left_at[2 * (s) + path_of[epoch[s]]] - 1
	:: else
	fi;
#endif
#ifdef W_SAME_QPN
	psn[s] = 0;
#endif
	transition_laying_to_awaiting_count(s)
}

/* ---- exact.c -------------------------------------------------------------------------------- */

#ifdef EXACT
#ifdef W_X_OTHER /* what was told of another carrier will do */
#define X_IS_OF(s, of) true
#define X_HAS(s, e) (x[s] != X_LATER)
#else
#define X_IS_OF(s, of) ((of) == (act[s] & 3))
#define X_HAS(s, e) (x[s] != X_LATER && x_of[s] == (e))
#endif
#ifdef W_X_EARLY /* before the carrier is quiesced */
#define X_MAY_ASK(s) (MOVING(s) && move[s] != M_STRANDED)
#else
#define X_MAY_ASK(s) final[s]
#endif
#ifdef W_X_SICK
#define X_ASKABLE(s, e) true
#else
#define X_ASKABLE(s, e) (!SICK_AT(s, e))
#endif
#define X_WANTED(s) \
	(epoch[1 - (s)] == epoch[s] && MOVING(1 - (s)) && move[1 - (s)] != M_STRANDED && \
	 act[1 - (s)] < epoch[s] && X_MAY_ASK(s) && !X_HAS(s, act[1 - (s)]))

inline exact_ask(s)
{
	x_of[s] = act[1 - (s)];
	if
	:: X_ASKABLE(s, act[1 - (s)]) -> x[s] = X_TOLD; x_n[s] = TAKEN(1 - (s))
	:: else -> x[s] = X_UNKNOWN; x_n[s] = 0
	fi
}

/* The NIC refuses, or does not answer in time. */
inline exact_refused(s)
{
	x_of[s] = act[1 - (s)]; x[s] = X_UNKNOWN; x_n[s] = 0
}

inline exact_hear(s)
{
	if
	:: m_x != X_LATER && p_x[s] == X_LATER && X_IS_OF(s, m_x_of) ->
		p_x[s] = m_x; p_x_n[s] = m_x_n
	:: else
	fi
}

#ifdef W_X_CUT
#define X_RAN(n) (((n) + 1) / 2)
#else
#define X_RAN(n) ((n) / 2)
#endif
#define IS_WRITTEN(s, n) ((written[s] & BIT(n)) != 0)
#define IS_ADDED(s, n) ((atomics[s] & BIT(n)) != 0)
/* X1, of request n: what is delivered ran, what is laid again did not, on this carrier; an atomic on none */
#define X_TRUE_OF(s, n) \
	((n) < done[s] || (n) >= public[s] || (nop[s] & BIT(n)) || \
	 ((n) < bound -> (KIND(s, n) != WRITE || IS_WRITTEN(s, n)) && \
			 (KIND(s, n) != ATOMIC || IS_ADDED(s, n)) : \
			 (n) >= expected[s] && (KIND(s, n) != ATOMIC || !IS_ADDED(s, n))))

/* The expected PSN in place of the count: it agrees with it, and says more. */
inline exact_bound(s)
{
	if
	:: p_x[s] == X_TOLD ->
		/* X2: of this carrier, which executes no more */
		PROMISE(8, p_x_n[s] == TAKEN(s));
		PROMISE(8, !ALIVE(1 - (s), act[s]));
		bound = X_RAN(p_x_n[s]);
		bound = (bound < done[s] -> done[s] : bound);
#ifndef LOSES
		PROMISE(8, RANK(s, bound) == m_count);
		PROMISE(8, X_TRUE_OF(s, 0) && X_TRUE_OF(s, 1) && X_TRUE_OF(s, 2));
#endif
		skip
	:: else
	fi
}

#define IS_ATOMIC_RUN(s, n) (done[s] <= (n) && (n) < public[s] && (n) < bound && KIND(s, n) == ATOMIC)
#ifdef W_X_ATOMIC_AGAIN
#define ATOMIC_RAN(s) false
#else
#define ATOMIC_RAN(s) (IS_ATOMIC_RUN(s, 0) || IS_ATOMIC_RUN(s, 1) || (s == 0 && IS_ATOMIC_RUN(s, 2)))
#endif
#endif

/* ---- settle.c, core_move.c: settle ---------------------------------------------------------- */

inline skip_nops(s)
{
	do
	:: expected[s] < public[s] && (nop[s] & BIT(expected[s])) -> expected[s] = expected[s] + 1
	:: else -> break
	od;
	skip
}

/* Requests before `bound` are delivered. */
inline find_bound(s, n)
{
	bound = done[s];
	i = done[s];
	do
	:: i < public[s] ->
		if
		:: KIND(s, i) == SEND && RANK(s, i) < (n) -> bound = i + 1
		:: else
		fi;
		i = i + 1
	:: else -> break
	od;
	skip
}

inline mark_delivered(s)
{
	nop[s] = 0;
	i = done[s];
	do
	:: i < bound ->
		if
#ifdef W_WRITE_AGAIN
		:: KIND(s, i) == WRITE
#endif
#ifdef W_X_ATOMIC_AGAIN
		:: KIND(s, i) == ATOMIC
#endif
#ifndef W_READ_NOP
		:: KIND(s, i) == READ
#endif
		:: else -> nop[s] = nop[s] | BIT(i)
		fi;
		i = i + 1
	:: else -> break
	od;
	skip
}

#ifdef LOSES
/* What the application saw complete last may be lost with the peer's NIC. */
inline judge_seen(s)
{
	if
	:: p_dead[s] > act[s] && done[s] > from[s] && KIND(s, done[s] - 1) == WRITE &&
	   m_count == RANK(s, done[s]) -> doubt[s] = true
	:: else
	fi
}
#define TELLS(s, n) \
	(done[s] <= (n) && (n) < posted[s] && KIND(s, n) != WRITE)
#define TELLS_OF_WRITES(s) (TELLS(s, 0) || TELLS(s, 1) || TELLS(s, 2))
#endif

/* SC_ACT_SETTLE and its answer: transition_awaiting_count_to_settling, transition_settling_to_none. A
 * fault that comes between them is kept by the core until it is over, so it takes no time here. */
inline move_settled(s)
{
	transition_awaiting_count_to_settling(s);
#ifdef W_COUNT_PER_CARRIER
	s_base[s] = s_base[s] + p_count[s];
	m_count = s_base[s];
#else
	m_count = p_count[s];
#endif
#ifdef W_NO_ANSWER
	if
	:: !p_final[s] -> m_count = RANK(s, done[s])
	:: else
	fi;
#endif
#ifndef NO_P5
	/* P5: on no older carrier can the peer execute anything of ours */
	PROMISE(5, !ALIVE(1 - (s), act[s]) && old_end[s] == 0);
#endif
	/* the core would end it with MISCOUNT; there is no cause for that in this world */
	PROMISE(7, m_count >= RANK(s, done[s]) && m_count <= RANK(s, public[s]));
	find_bound(s, m_count);
	unknown = IS_ATOMIC_OUT(s);
#ifdef W_ATOMIC_AGAIN
	unknown = false;
#endif
#ifdef EXACT
	exact_bound(s);
	unknown = (p_x[s] == X_TOLD -> ATOMIC_RAN(s) : unknown);
#endif
#ifdef LOSES
	judge_seen(s);
	unknown = unknown || (doubt[s] && TELLS_OF_WRITES(s));
#endif
	if
	:: unknown ->
		excused[s] = true;
		move_end(s)
	:: else ->
		mark_delivered(s);
		if
		:: ALIVE(1 - (s), act[s]) && expected[s] < public[s] ->
#ifdef EXACT
			old_part[s] = part[s];
#endif
			old[s] = act[s]; old_expected[s] = expected[s]; old_end[s] = public[s]
		:: else ->
#ifdef EXACT
			old_part[s] = 0;
#endif
			old[s] = 0; old_expected[s] = 0; old_end[s] = 0
		fi;
		act[s] = epoch[s];
#ifdef EXACT
		part[s] = 0;
		p_x[s] = X_LATER; p_x_n[s] = 0;
#endif
#ifdef LOSES
		from[s] = done[s];
#endif
		expected[s] = done[s];
		public[s] = posted[s];
		skip_nops(s);
		transition_settling_to_none(s);
#ifdef W_COUNT_EARLY
		err[s] = epoch[s];
#endif
		send_state_of_path(s, path_of[epoch[s]]);
		if
		:: path_of[epoch[s]] != 0 && rcv[s] == S_DEFAULT ->
			transition_recv_default_to_fallback(s)
		:: path_of[epoch[s]] == 0 && rcv[s] == S_FALLBACK ->
			transition_recv_fallback_to_default(s)
		:: else
		fi
	fi;
	bound = 0; i = 0; m_count = 0
}

/* A fence that does not complete in time; or FENCED, and the peer is not heard any more. */
inline switch_deadline(s)
{
	if
#ifdef W_BACK_AFTER_FENCED
	:: sw[s] == SW_FENCED -> switch_cancel(s)
#else
	:: sw[s] == SW_FENCED && READY_FOR(s, sw_target[s]) -> move_begin(s)
	:: sw[s] == SW_FENCED && !READY_FOR(s, sw_target[s]) -> move_strand(s)
#endif
	:: sw[s] == SW_PREP && sw_peer[s] && !sw_atomics[s] && snd[s] == S_WAIT_DRAINED &&
	   READY_FOR(s, sw_target[s]) -> move_begin(s)
	:: else -> switch_cancel(s)
	fi
}

/* ---- the peer's STATE ----------------------------------------------------------------------- */

inline leave_if_both(s)
{
	if
#ifdef W_LEAVE_ALONE
	:: sw[s] == SW_FENCED && READY_FOR(s, sw_target[s]) ->
#else
	:: sw[s] == SW_FENCED && sw_peer[s] && READY_FOR(s, sw_target[s]) ->
#endif
		/* nothing is outstanding at either end: nothing will be sent again */
		PROMISE(9, !OUTSTANDING(s));
		PROMISE(9, epoch[1 - (s)] >= sw_target[s] || !OUTSTANDING(1 - (s)));
		move_begin(s)
	:: else
	fi
}

inline message_asks(s)
{
	if
	:: m_no > sw_no[s] ->
		if
		:: SWITCHING(s) -> switch_cancel(s)
		:: else
		fi;
		if
		:: CAN_BEGIN(s) && m_target == sb_epoch[s] -> switch_begin(s, m_no)
		:: else ->
			sw_no[s] = m_no;
			sw[s] = SW_CANCEL
		fi
	:: else
	fi;
	if
	:: SWITCHING(s) && m_no == sw_no[s] ->
		if
		:: m_phase == SW_FENCED -> sw_peer[s] = true
		:: else
		fi;
		leave_if_both(s)
	:: else
	fi
}

inline message_cancels(s)
{
	if
	:: SWITCHING(s) && m_no >= sw_no[s] -> switch_cancel(s)
	:: else
	fi;
	if
	:: !SWITCHING(s) && m_no > sw_no[s] -> sw_no[s] = m_no
	:: else
	fi
}

inline switch_message(s)
{
	if
	:: SWITCHING(s) && m_lost != 0 && m_lost >= sw_target[s] -> switch_cancel(s)
	:: else ->
		if
		:: m_phase == SW_PREP || m_phase == SW_FENCED -> message_asks(s)
		:: m_phase == SW_CANCEL -> message_cancels(s)
		:: else
		fi
	fi
}

inline message_equal(s)
{
	if
	:: (MOVING(s) && move[s] != M_STRANDED) || final[s] ->
		if
		:: (m_stage & 1) != 0 -> p_quiet[s] = true
		:: else
		fi;
		if
#ifdef EXACT
		:: m_stage == 3 && p_final[s] -> exact_hear(s)
#endif
		:: m_stage == 3 && !p_final[s] ->
			p_final[s] = true;
#ifdef EXACT
			exact_hear(s);
#endif
#ifdef LOSES
			p_dead[s] = m_dead;
#endif
			p_count[s] = m_count
		:: else
		fi
	:: else
	fi;
	if
	:: move[s] == M_NONE -> switch_message(s)
	:: else
	fi
}

inline message_higher(s)
{
	if
	:: READY_FOR(s, m_epoch) ->
		if
		:: move[s] != M_NONE -> move_strand(s)
		:: else
		fi;
		move_begin(s);
		message_equal(s)
	:: else ->
		if
		:: m_epoch > lost[s] -> lost[s] = m_epoch
		:: else
		fi;
		move_strand(s)
	fi
}

inline message_lost(s)
{
	if
	:: s == LEADER && m_lost > p_lost -> p_lost = m_lost
	:: else
	fi;
	if
	:: SB_HERE(s) && sb_epoch[s] <= m_lost -> sb_drop(s)
	:: else
	fi;
	if
	:: (m_stranded && m_epoch == epoch[s]) || (m_lost >= epoch[s] && m_epoch < epoch[s]) ->
		leave_or_strand(s)
	:: else
	fi
}

#ifdef W_ANY_EPOCH
#define ABOUT_THIS(s) (m_epoch == epoch[s] || MOVING(s))
#else
#define ABOUT_THIS(s) (m_epoch == epoch[s])
#endif

inline move_message(s)
{
	if
	:: m_lost != 0 -> message_lost(s)
	:: else
	fi;
	if
	:: move[s] == M_ENDED
	:: else ->
		if
		:: m_epoch > epoch[s] -> message_higher(s)
		:: else ->
			if
			:: ABOUT_THIS(s) -> message_equal(s)
			:: else
			fi
		fi
	fi
}

/* The message is in msg. */
inline state_message(s)
{
	decode(msg);
	if
	:: m_fatal -> excused[s] = true; move_end(s)
	:: else -> move_message(s)
	fi;
	m_fatal = 0; m_epoch = 0; m_stage = 0; m_stranded = 0; m_lost = 0; m_phase = 0; m_no = 0;
#ifdef LOSES
	m_dead = 0;
#endif
#ifdef EXACT
	m_x = 0; m_x_of = 0; m_x_n = 0;
#endif
	m_target = 0; m_count = 0; msg = 0
}

/* ---- what arrives --------------------------------------------------------------------------- */

#ifdef W_ONE_PATH
#define CONTROL_UP up[0]
#else
#define CONTROL_UP (up[0] || up[1])
#endif

/* core_message.c, wanted(): it repeats itself, and asks the other to answer. */
#define STATE_WANTED(s) \
	(move[s] == M_ENDED || (MOVING(s)) || SWITCHING(s) || (final[s] && !p_final[1 - (s)]))
#ifdef W_NO_RESEND
#define STATE_COMES(s) (!calm || (CONTROL_UP && fresh[s]))
#else
#define STATE_COMES(s) (!calm || (CONTROL_UP && (STATE_WANTED(s) || STATE_WANTED(1 - (s)))))
#endif

/* Would this message change anything at side s? The answer may be yes though it would not. */
#define M_EPOCH(m) (((m) >> 2) & 7)
#define M_STAGE(m) (((m) >> 5) & 3)
#define M_LOST(m) (((m) >> 8) & 7)
#define M_PHASE(m) (((m) >> 11) & 3)
#define M_NO(m) (((m) >> 13) & 7)
#ifdef W_ANY_EPOCH
#define M_ABOUT(s, m) (M_EPOCH(m) == epoch[s] || MOVING(s))
#else
#define M_ABOUT(s, m) (M_EPOCH(m) == epoch[s])
#endif
#define NEWS_SWITCH(s, m) \
	(move[s] == M_NONE && \
	 ((SWITCHING(s) && M_LOST(m) != 0 && M_LOST(m) >= sw_target[s]) || \
	  ((M_PHASE(m) == SW_PREP || M_PHASE(m) == SW_FENCED) && M_NO(m) > sw_no[s]) || \
	  (M_PHASE(m) == SW_FENCED && SWITCHING(s) && M_NO(m) == sw_no[s] && \
	   (!sw_peer[s] || (sw[s] == SW_FENCED && READY_FOR(s, sw_target[s])))) || \
	  (M_PHASE(m) == SW_CANCEL && SWITCHING(s) && M_NO(m) >= sw_no[s]) || \
	  (M_PHASE(m) == SW_CANCEL && !SWITCHING(s) && M_NO(m) > sw_no[s])))
#ifdef EXACT
#define NEWS_EXACT(s, m) \
	(M_STAGE(m) == 3 && p_x[s] == X_LATER && act[s] < epoch[s] && (((m) >> 24) & 3) != X_LATER && \
	 X_IS_OF(s, ((m) >> 29) & 3))
#else
#define NEWS_EXACT(s, m) false
#endif
#define NEWS_EQUAL(s, m) \
	(M_ABOUT(s, m) && \
	 ((((MOVING(s) && move[s] != M_STRANDED) || final[s]) && \
	   ((!p_quiet[s] && (M_STAGE(m) & 1)) || (!p_final[s] && M_STAGE(m) == 3) || \
	    NEWS_EXACT(s, m))) || \
	  NEWS_SWITCH(s, m)))
#define NEWS_LOST(s, m) \
	(M_LOST(m) != 0 && \
	 ((s == LEADER && M_LOST(m) > p_lost) || (SB_HERE(s) && sb_epoch[s] <= M_LOST(m)) || \
	  (move[s] != M_STRANDED && \
	   ((((m) >> 7) & 1 && M_EPOCH(m) == epoch[s]) || \
	    (M_LOST(m) >= epoch[s] && M_EPOCH(m) < epoch[s])))))
#define NEWS_HIGHER(s, m) \
	(M_EPOCH(m) > epoch[s] && \
	 (move[s] != M_STRANDED || READY_FOR(s, M_EPOCH(m)) || M_EPOCH(m) > lost[s]))
#define NEWS(s, m) \
	(move[s] != M_ENDED && ((((m) >> 1) & 1) || NEWS_LOST(s, m) || NEWS_HIGHER(s, m) || \
				NEWS_EQUAL(s, m)))

/* ---- the network's and the NIC's part ------------------------------------------------------- */

/* Request n of the peer is executed at s on carrier e. */
inline execute(n, e)
{
	if
	:: KIND(1 - s, n) == SEND ->
		/* P2: once, and into the receive that it belongs to */
		PROMISE(2, consumed[s] == RANK(1 - s, n));
		PROMISE(2, e != laid[s] || r_head[s] == RANK(1 - s, n));
		/* P3: all WRITEs before it are in memory */
		PROMISE(3, (n < 1 || KIND(1 - s, 0) != WRITE || (written[1 - s] & 1)) &&
			   (n < 2 || KIND(1 - s, 1) != WRITE || (written[1 - s] & 2)));
		if
		:: e == laid[s] -> r_head[s] = r_head[s] + 1
		:: else
		fi;
		consumed[s] = consumed[s] + 1
	:: KIND(1 - s, n) == WRITE ->
		/* P5: neither it nor a later SEND has completed: that memory is used again */
		PROMISE(5, n >= done[1 - s]);
		PROMISE(5, consumed[s] <= RANK(1 - s, n));
		written[1 - s] = written[1 - s] | BIT(n)
	:: KIND(1 - s, n) == ATOMIC ->
		/* P4 */
		PROMISE(4, (atomics[1 - s] & BIT(n)) == 0);
		atomics[1 - s] = atomics[1 - s] | BIT(n)
	:: else
	fi
}

/* P5 of a packet of a WRITE */
inline touch(n)
{
	PROMISE(5, n >= done[1 - s]);
	PROMISE(5, consumed[s] <= RANK(1 - s, n))
}

#define RECEIVE_AT(s, e) ((e) == laid[s] -> r_head[s] : consumed[s])
#define EXECUTABLE(s, n, e) \
	(ALIVE(s, e) && (KIND(1 - s, n) != SEND || RECEIVE_AT(s, e) < r_posted[s]))
/* In calm only what is repeated arrives, and only over a path that is up. */
#define DATA_COMES(s, e) (!calm || (up[path_of[e]] && COMPLETES(s, e)))

/* ---- when ----------------------------------------------------------------------------------- */

#define NOTICED(e) \
	((hurt & BIT(e)) && (!calm || !up[path_of[e]] || DIES(0, e) || DIES(1, e)))
#ifdef W_NO_PEER_QUIESCE
#define PEER_QUIET(s) true
#else
#define PEER_QUIET(s) p_quiet[s]
#endif
#ifdef W_NO_ANSWER
#define PEER_FINAL(s) true
#else
#ifdef EXACT
#define PEER_FINAL(s) (p_final[s] && p_x[s] != X_LATER)
#else
#define PEER_FINAL(s) p_final[s]
#endif
#endif
/* In calm what is repeated over its own path, if that is up. */
#define SB_COMES(s) (!calm || (SB_HERE(s) && up[path_of[sb_epoch[s]]]))
#define SB_PEER_SAYS(s) \
	(MAY_MAKE(s) && SB_HERE(s) && sb_epoch[peer] == sb_epoch[s] && SB_COMES(peer))

inline next_number(s)
{
#ifdef W_EPOCH_AGAIN
	i = epoch[s] + 1;
	tries = tries + 1
#else
	i = (epoch[s] > sb_epoch[s] -> epoch[s] : sb_epoch[s]);
	i = (lost[s] > i -> lost[s] : i);
	i = (p_lost > i -> p_lost : i) + 1
#endif
}

inline next_switch_no(s)
{
#ifdef W_NUMBER_AGAIN
	tries = tries + 1;
	i = sw_no[s] + (sw[s] != SW_CANCEL)
#else
	i = sw_no[s] + 1
#endif
}

/* ---- one side ------------------------------------------------------------------------------- */

proctype Side(byte s)
{
	do
	/* the application */
	:: d_step { posted[s] < NUM(s) && move[s] != M_ENDED && !DOUBTED(s) ->
		posted[s] = posted[s] + 1;
		if
		:: WITHHELD(s)
		:: else -> public[s] = posted[s]; skip_nops(s)
		fi }
	:: d_step { r_posted[s] < RECV(s) && done[s] == NUM(s) && move[s] != M_ENDED ->
		r_posted[s] = r_posted[s] + 1 }

	/* the responder here: the peer's packets, at once or late */
	:: d_step { expected[peer] < public[peer] &&
		    EXECUTABLE(s, expected[peer], act[peer]) && DATA_COMES(peer, act[peer]) &&
		    !DIES(s, act[peer]) && PACKETS(peer, expected[peer]) == 1 ->
		execute(expected[peer], act[peer]);
#ifdef W_SAME_QPN
		psn[s] = psn[s] + 1;
#endif
		expected[peer] = expected[peer] + 1;
		skip_nops(peer) }
	:: d_step { old_expected[peer] < old_end[peer] && !calm &&
		    EXECUTABLE(s, old_expected[peer], old[peer]) && !DIES(s, old[peer]) &&
		    PACKETS(peer, old_expected[peer]) == 1 ->
		execute(old_expected[peer], old[peer]);
		old_expected[peer] = old_expected[peer] + 1 }
#ifdef EXACT
	/* a WRITE: each of its two packets changes memory */
	:: d_step { expected[peer] < public[peer] &&
		    EXECUTABLE(s, expected[peer], act[peer]) && DATA_COMES(peer, act[peer]) &&
		    !DIES(s, act[peer]) && PACKETS(peer, expected[peer]) == 2 ->
		touch(expected[peer]);
		if
		:: part[peer] -> execute(expected[peer], act[peer]);
			part[peer] = 0;
			expected[peer] = expected[peer] + 1;
			skip_nops(peer)
		:: else -> part[peer] = 1
		fi }
	:: d_step { old_expected[peer] < old_end[peer] && !calm &&
		    EXECUTABLE(s, old_expected[peer], old[peer]) && !DIES(s, old[peer]) &&
		    PACKETS(peer, old_expected[peer]) == 2 ->
		touch(old_expected[peer]);
		if
		:: old_part[peer] -> execute(old_expected[peer], old[peer]);
			old_part[peer] = 0;
			old_expected[peer] = old_expected[peer] + 1
		:: else -> old_part[peer] = 1
		fi }
#endif
#ifdef W_SAME_QPN
	/* a packet of epoch 0, at a later carrier that expects the number that it carries */
	:: d_step { laid[s] > 0 && !calm && EXECUTABLE(s, psn[s], laid[s]) &&
		    psn[s] < (act[peer] == 0 -> public[peer] : old_end[peer]) ->
		execute(psn[s], laid[s]);
		psn[s] = psn[s] + 1 }
#endif

	/* the requester here: an acknowledgement, or a NOP, completes the oldest request */
	:: d_step { done[s] < public[s] && COMPLETES(s, act[s]) &&
		    ((nop[s] & BIT(done[s])) || done[s] < expected[s]) &&
		    DATA_COMES(s, act[s]) ->
		/* P1: nothing is invented */
#ifndef LOSES
		PROMISE(1, KIND(s, done[s]) != WRITE || (written[s] & BIT(done[s])));
#endif
		PROMISE(1, KIND(s, done[s]) != SEND || consumed[peer] > RANK(s, done[s]));
		PROMISE(1, KIND(s, done[s]) != ATOMIC || (atomics[s] & BIT(done[s])));
		PROMISE(1, KIND(s, done[s]) != READ || !(nop[s] & BIT(done[s])));
		nop[s] = nop[s] & ~BIT(done[s]);
		done[s] = done[s] + 1 }

	/* the standby: a phase of the peer's, also late */
	:: d_step { SB_PEER_SAYS(s) && sb_peer[s] < SB_MADE && sb_said[peer] >= SB_MADE ->
		sb_peer[s] = SB_MADE;
		sb_connect_if_possible(s) }
	:: d_step { SB_PEER_SAYS(s) && sb_peer[s] == SB_MADE && sb_said[peer] == SB_READY ->
		sb_peer[s] = SB_READY }
#ifdef FINE
	:: d_step { sb[s] == SB_MAKING ->
		transition_making_to_made(s);
		sb_said[s] = SB_MADE;
		sb_connect_if_possible(s) }
	:: d_step { sb[s] == SB_CONNECTING ->
		transition_connecting_to_ready(s);
		sb_said[s] = SB_READY }
#endif

	/* the engine has laid the fence */
	:: d_step { sw[s] == SW_PREP && snd[s] == S_WAIT_SIGNALED ->
		transition_send_wait_signaled_to_wait_drained(s);
		sw_atomics[s] = IS_ATOMIC_OUT(s) }

	/* steps that STATE tells of */
	:: atomic {
		if
		/* faults as they are noticed; in calm those of a path that is still down */
		:: d_step { move[s] != M_ENDED && move[s] != M_STRANDED && NOTICED(epoch[s]) ->
			leave_or_strand(s) }
		:: d_step { MAY_MAKE(s) && SB_HERE(s) && NOTICED(sb_epoch[s]) -> sb_drop(s) }

		/* the move */
		:: d_step { move[s] == M_QUIESCING -> quiesce(s) }
		:: d_step { move[s] == M_COUNTING && PEER_QUIET(s) -> lifetime_over(s) }
		:: d_step { move[s] == M_LAYING -> lay(s) }
		:: d_step { move[s] == M_AWAITING_COUNT && PEER_FINAL(s) -> move_settled(s) }
#ifdef EXACT
		:: d_step { X_WANTED(s) -> exact_ask(s) }
		:: d_step { X_WANTED(s) && !calm -> exact_refused(s) }
#endif
		:: d_step { move[s] == M_STRANDED && READY_BOTH(s) -> move_begin(s) }
#ifdef LOSES
		/* the application posts, and it is no WRITE: both ends get errors */
		:: d_step { posted[s] < NUM(s) && move[s] == M_NONE && doubt[s] ->
			if
			:: KIND(s, posted[s]) == WRITE ->
				posted[s] = posted[s] + 1;
				if
				:: WITHHELD(s)
				:: else -> public[s] = posted[s]; skip_nops(s)
				fi
			:: else ->
				excused[s] = true;
				move_end(s)
			fi }
#endif
		:: d_step { MOVING(s) && earlies < EARLY && !calm ->
			earlies = earlies + 1;
			excused[s] = true;
			move_end(s) }

		/* STATE of the peer: the newest, or one that comes late */
		:: atomic {
			if
			:: STATE_COMES(peer) && NEWS(s, says[peer]) -> msg = says[peer]
			:: LATE > 0 && late[2 * peer] != 0 && NEWS(s, late[2 * peer]) ->
				msg = late[2 * peer]
			:: LATE > 1 && late[2 * peer + 1] != 0 && NEWS(s, late[2 * peer + 1]) ->
				msg = late[2 * peer + 1]
			fi;
			d_step { state_message(s) } }

		/* the standby: the leader's is newer; the peer's FAILED */
		:: d_step { s != LEADER && MAY_MAKE(s) && sb_epoch[peer] > sb_epoch[s] &&
			    sb_epoch[peer] > epoch[s] && sb_said[peer] != SB_NONE &&
			    SB_COMES(peer) ->
			sb_drop(s);
			sb_start(s, sb_epoch[peer]) }
		:: d_step { MAY_MAKE(s) && SB_HERE(s) && sb_epoch[peer] == sb_epoch[s] &&
			    sb[peer] == SB_FAILED && CONTROL_UP ->
			sb_drop(s) }
		/* the leader's choice: another path than that in use, or any if that is lost */
		:: d_step { s == LEADER && MAY_MAKE(s) && !SB_HERE(s) && MAY_CHOOSE &&
			    (up[1 - path_of[epoch[s]]] ||
			     (move[s] == M_STRANDED && up[path_of[epoch[s]]])) ->
			next_number(s);
			assert(i < NOWHERE);
			path_of[i] = (up[1 - path_of[epoch[s]]] -> 1 - path_of[epoch[s]] :
				      path_of[epoch[s]]);
			sb_start(s, i);
			i = 0 }

		/* the ordered switch */
		:: d_step { ORDERED && s == LEADER && CAN_BEGIN(s) && READY_BOTH(s) &&
			    SWITCH_WANTED(s) && up[path_of[sb_epoch[s]]] &&
			    TRIES(s) < (calm -> ORDERED + 3 : ORDERED) ->
			next_switch_no(s);
			switch_begin(s, i);
			i = 0 }
		:: d_step { sw[s] == SW_PREP && snd[s] == S_WAIT_DRAINED && !OUTSTANDING(s) ->
			sw[s] = SW_FENCED;
			leave_if_both(s) }
		:: d_step { SWITCHING(s) && !calm -> switch_deadline(s) }
		fi;
		d_step { said(s) } }
	:: over -> break
	od
}

/* ---- the world ------------------------------------------------------------------------------ */

#define CARRIERS_ON(p) \
	((path_of[0] == p) + ((path_of[1] == p) << 1) + ((path_of[2] == p) << 2) + \
	 ((path_of[3] == p) << 3) + ((path_of[4] == p) << 4) + ((path_of[5] == p) << 5) + \
	 ((path_of[6] == p) << 6))
#define NEWEST (sb_epoch[0] > epoch[0] -> sb_epoch[0] : epoch[0])
#define OLDEST (epoch[0] < epoch[1] -> epoch[0] : epoch[1])
#define EXISTING (BIT(NEWEST + 1) - 1)

inline path_dies(p)
{
	faults = faults + 1;
	up[p] = false;
	hurt = hurt | (CARRIERS_ON(p) & EXISTING & ~(BIT(OLDEST) - 1))
}

inline nic_hangs(s, p)
{
	path_dies(p);
	sicks = sicks + 1;
	sick[s] = sick[s] | (CARRIERS_ON(p) & EXISTING & ~(BIT(err[s]) - 1))
}

#ifdef LOSES
#define IS_WRITE_LOST(r, n) \
	(bound <= (n) && (n) < expected[r] && KIND(r, n) == WRITE)
/*
 * WRITEs of side 1 - s behind the last SEND or READ on that path, all of them. Not of a QP that has
 * flushed: its last completion came behind them.
 */
inline nic_loses(s, p)
{
	if
	:: (CARRIERS_ON(p) & BIT(act[1 - s]) & ~(BIT(err[s]) - 1)) != 0 ->
		bound = from[1 - s];
		i = from[1 - s];
		do
		:: i < expected[1 - s] ->
			if
			:: KIND(1 - s, i) == SEND || KIND(1 - s, i) == READ -> bound = i + 1
			:: else
			fi;
			i = i + 1
		:: else -> break
		od;
		if
		:: IS_WRITE_LOST(1 - s, 0) -> written[1 - s] = written[1 - s] & ~1
		:: else
		fi;
		if
		:: IS_WRITE_LOST(1 - s, 1) -> written[1 - s] = written[1 - s] & ~2
		:: else
		fi;
		if
		:: IS_WRITE_LOST(1 - s, 2) -> written[1 - s] = written[1 - s] & ~4
		:: else
		fi;
		bound = 0; i = 0
	:: else
	fi;
	nic_hangs(s, p)
}
#endif

#define ALL_DONE(s) \
	(posted[s] == NUM(s) && done[s] == NUM(s) && consumed[s] == RECV(s) && \
	 (snd[s] == S_DEFAULT || snd[s] == S_FALLBACK) && \
	 (snd[s] == S_FALLBACK) == (path_of[epoch[s]] != 0) && rcv[s] == snd[s])
#define WANTED_PATH (DRAIN -> up[1] : !up[0])
#define WHERE_WANTED (!ORDERED || path_of[epoch[0]] == WANTED_PATH)

/* P7: both go on, with all work done and on the path where they belong; or both have ended, for a
 * reason that the design names. */
inline judge()
{
	if
	:: move[0] == M_ENDED || move[1] == M_ENDED ->
		PROMISE(7, move[0] == M_ENDED && move[1] == M_ENDED);
		PROMISE(7, excused[0] || excused[1] || no_way)
	:: else ->
		PROMISE(7, move[0] == M_NONE && move[1] == M_NONE && epoch[0] == epoch[1]);
		PROMISE(7, ALL_DONE(0) && ALL_DONE(1));
		PROMISE(7, WHERE_WANTED)
	fi;
	over = true
}

#define NO_WAY ((!up[0] && !up[1]) || (sick[0] != 0 && sick[1] != 0))

#ifdef W_NO_FENCE_TIMEOUT
#define NOTHING_DUE (!MOVING(0) && !MOVING(1))
#else
#define NOTHING_DUE (!MOVING(0) && !MOVING(1) && !SWITCHING(0) && !SWITCHING(1))
/* who is FENCED waits for as long as the peer is heard */
#define FENCE_DUE(s) (sw[s] == SW_PREP || (sw[s] == SW_FENCED && !CONTROL_UP))
#endif

proctype World()
{
	do
	:: d_step { !calm && up[0] && faults < FAULTS -> path_dies(0) }
	:: d_step { !calm && up[1] && faults < FAULTS -> path_dies(1) }
	:: d_step { !calm && up[0] && faults < FAULTS && sicks < SICK -> nic_hangs(0, 0) }
	:: d_step { !calm && up[0] && faults < FAULTS && sicks < SICK -> nic_hangs(1, 0) }
	:: d_step { !calm && up[1] && faults < FAULTS && sicks < SICK -> nic_hangs(0, 1) }
	:: d_step { !calm && up[1] && faults < FAULTS && sicks < SICK -> nic_hangs(1, 1) }
#ifdef LOSES
	:: d_step { !calm && up[0] && faults < FAULTS && sicks < SICK -> nic_loses(0, 0) }
	:: d_step { !calm && up[0] && faults < FAULTS && sicks < SICK -> nic_loses(1, 0) }
	:: d_step { !calm && up[1] && faults < FAULTS && sicks < SICK -> nic_loses(0, 1) }
	:: d_step { !calm && up[1] && faults < FAULTS && sicks < SICK -> nic_loses(1, 1) }
#endif
	:: d_step { !calm && !up[0] && heals < HEALS -> up[0] = true; heals = heals + 1 }
	:: d_step { !calm && !up[1] && heals < HEALS -> up[1] = true; heals = heals + 1 }
	:: d_step { !calm ->
		calm = true;
		late[0] = 0; late[1] = 0; late[2] = 0; late[3] = 0 }
	/* nothing else can happen any more: only now the long deadlines of the core are due */
#ifndef W_NO_FENCE_TIMEOUT
	:: atomic { timeout && calm && !over && FENCE_DUE(0) ->
		d_step { switch_deadline(0); said(0) } }
	:: atomic { timeout && calm && !over && FENCE_DUE(1) ->
		d_step { switch_deadline(1); said(1) } }
#endif
	:: atomic { timeout && calm && !over && MOVING(0) && !SWITCHING(1) ->
		d_step { PROMISE(7, NO_WAY); no_way = true; move_end(0); said(0) } }
	:: atomic { timeout && calm && !over && MOVING(1) && !SWITCHING(0) ->
		d_step { PROMISE(7, NO_WAY); no_way = true; move_end(1); said(1) } }
	:: atomic { timeout && calm && !over && NOTHING_DUE ->
		d_step { judge() } }
	:: over -> break
	od
}

init {
	atomic {
		up[0] = true;
		up[1] = true;
		path_of[0] = START_PATH;
		if
		:: START_PATH == 0
		:: START_PATH != 0 ->
			snd[0] = S_FALLBACK; snd[1] = S_FALLBACK;
			rcv[0] = S_FALLBACK; rcv[1] = S_FALLBACK
		fi;
		if
		:: PROTECTED ->
			path_of[1] = 1 - START_PATH;
			sb[0] = SB_READY; sb[1] = SB_READY;
			sb_peer[0] = SB_READY; sb_peer[1] = SB_READY;
			sb_said[0] = SB_READY; sb_said[1] = SB_READY;
			sb_epoch[0] = 1; sb_epoch[1] = 1
		:: else ->
			/* the guard is on, so there was one: it is lost at both */
			path_of[1] = 1 - START_PATH;
			sb[0] = SB_FAILED; sb[1] = SB_FAILED;
			sb_epoch[0] = 1; sb_epoch[1] = 1;
			lost[0] = 1; lost[1] = 1
		fi;
#ifdef ANY_KINDS
		if
		:: kind_a[0] = SEND
		:: kind_a[0] = WRITE
		:: kind_a[0] = READ
		:: kind_a[0] = ATOMIC
		fi;
		if
		:: kind_a[1] = SEND
		:: kind_a[1] = WRITE
		:: kind_a[1] = READ
		:: kind_a[1] = ATOMIC
		fi;
		if
		:: kind_b[0] = SEND
		:: kind_b[0] = WRITE
		:: kind_b[0] = READ
		:: kind_b[0] = ATOMIC
		fi;
#endif
		r_posted[0] = RECV_FIRST(0);
		r_posted[1] = RECV_FIRST(1);
		says[0] = STATE_OF(0);
		says[1] = STATE_OF(1);
#ifdef W_LEFTOVERS
		left_at[START_PATH] = 1; left_at[2 + START_PATH] = 1;
#endif
		run Side(0);
		run Side(1);
		run World()
	}
}
