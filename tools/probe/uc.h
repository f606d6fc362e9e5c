/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two queue pairs of UC of the NIC under test, by plain verbs: A sends to B. What SDR needs of a NIC is tried with them: each of its
 * packets is one WRITE with immediate.
 */
#ifndef PROBE_UC_H
#define PROBE_UC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct pr_dev;

#define UC_WR	   64u	   /* sends of A, receives of B */
#define UC_PSN	   1000u   /* what A begins with */
#define UC_MARK	   0xffffu /* immediate of what goes behind all that is tried */
#define UC_LONG_MS 3000u   /* for what must come */

struct pr_uc {
	struct pr_dev *dev;
	struct ibv_qp *a, *b;
	struct ibv_cq *scq, *rcq;
};

struct pr_uc_write {
	uint32_t from, len; /* in the arena */
	uint64_t to;
	uint32_t rkey;
	bool has_imm;
	uint32_t imm;
};

/* What came at B. */
struct pr_uc_seen {
	unsigned n, failed;
	uint32_t imm[UC_WR];
	bool last; /* what was waited for */
};

/* All of these: 0, or -1 with a sentence. */
int pr_uc_open(struct pr_uc *pair, struct pr_dev *dev);
void pr_uc_close(struct pr_uc *pair);
/* A anew, whose first packet has this number; B stays as it is. */
int pr_uc_begin(struct pr_uc *pair, uint32_t psn);
/* Receives of no bytes, at B. */
int pr_uc_recv(struct pr_uc *pair, unsigned n);
int pr_uc_post(struct pr_uc *pair, const struct pr_uc_write *write);
/* Until so many sends of A have left, or binds are done. */
int pr_uc_await(struct pr_uc *pair, unsigned n);
int pr_uc_write(struct pr_uc *pair, const struct pr_uc_write *write); /* both */

/* A WRITE to the arena's offset @to, by its own key, of bytes that the pattern @imm made. */
struct pr_uc_write pr_uc_packet(const struct pr_uc *pair, uint32_t imm, uint32_t to, uint32_t len);
/* Until the immediate @last comes, or nothing for UC_LONG_MS. */
void pr_uc_look(struct pr_uc *pair, uint32_t last, struct pr_uc_seen *seen);
/* B is in RTS, and nobody was told of an error. */
bool pr_uc_is_well(struct pr_uc *pair);

#endif
