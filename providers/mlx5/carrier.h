/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The carrier: a real QP that carries a driven one, and its rings. */
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
	RING_ERR_PASS,	   /* passed to the application, as all later ones */
	RING_ERR_WITHHOLD, /* counted and kept from the application, as all later ones */
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
	bool xlat; /* true if keys differ from the application's */
	/* true if no longer active: nothing in the carrier counts */
	bool left;
	bool recalled;		 /* true if what was acknowledged is outstanding again */
	uint32_t acked;		 /* tail before the recall */
	uint32_t nops;		 /* number of hidden NOPs that may be outstanding */
	uint32_t nop_n[2];	 /* request numbers of the NOPs; the newest first */
	uint32_t nops_withdrawn; /* number of NOPs taken out of the ring by a recall */
	uint32_t nops_again;	 /* number of older NOPs that a recall made outstanding again */
	uint32_t sq_counted, rq_counted; /* tails up to which qp_progressed has counted */
	bool sring_live, rring_live;
	_Atomic uint32_t err_mode;
	_Atomic uint32_t app_status, app_vendor; /* first error that is not a flush */
	bool sq_err; /* true if a send error was seen; under the send CQ's lock */
	/* true if a receive error was seen; under the receive CQ's lock */
	bool rq_err;
	struct sp_srq_ring *srq; /* source of the receives; NULL: the QP's own queue */
	/* true if it takes receives there; under the shared queue's lock */
	bool srq_user;
	/* true if it takes no more receives and has completed those it took */
	_Atomic bool last_receive;
	struct sp_carrier *next;
};

/* Returns how many hidden NOPs are outstanding: places that are not the application's. */
RING_INLINE uint32_t ring_nops(const struct sp_carrier *c, uint32_t tail)
{
	uint32_t n = c->nops_again;

	for (uint32_t i = 0; i < c->nops; i++)
		n += (int32_t)(c->nop_n[i] - tail) >= 0;
	return n;
}

/* The fate of a shared queue's receives whose completions are swept. */
enum ring_sweep {
	/* nothing: the carrier is new, and they are another owner's of its number */
	RING_SWEEP_NOT_OURS,
	RING_SWEEP_DROP, /* dropped with the QP, as on stock */
	RING_SWEEP_GIVE_BACK,
};

int ring_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		      struct sp_carrier **out);
void ring_carrier_free(struct sp_carrier *c);
void ring_carrier_publish(struct sp_qp *qp, struct sp_carrier *c);
void ring_carrier_retract(struct sp_carrier *c, enum ring_sweep receives);
int ring_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		     const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		     struct sp_cq_ring *rring, struct sp_carrier **out);
void ring_carrier_del(struct sp_carrier *carrier);

#pragma GCC visibility pop

#endif
