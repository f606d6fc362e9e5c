/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes over plain verbs, each with connections to the other: for programs that use the verbs
 * in orders of their own. Each says what it reached; its runner puts faults between.
 */
#ifndef TESTS_LIB_PAIR_H
#define TESTS_LIB_PAIR_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEPTH = 32, PART = 4096, AREA = DEPTH * PART, PORT = 1 };

struct options {
	bool server;
	int port, rounds, qps, timeout; /* timeout: of the QPs, as in ibv_qp_attr */
	int rest_ms, regions;
	int wait_s; /* for a completion; 0: 20 */
	int gid_index;
	bool no_rereg;
	bool srq; /* receives are shared */
	uint64_t seed;
	bool unsignaled; /* a send completes only if it asks for it */
	const char *dev, *dev2;
	enum ibv_mtu mtu;  /* of the path; 0: 1024 */
	uint8_t rnr_retry; /* 0: 7, without end */
};

/* One context with a protection domain. */
struct nic {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* of connections made from now on; NULL: each has its own receives */
	union ibv_gid gid;
	struct ibv_port_attr port;
};

struct address {
	uint32_t qpn, psn, rkey;
	uint64_t addr;
	uint16_t lid;
	uint8_t gid[16];
};

struct conn {
	struct nic *nic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem; /* first half is sent from, second half is received into */
	struct address own, peer;
	uint64_t sent, got;
};

extern struct options opt;
extern int sock; /* to the other process */

/* pair.c: every function ends the process with a sentence when something fails. */
void must(bool ok, const char *what);
void must_zero(int ret, const char *what);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hear(const char *word); /* a line of the runner's, which must be this one */
bool both_told(void);	     /* has the runner said a word more to one of both? Both agree */
uint64_t
options_seeded(int argc,
	       char **argv); /* [-s] -p PORT [-S SEED]: opt; returns the seed, 1 by default */
double now_s(void);
void line_open(void);
void swap(const void *mine, void *theirs, size_t len);
void meet(void); /* barrier of both processes */

/* By how many regions can a NIC of this process reach any of it? */
unsigned int reachable(const void *addr, uint64_t length);
unsigned int reachable_by(const char *dev, const void *addr, uint64_t length); /* by one NIC */
void await_shadow(const void *addr, uint64_t length); /* another NIC can, too */
void await_unreachable(const void *addr,
		       uint64_t length); /* none can: soon after it was deregistered */

void nic_open(struct nic *nic, const char *dev);
void nic_close(struct nic *nic);

/* pair_conn.c */
void conn_make(struct conn *c, struct nic *nic);
void conn_make_on(struct conn *c, struct nic *nic, struct ibv_comp_channel *channel,
		  void *cq_context);
void conn_to_init(struct conn *c);
void conn_set_own(struct conn *c); /* its address, as the other end needs it */
void conn_lay(struct conn *c);	   /* posts DEPTH receives */
void conn_arrived(struct conn *c, const struct ibv_wc *wc); /* checks it, posts the next receive */
void conn_connect(struct conn *c);	/* swaps addresses; posts DEPTH receives; RTS */
void conn_connect_bare(struct conn *c); /* the same without receives */
void conn_swap(struct conn *c);		/* addresses, and then it is in INIT */
/* To own and peer as they are. */
void conn_to_rtr(struct conn *c);
void conn_to_rts(struct conn *c);
void conn_to_rts_alone(struct conn *c); /* both */
void conn_reset(struct conn *c);
void conn_free(struct conn *c);
int conn_poll(struct conn *c, struct ibv_wc *wc); /* one completion within 20 s, or the end */
void conn_post_recv(struct conn *c, uint64_t number);
void conn_post_send(struct conn *c, uint64_t number);
/* n messages in each direction, every one checked. */
void conn_talk(struct conn *c, uint64_t n);

#endif
