/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shell's side of driven CQs: create, add rings of other NICs, collect, resize, look for
 * errors.
 */
#include <stdlib.h>

#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/qp.h"

#define SENT_LOOKS 256 /* number of unpolled completions to look at */

static void ring_geometry(struct sp_cq_ring *ring, const struct mlx5dv_cq *dv)
{
	ring->shift = dv->cqe_size == 128 ? 7 : 6;
	ring->buf = (uint8_t *)dv->buf + dv->cqe_size - 64;
	ring->cnt = dv->cqe_cnt;
	ring->mask = dv->cqe_cnt - 1;
}

/* Final for this CQ: libmlx5 leaves it to us for good. */
static int ring_setup(struct sp_cq_ring *ring, struct sp_cq *cq, struct sp_dev *dev,
		      struct ibv_cq *real)
{
	struct mlx5dv_cq dv = { 0 };
	struct mlx5dv_obj obj = { .cq = { .in = real, .out = &dv } };
	int err = ring_init_obj(&obj, MLX5DV_OBJ_CQ);

	if (err)
		return err;
	if ((dv.cqe_size != 64 && dv.cqe_size != 128) || (dv.cqe_cnt & (dv.cqe_cnt - 1)))
		return -EOPNOTSUPP;
	ring->engine = dev->engine;
	ring->cq = cq;
	ring->dev = dev;
	ring->real = real;
	ring_geometry(ring, &dv);
	ring->dbrec = dv.dbrec;
	atomic_store(&ring->arm, ring_second_word(htobe32(dv.cqn)));
	ring->uar = dv.cq_uar;
	return 0;
}

/*
 * Takes libmlx5's consumer index: not 0 if libmlx5 has polled the CQ, or resized it, which consumes
 * a CQE of the device's. A poll for nothing puts the index into the record.
 */
static void ring_take_over(struct sp_cq_ring *ring)
{
	ring->dev->saved.poll_cq(ring->real, 0, NULL);
	ring->ci = be32toh(ring->dbrec[RING_CQ_SET_CI]) & 0xffffff;
}

