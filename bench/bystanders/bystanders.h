/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program over plain verbs that obeys its driver (bench/bystanders.py) line by line, checks
 * every byte that it gets, and tells what each of its objects saw. The driver draws the events;
 * nothing here is random, and nothing tells a time.
 */
#ifndef BYSTANDERS_H
#define BYSTANDERS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	CTXS = 8,
	CHANNELS = 32,
	CQS = 128,
	SRQS = 16,
	ENDS = 64,
	PORT = 1,
	GIDS = 16,
	SLOTS = 256,
	BODY = 1024, /* most bytes of a message */
	GRH = 40,
	SLOT = BODY + 64,
	ZONE = SLOTS * SLOT,
	QKEY = 0x1234,
	LOG = 1 << 16
};

#define RECEIVE (1ull << 63) /* flag in a work request's id */

/* The zones of an end's memory. */
enum zone { ZONE_SEND, ZONE_RECV, ZONE_TARGET, ZONE_SOURCE, ZONE_LOCAL, ZONE_COUNTER, ZONES };

struct context {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	uint16_t lid;
	int gid_index; /* index that the program knows; a follower looks again at an event */
};

struct channel {
	struct ibv_comp_channel *channel;
	int ctx;
};

struct queue {
	struct ibv_cq *cq;
	int ctx, channel; /* channel: -1 if the program polls */
	bool armed, rung; /* rung: an event came and the queue was not polled since */
	bool solicited;
};

/* Receives of a queue pair, or those that several share. */
struct receives {
	struct ibv_srq *srq; /* NULL: of one queue pair */
	struct ibv_mr *mr;
	uint8_t *mem;
	int ctx;
	int free[SLOTS], n_free;
};

struct address {
	uint32_t qpn, psn, rkey;
	uint64_t addr;
	uint16_t lid;
	union ibv_gid gid;
};

/* Completions that an end saw, in its order. */
struct seen {
	char text[LOG];
	size_t len;
	unsigned int n;
};

/* An end of a connection, or of a pair of datagram queue pairs. */
struct end {
	struct ibv_qp *qp;
	struct ibv_pd *domain; /* of its own; NULL: the context's */
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t *mem;
	enum ibv_qp_type type;
	int ctx, send_cq, recv_cq, srq; /* srq: -1 if it has receives of its own */
	uint32_t unit, side;
	bool all_signaled, dead; /* dead: it saw an error completion */
	struct address own, peer;
	struct receives receives;
	uint32_t posted, done, told, arrived; /* requests; completions told; the last message */
	uint32_t receives_out;
	uint64_t adds; /* how often the peer's counter was changed */
	bool adds_known;
	struct {
		char what;
		bool signaled;
		uint32_t len;
	} request[SLOTS];
	struct seen sends, recvs;
};

extern struct context contexts[CTXS];
extern struct channel channels[CHANNELS];
extern struct queue queues[CQS];
extern struct receives shared[SRQS];
extern struct end *ends[ENDS];

/* main.c */
void reply(const char *format, ...) __attribute__((format(printf, 1, 2)));
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a byte or an order */
/* tells things that stock never does */
void odd(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(bool ok, const char *what);
int number(const char *word);
double now_s(void);

/* object.c: commands that make objects, and those that destroy them */
void context_open(char **word);
void context_close(char **word);
void channel_make(char **word);
void channel_drop(char **word);
void queue_make(char **word);
void queue_drop(char **word);
void srq_make(char **word);
void srq_drop(char **word);
int context_find_gid(struct context *c);
int receives_init(struct receives *r, struct ibv_pd *pd);
void receives_uninit(struct receives *r);

/* end.c */
void end_make(char **word);
void end_connect(char **word);
void end_reset(char **word);
void end_state(char **word);
void end_drop(char **word);
struct end *end_at(const char *word);
struct receives *end_receives(struct end *e);

/* post.c */
void end_send(char **word);
void end_recv(char **word);
void srq_reserve(char **word);

/* payload.c */
void payload_fill(uint8_t *at, const struct end *e, uint32_t seq, uint32_t len, uint32_t before);
void payload_fill_source(struct end *e);
void payload_arrived(struct end *e, const struct ibv_wc *wc, const uint8_t *at);
void payload_came_back(struct end *e, uint32_t index);
uint8_t *zone_slot(uint8_t *mem, enum zone zone, uint32_t seq);

/* watch.c */
void watch(char **word);
void tell_seen(char **word);

/* event.c */
void tell_events(char **word);

/* probe.c */
void probe(char **word);

#endif
