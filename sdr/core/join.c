/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The states of a way:
 * UP -> CLOSING -> RESTING -> BURIED -> MAKING -> MADE -> CONNECTING -> CONNECTED -> UP;
 * from any of them back to CLOSING.
 */
#include "sdr/core/join.h"
#include "sdr/core/check.h"
#include "sdr/core/mutants.h"

#include <string.h>

#define SAY_FIRST_NS 20000000ull
#define SAY_LAST_NS  640000000ull

enum { PAUSE_SHIFT_MAX = 6, LONG_UP = 60 /* lifetimes: tries are forgotten */ };

const char *sdr_join_state_name(enum sdr_join_state state)
{
	static const char *const names[] = { "UP",     "CLOSING", "RESTING",	"BURIED",
					     "MAKING", "MADE",	  "CONNECTING", "CONNECTED" };

	return state <= SDR_JOIN_CONNECTED ? names[state] : "?";
}

void sdr_join_init(struct sdr_join *j, uint64_t lifetime_ns)
{
	memset(j, 0, sizeof(*j));
	j->lifetime_ns = lifetime_ns;
}

static void transition_any_to_closing(struct sdr_join *j)
{
	j->join_state = SDR_JOIN_CLOSING;
}

static void transition_closing_to_resting(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_CLOSING);
	j->join_state = SDR_JOIN_RESTING;
}

static void transition_resting_to_buried(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_RESTING);
	j->join_state = SDR_JOIN_BURIED;
}

static void transition_buried_to_making(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_BURIED);
	j->join_state = SDR_JOIN_MAKING;
}

static void transition_making_to_made(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_MAKING);
	j->join_state = SDR_JOIN_MADE;
}

static void transition_made_to_connecting(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_MADE);
	j->join_state = SDR_JOIN_CONNECTING;
}

static void transition_connecting_to_connected(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_CONNECTING);
	j->join_state = SDR_JOIN_CONNECTED;
}

static void transition_connected_to_up(struct sdr_join *j)
{
	SDR_ASSERT(j->join_state == SDR_JOIN_CONNECTED);
	j->join_state = SDR_JOIN_UP;
}

/* True while the shell is at work on the way: nothing may change under it. */
static bool is_busy(const struct sdr_join *j)
{
	return j->join_state == SDR_JOIN_CLOSING || j->join_state == SDR_JOIN_MAKING ||
	       j->join_state == SDR_JOIN_CONNECTING;
}

static uint64_t pause_of(const struct sdr_join *j)
{
	return j->lifetime_ns << (j->tries < PAUSE_SHIFT_MAX ? j->tries : PAUSE_SHIFT_MAX);
}

static uint8_t next_odd(uint8_t life)
{
	uint8_t next = (uint8_t)(life + 1 + life % 2);

	return life >= SDR_LIFE_MAX - 1 ? SDR_LIFE_MAX : next;
}

static void note_told(struct sdr_join *j, uint64_t now)
{
	if (j->told || j->peer_life < j->life)
		return;
	j->told = true;
	j->told_at = now;
}

static void leave(struct sdr_join *j, uint8_t life, uint64_t now)
{
	transition_any_to_closing(j);
	j->life = life;
	j->left_at = now;
	j->peer_stage = SDR_STAGE_NONE;
	j->told = j->began = j->again = false;
	j->todo = SDR_TODO_CLOSE | SDR_TODO_TELL;
	note_told(j, now);
}

/* Ends an attempt that comes to nothing: the shell gives back what it made for this life. */
static void give_up(struct sdr_join *j, uint64_t now)
{
	j->own = true;
	j->tries++;
	j->try_at = now + pause_of(j);
	leave(j, next_odd(j->life), now);
}

void sdr_join_fail(struct sdr_join *j, uint64_t now)
{
	j->ready_at = 0;
	if (j->join_state == SDR_JOIN_UP) {
		j->tries = now < j->up_at + LONG_UP * j->lifetime_ns && j->life ? j->tries + 1 : 0;
		j->try_at = j->tries ? now + pause_of(j) : now;
		j->own = true;
		leave(j, next_odd(j->life), now);
	} else if (is_busy(j)) {
		j->again = true;
	} else {
		give_up(j, now);
	}
}

void sdr_join_ready(struct sdr_join *j, uint64_t now)
{
	if (!j->ready_at)
		j->ready_at = now;
}

/* The peer has left what we use, or has begun anew. */
static void follow(struct sdr_join *j, uint64_t now)
{
	if (j->peer_life % 2 && j->peer_life > j->life && !is_busy(j))
		leave(j, j->peer_life, now);
	note_told(j, now);
}

void sdr_join_closed(struct sdr_join *j, uint64_t now)
{
	transition_closing_to_resting(j);
	j->gone_at = now;
	if (j->again)
		give_up(j, now);
	else
		follow(j, now);
}

void sdr_join_made(struct sdr_join *j, bool ok, uint64_t now)
{
	transition_making_to_made(j);
	if (!ok || j->again)
		give_up(j, now);
	else
		follow(j, now);
	if (j->join_state == SDR_JOIN_MADE)
		j->todo |= SDR_TODO_SAY;
}

void sdr_join_connected(struct sdr_join *j, bool ok, uint64_t now)
{
	transition_connecting_to_connected(j);
	if (!ok || j->again)
		give_up(j, now);
	else
		follow(j, now);
	if (j->join_state == SDR_JOIN_CONNECTED)
		j->todo |= SDR_TODO_SAY;
}

