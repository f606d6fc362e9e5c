/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine's queue pair, as the application sees it. */
#ifndef RING_QP_H
#define RING_QP_H

#include "providers/common/failed.h"
#include "providers/mlx5/carrier.h"
#include "providers/mlx5/key.h"

#pragma GCC visibility push(hidden)

/* sp_qp.tx_mode and rx_mode. Zero: the fast path. */
enum ring_mode {
	RING_FIRST = 1,	   /* nobody posted yet: is the ring still ours to take? */
	RING_FOREIGN = 2,  /* somebody else posts to the ring: hands off */
	RING_HOLD = 4,	   /* doorbells withheld */
	RING_KEYS = 8,	   /* held until a key can be translated */
	RING_XLAT = 16,	   /* keys must be translated */
	RING_FAILED = 32,  /* posts complete with a flush error */
	RING_FENCE = 64,   /* doorbells of sends withheld, behind the fence of an ordered switch */
	RING_LATE = 128,   /* a hidden NOP has a request's place: the request may have to wait */
	RING_GATE = 256,   /* sends run when the shell lets them pass, one by one */
	RING_WRITES = 512, /* nothing but WRITEs may run any more: recall.c */
	/* atomics are barred, and keys need no translation: all goes by the hold */
	RING_HOME = 1024,
	RING_LOG = 2048,  /* log WQEs come between what is written to the ring */
	RING_TELL = 4096, /* the next post is told to the shell, once */
};

/* The use of atomics. A device without them refuses them. */
enum ring_atomic_use { RING_ATOMICS_NONE, RING_ATOMICS_UNUSED, RING_ATOMICS_USED };

struct ring_atomics {
	uint8_t use; /* enum ring_atomic_use */
	bool barred; /* true if atomics may not run yet: ring_qp_atomics() */
};

/* The builder's state (ibv_wr_*), between wr_start and wr_complete, under sq_lock. */
struct ring_builder {
	struct ring_sq *sq;
	struct mlx5_wqe_ctrl_seg *ctrl;
	uint8_t *data;
	uint32_t ds, nreq, limit;
	int err;
	bool inl;
	uint8_t setters;
	uint8_t fm_rb; /* to roll back to, as post_rb */
	uint32_t post_rb, psn_rb;
	/* XLAT, LOG: the mode that the application's function pointers are made for */
	uint32_t mode;
};

/* Somebody else who was seen to write to the rings or to poll the CQs (mlx5dv_init_obj). */
enum ring_hand {
	RING_HAND_NONE,
	RING_HAND_FIRST,    /* before any post through the verbs: the rings are left to that hand */
	RING_HAND_INTRUDES, /* into rings that the engine has posted to */
};

/* Reasons why the QP may have to stay on its own NIC: intruder.c. */
struct ring_others {
	_Atomic uint32_t hand; /* enum ring_hand */
	_Atomic bool windows;  /* true if requests of memory windows were posted */
};

/* Scatter-gather entries of a request, once the state allows posting. */
struct ring_max_gs {
	int sq_gs, rq_gs;
};

/* The builders of ibv_wr_*. */
struct ring_ex {
	bool on;
	struct ibv_qp_ex *saved; /* with on */
};

/* A queue whose mode is LATE: hold.c. */
struct ring_late {
	struct sp_qp *next;  /* under the send CQ's lock */
	_Atomic bool missed; /* true if a poll found sq_lock held */
};

struct sp_qp {
	struct sp_lock sq_lock;
	uint32_t tx_mode;
	const struct shift_provider *engine;
	struct sp_carrier *tx;
	int max_gs; /* -1 before RTS */
	uint32_t max_post, max_inline;
	uint32_t two_sided; /* two-sided requests posted since the start */
	uint8_t type;	    /* enum ibv_qp_type */
	uint8_t sig_bits;
	struct ring_atomics atomics;
	uint32_t two_sided_rb; /* two_sided at wr_start, for the builder to roll back to */
	struct ring_builder b;
	struct ring_xlat tx_xlat;

	struct sp_lock rq_lock __attribute__((aligned(64)));
	uint32_t rx_mode;
	struct sp_carrier *rx;
	int rq_max_gs; /* -1 before INIT */
	uint32_t rq_max_post;
	struct ring_xlat rx_xlat;
	uint32_t recv_base; /* good receives of carriers that were left */

	struct ring_sq hold; /* withheld requests, with the application's keys */
	bool hold_made;
	_Atomic bool guard, withheld;
	struct ring_others others;
	struct sp_failed tx_failed, rx_failed;
	struct ibv_qp *ibv;
	uint32_t app_qpn;
	struct sp_dev *dev;
	struct sp_cq *scq, *rcq;
	struct sp_srq *srq; /* NULL: none */
	void *cookie;
	struct ring_max_gs limits;
	struct sp_carrier *carriers; /* newest first; the last is carrier 0 */
	struct ring_ex ex;
	uint64_t progressed; /* the shell's count */
	struct ring_late late;
};

/*
 * True if requests are written to the active carrier's ring; else they go to the hold, with the
 * application's keys. sq_lock is held.
 */
RING_INLINE bool ring_tx_direct(const struct sp_qp *qp)
{
	return !(qp->tx_mode & ~(RING_FIRST | RING_XLAT | RING_LOG | RING_TELL));
}

/*
 * True if requests go straight to the carrier's ring with log WQEs, and the ring is ready for them.
 */
RING_INLINE bool ring_tx_logged(const struct sp_qp *qp)
{
	return (qp->tx_mode & ~RING_XLAT) == RING_LOG;
}

void ring_qp_lock(struct sp_qp *qp);
bool ring_qp_lock_soon(struct sp_qp *qp);
void ring_qp_unlock(struct sp_qp *qp);
const char *ring_qp_drivable(struct sp_dev *dev, struct ibv_qp *qp,
			     const struct ibv_qp_init_attr_ex *attr);
int ring_qp_drive(struct sp_dev *dev, struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		  struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		  const char **why_not);
void ring_qp_undrive(struct sp_qp *qp);
void ring_qp_modified(struct sp_qp *qp, enum ibv_qp_state state);
void ring_qp_number(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu);
bool ring_qp_posted(struct sp_qp *qp);
uint32_t ring_qp_recv_count(struct sp_qp *qp);
void ring_qp_send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done);
enum sp_sending ring_qp_sending(struct sp_qp *qp, uint32_t *number);
bool ring_qp_tell(struct sp_qp *qp, uint32_t number);
void ring_qp_sent(struct sp_qp *qp, struct sp_sent *sent);
void ring_qp_guard(struct sp_qp *qp, bool on);
uint64_t ring_qp_progressed(struct sp_qp *qp);

#pragma GCC visibility pop

#include "providers/common/carriers.h"

#endif