static int cq_make(struct sp_dev *dev, struct ibv_cq *ibv, bool cq_ex, uint64_t wc_flags,
		   void *cookie, struct sp_cq **out)
{
	struct sp_cq *cq;
	int err;

	/* the reader of wall-clock times needs what libmlx5 keeps to itself */
	if (cq_ex && (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		return -EOPNOTSUPP;
	if (ibv->handle >= RING_MAX_HANDLE)
		return -EOPNOTSUPP;
	cq = aligned_alloc(64, (sizeof(*cq) + 63) & ~63ul);
	if (!cq)
		return -ENOMEM;
	memset(cq, 0, sizeof(*cq));
	err = sp_table_reserve(&dev->tables.cqs, ibv->handle);
	if (!err)
		err = ring_setup(&cq->ring, cq, dev, ibv);
	if (err) {
		free(cq);
		return err;
	}
	cq->engine = dev->engine;
	cq->last = &cq->first;
	cq->turn = cq->active = &cq->ring;
	cq->ibv = ibv;
	cq->dev = dev;
	cq->cookie = cookie;
	cq->ex = cq_ex;
	*out = cq;
	return 0;
}

int ring_cq_drive(struct sp_dev *dev, struct ibv_cq *ibv, bool cq_ex, uint64_t wc_flags,
		  void *cookie, struct sp_cq **out)
{
	struct sp_cq *cq;
	int err = cq_make(dev, ibv, cq_ex, wc_flags, cookie, &cq);

	if (err)
		return err;
	ring_take_over(&cq->ring);
	cq->taken = cq->ring.ci;
	ring_cq_refresh_slow(cq);
	if (cq_ex)
		ring_cq_ex_install(cq);
	*out = cq;
	atomic_store_explicit(&dev->cqs[ibv->handle], cq, memory_order_release);
	return 0;
}

/*
 * True if the program takes its completions out of the ring by itself: it has moved the record,
 * while libmlx5's index stood still. The record goes back then, which it never does by libmlx5's
 * own polls.
 */
static bool polled_elsewhere(struct sp_cq_ring *ring)
{
	uint32_t before = be32toh(__atomic_load_n(&ring->dbrec[RING_CQ_SET_CI], __ATOMIC_ACQUIRE));

	ring_take_over(ring);
	return (int32_t)((ring->ci - before) << 8) < 0;
}

/* Threads that poll meanwhile wait for the lock, or are waited for. */
static void take_over_used(struct sp_cq *cq)
{
	sp_lock(&cq->lock);
	atomic_store(&cq->dev->cqs[cq->ibv->handle], cq);
	ring_unknown_wait(cq->ibv);
	ring_take_over(&cq->ring);
	cq->taken = cq->ring.ci;
	for (struct ring_foreign *f = cq->foreign; f; f = f->next)
		ring_live(&cq->ring, &f->live);
	ring_cq_refresh_slow(cq);
	sp_unlock(&cq->lock);
}

int ring_cq_drive_used(struct sp_dev *dev, struct ibv_cq *ibv, void *cookie,
		       const struct sp_cq_user *users, uint32_t n, struct sp_cq **out)
{
	struct sp_cq *cq;
	int err = cq_make(dev, ibv, false, 0, cookie, &cq);

	if (err)
		return err;
	err = polled_elsewhere(&cq->ring) ? -EBUSY : ring_foreign_feed_all(cq, users, n);
	if (err) {
		ring_foreign_free(cq);
		free(cq);
		return err;
	}
	take_over_used(cq);
	*out = cq;
	return 0;
}

int ring_cq_undrive(struct sp_cq *cq)
{
	uint32_t users;

	sp_lock(&cq->lock);
	users = cq->users;
	sp_unlock(&cq->lock);
	if (users)
		return -EBUSY;
	atomic_store(&cq->dev->cqs[cq->ibv->handle], NULL);
	if (cq->ex)
		ring_cq_ex_restore(cq);
	while (cq->ring.next)
		ring_cq_ring_del(cq, cq->ring.next);
	ring_foreign_free(cq);
	ring_backlog_free(cq);
	free(cq);
	return 0;
}

static void arm_if_armed(struct sp_cq_ring *ring)
{
	enum ring_armed armed = ring_cq_armed(ring->cq);

	if (armed != RING_ARMED_NOT)
		ring_cq_arm_ring(ring, armed == RING_ARMED_SOLICITED);
}

int ring_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
		     struct sp_cq_ring **out)
{
	struct sp_cq_ring *ring = calloc(1, sizeof(*ring));
	int err;

	if (!ring)
		return -ENOMEM;
	err = ring_setup(ring, cq, dev, shadow);
	if (err) {
		free(ring);
		return err;
	}
	sp_lock(&cq->lock);
	ring->next = cq->ring.next;
	cq->ring.next = ring;
	sp_unlock(&cq->lock);
	*out = ring;
	return 0;
}

void ring_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring)
{
	struct sp_cq_ring *prev;

	sp_lock(&cq->lock);
	for (prev = &cq->ring; prev->next != ring;)
		prev = prev->next;
	prev->next = ring->next;
	if (cq->turn == ring)
		cq->turn = &cq->ring;
	/*
	 * threads that come now find no ring, and wait for the lock: so nobody goes on being
	 * counted
	 */
	atomic_store(&cq->lone, NULL);
	ring_cq_wait_armers(cq);
	ring_cq_refresh_slow(cq);
	sp_unlock(&cq->lock);
	free(ring);
}

/* Marks a ring as one where this carrier may complete from now on. The CQ's lock is held. */
void ring_live(struct sp_cq_ring *ring, bool *flag)
{
	if (*flag)
		return;
	*flag = true;
	if (ring->live++)
		return;
	ring_cq_clear(ring);
	ring_cq_refresh_slow(ring->cq);
	arm_if_armed(ring);
}

void ring_unlive(struct sp_cq_ring *ring, bool *flag)
{
	if (!*flag)
		return;
	*flag = false;
	SP_ASSERT(ring->live);
	if (--ring->live)
		return;
	ring_cq_clear(ring);
	ring_cq_refresh_slow(ring->cq);
}

struct sp_cq_ring *ring_cq_own_ring(struct sp_cq *cq)
{
	return &cq->ring;
}

/* Adds to the arm number, which has two of the word's bits, 28 and 29 (PRM: CQ arm doorbell). */
RING_INLINE void arm_number_add(struct sp_cq_ring *ring, uint32_t n)
{
	const uint64_t add = ring_first_word(htobe32((n & 3) << 28));
	const uint64_t carry = ring_first_word(htobe32(1u << 30));
	uint64_t arm = atomic_load_explicit(&ring->arm, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&ring->arm, &arm, (arm + add) & ~carry,
						      memory_order_seq_cst, memory_order_relaxed))
		;
}

/*
 * Threads that armed since the CQ is driven may have used a number that the NIC has told of
 * already: armings counted by now are repeated, and later ones find the right number.
 */
void ring_cq_take_over(struct sp_cq *cq, const struct sp_cq_past *past)
{
	if (past->any)
		atomic_fetch_add(&cq->armings[RING_ARMED_ANY].count, RING_ARMING);
	if (past->solicited)
		atomic_fetch_add(&cq->armings[RING_ARMED_SOLICITED].count, RING_ARMING);
	if (!(past->events & 3) && !cq->foreign)
		return;
	arm_number_add(&cq->ring, past->events);
	ring_cq_wait_armers(cq);
	sp_lock(&cq->lock);
	arm_if_armed(&cq->ring);
	ring_foreign_tell(cq);
	sp_unlock(&cq->lock);
}

