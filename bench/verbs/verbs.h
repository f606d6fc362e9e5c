/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs: what one call of a data verb costs. Two processes; the client measures. Under callgrind
 * each case ends with a dump of its instructions, else with times; bench/verbs.py reads both.
 */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include "tests/lib/pair.h"

enum {
	SEND_WR = 128,
	RECV_WR = 512,
	CQ_SIZE = 2048,
	SGES = 4,
	INLINE_MAX = 128,
	BATCH = 16,
	SMALL = 8,
	MESSAGE = 64, /* too large for a CQE to carry */
	INLINE_BYTES = 64,
	SPACE = 4096,
	PATIENCE_S = 30, /* enough on a machine with other work */
};

/* A connection with everything that the cases need. ex: made for ibv_wr_*, with a cq_ex. */
struct link {
	struct nic *nic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_cq_ex *cq_ex;
	struct ibv_qp_ex *qp_ex;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct address own, peer;
};

/* link.c */
void link_make(struct link *l, struct nic *nic, bool ex);
void link_connect(struct link *l);
void link_free(struct link *l);
void link_post_receives(struct link *l, int n);
void link_post_sends(struct link *l, int n);
int link_reap(struct link *l, int n); /* polls until n completions came or PATIENCE_S went by */

/* ledger.c: stock verbs, and a copy of each request until it completes. */
void ledger_start(struct ibv_context *ctx);
void ledger_add(struct ibv_qp *qp);

/* cases.c. ask_peer: the other end sends so many messages on the link (0: plain, 1: ex). */
void cases_run(struct link *plain, struct link *ex, const char *phase, int samples,
	       void (*ask_peer)(int link, int n));

#endif
