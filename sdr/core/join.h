/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way between a NIC here and one there: in use, left by both ends when either NIC fails, and
 * joined again. No clock, thread or verb: the shell closes, makes and connects queue pairs when it
 * is told to, and says how it went.
 *
 * A life is a number that only grows: even, the way is in use; odd, it is left. Each datagram's
 * head has the life of each NIC, so a late or doubled datagram changes nothing. An end makes queue
 * pairs for the next life only when its own old ones are gone and a packet's lifetime has passed
 * since, and the peer has said the same of its own: their numbers and keys may come again, and
 * nothing is under way that knows the old ones.
 */
#ifndef SDR_CORE_JOIN_H
#define SDR_CORE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SDR_LIFE_MAX = 251,    /* odd: the last life; nobody joins after it */
	SDR_JOIN_TRIES = 30,   /* attempts in a row that come to nothing */
	SDR_JOIN_PATIENCE = 10 /* lifetimes that an attempt may take */
};

enum sdr_join_state {
	SDR_JOIN_UP,
	SDR_JOIN_CLOSING, /* left: queue pairs are being closed */
	/* queue pairs are gone; packets may be under way, or the peer may not know */
	SDR_JOIN_RESTING,
	SDR_JOIN_BURIED,     /* nothing of ours is under way */
	SDR_JOIN_MAKING,     /* new queue pairs are being made */
	SDR_JOIN_MADE,	     /* the new queue pairs are told to the peer */
	SDR_JOIN_CONNECTING, /* the new queue pairs are being connected to the peer's */
	SDR_JOIN_CONNECTED
};

/* How far an end says that it is, in a life. */
enum sdr_join_stage { SDR_STAGE_NONE, SDR_STAGE_BURIED, SDR_STAGE_MADE, SDR_STAGE_CONNECTED };

/* Orders to the shell. */
enum sdr_join_todo {
	SDR_TODO_CLOSE = 1, /* then sdr_join_closed() */
	SDR_TODO_MAKE = 2,
	SDR_TODO_CONNECT = 4,
	SDR_TODO_SAY = 8,   /* JOIN, with life and stage */
	SDR_TODO_TELL = 16, /* a head is enough */
	SDR_TODO_USE = 32   /* the way is in use again */
};

struct sdr_join {
	enum sdr_join_state join_state;
	enum sdr_join_stage peer_stage; /* stage of the peer in this life */
	uint8_t life, peer_life;
	bool own;   /* the NIC of this end failed: this end begins */
	bool began; /* the end has begun to say that it would join */
	bool told;  /* the peer has left the way, too */
	bool again; /* the NIC failed while the shell was at work */
	uint32_t tries, todo;
	uint64_t lifetime_ns;
	uint64_t left_at, gone_at, told_at, up_at; /* gone_at: when our queue pairs were gone */
	uint64_t ready_at;			   /* the NIC is well again; 0: it is not */
	uint64_t try_at, give_up_at, say_at, say_ns;
};

void sdr_join_init(struct sdr_join *j, uint64_t lifetime_ns);
/* The NIC of this end has failed. */
void sdr_join_fail(struct sdr_join *j, uint64_t now);
/* The NIC of this end answers again; its past life is over. */
void sdr_join_ready(struct sdr_join *j, uint64_t now);
/* Reports of the shell: an order is carried out. ok: false if it came to nothing. */
void sdr_join_closed(struct sdr_join *j, uint64_t now);
void sdr_join_made(struct sdr_join *j, bool ok, uint64_t now);
void sdr_join_connected(struct sdr_join *j, bool ok, uint64_t now);
/* Takes the life that a datagram's head names. */
void sdr_join_hear_life(struct sdr_join *j, uint8_t life, uint64_t now);
/* Takes a JOIN. */
void sdr_join_hear(struct sdr_join *j, uint8_t life, enum sdr_join_stage stage, uint64_t now);
/* Returns what is to be done, enum sdr_join_todo. Due at least every few milliseconds. */
uint32_t sdr_join_tick(struct sdr_join *j, uint64_t now);
enum sdr_join_stage sdr_join_stage_of(const struct sdr_join *j);
/* True if keys of this NIC may be used, from a datagram whose head has that life. */
bool sdr_join_takes_keys(const struct sdr_join *j, uint8_t life);
const char *sdr_join_state_name(enum sdr_join_state state);

#endif
