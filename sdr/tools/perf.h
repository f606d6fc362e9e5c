/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The declarations that the files of sdr_perf share. */
#ifndef TOOLS_SDR_PERF_H
#define TOOLS_SDR_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sdr/include/sdr/rel.h"

struct options {
	const char *dev;	     /* several with commas */
	const char *host, *kv, *job; /* host: of the server; kv: both meet there instead */
	const char *secret;	     /* file; NULL: control datagrams are not signed */
	int port, gid_index, scheme, wait_s;
	enum sdr_backend backend;
	enum sdr_code_kind code;
	bool model, client, sdk, against_rc, verify, json, duplicates;
	bool own_code; /* k or m was told */
	bool own_size, nccl;
	uint64_t size, chunk, n, rate, burst, k, m, inflight, devices, channels, depth;
	uint64_t rtt_ns, timeout_ns, lifetime_ns;
	uint64_t mtu; /* model: bytes of a packet */
	double loss;  /* model; below 0: not told */
};

/* options.c: false: it was said what is wrong. */
bool options_parse(int argc, char **argv, bool model, struct options *o);
bool parse_number(const char *text, uint64_t *value); /* 64K, 8M, 400G: powers of 1,024 */
bool parse_rate(const char *text, uint64_t *bps);     /* powers of 1,000 */
bool parse_time(const char *text, uint64_t *ns);      /* 25ms, 200us, 3s */
void usage(void);

/*
 * oob.c: a TCP connection, or a key-value store, that carries what must be told outside. Each
 * function says what went wrong, and is false.
 */
bool oob_open(const struct options *o);
bool oob_send(const void *data, uint32_t size);
/* size: in: room; out: used. */
bool oob_receive(void *data, uint32_t *size, int wait_s);
/* true: the other end is no more. */
bool oob_gone(void);
bool oob_hear(void); /* something has come, or the end */
/* True after a signal: the program is to end in order, so that the other end hears of it. */
bool oob_interrupted(void);
void oob_close(void);

/* meet.c: the same by a key-value store */
bool meet_open(const struct options *o);
bool meet_send(const void *data, uint32_t size);
bool meet_receive(void *data, uint32_t *size, int wait_s);
bool meet_gone(void);
bool meet_hear(void);
void meet_close(void);

/* pair.c: device, memory, connection */
struct pair {
	struct sdr_context *ctx;
	struct sdr_qp *qp;
	struct sdr_rel *rel;
	struct sdr_mr *mr;
	uint8_t *mem;
	uint64_t slot; /* bytes of each of o->inflight buffers */
	/* made of the secret: a key for control datagrams, and a greeting that is shown */
	uint8_t key[32], greeting[32];
};
bool pair_open(struct pair *p, const struct options *o);
void pair_close(struct pair *p);
uint8_t *pair_buffer(const struct pair *p, uint64_t n, const struct options *o);
void pattern_fill(uint8_t *at, uint64_t size, uint64_t n);
/* The first byte that is wrong; size: none is. */
uint64_t pattern_check(const uint8_t *at, uint64_t size, uint64_t n);

/* report.c */
uint64_t now_ns(void);
const char *why(int err);
struct tally {
	uint64_t *ns, n; /* times of the Writes or messages */
	uint64_t begin, end;
	uint64_t chunks, sent, resent, decoded, failed, wrong, missing, packets;
	uint64_t nics_lost, nics_joined;
	uint64_t fallbacks; /* Writes of which something was sent again */
	uint64_t of_scheme[4];
};
void report_print(const struct options *o, const struct pair *p, struct tally *t);
/* Reports the same Writes over RC beside those over SDR. */
void report_against(const struct options *o, struct tally *sdr, struct tally *rc);
/* pair.c: parts from the other end, and reports if all of it was good: its answer. */
bool pair_finish(struct pair *p, const struct options *o, struct tally *t, bool good);

/* rc.c: a reliable connection beside the pair's, for --against rc. Says what went wrong. */
struct rc;
struct rc *rc_open(const struct pair *p, const struct options *o);
void rc_close(struct rc *rc);
/* Writes o->size bytes from the pair's memory, until they are acknowledged. 0, -errno. */
int rc_write(struct rc *rc, const struct pair *p, uint8_t *from, struct tally *t);
bool rc_check(const struct rc *rc); /* server: the last one's bytes */

int run_writes(const struct options *o);     /* write.c */
int run_sdk(const struct options *o);	     /* sdk.c */
int run_model(const struct options *o);	     /* model.c */
int run_model_nccl(const struct options *o); /* model_nccl.c */
/* Returns the default chunk of messages of size bytes. */
uint32_t model_chunk(uint64_t size, uint32_t packet);

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
