/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Declarations that the files of the core share. Not for the shell. */
#ifndef SHIFTLIB_CORE_INTERNAL_H
#define SHIFTLIB_CORE_INTERNAL_H

#include <stddef.h>

#include "shiftlib/core/core.h"
#include "shiftlib/core/mutant.h"

/* A state machine in an unexpected state must not go on moving memory. */
#define SC_ASSERT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

enum {
	SC_LAST_WORDS = 32,	  /* repetitions of FATAL and CLOSED, unless answered */
	SC_STANDBY_PATIENCE = 10, /* outside of a move: factor for the intervals and limits of
				   * standbys */
	SC_LAZY_PATIENCE = 3, /* lazy: factor for the deadline of a move, as standbys come late */
	SC_FRUITLESS_ROUNDS = 2, /* failures to pass anything, for each path */
	SC_LIFETIMES = 8,	 /* allowance for a sick NIC in the deadline of a transport move */
};

/* ---- one step ------------------------------------------------------------------------------- */

struct sc_frame {
	struct sc_conn *c;
	const struct sc_event *ev;
	uint64_t now;
	struct sc_actions *out;
};

/* Appends an action whose other fields are 0. */
struct sc_action *sc_emit(struct sc_frame *x, enum sc_action_type type);
void sc_report(struct sc_frame *x);
void sc_guard(struct sc_frame *x, bool on);
/* Set the next due time of a repetition with doubling intervals. */
void sc_backoff_start(uint64_t *at, uint64_t *interval, uint64_t now, uint64_t first);
void sc_backoff_next(uint64_t *at, uint64_t *interval, uint64_t now, uint64_t max);
static inline bool sc_due(uint64_t at, uint64_t now)
{
	return at && now >= at;
}
/* Compares epochs, which wrap; at most half the range lies between the two ends. */
static inline int32_t sc_epoch_cmp(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* patience.c: how long a move may take */
uint64_t sc_retries_ns(const struct sc_config *config); /* longest retries of stock; 0: for ever */
void sc_patience_start(struct sc_frame *x, enum sc_reason reason);
void sc_patience_follow(struct sc_frame *x); /* at each timer */
/* Sets `beyond` if stock would have ended for that reason. */
void sc_patience_beyond(struct sc_frame *x, enum sc_reason reason);
void sc_patience_dark(struct sc_frame *x);
void sc_patience_timer(struct sc_frame *x);
bool sc_patience_nothing_passes(struct sc_frame *x);	  /* true: a fault too many */
uint64_t sc_patience_dark_until(const struct sc_conn *c); /* 0: no limit */

/* paths.c: which paths there are, and which one the next standby is made on */
void sc_paths_changed(struct sc_frame *x);
/* Takes the peer's masks. False: not newer. */
bool sc_paths_heard(struct sc_frame *x, const struct sc_msg_standby *m);
int sc_paths_choose(const struct sc_conn *c); /* -1: none */
bool sc_paths_both_up(const struct sc_conn *c, uint8_t path);
bool sc_paths_both_steady(const struct sc_conn *c, uint8_t path);
bool sc_paths_better(const struct sc_conn *c); /* true if there is a preferred path to go back to */
/* True if `path` is preferred to `other`. */
bool sc_paths_before(const struct sc_conn *c, uint8_t path, uint8_t other);
uint32_t sc_paths_count(const struct sc_conn *c);
bool sc_paths_drained(const struct sc_conn *c, uint8_t path);

/* standby.c: the way to the next epoch */
void sc_standby_introduced(struct sc_frame *x);
void sc_standby_made(struct sc_frame *x);
void sc_standby_connected(struct sc_frame *x);
void sc_standby_failed(struct sc_frame *x);
void sc_standby_lost(struct sc_frame *x);
void sc_standby_message(struct sc_frame *x);
void sc_standby_timer(struct sc_frame *x);
void sc_standby_send_again(struct sc_frame *x);
void sc_standby_tell(struct sc_frame *x); /* repeated until the peer has seen it */
void sc_standby_ask(struct sc_frame *x);
void sc_standby_suspect(struct sc_frame *x, bool on);
void sc_standby_choose(struct sc_frame *x);	/* leader: a first one, or a better one */
bool sc_standby_ready(const struct sc_conn *c); /* at both ends */
bool sc_standby_ready_for(const struct sc_conn *c, uint32_t epoch); /* at this end */
void sc_standby_gone_at_peer(struct sc_frame *x, uint32_t epoch);
void sc_standby_hurry(struct sc_frame *x); /* a stranded connection waits for the standby */
void sc_standby_use(struct sc_frame *x);   /* the standby becomes the carrier */
void sc_standby_end(struct sc_frame *x);

/* rest.c: lazy, no standby until it is needed */
bool sc_rest_possible(const struct sc_conn *c);
bool sc_rest_awaited(const struct sc_conn *c); /* no standby is made meanwhile */
void sc_rest_update(struct sc_frame *x);       /* begins or ends a rest; after each event */

/* move.c: leave and settle */
void sc_move_begin(struct sc_frame *x, enum sc_reason reason); /* the standby must be ready */
void sc_move_strand(struct sc_frame *x, enum sc_reason reason);
void sc_move_fault(struct sc_frame *x);
void sc_move_message(struct sc_frame *x);
void sc_move_quiesced(struct sc_frame *x);
void sc_move_laid(struct sc_frame *x);
void sc_move_settled(struct sc_frame *x);
void sc_move_timer(struct sc_frame *x);
void sc_move_advance(struct sc_frame *x); /* ends a wait for a standby; after each event */
/* True on the way to an epoch, or while waiting for one. */
static inline bool sc_moving(const struct sc_conn *c)
{
	return c->move != SC_MOVE_NONE && c->move != SC_MOVE_ENDED;
}

/* switch.c: the ordered switch, up to where it leaves */
void sc_switch_advance(struct sc_frame *x);
void sc_switch_laid(struct sc_frame *x);
void sc_switch_fenced(struct sc_frame *x);
void sc_switch_message(struct sc_frame *x);
void sc_switch_standby_gone(struct sc_frame *x);
void sc_switch_timer(struct sc_frame *x);
void sc_switch_forget(struct sc_frame *x);  /* a move takes over, or waits for another standby */
void sc_switch_arrive(struct sc_frame *x);  /* settled: sets the send state of the new path */
void sc_switch_abandon(struct sc_frame *x); /* withheld requests run where they are */
/* True if a switch leads to the move that begins. */
bool sc_switch_leads(const struct sc_conn *c, enum sc_reason reason);
bool sc_switch_turns_back(const struct sc_frame *x); /* back where the switch began */
bool sc_switch_call_off(struct sc_frame *x);	     /* false: only the peer can */
static inline bool sc_switching(const struct sc_conn *c)
{
	return c->sw.phase == SC_SWITCH_PREP || c->sw.phase == SC_SWITCH_FENCED;
}

/* stay.c: leaving a path that is down */
void sc_stay_or_move(struct sc_frame *x, enum sc_reason reason); /* once a standby is ready */
void sc_stay_looked(struct sc_frame *x);
void sc_stay_message(struct sc_frame *x); /* for each STATE */
void sc_stay_advance(struct sc_frame *x);
void sc_stay_timer(struct sc_frame *x);
void sc_stay_forget(struct sc_conn *c);	  /* a move takes over the withheld requests */
void sc_stay_abandon(struct sc_frame *x); /* withheld requests run where they are */
uint8_t sc_stay_told(const struct sc_conn *c);
uint64_t sc_stay_until(const struct sc_conn *c); /* 0: no limit */
enum sc_stay_phase sc_stay_phase_told(const struct sc_conn *c);
bool sc_stay_withholds(const struct sc_conn *c);
bool sc_staying(const struct sc_conn *c); /* true while asking or withholding */

/* exact.c: expected PSNs, asked for and told */
void sc_exact_forget(struct sc_conn *c); /* another move begins */
void sc_exact_withheld(struct sc_frame *x);
void sc_exact_answered(struct sc_frame *x);
void sc_exact_heard(struct sc_frame *x); /* for each STATE of the epoch under way */
void sc_exact_advance(struct sc_frame *x);
void sc_exact_timer(struct sc_frame *x);
void sc_exact_tell(const struct sc_conn *c, struct sc_msg_state *m);
bool sc_exact_unseen(const struct sc_conn *c);	 /* the peer waits for our answer, or may */
bool sc_exact_complete(const struct sc_conn *c); /* the peer has said all that is needed */
void sc_exact_settle(const struct sc_conn *c, struct sc_action *settle);

/* message.c: STATE */
uint64_t sc_resend_first_ns(const struct sc_conn *c); /* first interval of STATE, STANDBY */
void sc_state_send(struct sc_frame *x, bool ask);
void sc_state_tell(struct sc_frame *x); /* sends STATE now, and again until answered */
void sc_state_timer(struct sc_frame *x);
void sc_state_send_again(struct sc_frame *x);
void sc_state_hurry(struct sc_frame *x); /* another message of the peer came */
void sc_state_message(struct sc_frame *x);

/* end.c: FATAL, CLOSED, and what comes after */
void sc_end_fail(struct sc_frame *x, enum sc_reason reason);
void sc_end_app_error(struct sc_frame *x);
void sc_end_app_closed(struct sc_frame *x);
void sc_end_unknown(struct sc_frame *x);
void sc_end_peer(struct sc_frame *x);
void sc_end_event(struct sc_frame *x); /* takes any event of an ended connection */

/*
 * owner.c: decides atomic i, which may have run, as all of requests[0..begun). True: fates[i] is
 * set.
 */
bool sc_owner_decides(const struct sp_request *requests, uint32_t begun, uint32_t i,
		      enum sp_fate *fates);

#endif
