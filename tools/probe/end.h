/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* An end of a connection: a queue pair with its completion queue; and events. */
#ifndef PROBE_END_H
#define PROBE_END_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct pr_dev;

#define PR_SENDS  128u
#define PR_RECVS  512u
#define PR_CQES	  1023u
#define PR_SRQ_WR 64u

struct pr_addr {
	uint32_t qpn, psn, lid, rkey, mtu;
	uint64_t raddr;
	union ibv_gid gid;
};

struct pr_end {
	struct pr_dev *dev;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq; /* not its own */
	struct mlx5dv_qp dvq;
	struct mlx5dv_cq dvc;
	uint16_t post, published; /* counted in units of 64 bytes: each request here has one */
	uint32_t bf_offset, ci, psn;
	uint16_t pkey_index;
};

struct pr_end_options {
	struct ibv_srq *srq;
	bool sig_all;
	uint8_t timeout, retry; /* 0: 14 and 7 */
	uint16_t pkey_index;
};

int pr_end_make(struct pr_end *end, struct pr_dev *dev, const struct pr_end_options *opt);
void pr_end_free(struct pr_end *end);
void pr_end_addr(const struct pr_end *end, struct pr_addr *addr);
/* Goes from RESET to RTR, and to RTS unless @opt is NULL. */
int pr_end_connect(struct pr_end *end, const struct pr_addr *peer,
		   const struct pr_end_options *opt);
int pr_end_connect_self(struct pr_end *end, const struct pr_end_options *opt);
int pr_end_state(struct pr_end *end, enum ibv_qp_state state);
int pr_end_recv(struct pr_end *end, uint32_t n, uint32_t off, uint32_t len);
void pr_ah_fill(const struct pr_dev *dev, const union ibv_gid *gid, uint32_t lid,
		struct ibv_ah_attr *ah);
struct ibv_srq *pr_srq_make(struct pr_dev *dev);
/*
 * Reads events until one of this type (and of this QP, where @qp is not NULL) comes; at_ns is its
 * time.
 */
int pr_event_wait(struct pr_dev *dev, enum ibv_event_type type, const struct ibv_qp *qp,
		  unsigned timeout_ms, uint64_t *at_ns);
void pr_events_clear(struct pr_dev *dev);

#endif
