/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A QP under test, and the memory it works on. */
#ifndef VERIFY_QP_H
#define VERIFY_QP_H

#include "oob.h"
#include "pattern.h"
#include "request.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane;
struct slots;

enum {
	SQ_DEPTH = 128,
	RQ_DEPTH = 32,
	MAX_BATCH = 16,
	SLOTS = 16,
	SGE_GAP = 64,
	STATIC_LEN = 65536,
	CTRL_LEN = 4096,
	WANT_INLINE = 96,
};

struct vqp {
	int index;
	bool initiator;
	bool wr_api;
	bool sig_all;
	enum { ANSWERS_UNKNOWN, ANSWERS_AS_THEY_ARE, ANSWERS_TURNED } answers; /* of atomics */
	const struct pattern_ops *ops;
	enum pattern pattern;
	struct lane *lane;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_mr *mr;
	struct peer_info local, remote;
	uint32_t inline_max;
	uint8_t *mem;
	size_t mem_len;
	size_t slot_len;

	struct fifo sq, rq;
	struct request batch[MAX_BATCH];
	int batched;
	unsigned int unsignaled_run;

	/* messages of this QP, by direction */
	uint64_t tx_next;
	uint64_t tx_done;
	uint64_t rx_next;
	uint64_t rx_posted;
	bool last_sent, last_done, last_seen;
	bool failed;
	enum ibv_wc_status first_status;

	/* pattern state */
	uint64_t granted;
	uint64_t credit_seen;
	uint64_t rewinds;
	struct slots *slots;
	uint64_t torn_since_ns;
	uint64_t counters[COUNTERS];
};

/* memory of a QP, the same on both sides */
static inline size_t area_send(const struct vqp *q)
{
	return 0;
}

static inline size_t area_recv(const struct vqp *q)
{
	return area_send(q) + SLOTS * q->slot_len;
}

static inline size_t area_write(const struct vqp *q)
{
	return area_recv(q) + RQ_DEPTH * q->slot_len;
}

static inline size_t area_read(const struct vqp *q)
{
	return area_write(q) + SLOTS * q->slot_len;
}

static inline size_t area_static(const struct vqp *q)
{
	return area_read(q) + SLOTS * q->slot_len;
}

static inline size_t area_ctrl(const struct vqp *q)
{
	return area_static(q) + STATIC_LEN;
}

static inline size_t area_ctrl_src(const struct vqp *q)
{
	return area_ctrl(q) + CTRL_LEN;
}

static inline size_t area_total(const struct vqp *q)
{
	return area_ctrl_src(q) + CTRL_LEN;
}

static inline uint8_t *slot_at(const struct vqp *q, size_t area, uint64_t n, unsigned int slots)
{
	return q->mem + area + (n % slots) * q->slot_len;
}

/* Where control words live in the control area. */
enum { CTRL_GRANTS = 0, CTRL_CREDIT = 512, CTRL_COUNTERS = 1024 };

#endif
