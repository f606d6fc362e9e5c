/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reliable Write, at either end: what is sent next, what is asked for, when it is over. Pure: no
 * clock, thread, verb or allocation. A Write is two messages of the core: its data, and the parity
 * of a code (which may stay empty).
 *
 * The sender's rules are in write.c (sr.c: timers), the receiver's in receive.c (nack.c: holes;
 * ec.c: submessages).
 */
#ifndef SDR_REL_REL_H
#define SDR_REL_REL_H

#include "sdr/include/sdr/model.h"
#include "sdr/core/bitmap.h"

#include <stddef.h>

enum {
	SDR_DEPTH_MAX = 64, /* submessages that are interleaved */
	SDR_CODE_MAX = 255, /* k + m: what GF(256) has room for */
	SDR_FLIGHTS = 1024,
	SDR_WINDOW_BITS = 15872, /* bits of each of two bitmaps in a datagram */
	SDR_REL_ACTIONS = 8,
};

/* How a Write is sent; the sender decides, OFFER tells it. Times in ns. */
struct sdr_plan {
	enum sdr_scheme_kind kind;
	enum sdr_code_kind code;
	uint32_t chunks;     /* of data */
	uint32_t coded_from; /* data from here on is coded; chunks: none is */
	uint32_t k, m, depth;
	uint32_t parity; /* chunks, in all */
	uint64_t inject_ns, rtt_ns, reorder_ns, rto_ns, fto_ns;
	uint32_t imm;
	uint64_t bytes;
};

/*
 * The parts of a submessage: data first, first + stride, ...; both count from the first coded
 * chunk.
 */
struct sdr_submessage {
	uint32_t data_first, data, parity_first, parity, stride;
};

bool sdr_plan_valid(const struct sdr_plan *p);
/* Fills in coded_from, depth and parity by the kind. */
void sdr_plan_lay(struct sdr_plan *p, double tail_rtts);
uint32_t sdr_plan_submessages(const struct sdr_plan *p);
struct sdr_submessage sdr_plan_submessage(const struct sdr_plan *p, uint32_t n);
uint32_t sdr_plan_of_data(const struct sdr_plan *p, uint32_t coded);
uint32_t sdr_plan_of_parity(const struct sdr_plan *p, uint32_t parity);

/* ---- sender ---------------------------------------------------------------------------------- */

enum sdr_tx_state { SDR_TX_WAITING, SDR_TX_SENDING, SDR_TX_DONE, SDR_TX_FAILED };

struct sdr_range {
	bool parity;
	uint32_t first, count;
};

struct sdr_flight {
	uint32_t first, count;
	uint64_t at;
};

struct sdr_tx {
	enum sdr_tx_state state;
	int status;
	uint64_t write;
	struct sdr_plan plan;
	uint64_t *acked, *wanted; /* a bit for each chunk of data */
	uint32_t *left_at;	  /* time when each chunk left last, in units of 1.024 us */
	/*
	 * the least time from a chunk's leaving until an ACK that misses it is read: the caller's,
	 * with what the ACK may have waited here; 0: not known
	 */
	uint64_t least_rtt_ns;
	uint32_t n_acked, n_wanted, next_data, next_parity, wanted_hint;
	struct sdr_flight flights[SDR_FLIGHTS];
	uint32_t flight_first, flights_n;
	bool offer_seen;
	uint64_t offer_at, probe_at, deadline;
	uint64_t sent, resent; /* chunks */
};

/* acked, wanted: sdr_words(plan->chunks) each; left_at: plan->chunks. */
int sdr_tx_init(struct sdr_tx *t, uint64_t write, const struct sdr_plan *plan, uint64_t *acked,
		uint64_t *wanted, uint32_t *left_at, uint64_t deadline);
/* The CTS of both messages has come. */
void sdr_tx_allow(struct sdr_tx *t, uint64_t now);
/* The receive is gone, or the connection is. */
void sdr_tx_fail(struct sdr_tx *t, int status);
/* Finds the range to be sent now, at most max chunks; false: nothing. */
bool sdr_tx_next(struct sdr_tx *t, uint32_t max, uint64_t now, struct sdr_range *range);

/* The chunks that the receiver has and wants, nbits of them from base on. */
struct sdr_ack {
	uint64_t write;
	uint32_t cumulative, base, nbits;
	bool want, decoded;
	const uint64_t *have, *wanted; /* words; wanted only with want */
};

enum sdr_rel_say { SDR_SAY_OFFER, SDR_SAY_PROBE, SDR_SAY_ACK, SDR_SAY_DONE, SDR_SAY_DECODE };

/* OFFER and PROBE, DONE (status): of the Write. ACK: base, want. DECODE: submessage n. */
struct sdr_rel_action {
	enum sdr_rel_say say;
	uint32_t n, base;
	bool want;
	int status;
};

