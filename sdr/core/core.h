/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rules of a queue pair of SDR: which slot a receive gets and when a slot may be used again,
 * what allows a send, which packet counts. No clock, thread, verb or allocation: events in, actions
 * out. Each end has both halves.
 *
 * The n-th send lands in the n-th receive: slot n mod slots, generation n / slots mod generations.
 * An id on the wire is the slot; a queue pair (or key) belongs to a generation.
 */
#ifndef SDR_CORE_CORE_H
#define SDR_CORE_CORE_H

#include "sdr/core/bitmap.h"
#include "sdr/core/imm.h"

#include <stddef.h>

enum { SDR_GENERATIONS_MAX = 8, SDR_CTS_MAX = 64, SDR_RKEYS_MAX = 8 };

struct sdr_core_attr {
	uint32_t slots;	      /* a power of two, at most 1 << id_bits */
	uint32_t generations; /* 1 to SDR_GENERATIONS_MAX */
	uint8_t id_bits, offset_bits;
	uint8_t chunk_shift;  /* a chunk has 1 << chunk_shift packets, at most 64 */
	bool duplicates;      /* the network may deliver a packet twice */
	uint32_t packet;      /* bytes */
	uint32_t max_packets; /* of a message */
	uint64_t lifetime_ns; /* no packet is under way for longer */
	uint64_t repeat_ns;   /* time between repeats of what the peer has not confirmed */
};

enum sdr_slot_state {
	SDR_SLOT_EMPTY,
	SDR_SLOT_BINDING,
	SDR_SLOT_OPEN,
	SDR_SLOT_CLOSING,
	SDR_SLOT_QUARANTINE
};

/* The record of one message of a slot, kept also when the slot serves later ones. */
struct sdr_use {
	uint64_t n;
	_Atomic uint32_t received;   /* packets, whatever became of them */
	_Atomic uint32_t duplicates; /* packets that had been seen before */
	uint32_t sent;		     /* as END says */
	bool used, ended, closed;
	uint64_t since; /* when both sides were done with it */
};

struct sdr_slot {
	_Atomic uint8_t
		state; /* enum sdr_slot_state; written by the owner of the queue pair alone */
	_Atomic uint8_t generation;
	bool complete_asked; /* while it is being bound */
	uint64_t n, cookie, addr, length, word;
	uint32_t rkeys[SDR_RKEYS_MAX]; /* of each NIC */
	struct sdr_bitmap bits;
	_Atomic uint32_t imm, imm_have;
	struct sdr_use uses[SDR_GENERATIONS_MAX];
};

enum sdr_send_state { SDR_SEND_EMPTY, SDR_SEND_WAITING, SDR_SEND_SENDING, SDR_SEND_SENT };

struct sdr_cts {
	uint64_t addr, length;
	uint32_t rkeys[SDR_RKEYS_MAX]; /* a key for each NIC of the receiver */
	bool gone;		       /* the receive was completed before its CTS was seen */
	uint64_t word;		       /* whatever the receiver's user says of the receive */
};

struct sdr_send {
	enum sdr_send_state send_state;
	uint64_t n, cookie;
	bool allowed; /* cts is that of message cts_n */
	uint64_t cts_n;
	struct sdr_cts cts;
	uint32_t packets; /* given to the NIC so far */
};

struct sdr_core_stats {
	_Atomic uint64_t packets, late, stray;
};

struct sdr_core {
	struct sdr_core_attr attr;
	struct sdr_imm_layout layout;
	struct sdr_slot *slots;
	struct sdr_send *sends;
	uint64_t recv_next;		 /* number of the next receive */
	uint64_t cts_told;		 /* the peer knows the CTS of all below */
	uint64_t ends_known;		 /* END is known of all below */
	uint64_t send_next;		 /* number of the next send */
	uint64_t cts_known;		 /* the CTS of all below is known */
	uint64_t ends_told;		 /* the peer knows END of all below */
	uint64_t cts_repeat, end_repeat; /* when to say it again; 0: at once */
	bool answer; /* CTS or END came: the peer repeats it until it hears from us */
	struct sdr_core_stats stats;
};

