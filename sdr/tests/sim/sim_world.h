/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two ends, a network between them, virtual time. The sender's and the receiver's core and rel are the real ones; NICs,
 * keys, memory and the network are played, and every promise is checked where it could break.
 */
#ifndef TESTS_SDR_SIM_WORLD_H
#define TESTS_SDR_SIM_WORLD_H

#include "sdr/core/core.h"
#include "sdr/rel/ctrl_wire.h"
#include "sdr/rel/rel.h"

#include <stdarg.h>

enum {
	SIM_SLOTS = 16,
	SIM_PACKETS = 64, /* of a message */
	SIM_PARITY = 64,
	SIM_WRITES = 24,
	SIM_OPEN = 4, /* Writes at once */
	SIM_MESSAGES = 2 * SIM_WRITES,
	SIM_EVENTS = 8192,
	SIM_FLYING = 4096,
	SIM_CQES = 512,
	SIM_STEPS = 400000,
	SIM_KEYS = SIM_SLOTS * SDR_GENERATIONS_MAX,
	SIM_BUFFERS = 2 * SIM_OPEN + 4
};

#define SIM_US 1000ull
#define SIM_MS (1000 * SIM_US)

enum sim_mutant {
	SIM_MUTANT_NONE,
	SIM_MUTANT_ONE_KEY,	     /* the same keys for all generations */
	SIM_MUTANT_BIT_FIRST,	     /* the completion before its payload */
	SIM_MUTANT_UNBOUND_UNPOLLED, /* unbound is told with completions still to be polled */
	SIM_MUTANT_UNBOUND_EARLY,    /* ... before the key is dead */
	SIM_MUTANT_FORGET_PACKETS,   /* END counts less than was sent */
	SIM_MUTANT_SEND_AFTER_END,   /* a repeat leaves behind END */
};
extern enum sim_mutant sim_mutant;

enum sim_type {
	SIM_EV_TICK,	 /* of an end */
	SIM_EV_INJECT,	 /* the sender's line is free */
	SIM_EV_PACKET,	 /* arrives */
	SIM_EV_PAYLOAD,	 /* only where it is later than its completion */
	SIM_EV_POLL,	 /* the receiver looks at its completions */
	SIM_EV_DATAGRAM, /* arrives */
	SIM_EV_BOUND,
	SIM_EV_UNBOUND, /* at the NIC */
	SIM_EV_DECODED,
	SIM_EV_COMPLETE, /* the user ends a receive */
	SIM_EV_HEAL
};

struct sim_event {
	uint64_t at, order;
	enum sim_type type;
	uint8_t end;
	uint32_t i;
	uint64_t n;
};

struct sim_packet {
	bool used;
	uint64_t n;
	uint32_t key, imm, offset;
	uint64_t tag;
	uint8_t generation;
};

struct sim_datagram {
	bool used;
	uint16_t size;
	uint8_t bytes[SDR_CTRL_MAX];
};

struct sim_buffer {
	bool used, open; /* open: between its post and the end of its completion */
	uint64_t n;
	uint64_t tags[SIM_PACKETS];
};

struct sim_cqe {
	uint32_t imm;
	int generation;
	uint64_t n;
};

/* A message of the sender, without rel: what it sends. */
struct sim_stream {
	bool used, allowed;
	uint32_t next, packets, imm;
};

struct sim_write {
	bool sending, receiving, posted;
	uint32_t packets, recv_packets, chunks, parity, imm;
	int tx_result, rx_result; /* 1: not yet; 0: good; else -errno */
	uint64_t posted_at, tx_ended_at, rx_ended_at;
};

struct sim_config {
	bool rel, window, duplicates, heals;
	uint32_t writes, open, rq_depth;
	enum sdr_scheme_kind kind;
	enum sdr_code_kind code;
	uint32_t k, m;
	uint32_t loss, ctrl_loss, duplicate, reorder, late, burst; /* in 1000 */
	uint32_t early; /* of receives, in 1000: completed before all is there */
	uint64_t delay, jitter, lifetime, inject, tick, bind, poll, heal_at, deadline, fto;
};

struct sim_end {
	struct sdr_core core;
	struct sdr_slot slots[SIM_SLOTS];
	struct sdr_send sends[SIM_SLOTS];
	_Atomic uint64_t words[SIM_SLOTS * 4];
	uint32_t sequence;
};