struct sdr_rel_actions {
	uint32_t n;
	struct sdr_rel_action list[SDR_REL_ACTIONS];
};

int sdr_tx_ack(struct sdr_tx *t, const struct sdr_ack *ack, uint64_t now);
int sdr_tx_done(struct sdr_tx *t, uint64_t write, int status);
/* Due at least every quarter of a round trip. */
void sdr_tx_tick(struct sdr_tx *t, uint64_t now, struct sdr_rel_actions *a);

/* ---- receiver -------------------------------------------------------------------------------- */

enum sdr_rx_state { SDR_RX_OPEN, SDR_RX_DONE, SDR_RX_FAILED };
enum sdr_sub_state { SDR_SUB_OPEN, SDR_SUB_DECODING, SDR_SUB_WHOLE };

struct sdr_sub {
	uint16_t data, parity; /* chunks that are here */
	uint8_t sub_state;
};

struct sdr_rx {
	enum sdr_rx_state state;
	int status;
	uint64_t write, deadline;
	uint32_t capacity, parity_capacity; /* chunks that were posted */
	bool offered, began, probed;
	struct sdr_plan plan;
	const _Atomic uint64_t *data_bits, *parity_bits; /* the core's */
	uint64_t *have, *have_parity,
		*want;	 /* words of capacity, of parity_capacity, of capacity */
	uint32_t *asked; /* times when each chunk was asked for, in units of 1.024 us; 0: never */
	struct sdr_sub *subs;
	uint32_t n_have, cumulative, frontier, ripe, then;
	uint32_t foremost; /* the last chunk that came + 1; parity counts behind data */
	uint64_t then_at, began_at, end_at, last_new, ack_at;
	uint64_t pace_ns; /* time between chunks, as they come, or as planned if that is more */
	uint32_t decoded;
};

struct sdr_rx_memory {
	uint64_t *have, *have_parity, *want;
	uint32_t *asked;
	struct sdr_sub *subs; /* capacity: of k = 1 */
};

void sdr_rx_init(struct sdr_rx *r, uint64_t write, uint32_t capacity, uint32_t parity_capacity,
		 const struct sdr_rx_memory *memory, uint64_t deadline);
/* Takes the core's bitmaps, as soon as they exist. */
void sdr_rx_bits(struct sdr_rx *r, const _Atomic uint64_t *data, const _Atomic uint64_t *parity);
/* -EINVAL: the offer makes no sense, and the Write has failed. */
int sdr_rx_offer(struct sdr_rx *r, const struct sdr_plan *plan, uint64_t now);
/* The Write has failed, and the sender is told. */
void sdr_rx_refuse(struct sdr_rx *r, int status);
void sdr_rx_probe(struct sdr_rx *r, uint64_t now);
/* DECODE is done: its data is in place. */
int sdr_rx_decoded(struct sdr_rx *r, uint32_t sub, uint64_t now);
void sdr_rx_poll(struct sdr_rx *r, uint64_t now, struct sdr_rel_actions *a);
/* The ACK of an action; its words point into r until the next call. */
struct sdr_ack sdr_rx_ack(const struct sdr_rx *r, const struct sdr_rel_action *action);

const char *sdr_tx_state_name(enum sdr_tx_state state);
const char *sdr_rx_state_name(enum sdr_rx_state state);

/* ---- what is known of a link ----------------------------------------------------------------- */

struct sdr_estimate {
	uint64_t srtt_ns, var_ns, min_ns;
	double loss;	 /* of a chunk */
	uint64_t chunks; /* that loss is the mean of */
	double repeats;	 /* part of the coded Writes, lately, that a code did not suffice for */
};

void sdr_estimate_rtt(struct sdr_estimate *e, uint64_t sample_ns);
void sdr_estimate_loss(struct sdr_estimate *e, uint64_t sent, uint64_t lost);
/* Notes the end of a Write of which all was coded; repeated: chunks were sent again. */
void sdr_estimate_coded(struct sdr_estimate *e, bool repeated);

/* A choice and its reason. */
struct sdr_choice {
	struct sdr_scheme scheme;
	double tail_s, runner_up_s; /* the time in which that part of all Writes is over */
	double loss, rtt_s;
	const char *reason;
};

/* code: that of the schemes that may be chosen; tail: the part of Writes that counts, as 0.999. */
int sdr_choose(const struct sdr_estimate *e, double rate_bps, uint32_t chunk, uint64_t bytes,
	       enum sdr_code_kind code, double max_sent, double tail, struct sdr_choice *choice);
/*
 * Returns the bytes of a chunk, where the application names none: a packet, so that only lost
 * packets are sent again, or restored; more where an ACK could not tell of all chunks of a message
 * otherwise. sdr/tools/model.c has the same rule.
 */
uint32_t sdr_choose_chunk(uint64_t max_msg_size, uint32_t packet);

#endif
