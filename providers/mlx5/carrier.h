/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A real QP that carries a driven one, and its rings. */
#ifndef RING_CARRIER_H
#define RING_CARRIER_H

#include "providers/mlx5/dev.h"
#include "providers/mlx5/rq.h"
#include "providers/mlx5/sq.h"

#pragma GCC visibility push(hidden)

/* sp_carrier.attn: why a completion needs a closer look. */
enum ring_attn {
	RING_ATTN_SQ_SEALED = 1, /* drop send completions */
	RING_ATTN_RQ_SEALED = 2, /* drop receive completions */
	RING_ATTN_PROGRESS = 4,	 /* report the first good one */
	RING_ATTN_SRQ = 8,	 /* its receives are of a shared queue */
};

/* sp_carrier.err_mode: what became of the carrier's first error completion. */
enum ring_err_mode {
	RING_ERR_NONE,
	RING_ERR_PASS,	   /* it and all later ones went to the application */
	RING_ERR_WITHHOLD, /* they are counted and kept from it */
};

struct sp_carrier {
	struct sp_qp *qp;
	const struct shift_provider *engine;
	struct sp_dev *dev;
	_Atomic uint32_t attn;
	uint32_t app_qpn;
	uint32_t qpn, epoch;
	struct ring_sq sq;
	struct ring_rq rq;
	__be32 *dbrec;
	struct ring_bf *bf;
	struct sp_cq_ring *sring, *rring;
	struct ibv_qp *real;
	bool xlat;			 /* keys differ from the application's */
	bool left;			 /* no longer active: nothing in it counts */
	bool recalled;			 /* what was acknowledged is outstanding again */
	uint32_t acked;			 /* recalled: what the tail was */
	uint32_t nops;			 /* hidden NOPs that may be outstanding */
	uint32_t nop_n[2];		 /* as which requests; the newest first */
	uint32_t nops_withdrawn;	 /* taken out of the ring by a recall */
	uint32_t sq_counted, rq_counted; /* tails up to which qp_progressed has counted */
	bool sring_live, rring_live;
	_Atomic uint32_t err_mode;
	_Atomic uint32_t app_status, app_vendor; /* first error that is not a flush */
	bool sq_err;		   /* a send error was seen; under the send CQ's lock */
	bool rq_err;		   /* a receive error; under the receive CQ's lock */
	struct sp_srq_ring *srq;   /* where its receives come from; NULL: its own queue */
	bool srq_user;		   /* it takes receives there; under the shared queue's lock */
	_Atomic bool last_receive; /* it takes no more, and has completed those it took */
	struct sp_carrier *next;
};

/* How many hidden NOPs are outstanding: places that are not the application's. */
RING_INLINE uint32_t ring_nops(const struct sp_carrier *c, uint32_t tail)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->nops; i++)
		n += (int32_t)(c->nop_n[i] - tail) >= 0;
	return n;
}

/* Receives of a shared queue whose completions are swept. */
enum ring_sweep {
	RING_SWEEP_NOT_OURS, /* the carrier is new: they are of another owner of its number */
	RING_SWEEP_DROP,     /* they go with the QP, as on stock */
	RING_SWEEP_GIVE_BACK,
};

int ring_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		      struct sp_carrier **out);
void ring_carrier_free(struct sp_carrier *c);
void ring_carrier_publish(struct sp_qp *qp, struct sp_carrier *c);
void ring_carrier_retract(struct sp_carrier *c, enum ring_sweep receives);
struct sp_carrier *ring_carrier_zero(struct sp_qp *qp);
int ring_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		     const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		     struct sp_cq_ring *rring, struct sp_carrier **out);
void ring_carrier_del(struct sp_carrier *carrier);

#pragma GCC visibility pop

#endif