/* True if another NIC may tell of the CQ, too. */
RING_INLINE bool event_of_several(const struct sp_cq_ring *ring, struct sp_cq *cq)
{
	return atomic_load_explicit(&cq->lone, memory_order_relaxed) != ring;
}

static RING_NOINLINE bool event_behind_armers(const struct sp_cq_ring *ring, struct sp_cq *cq)
{
	ring_cq_wait_armers(cq);
	return event_of_several(ring, cq);
}

/* Called without the lock, as in libmlx5. The armings first: see notify(). */
bool ring_cq_event_read(struct sp_cq_ring *ring)
{
	struct sp_cq *cq = ring->cq;
	const struct ring_armings *armings = cq->armings;

	ring_cq_told(cq);
	arm_number_add(ring, 1);
	/* in order behind that; arming threads do it the other way round */
	if (ring_unlikely((atomic_load(&armings[RING_ARMED_ANY].count) |
			   atomic_load(&armings[RING_ARMED_SOLICITED].count)) %
			  RING_ARMING))
		return event_behind_armers(ring, cq);
	return event_of_several(ring, cq);
}

/* -- collect ----------------------------------------------------------------------------------- */

enum collect_result {
	COLLECT_EMPTY,
	COLLECT_NO_ROOM,
};

/* Collects until the ring is empty or the reserved room is used up. */
static enum collect_result collect_ring(struct sp_cq_ring *ring)
{
	struct ring_comp comp = { .cqpn = RING_NO_QPN };
	struct mlx5_cqe64 *cqe;
#if SHIFT_MUTANT == 3
	bool dropped = false;
#endif

	while ((cqe = ring_cqe_at(ring, ring->ci))) {
		if (!ring->cq->free)
			return COLLECT_NO_ROOM;
		ring->ci++;
		if (!ring_cq_take(ring, cqe, &comp))
			continue;
#if SHIFT_MUTANT == 3
		if (!dropped && comp.status == IBV_WC_SUCCESS) {
			dropped = true;
			continue;
		}
#endif
		ring_backlog_push(ring->cq, comp.carrier->qp, &comp);
	}
	return COLLECT_EMPTY;
}

/*
 * Collects all rings. Room is made when something needs it: most queues that are looked into are
 * empty, and would keep it.
 */
int ring_cq_collect(struct sp_cq *cq)
{
	struct sp_cq_ring *ring;
	enum collect_result res;

	do {
		res = COLLECT_EMPTY;
		sp_lock(&cq->lock);
		for (ring = &cq->ring; ring && res == COLLECT_EMPTY; ring = ring->next)
			res = collect_ring(ring);
		ring_cq_update_ci(cq);
		ring_foreign_tell(cq);
		if (cq->late)
			ring_late_poll(cq);
		sp_unlock(&cq->lock);
		if (res == COLLECT_NO_ROOM && ring_backlog_reserve(cq, 1))
			return -ENOMEM;
	} while (res == COLLECT_NO_ROOM);
	return 0;
}

/* -- resize ----------------------------------------------------------------------------------- */

static struct sp_cq_ring *ring_of(struct sp_cq *cq, const struct ibv_cq *real)
{
	struct sp_cq_ring *ring;

	for (ring = &cq->ring; ring && ring->real != real; ring = ring->next)
		;
	return ring;
}

int ring_cq_resize_reserve(struct sp_cq *cq, struct ibv_cq *real)
{
	return ring_backlog_reserve(cq, ring_of(cq, real)->cnt) ? -ENOMEM : 0;
}

int ring_cq_resize_keep_out(struct sp_cq *cq)
{
	if (!cq->ex)
		return 0;
	if (!sp_trylock(&cq->ex_lock))
		return -EBUSY;
	cq->kept_out = true;
	return 0;
}

void ring_cq_resize_let_poll(struct sp_cq *cq)
{
	if (!cq->ex)
		return;
	cq->kept_out = false;
	sp_unlock(&cq->ex_lock);
}

bool ring_cq_polled(struct sp_cq *cq)
{
	bool polled = false;

	if (sp_trylock(&cq->lock)) {
		polled = cq->ring.ci != cq->taken;
		sp_unlock(&cq->lock);
	}
	return polled;
}

/*
 * libmlx5 copies to the new ring what it believes to be unpolled, from a consumer index that stands
 * still since we poll, up to the mark that the NIC left. It finds the mark at once, wherever it
 * begins: all that it would copy is in the backlog.
 */
