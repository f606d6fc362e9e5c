/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two queue pairs of the NIC under test, connected to each other by plain verbs only, on any
 * vendor's NIC. A asks, B answers. Each end has a completion queue for sends and one for receives.
 */
#ifndef PROBE_PLAIN_H
#define PROBE_PLAIN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct pr_dev;

#define PLAIN_WR  64u
#define PLAIN_MAX 32u /* completions that a look collects */

struct pr_plain_end {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp_cap cap; /* capacities that the provider gave */
	bool cq_ex, qp_ex;     /* made by the extended verbs */
};

struct pr_plain_options {
	bool srq;	/* B takes its receives from a shared queue */
	bool no_rights; /* B allows no remote access */
	bool extended;	/* A has the extended objects that the provider offers */
};

struct pr_plain {
	struct pr_dev *dev;
	struct pr_plain_end a, b;
	struct ibv_srq *srq;
};

/* Completions of a queue, in order. */
struct pr_seen {
	unsigned n, good, flushed, other;
	uint64_t id[PLAIN_MAX];	   /* ids of the first completions, as many as fit */
	enum ibv_wc_status status; /* status of the last completion */
};

#define PLAIN_NO_ID UINT64_MAX

/* 0, or -1 with a sentence. */
int pr_plain_open(struct pr_plain *pair, struct pr_dev *dev, const struct pr_plain_options *opt);
void pr_plain_close(struct pr_plain *pair);
int pr_plain_state(struct pr_plain_end *end, enum ibv_qp_state state);
/*
 * Posts a WRITE (or SEND) of A's; without a byte it has neither address nor key. Returns
 * ibv_post_send()'s answer.
 */
int pr_plain_post(struct pr_plain *pair, uint64_t id, enum ibv_wr_opcode opcode, uint32_t len,
		  bool signaled);
int pr_plain_recv(struct pr_plain *pair, const struct pr_plain_end *end, uint64_t id);
/* Polls until the completion @last comes, or none for @ms. */
void pr_plain_look(struct ibv_cq *cq, uint64_t last, unsigned ms, struct pr_seen *seen);
bool pr_seen_rises(const struct pr_seen *seen);
/* Makes an ibv_cq_ex with these flags, as its plain self; NULL: the provider has none. */
struct ibv_cq *pr_plain_cq_ex(struct pr_dev *dev, uint64_t wc_flags);

#endif
