/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes on two hosts of a fabric. The test runs on h0; a helper on h1 obeys orders that
 * come over a socket pair: it connects QPs, posts receives, polls, and shows its memory.
 */
#ifndef TESTS_LIB_SIMNIC_RIG_H
#define TESTS_LIB_SIMNIC_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/fabric.h"

#define RIG_MEM	    (4 << 20)
#define RIG_DEPTH   64
#define RIG_TIMEOUT 10 /* about 4 ms; with retry_cnt 1 a lost path shows soon */

struct rig_addr {
	uint32_t qpn, rkey, lid;
	uint64_t mem;
	union ibv_gid gid;
};

/* One end: device, memory, one QP at a time. */
struct rig_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint8_t *mem;
	bool ib;
};

struct rig_conn {
	enum ibv_qp_type type;
	uint8_t timeout, retry_cnt, rnr_retry;
	uint32_t access; /* of the helper's QP and memory */
	bool sig_all;
};

enum rig_op {
	RIG_CONNECT,
	RIG_RECV,
	RIG_POLL,
	RIG_MEM_READ,
	RIG_MEM_FILL,
	RIG_EVENT,
	RIG_STATE,
	RIG_FREEZE, /* its NIC's thread does nothing, as one that gets no processor; a 0: it goes on */
};

struct rig_order {
	enum rig_op op;
	struct rig_conn conn;
	struct rig_addr addr;
	uint64_t a, b;
};

struct rig_reply {
	int result;
	int32_t pid; /* the helper's */
	struct rig_addr addr;
	struct ibv_wc wc[8];
	uint8_t bytes[256];
};

/* main() of the test program: makes the fabric and runs both ends; returns on h0 only. */
int rig_main(int argc, char **argv, int (*tests)(void));

extern struct rig_end rig;	 /* this end */
extern struct rig_addr rig_peer; /* the helper's QP */
extern struct sn_fabric *rig_fabric;

struct rig_reply rig_order(struct rig_order order);
int rig_open(struct rig_end *end, uint32_t access);
void rig_close(struct rig_end *end);
int rig_finish(void **state); /* a teardown: faults end, and the own end is closed */
/* Both ends connected, memory filled with patterns: h0 counts up, h1 all 0xee. */
int rig_connect(struct rig_conn conn);
int rig_qp_to_rts(struct rig_end *end, const struct rig_conn *conn, const struct rig_addr *peer);
/* A QP of this end, connected to itself. */
int rig_loopback(const struct rig_conn *conn, struct rig_addr *self);
/* Polls until one completion; its status, or -ETIME after 10 s. */
int rig_poll(struct ibv_wc *wc);
/* Asynchronous event within 5 s, acknowledged; its type or -ETIME. */
int rig_event(struct ibv_context *ctx);
int rig_ctl(const char *arguments); /* simnicctl */
struct ibv_sge rig_sge(uint32_t offset, uint32_t length);

#endif
