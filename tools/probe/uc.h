/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two queue pairs of UC of the NIC under test, by plain verbs: A sends to B. They try SDR's needs
 * of a NIC: each packet of SDR is one WRITE with immediate.
 */
#ifndef PROBE_UC_H
#define PROBE_UC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct pr_dev;

#define UC_WR	   64u	   /* sends of A, receives of B */
#define UC_PSN	   1000u   /* first number that A uses */
#define UC_MARK	   0xffffu /* immediate of the packet behind all others */
#define UC_LONG_MS 3000u   /* wait for packets that must come */

struct pr_uc {
	struct pr_dev *dev;
	struct ibv_qp *a, *b;
	struct ibv_cq *scq, *rcq;
};

struct pr_uc_write {
	uint32_t from, len; /* place and length in the arena */
	uint64_t to;
	uint32_t rkey;
	bool has_imm;
	uint32_t imm;
};

/* Packets that came at B. */
struct pr_uc_seen {
	unsigned n, failed;
	uint32_t imm[UC_WR];
	bool last; /* the awaited packet came */
};

/* All of these return 0, or -1 with a sentence. */
int pr_uc_open(struct pr_uc *pair, struct pr_dev *dev);
void pr_uc_close(struct pr_uc *pair);
/* Begins A anew, with this number for the first packet; B stays as it is. */
int pr_uc_begin(struct pr_uc *pair, uint32_t psn);
/* Posts receives of no bytes, at B. */
int pr_uc_recv(struct pr_uc *pair, unsigned n);
int pr_uc_post(struct pr_uc *pair, const struct pr_uc_write *write);
/* Waits until so many sends of A have left, or binds are done. */
int pr_uc_await(struct pr_uc *pair, unsigned n);
int pr_uc_write(struct pr_uc *pair, const struct pr_uc_write *write); /* both */

/* A WRITE to the arena's offset @to, by its own key, of bytes that the pattern @imm made. */
struct pr_uc_write pr_uc_packet(const struct pr_uc *pair, uint32_t imm, uint32_t to, uint32_t len);
/* Waits until the immediate @last comes, or nothing for UC_LONG_MS. */
void pr_uc_look(struct pr_uc *pair, uint32_t last, struct pr_uc_seen *seen);
/* True if B is in RTS, and nobody was told of an error. */
bool pr_uc_is_well(struct pr_uc *pair);

#endif