static void mark_all(struct sp_cq_ring *ring)
{
	uint32_t i;

	for (i = 0; i < ring->cnt; i++)
		ring_cqe_slot(ring, i)->op_own = MLX5_CQE_RESIZE_CQ << 4;
}

/*
 * Collects the old ring, to which no more will come. A collect may have filled the reserved room
 * while the kernel resized, and the NIC the ring again: the lock is given up where more room is
 * made.
 */
static int resize_collect(struct sp_cq_ring *ring)
{
	struct sp_cq *cq = ring->cq;
	int err = 0;

	while (!err && collect_ring(ring) == COLLECT_NO_ROOM) {
		sp_unlock(&cq->lock);
		err = ring_backlog_reserve(cq, 1);
		sp_lock(&cq->lock);
	}
	return err;
}

/*
 * True if a thread that holds a completion looks into the old ring: of those of other NICs it has a
 * copy.
 */
static bool looked_into(const struct sp_cq *cq, const struct ibv_cq *real)
{
	return cq->ex && real == cq->ibv && !cq->kept_out;
}

int ring_cq_resize_begin(struct sp_cq *cq, struct ibv_cq *real)
{
	struct sp_cq_ring *ring;
	int err;

	if (looked_into(cq, real))
		sp_lock(&cq->ex_lock);
	sp_lock(&cq->lock);
	ring = ring_of(cq, real);
	err = resize_collect(ring);
	mark_all(ring);
	return err;
}

/* Goes on in the new ring. Indices go on: the first completion there is the one behind the mark. */
int ring_cq_resize_end(struct sp_cq *cq, struct ibv_cq *real)
{
	struct sp_cq_ring *ring = ring_of(cq, real);
	struct mlx5dv_cq dv = { 0 };
	struct mlx5dv_obj obj = { .cq = { .in = real, .out = &dv } };
	int err = ring_init_obj(&obj, MLX5DV_OBJ_CQ);

	/* the record and the register are the same; arming threads read them without the lock */
	if (!err)
		ring_geometry(ring, &dv);
	ring->looked = ring->ci;
	ring_cq_refresh_slow(cq);
	ring_cq_update_ci(cq);
	sp_unlock(&cq->lock);
	if (looked_into(cq, real))
		sp_unlock(&cq->ex_lock);
	return err;
}

/* -- errors that nobody polls ------------------------------------------------------------------ */

static bool error_to_withhold(const struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe)
{
	uint8_t opcode = cqe->op_own >> 4;
	struct sp_carrier *c;

	if (opcode != MLX5_CQE_REQ_ERR && opcode != MLX5_CQE_RESP_ERR)
		return false;
	c = ring_carrier_of(ring->dev, be32toh(cqe->sop_drop_qpn) & 0xffffff);
	return c && atomic_load(&c->qp->guard) &&
	       !(atomic_load(&c->attn) & (RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED));
}

/*
 * An application may let good completions lie for long before it polls: the error is behind them.
 * Each one is looked at once.
 */
static bool error_in_ring(struct sp_cq_ring *ring)
{
	struct mlx5_cqe64 *cqe;

	if ((int32_t)(ring->looked - ring->ci) < 0)
		ring->looked = ring->ci;
	while (ring->looked - ring->ci < ring->cnt && (cqe = ring_cqe_at(ring, ring->looked))) {
		if (error_to_withhold(ring, cqe))
			return true;
		ring->looked++;
	}
	return false;
}

bool ring_cq_error_waiting(struct sp_cq *cq)
{
	struct sp_cq_ring *ring;
	bool waiting = false;

	if (!sp_trylock(&cq->lock))
		return false;
	for (ring = &cq->ring; ring && !waiting; ring = ring->next)
		waiting = error_in_ring(ring);
	sp_unlock(&cq->lock);
	return waiting;
}

static bool completes_send(const struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe,
			   const struct sp_carrier *c)
{
	return cqe->op_own >> 4 == MLX5_CQE_REQ &&
	       ring_carrier_of(ring->dev, be32toh(cqe->sop_drop_qpn) & 0xffffff) == c;
}

bool ring_cq_sent(const struct sp_cq_ring *ring, const struct sp_carrier *c, uint32_t *done)
{
	struct mlx5_cqe64 *cqe;
	uint32_t i;

	*done = atomic_load(&c->sq.tail);
	for (i = 0; i < ring->cnt && (cqe = ring_cqe_at(ring, ring->ci + i)); i++) {
		if (i == SENT_LOOKS)
			return false;
		if (completes_send(ring, cqe, c))
			*done = c->sq.wqe_head[be16toh(cqe->wqe_counter) & c->sq.mask] + 1;
	}
	return true;
}
