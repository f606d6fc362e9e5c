/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC for tests of the ring engine: rings in memory, executed when a test says so. It checks what
 * a NIC would trip over: index and QPN of every WQE, keys, doorbells.
 */
#ifndef TESTS_LIB_MLX5_FAKE_H
#define TESTS_LIB_MLX5_FAKE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/mlx5/mlx5.h"

enum fake_limits {
	FAKE_LOG = 1 << 14,
	FAKE_LKEY = 0x700,
	FAKE_RKEY = 0x900,
	FAKE_KEYS = 11,		 /* of each kind: the key of an address is fake_lkey or fake_rkey */
	FAKE_KEY_STEP = 0x10000, /* a key on carrier e is the application's + e steps */
	FAKE_TURN_STEP = 0x100,	 /* and + as many of these as fake_keys_turn says */
};

struct fake_dev {
	struct ibv_device device;
	struct verbs_context verbs;
	struct sp_dev *sp;
	uint32_t next_handle, next_qpn;
};

struct fake_cq {
	struct ibv_cq_ex ex;
	uint8_t *buf;
	uint32_t cnt, size, pi;
	uint32_t places; /* of its ring, that may be taken at a time */
	__be32 db[2];
	uint64_t uar[64];
};

/* What the NIC has done, for the test to compare. */
struct fake_done {
	uint64_t id;   /* remote or local address: tests put their own number there */
	uint64_t word; /* of 8 bytes inline */
	uint8_t opcode;
};

struct fake_qp {
	struct ibv_qp_ex ex;
	uint8_t *sq, *rq;
	uint32_t sq_cnt, rq_cnt, rq_stride;
	__be32 db[2];
	_Alignas(64) uint8_t bf[512];
	uint32_t epoch, sq_ci, rq_ci;
	uint32_t mtu, psn;   /* of the next packet that it sends; mtu 0: nobody has told */
	uint32_t silent_psn; /* likewise, behind what ran silently last */
	uint32_t silent_ci;  /* and its next WQEBB */
	bool xlat, err, first_flush;
	struct ibv_qp_init_attr_ex attr;
};

struct fake_log {
	struct fake_done done[FAKE_LOG];
	uint32_t n;
};
extern struct fake_log fake_log;

/* What the engine told its shell. */
struct fake_events {
	_Atomic uint32_t errors, app_errors, withheld, events, keys, gated, posted, progress;
	uint32_t provider_posts; /* by libmlx5 itself, were it there */
	enum ibv_wc_status status;
};
extern struct fake_events fake_events;
extern _Atomic bool fake_keys_missing;
/* Every key of a carrier stands for another now; the NIC takes only those of now. */
extern _Atomic uint32_t fake_keys_turn;

void fake_reset(void);
void fake_dev_make(struct fake_dev *dev, bool install);
void fake_dev_free(struct fake_dev *dev);
void fake_cq_make(struct fake_dev *dev, struct fake_cq *cq, uint32_t cnt, uint32_t size);
void fake_cq_free(struct fake_cq *cq);
/* The kernel's part of a resize: a mark behind what is in the ring. What comes from now on is in the new one; the
 * old one is returned, to be freed when the provider would. */
uint8_t *fake_cq_resize(struct fake_cq *cq, uint32_t cnt);
struct fake_geometry {
	uint32_t sq_cnt, rq_cnt, rq_sge, send_wr, send_sge;
	bool sig_all;
};
void fake_qp_make(struct fake_dev *dev, struct fake_qp *qp, struct fake_cq *scq,
		  struct fake_cq *rcq, const struct fake_geometry *g);
void fake_qp_free(struct fake_qp *qp);

/* Execute up to n published requests, each completing if it is signaled. Returns how many. */
uint32_t fake_run(struct fake_qp *qp, uint32_t n);
/* The peer executes the next request, but its answer is lost. */
bool fake_run_silently(struct fake_qp *qp, uint32_t n);
/* They are done, signaled or not, but their completions are lost: the CQ overran. */
void fake_lose(struct fake_qp *qp, uint32_t n);
/* The next posted receive completes with a message of that many bytes, inside the CQE if so
 * said. */
bool fake_receive(struct fake_qp *qp, uint8_t opcode, const void *data, uint32_t len);
/* An error completion of the oldest receive. */
void fake_recv_error(struct fake_qp *qp, uint8_t syndrome);
/* Error completions for all that is left, the first send's with this syndrome. */
void fake_flush(struct fake_qp *qp, uint8_t syndrome);
/* As fake_flush, but of each queue only the first completion finds room in the CQ. */
void fake_flush_overrun(struct fake_qp *qp);
uint32_t fake_published(const struct fake_qp *qp); /* WQEBBs not executed */
uint64_t fake_recv_addr(const struct fake_qp *qp, uint32_t index, uint32_t sge);

static inline uint32_t fake_lkey(uint64_t addr)
{
	return FAKE_LKEY + addr / 16 % FAKE_KEYS;
}

static inline uint32_t fake_rkey(uint64_t addr)
{
	return FAKE_RKEY + addr / 16 % FAKE_KEYS;
}

static inline struct ibv_qp *fake_ibv(struct fake_qp *qp)
{
	return &qp->ex.qp_base;
}

static inline struct ibv_cq *fake_ibv_cq(struct fake_cq *cq)
{
	return ibv_cq_ex_to_cq(&cq->ex);
}

#endif