enum sdr_event_type {
	SDR_EVENT_RECV_POST,	 /* cookie, addr, length, word */
	SDR_EVENT_BOUND,	 /* n, rkeys (addr: where the sender is to write) */
	SDR_EVENT_RECV_COMPLETE, /* n */
	SDR_EVENT_UNBOUND,	 /* n; its completions have been polled, too */
	SDR_EVENT_SEND_POST,	 /* cookie */
	SDR_EVENT_INJECTED,	 /* n, count: packets given to the NIC */
	SDR_EVENT_SEND_END,	 /* n */
	SDR_EVENT_CTS,		 /* n, cts */
	SDR_EVENT_PEER_END,	 /* n, count */
	SDR_EVENT_HEARD,	 /* n: CTS known below, count: ENDs known below (low half) */
	SDR_EVENT_TICK
};

struct sdr_event {
	enum sdr_event_type type;
	uint32_t count;
	uint64_t n, cookie, addr, length, word;
	uint32_t rkeys[SDR_RKEYS_MAX];
	struct sdr_cts cts;
};

enum sdr_action_type {
	SDR_ACTION_BIND,	 /* n, addr, length */
	SDR_ACTION_UNBIND,	 /* n */
	SDR_ACTION_SEND_CTS,	 /* n, count: sdr_core_cts() has them */
	SDR_ACTION_SEND_END,	 /* n, count: packets */
	SDR_ACTION_RECV_DONE,	 /* cookie: nothing changes the buffer any more */
	SDR_ACTION_SEND_ALLOWED, /* n, cookie, cts */
	SDR_ACTION_SEND_GONE,	 /* n, cookie: the receive is no more */
	SDR_ACTION_SEND_KNOWN	 /* the peer repeats what is known: a head is enough */
};

struct sdr_action {
	enum sdr_action_type type;
	uint32_t count;
	uint64_t n, cookie, addr, length;
	struct sdr_cts cts;
};

enum { SDR_ACTIONS = 24 };

struct sdr_actions {
	uint32_t n;
	struct sdr_action list[SDR_ACTIONS];
};

/* Words of 64 bits that the bitmaps of all slots need. */
size_t sdr_core_words(const struct sdr_core_attr *attr);
/* slots, sends: attr->slots of each; words: as above. -EINVAL: attr makes no sense. */
int sdr_core_init(struct sdr_core *c, const struct sdr_core_attr *attr, struct sdr_slot *slots,
		  struct sdr_send *sends, _Atomic uint64_t *words);
/*
 * Takes an event. 0, or -EAGAIN: no slot is free yet (RECV_POST, SEND_POST); -EINVAL: no such
 * message, or nonsense. The message's number is in event->n after a post. TICK is due at least
 * every repeat_ns.
 */
int sdr_core_step(struct sdr_core *c, struct sdr_event *event, uint64_t now,
		  struct sdr_actions *actions);
/* The CTS of message n, for the wire. */
bool sdr_core_cts(const struct sdr_core *c, uint64_t n, struct sdr_cts *cts);
/* Returns the CTS that the peer has said of message n, which need not be posted yet; or NULL. */
const struct sdr_cts *sdr_core_heard_cts(const struct sdr_core *c, uint64_t n);
struct sdr_slot *sdr_core_recv(struct sdr_core *c, uint64_t n);
struct sdr_send *sdr_core_send(struct sdr_core *c, uint64_t n);
/* True if all of the immediate has come. */
bool sdr_core_imm(const struct sdr_core *c, const struct sdr_slot *slot, uint32_t *imm);
/* True if the sender has said that it has sent all that it will. */
bool sdr_core_ended(struct sdr_core *c, uint64_t n);
const char *sdr_slot_state_name(enum sdr_slot_state state);
const char *sdr_send_state_name(enum sdr_send_state state);

#endif