struct sim_counts {
	uint64_t schedules, packets, lost, late, duplicates, dry, reused, early, decoded, failed,
		writes, datagrams, steps, gone;
};

struct sim_world {
	uint64_t seed, now, order, steps, random, line_free;
	bool trace, healed;
	char violation[256];
	struct sim_config cfg;
	struct sim_counts *counts;
	struct sim_end ends[2]; /* 0 sends, 1 receives */
	struct sim_event heap[SIM_EVENTS];
	uint32_t heap_n;
	struct sim_packet packets[SIM_FLYING];
	struct sim_datagram datagrams[SIM_FLYING / 8];
	struct {
		struct sim_cqe list[SIM_CQES];
		uint32_t first, n;
	} cq;
	struct sim_buffer buffers[SIM_BUFFERS];
	int16_t keys[SIM_KEYS];	     /* the buffer behind each, or -1 */
	uint64_t unbound[SIM_SLOTS]; /* messages whose unbinding waits for the poll, + 1 */
	int16_t buffer_of[SIM_MESSAGES];
	bool inject_armed, poll_armed, bad;
	uint32_t turn;
	uint32_t posted_recv, posted_send; /* Writes or messages */
	struct sim_write writes[SIM_MESSAGES];
	struct sim_stream streams[SIM_MESSAGES];
	struct sdr_tx tx[SIM_OPEN];
	struct sdr_rx rx[SIM_OPEN];
	uint64_t acked[SIM_OPEN][1], wanted[SIM_OPEN][1];
	uint32_t left_at[SIM_OPEN][64];
	uint64_t have[SIM_OPEN][1], have_parity[SIM_OPEN][1], want[SIM_OPEN][1];
	uint32_t asked[SIM_OPEN][SIM_PACKETS];
	struct sdr_sub subs[SIM_OPEN][SIM_PACKETS];
	uint8_t send_allowed[SIM_WRITES]; /* how many of its two messages */
};

/* sim_world.c */
void sim_run(struct sim_world *w, uint64_t seed, bool trace);
uint64_t sim_random(struct sim_world *w, uint64_t below);
bool sim_chance(struct sim_world *w, uint32_t in_1000);
void sim_at(struct sim_world *w, uint64_t at, enum sim_type type, uint8_t end, uint32_t i,
	    uint64_t n);
void sim_violation(struct sim_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void sim_trace(struct sim_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_tag(uint64_t n, uint32_t offset);

/* sim_net.c */
void sim_send_packet(struct sim_world *w, uint64_t n, uint32_t offset, uint32_t imm,
		     const struct sdr_cts *cts);
void sim_packet_arrives(struct sim_world *w, uint32_t i);
void sim_payload_arrives(struct sim_world *w, uint32_t i);
void sim_poll(struct sim_world *w);
void sim_arm_poll(struct sim_world *w);
void sim_say(struct sim_world *w, uint8_t end, struct sdr_ctrl *c);
void sim_check_id_free(struct sim_world *w, uint64_t n);
void sim_check_chunk(struct sim_world *w, uint64_t n, uint32_t chunk, const char *promise);

/* sim_end.c */
void sim_actions(struct sim_world *w, uint8_t end, const struct sdr_actions *a);
int sim_step(struct sim_world *w, uint8_t end, struct sdr_event *e);
void sim_tick(struct sim_world *w, uint8_t end);
void sim_inject(struct sim_world *w);
void sim_hear(struct sim_world *w, uint8_t end, const struct sdr_ctrl *c);
void sim_bound(struct sim_world *w, uint64_t n);
void sim_nic_unbound(struct sim_world *w, uint64_t n);
void sim_told_unbound(struct sim_world *w, uint64_t n);
void sim_complete(struct sim_world *w, uint64_t n);
uint32_t sim_key(const struct sim_world *w, uint64_t n);

/* sim_write.c: Writes over rel */
void sim_write_post(struct sim_world *w, uint8_t end);
void sim_write_allowed(struct sim_world *w, uint64_t n);
void sim_write_gone(struct sim_world *w, uint64_t n);
bool sim_write_inject(struct sim_world *w);
void sim_write_tick(struct sim_world *w, uint8_t end);
void sim_write_hear(struct sim_world *w, uint8_t end, const struct sdr_ctrl *c);
void sim_write_decoded(struct sim_world *w, uint64_t write, uint32_t sub);
bool sim_writes_over(const struct sim_world *w);
void sim_writes_judge(struct sim_world *w);

#endif
