/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine's completion queue, as pollers see it. */
#ifndef RING_CQ_H
#define RING_CQ_H

#include "providers/mlx5/carrier.h"
#include "providers/mlx5/kept.h"

#pragma GCC visibility push(hidden)

struct sp_cq_ring {
	uint8_t *buf; /* first struct mlx5_cqe64: 64 bytes in where CQEs have 128 */
	const struct shift_provider *engine;
	uint32_t ci, mask, cnt, shift;
	struct sp_dev *dev;
	__be32 *dbrec;
	struct sp_cq *cq;
	struct ibv_cq *real;
	uint8_t *uar;
	_Atomic uint64_t arm; /* arm number and CQN, as the arm register takes them */
	/* index up to which the shell looked for errors; under the CQ's lock */
	uint32_t looked;
	uint32_t live; /* number of carriers that may complete here, without those that were left */
	struct sp_cq_ring *next;
};

/* A completion that was taken out of its ring. */
struct ring_entry {
	struct mlx5_cqe64 cqe;
	struct sp_qp *qp;
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t epoch; /* epoch of the carrier whose ring it was in */
	uint8_t status, op;
	bool used; /* valid in ring_backlog_trim() alone */
	struct ring_entry *next;
};

struct ring_chunk {
	struct ring_chunk *next;
	struct ring_entry entries[RING_CHUNK];
};

enum ring_armed {
	RING_ARMED_ANY,
	RING_ARMED_SOLICITED,
	RING_ARMED_NOT,
};

/*
 * The amounts that a thread adds to the count when it arms: the second it takes off again when it
 * has armed.
 */
#define RING_ARMING (1 << 16)
#define RING_ARMER  1

/*
 * Armings of one kind. If count and told differ above the threads, an arming is not answered yet.
 */
struct ring_armings {
	_Atomic uint64_t count; /* armings << 16 | threads that are arming */
	_Atomic uint64_t told;	/* count when an event was handed out */
};

RING_INLINE bool ring_armings_open(uint64_t count, uint64_t told)
{
	return (count ^ told) / RING_ARMING;
}

struct ring_foreign {
	struct ibv_cq *cq;
	struct ring_foreign *next;
	struct sp_cq_ring events; /* only its event_read is used: told of the private CQ's events */
	/* true if fed by us: completions that the driven ring has of a QP unknown to us */
	bool fed;
	bool live; /* true if the driven ring is polled for it */
	bool muted;
	uint32_t qpn; /* number of the QP; 0: any */
	uint32_t pi;  /* index behind the last that was fed */
	struct mlx5dv_cq ring;
	struct ring_kept
		kept; /* completions that libmlx5 has told of; the program gets them next */
};

/* The facts of a completion beyond its CQE. */
struct ring_comp {
	const struct mlx5_cqe64 *cqe;
	struct sp_carrier *carrier; /* cached over a poll call */
	uint64_t wr_id;
	uint32_t cqpn; /* QPN of the cached carrier */
	uint32_t qpn;  /* QPN that the application knows */
	uint8_t status, op;
};

struct sp_cq {
	struct sp_lock lock;
	uint32_t more; /* true if others than the active ring may have completions; under lock */
	const struct shift_provider *engine;
	/* long_way is not 0: poll_cq takes the long way; under lock */
	union {
		uint16_t long_way;
		struct {
			bool slow; /* true if more, or if watched */
			bool held; /* true between start_poll and end_poll: slots are not given
				      back */
		};
	};
	/* ring where all live carriers complete, unless `more`; under lock */
	struct sp_cq_ring *active;
	struct sp_cq_ring ring;
	bool owes; /* true if end_poll has to give back slots of more than the active ring */
	/* true if polls that find nothing ask whether the shell's threads get on; under lock */
	bool watched;
	/* the current completion of start_poll/next_poll; owned by the holder of ex_lock */
	struct ring_comp cur;
	struct ring_entry cur_soft;
	struct sp_lock ex_lock;

	struct ring_entry *first, **last, *free;
	struct ring_chunk *chunks;
	struct sp_qp *failed_tx, *failed_rx;
	struct sp_qp *late; /* QPs whose mode is LATE */
	struct ring_foreign *foreign;
	struct sp_cq_ring *turn;		     /* ring that is looked at first */
	struct ring_armings armings[RING_ARMED_NOT]; /* by enum ring_armed; see notify() */
	/* the active ring while there is no `more`, else NULL; written under lock */
	_Atomic(struct sp_cq_ring *) lone;
	uint32_t users; /* number of QPs bound; under lock */
	struct ibv_cq *ibv;
	struct sp_dev *dev;
	void *cookie;
	bool ex;
	bool kept_out; /* true if a resize keeps start_poll out: its thread holds ex_lock */
	/* index of the first completion that is the engine's to take; in its own ring */
	uint32_t taken;
	struct ibv_cq_ex saved_ex;
};

/*
 * Notes that an event was handed out: it answers all armings so far, except those under way (see
 * notify).
 */
RING_INLINE void ring_cq_told(struct sp_cq *cq)
{
	struct ring_armings *any = &cq->armings[RING_ARMED_ANY];
	struct ring_armings *solicited = &cq->armings[RING_ARMED_SOLICITED];
	uint64_t n_any = atomic_load_explicit(&any->count, memory_order_acquire);
	uint64_t n_solicited = atomic_load_explicit(&solicited->count, memory_order_acquire);

	if (ring_unlikely((n_any | n_solicited) % RING_ARMING))
		return;
	atomic_store_explicit(&any->told, n_any, memory_order_relaxed);
	atomic_store_explicit(&solicited->told, n_solicited, memory_order_relaxed);
}

int ring_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int ring_req_notify(struct ibv_cq *cq, int solicited_only);
bool ring_cq_next_slow(struct sp_cq *cq, struct ring_comp *comp, struct ring_entry *soft);
bool ring_cq_take(struct sp_cq_ring *ring, struct mlx5_cqe64 *cqe, struct ring_comp *comp);
void ring_cq_update_ci(struct sp_cq *cq);
void ring_cq_arm_ring(struct sp_cq_ring *ring, bool solicited);
enum ring_armed ring_cq_armed(struct sp_cq *cq);
void ring_cq_wait_armers(struct sp_cq *cq);
void ring_cq_refresh_slow(struct sp_cq *cq);
void ring_cq_watch_locked(struct sp_cq *cq);
void ring_cq_watch(struct sp_cq *cq);
bool ring_cq_owed(struct sp_cq *cq);
void ring_cq_clear(struct sp_cq_ring *ring);
void ring_cq_sweep(struct sp_cq_ring *ring, struct sp_carrier *c, enum ring_sweep receives);
void ring_cq_ex_install(struct sp_cq *cq);
void ring_cq_ex_restore(struct sp_cq *cq);

#pragma GCC visibility pop

#endif