void sdr_join_hear_life(struct sdr_join *j, uint8_t life, uint64_t now)
{
	if (life > SDR_LIFE_MAX)
		return; /* nonsense */
	if (SDR_MUTATED(JOIN_LATE_HEAD))
		j->peer_life = life;
	else if (life > j->peer_life)
		j->peer_life = life;
	if (SDR_MUTATED(JOIN_LATE_HEAD) && life % 2 && life != j->life && !is_busy(j))
		leave(j, life, now);
	follow(j, now);
}

void sdr_join_hear(struct sdr_join *j, uint8_t life, enum sdr_join_stage stage, uint64_t now)
{
	sdr_join_hear_life(j, life, now);
	if (life < j->life)
		j->todo |= SDR_TODO_TELL; /* it is behind */
	if (life != j->life || j->join_state == SDR_JOIN_UP)
		return;
	if (stage > j->peer_stage)
		j->peer_stage = stage;
	if (sdr_join_stage_of(j) >= SDR_STAGE_MADE)
		j->todo |= SDR_TODO_SAY;
}

enum sdr_join_stage sdr_join_stage_of(const struct sdr_join *j)
{
	switch (j->join_state) {
	case SDR_JOIN_UP:
	case SDR_JOIN_CLOSING:
	case SDR_JOIN_RESTING: return SDR_STAGE_NONE;
	case SDR_JOIN_BURIED:
	case SDR_JOIN_MAKING: return SDR_STAGE_BURIED;
	case SDR_JOIN_MADE:
	case SDR_JOIN_CONNECTING: return SDR_STAGE_MADE;
	case SDR_JOIN_CONNECTED: return SDR_STAGE_CONNECTED;
	}
	return SDR_STAGE_NONE;
}

bool sdr_join_takes_keys(const struct sdr_join *j, uint8_t life)
{
	return j->join_state == SDR_JOIN_UP && (life == j->life || SDR_MUTATED(JOIN_OLD_KEYS));
}

/* ---- by the clock ---------------------------------------------------------------------------- */

static uint64_t rest_of(const struct sdr_join *j)
{
	return SDR_MUTATED(JOIN_NO_REST) ? 0 : j->lifetime_ns;
}

static void rest(struct sdr_join *j, uint64_t now)
{
	uint64_t wait = rest_of(j);

	if (j->told && now >= j->gone_at + wait && now >= j->told_at + wait)
		transition_resting_to_buried(j);
}

/*
 * Begins to join. The end whose NIC failed begins, when that NIC is well again and what it may have
 * sent until then has arrived. After an attempt that came to nothing it waits for the end of a
 * pause, or until the peer asks: pauses of both would never meet.
 */
static void begin(struct sdr_join *j, uint64_t now)
{
	bool in_time = now >= j->try_at && j->tries < SDR_JOIN_TRIES;

	if (!j->own || j->began || !j->ready_at || now < j->ready_at + rest_of(j) ||
	    j->life >= SDR_LIFE_MAX || (!in_time && j->peer_stage < SDR_STAGE_BURIED))
		return;
	j->began = true;
	j->give_up_at = now + SDR_JOIN_PATIENCE * j->lifetime_ns;
	j->say_at = now;
	j->say_ns = SAY_FIRST_NS;
}

static void go_on(struct sdr_join *j, uint64_t now)
{
	bool both = j->peer_stage >= SDR_STAGE_BURIED && (j->began || !j->own);

	if (j->join_state == SDR_JOIN_BURIED && both && j->life < SDR_LIFE_MAX) {
		transition_buried_to_making(j);
		j->todo |= SDR_TODO_MAKE;
	}
	if (j->join_state == SDR_JOIN_MADE && j->peer_stage >= SDR_STAGE_MADE) {
		transition_made_to_connecting(j);
		j->todo |= SDR_TODO_CONNECT;
	}
	if (j->join_state != SDR_JOIN_CONNECTED ||
	    (j->peer_stage < SDR_STAGE_CONNECTED && j->peer_life != j->life + 1 &&
	     !SDR_MUTATED(JOIN_UNCONNECTED)))
		return;
	transition_connected_to_up(j);
	j->life++;
	j->up_at = now;
	j->own = j->began = false;
	j->todo = SDR_TODO_USE | SDR_TODO_TELL;
}

static void be_patient(struct sdr_join *j, uint64_t now)
{
	if (!j->began || now < j->give_up_at || is_busy(j))
		return;
	if (j->join_state != SDR_JOIN_BURIED) {
		give_up(j, now);
		return;
	}
	j->began = false; /* nothing was made */
	j->tries++;
	j->try_at = now + pause_of(j);
}

static void speak(struct sdr_join *j, uint64_t now)
{
	if (!j->began || now < j->say_at)
		return;
	j->todo |= SDR_TODO_SAY;
	j->say_at = now + j->say_ns;
	j->say_ns = j->say_ns < SAY_LAST_NS ? 2 * j->say_ns : SAY_LAST_NS;
}

uint32_t sdr_join_tick(struct sdr_join *j, uint64_t now)
{
	uint32_t todo;

	if (j->join_state == SDR_JOIN_RESTING)
		rest(j, now);
	if (j->join_state == SDR_JOIN_BURIED)
		begin(j, now);
	go_on(j, now);
	be_patient(j, now);
	speak(j, now);
	todo = j->todo;
	j->todo = 0;
	return todo;
}
