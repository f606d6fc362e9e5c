/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way between a NIC here and one there: in use, left by both ends when either NIC fails, and joined again. No clock, thread or
 * verb: the shell closes, makes and connects queue pairs when it is told to, and says how it went.
 *
 * A life is a number that only grows: even, the way is in use; odd, it is left. Each datagram's head has that of each NIC, so what is
 * late or doubled changes nothing. Queue pairs for the next life are made at an end only when its own old ones are
 * gone and a packet's lifetime has passed since, and the peer has said the same of its own: their numbers and keys may
 * come again, and nothing is under way that knows the old ones.
 */
#ifndef SDR_CORE_JOIN_H
#define SDR_CORE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SDR_LIFE_MAX = 251,    /* odd: the last; nobody joins behind it */
	SDR_JOIN_TRIES = 30,   /* in a row that come to nothing */
	SDR_JOIN_PATIENCE = 10 /* lifetimes that one may take */
};

enum sdr_join_state {
	SDR_JOIN_UP,
	SDR_JOIN_CLOSING, /* left: queue pairs are being closed */
	SDR_JOIN_RESTING, /* they are gone; what had left may be under way, or the peer not know of it */
	SDR_JOIN_BURIED,     /* nothing of ours is under way */
	SDR_JOIN_MAKING,     /* new queue pairs are being made */
	SDR_JOIN_MADE,	     /* and are told to the peer */
	SDR_JOIN_CONNECTING, /* to those that the peer has told */
	SDR_JOIN_CONNECTED
};

/* What an end says of itself, for a life. */
enum sdr_join_stage { SDR_STAGE_NONE, SDR_STAGE_BURIED, SDR_STAGE_MADE, SDR_STAGE_CONNECTED };

/* What the shell is to do. */
enum sdr_join_todo {
	SDR_TODO_CLOSE = 1, /* then sdr_join_closed() */
	SDR_TODO_MAKE = 2,
	SDR_TODO_CONNECT = 4,
	SDR_TODO_SAY = 8,   /* JOIN, with life and stage */
	SDR_TODO_TELL = 16, /* a head is enough */
	SDR_TODO_USE = 32   /* it is in use again */
};

struct sdr_join {
	enum sdr_join_state join_state;
	enum sdr_join_stage peer_stage; /* of this life */
	uint8_t life, peer_life;
	bool own;   /* the NIC of this end failed: this end begins */
	bool began; /* to say that it would join */
	bool told;  /* the peer has left it, too */
	bool again; /* it failed while the shell was busy with it */
	uint32_t tries, todo;
	uint64_t lifetime_ns;
	uint64_t left_at, gone_at, told_at, up_at; /* gone_at: of our queue pairs */
	uint64_t ready_at;			   /* the NIC is well again; 0: it is not */
	uint64_t try_at, give_up_at, say_at, say_ns;
};

void sdr_join_init(struct sdr_join *j, uint64_t lifetime_ns);
/* The NIC of this end has failed. */
void sdr_join_fail(struct sdr_join *j, uint64_t now);
/* It answers again; its past life is over. */
void sdr_join_ready(struct sdr_join *j, uint64_t now);
/* What the shell was told to do is done; ok: or came to nothing. */
void sdr_join_closed(struct sdr_join *j, uint64_t now);
void sdr_join_made(struct sdr_join *j, bool ok, uint64_t now);
void sdr_join_connected(struct sdr_join *j, bool ok, uint64_t now);
/* Of a head. */
void sdr_join_hear_life(struct sdr_join *j, uint8_t life, uint64_t now);
/* Of a JOIN. */
void sdr_join_hear(struct sdr_join *j, uint8_t life, enum sdr_join_stage stage, uint64_t now);
/* At least every few milliseconds. What is to be done, enum sdr_join_todo. */
uint32_t sdr_join_tick(struct sdr_join *j, uint64_t now);
enum sdr_join_stage sdr_join_stage_of(const struct sdr_join *j);
/* Keys of this NIC in a datagram whose head has that life may be used. */
bool sdr_join_takes_keys(const struct sdr_join *j, uint8_t life);
const char *sdr_join_state_name(enum sdr_join_state state);

#endif
