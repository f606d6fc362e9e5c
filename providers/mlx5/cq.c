/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Polling (ibv_poll_cq), arming, and the step of all pollers: one completion out of a ring. */
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/errors.h"
#include "providers/mlx5/failed.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/scatter.h"
#include "providers/mlx5/srq.h"

/* Copies READ and atomic results that the NIC put into the CQE instead of the buffer. */
static RING_NOINLINE uint8_t scatter_req(struct ring_sq *sq, const struct mlx5_cqe64 *cqe,
					 uint32_t idx, uint8_t op)
{
	const struct mlx5_cqe64 *data = cqe->op_own & MLX5_INLINE_SCATTER_32 ? cqe : cqe - 1;
	uint32_t size = op == MLX5_OPCODE_RDMA_READ ? be32toh(cqe->byte_cnt) : 8;

	return ring_scatter_send(sq, idx, data, size);
}

static RING_NOINLINE uint8_t scatter_resp(struct ring_rq *rq, const struct mlx5_cqe64 *cqe,
					  uint32_t idx)
{
	const struct mlx5_cqe64 *data = cqe->op_own & MLX5_INLINE_SCATTER_32 ? cqe : cqe - 1;

	return ring_scatter_recv(rq, idx, data, be32toh(cqe->byte_cnt));
}

#define SCATTERED (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)

/*
 * Returns the opcode of the application's request that this NOP or UMR replaced. For an atomic,
 * byte_cnt is set to 8, as the real CQE would have it. The CQE is the poller's.
 */
static RING_NOINLINE uint32_t stood_for(const struct ring_sq *sq, const struct mlx5_cqe64 *cqe,
					uint32_t idx)
{
	uint32_t op = sq->wr_data[idx];

	if (ring_op_atomic(op))
		((struct mlx5_cqe64 *)cqe)->byte_cnt = htobe32(sizeof(uint64_t));
	return op;
}

RING_INLINE bool take_req(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint32_t op_own,
			  struct ring_comp *comp)
{
	struct ring_sq *sq = &c->sq;
	uint32_t idx = be16toh(cqe->wqe_counter) & sq->mask;
	uint32_t op = *(const uint8_t *)&cqe->sop_drop_qpn;

	comp->status = IBV_WC_SUCCESS;
	if (ring_unlikely(op == MLX5_OPCODE_NOP || op == MLX5_OPCODE_UMR))
		op = stood_for(sq, cqe, idx);
	if (ring_unlikely(op_own & SCATTERED))
		comp->status = scatter_req(sq, cqe, idx, op);
	comp->op = op;
	comp->wr_id = sq->wrid[idx];
	atomic_store_explicit(&sq->tail, sq->wqe_head[idx] + 1, memory_order_release);
	return ring_likely(op != RING_OP_HIDDEN);
}

RING_INLINE void take_resp(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint32_t op_own,
			   struct ring_comp *comp)
{
	struct ring_rq *rq = &c->rq;
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	uint32_t idx = tail & rq->mask;

	comp->status = IBV_WC_SUCCESS;
	if (ring_unlikely(c->srq != NULL)) {
		comp->status = ring_srq_take(c, cqe, &comp->wr_id);
	} else {
		comp->wr_id = rq->wrid[idx];
		if (ring_unlikely(op_own & SCATTERED))
			comp->status = scatter_resp(rq, cqe, idx);
	}
	atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
}

/* The copy lets the compiler keep the caller's fields in registers. */
RING_INLINE bool take_error(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint32_t opcode,
			    struct ring_comp *comp)
{
	struct ring_comp copy = *comp;
	bool found;

	if (opcode != MLX5_CQE_REQ_ERR && opcode != MLX5_CQE_RESP_ERR)
		return false;
	found = ring_take_error(c, cqe, &copy);
	*comp = copy;
	return found;
}

/* Finds the carrier of a completion. NULL: none of ours, or none any more. */
RING_INLINE struct sp_carrier *take_carrier(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe,
					    struct ring_comp *comp)
{
	uint32_t qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff, attn;
	struct sp_carrier *c = comp->carrier;

	if (qpn != comp->cqpn) {
		c = ring_carrier_of(ring->dev, qpn);
		if (ring_unlikely(!c)) {
			ring_foreign_take(ring, cqe, qpn);
			return NULL;
		}
		comp->carrier = c;
		comp->cqpn = qpn;
	}
	comp->cqe = cqe;
	comp->qpn = c->app_qpn;
	attn = atomic_load_explicit(&c->attn, memory_order_relaxed);
	if (ring_unlikely(attn) && !ring_take_attn(c, attn, cqe))
		return NULL;
	return c;
}

/* Takes one CQE. False: nothing for the application. CQ lock held; the CQE is consumed anyway. */
bool ring_cq_take(struct sp_cq_ring *ring, struct mlx5_cqe64 *cqe, struct ring_comp *comp)
{
	uint32_t op_own = cqe->op_own, opcode = op_own >> 4;
	struct sp_carrier *c = take_carrier(ring, cqe, comp);

	if (!c)
		return false;
	if (opcode == MLX5_CQE_REQ)
		return take_req(c, cqe, op_own, comp);
	if (opcode >= MLX5_CQE_RESIZE_CQ)
		return take_error(c, cqe, opcode, comp);
	take_resp(c, cqe, op_own, comp);
	return true;
}

/* -- work completions ------------------------------------------------------------------------- */

RING_INLINE void wc_req(struct ibv_wc *wc, const struct ring_comp *comp)
{
	switch (comp->op) {
	case MLX5_OPCODE_RDMA_WRITE_IMM: wc->wc_flags = IBV_WC_WITH_IMM; /* fall through */
	case MLX5_OPCODE_RDMA_WRITE: wc->opcode = IBV_WC_RDMA_WRITE; break;
	case MLX5_OPCODE_SEND_IMM: wc->wc_flags = IBV_WC_WITH_IMM; /* fall through */
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_INVAL: wc->opcode = IBV_WC_SEND; break;
	case MLX5_OPCODE_RDMA_READ:
		wc->opcode = IBV_WC_RDMA_READ;
		wc->byte_len = be32toh(comp->cqe->byte_cnt);
		break;
	case MLX5_OPCODE_ATOMIC_CS:
		wc->opcode = IBV_WC_COMP_SWAP;
		wc->byte_len = 8;
		break;
	case MLX5_OPCODE_ATOMIC_FA:
		wc->opcode = IBV_WC_FETCH_ADD;
		wc->byte_len = 8;
		break;
	case RING_OP_BIND_MW: wc->opcode = IBV_WC_BIND_MW; break;
	case RING_OP_LOCAL_INV: wc->opcode = IBV_WC_LOCAL_INV; break;
	default: break;
	}
}

RING_INLINE void wc_resp(struct ibv_wc *wc, const struct mlx5_cqe64 *cqe, uint8_t opcode)
{
	uint32_t flags_rqpn = be32toh(cqe->flags_rqpn);

	wc->opcode = opcode == MLX5_CQE_RESP_WR_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (opcode == MLX5_CQE_RESP_SEND_INV) {
		wc->wc_flags = IBV_WC_WITH_INV;
		wc->invalidated_rkey = be32toh(cqe->imm_inval_pkey);
	} else if (opcode != MLX5_CQE_RESP_SEND) {
		wc->wc_flags = IBV_WC_WITH_IMM;
		wc->imm_data = cqe->imm_inval_pkey;
	}
	wc->slid = be16toh(cqe->slid);
	wc->sl = flags_rqpn >> 24 & 0xf;
	wc->src_qp = flags_rqpn & 0xffffff;
	wc->dlid_path_bits = cqe->ml_path & 0x7f;
	wc->wc_flags |= flags_rqpn >> 28 & 3 ? IBV_WC_GRH : 0;
	wc->pkey_index = be32toh(cqe->imm_inval_pkey) & 0xffff;
}

RING_INLINE void wc_common(struct ibv_wc *wc, const struct ring_comp *comp)
{
	wc->wc_flags = 0;
	wc->qp_num = comp->qpn;
	wc->wr_id = comp->wr_id;
	wc->status = comp->status;
}

/* Fills what libmlx5 fills, and no more. */
RING_INLINE void to_wc(struct ibv_wc *wc, const struct ring_comp *comp, uint32_t opcode)
{
	wc_common(wc, comp);
	if (opcode == MLX5_CQE_REQ) {
		wc_req(wc, comp);
	} else if (ring_likely(opcode < MLX5_CQE_RESIZE_CQ)) {
		wc->byte_len = be32toh(comp->cqe->byte_cnt);
		if (ring_likely(comp->status == IBV_WC_SUCCESS))
			wc_resp(wc, comp->cqe, opcode);
	} else {
		wc->vendor_err = ring_cqe_error(comp->cqe)->vendor_err_synd;
	}
}

/* Does the work of ring_cq_take and to_wc in one: one look at the opcode. */
RING_INLINE bool take_to_wc(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t op_own,
			    struct ring_comp *comp, struct ibv_wc *wc)
{
	uint32_t opcode = op_own >> 4;
	struct sp_carrier *c = take_carrier(ring, cqe, comp);

	if (ring_unlikely(!c))
		return false;
	if (opcode == MLX5_CQE_REQ) {
		if (!take_req(c, cqe, op_own, comp))
			return false;
	} else if (ring_likely(opcode < MLX5_CQE_RESIZE_CQ)) {
		take_resp(c, cqe, op_own, comp);
	} else if (!take_error(c, cqe, opcode, comp)) {
		return false;
	}
	to_wc(wc, comp, opcode);
	return true;
}

/* -- consumer index --------------------------------------------------------------------------- */

RING_INLINE void update_ci(struct sp_cq_ring *ring)
{
	ring_store_record(&ring->dbrec[RING_CQ_SET_CI], ring->ci & 0xffffff);
}

/* Gives consumed slots of all rings back, unless somebody still looks at one. */
void ring_cq_update_ci(struct sp_cq *cq)
{
	if (cq->held) {
		cq->owes = true;
		return;
	}
	for (struct sp_cq_ring *r = &cq->ring; r; r = r->next)
		update_ci(r);
}

/*
 * Chooses the ring that pollers look at. After a move all carriers of a CQ usually lie on one other
 * ring: that one is then polled as ring 0 was.
 */
void ring_cq_refresh_slow(struct sp_cq *cq)
{
	uint32_t more = cq->first || cq->failed_tx || cq->failed_rx || cq->foreign || cq->late;
	struct sp_cq_ring *active = NULL, *before = cq->active;

	for (struct sp_cq_ring *r = &cq->ring; r; r = r->next) {
		if (!r->live)
			continue;
		more |= active != NULL;
		active = active ? active : r;
	}
	cq->active = active ? active : &cq->ring;
	cq->more = more || (cq->ex && cq->watched);
	cq->slow = more || cq->watched;
	atomic_store_explicit(&cq->lone, more ? NULL : cq->active, memory_order_release);
	if (cq->held && cq->active != before)
		cq->owes = true;
}

/*
 * Takes what left carriers have in a ring off it, when the last one leaves and before the next one
 * comes: nobody polls a ring without live carriers. The CQ's lock is held.
 */
void ring_cq_clear(struct sp_cq_ring *ring)
{
	struct ring_comp comp = { .cqpn = RING_NO_QPN };
	struct mlx5_cqe64 *cqe;
	struct sp_carrier *c;

	while ((cqe = ring_cqe_at(ring, ring->ci))) {
		c = ring_carrier_of(ring->dev, be32toh(cqe->sop_drop_qpn) & 0xffffff);
		if (c && ~atomic_load(&c->attn) & (RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED))
			break;
		ring->ci++;
		(void)ring_cq_take(ring, cqe, &comp);
	}
	ring_cq_update_ci(ring->cq);
	ring_foreign_tell(ring->cq);
}

/*
 * Makes completions of this carrier that still lie in the ring nobody's: QPN 0 is never mapped.
 * Receives that they took of a shared queue go with them, or back to it.
 */
void ring_cq_sweep(struct sp_cq_ring *ring, struct sp_carrier *c, enum ring_sweep receives)
{
	struct mlx5_cqe64 *cqe;
	uint8_t opcode;
	uint32_t ci;

	for (ci = ring->ci; ci - ring->ci < ring->cnt && (cqe = ring_cqe_at(ring, ci)); ci++) {
		if ((be32toh(cqe->sop_drop_qpn) & 0xffffff) != c->qpn)
			continue;
		opcode = cqe->op_own >> 4;
		cqe->sop_drop_qpn &= htobe32(0xff000000);
		if (!c->srq || opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR)
			continue;
		if (receives == RING_SWEEP_GIVE_BACK)
			ring_srq_give_back(c, cqe);
		else if (receives == RING_SWEEP_DROP)
			ring_srq_drop(c, cqe);
	}
}

/* -- polling ---------------------------------------------------------------------------------- */

static bool ring_next(struct sp_cq_ring *ring, struct ring_comp *comp)
{
	struct mlx5_cqe64 *cqe;

	if (!ring->live && ring != ring->cq->active)
		return false;
	comp->cqpn = RING_NO_QPN; /* QPNs of two rings are of two devices */
	while ((cqe = ring_cqe_at(ring, ring->ci))) {
		ring->ci++;
		if (ring_cq_take(ring, cqe, comp))
			return true;
	}
	return false;
}

/*
 * Returns the next completion of a CQ with more than one ring: the backlog first, as it is older
 * than what the rings hold, then failed QPs, then the rings in turn.
 */
bool ring_cq_next_slow(struct sp_cq *cq, struct ring_comp *comp, struct ring_entry *soft)
{
	struct sp_cq_ring *r;

	if (ring_backlog_pop(cq, soft) || ring_failed_next(cq, soft)) {
		comp->cqe = &soft->cqe;
		comp->cqpn = RING_NO_QPN;
		comp->wr_id = soft->wr_id;
		comp->qpn = soft->qpn;
		comp->status = soft->status;
		comp->op = soft->op;
		return true;
	}
	for (r = cq->turn; r; r = r->next)
		if (ring_next(r, comp))
			goto found;
	for (r = &cq->ring; r != cq->turn; r = r->next)
		if (ring_next(r, comp))
			goto found;
	return false;
found:
	cq->turn = r->next ? r->next : &cq->ring;
	/* a ring of another NIC may go away while start_poll's caller still reads */
	if (r != &cq->ring) {
		soft->cqe = *comp->cqe;
		comp->cqe = &soft->cqe;
	}
	return true;
}

/* Polls one ring, whose slots may be given back. CQ lock held. */
RING_INLINE int poll_ring(struct sp_cq_ring *ring, int n, struct ibv_wc *wc)
{
	struct ring_comp comp = { .cqpn = RING_NO_QPN };
	struct ibv_wc *at = wc, *end = wc + n;
	struct mlx5_cqe64 *cqe;
	uint32_t op_own, ci;

	for (ci = ring->ci; at < end; ci++) {
		cqe = ring_cqe_slot(ring, ci);
		op_own = ring_cqe_own(cqe);
		if (!ring_cqe_valid(ring, ci, op_own))
			break;
		if (ring_likely(take_to_wc(ring, cqe, op_own, &comp, at)))
			at++;
	}
	ring->ci = ci;
	update_ci(ring);
	return at - wc;
}

/* True if all completions lie in rings, and their slots may be given back. */
static bool rings_only(const struct sp_cq *cq)
{
	return !cq->held && !cq->first && !cq->failed_tx && !cq->failed_rx && !cq->foreign &&
	       !cq->late;
}

/* Polls each ring in turn, after a move; the ring that filled up comes last next time. */
static int poll_rings(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	struct sp_cq_ring *first = cq->turn, *r = first;
	int got = 0;

	do {
		if (r->live || r == cq->active)
			got += poll_ring(r, n - got, wc + got);
		r = r->next ? r->next : &cq->ring;
	} while (got < n && r != first);
	cq->turn = r;
	return got;
}

static int poll_anything(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	struct ring_entry soft;
	struct ring_comp comp;
	int got;

	got = ring_foreign_poll(cq, true, n, wc);
	for (; got < n && ring_cq_next_slow(cq, &comp, &soft); got++)
		to_wc(&wc[got], &comp, comp.cqe->op_own >> 4);
	ring_cq_update_ci(cq);
	ring_late_poll(cq);
	got += ring_foreign_poll(cq, false, n - got, wc + got);
	ring_foreign_tell(cq);
	return got;
}

/* Called with the CQ's lock; drops it. */
static RING_NOINLINE int poll_slow(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	int got = rings_only(cq) ? poll_rings(cq, n, wc) : poll_anything(cq, n, wc);
	bool owed = !got && cq->watched && ring_cq_owed(cq);

	sp_unlock(&cq->lock);
	if (owed)
		cq->dev->cb->give_way();
	return got;
}

int ring_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct sp_cq *cq = ring_cq_of(ibv->context, ibv->handle);
	int got;

	if (ring_unlikely(!cq))
		return ring_unknown_poll(ibv, n, wc);
	sp_lock(&cq->lock);
	if (ring_unlikely(cq->long_way))
		return poll_slow(cq, n, wc);
	got = poll_ring(cq->active, n, wc);
	sp_unlock(&cq->lock);
	return got;
}

/* -- arming ----------------------------------------------------------------------------------- */

/*
 * Stores into the arm register: the arm word, which the record has too, and the CQN. ring->arm has
 * the word's arm number, the record its consumer index. A late index, as while a completion is
 * held, makes the NIC tell of what was seen already. The NIC, woken by the register, reads the
 * record.
 */
RING_INLINE void arm_both(struct sp_cq_ring *ring, bool solicited)
{
	uint64_t arm = atomic_load(&ring->arm); /* in order behind the count, see notify() */

	arm |= ring_first_word(__atomic_load_n(&ring->dbrec[RING_CQ_SET_CI], __ATOMIC_RELAXED));
	if (solicited)
		arm |= ring_first_word(htobe32(MLX5_CQ_DB_REQ_NOT_SOL));
	__atomic_store_n(&ring->dbrec[RING_CQ_ARM], ring_first_word_of(arm), __ATOMIC_RELEASE);
	ring_wc_start_unlocked();
	ring_store64(ring->uar + MLX5_CQ_DOORBELL, arm);
}

/*
 * Arms a ring, counted as threads in notify() are: a thread that reads an event waits for its
 * stores. The CQ's lock is held.
 */
void ring_cq_arm_ring(struct sp_cq_ring *ring, bool solicited)
{
	_Atomic uint64_t *count = &ring->cq->armings[RING_ARMED_ANY].count;

	atomic_fetch_add(count, RING_ARMER);
	arm_both(ring, solicited);
	ring_wc_end();
	atomic_fetch_sub_explicit(count, RING_ARMER, memory_order_release);
}

static bool armings_open(struct ring_armings *armings)
{
	return ring_armings_open(atomic_load(&armings->count), atomic_load(&armings->told));
}

/* Returns the event that the application waits for. */
enum ring_armed ring_cq_armed(struct sp_cq *cq)
{
	/* between `lone`, which the caller has cleared, and the armings: see notify() */
	__sync_synchronize();
	if (armings_open(&cq->armings[RING_ARMED_ANY]))
		return RING_ARMED_ANY;
	return armings_open(&cq->armings[RING_ARMED_SOLICITED]) ? RING_ARMED_SOLICITED
								: RING_ARMED_NOT;
}

/*
 * Waits until no thread is arming: one may have seen what was changed as it was before, and later
 * ones see the change. As in sp_lock_wait, a thread is in there for some instructions only.
 */
void ring_cq_wait_armers(struct sp_cq *cq)
{
	__sync_synchronize();
	for (int kind = RING_ARMED_ANY; kind < RING_ARMED_NOT; kind++)
		for (uint32_t round = 0; atomic_load(&cq->armings[kind].count) % RING_ARMING;)
			sp_lock_give_way(round++);
}

/* Arms with the lock. It looks the CQ up once more, so that its caller need not keep it. */
static RING_NOINLINE int notify_locked(const struct ibv_cq *ibv, enum ring_armed kind)
{
	struct sp_cq *cq = ring_cq_known(ibv->context, ibv->handle);
	bool solicited = kind == RING_ARMED_SOLICITED;

	atomic_fetch_sub(&cq->armings[kind].count, RING_ARMER);
	sp_lock(&cq->lock);
	ring_cq_arm_ring(cq->active, solicited);
	if (cq->more) {
		for (struct sp_cq_ring *r = &cq->ring; r; r = r->next)
			if (r->live && r != cq->active)
				ring_cq_arm_ring(r, solicited);
		ring_foreign_arm(cq, solicited);
		/* an event, as from the NIC for completions behind the consumer index */
		if (cq->first || ring_failed_waiting(cq) || ring_foreign_waiting(cq))
			ring_backlog_event(cq, true);
	}
	sp_unlock(&cq->lock);
	return 0;
}

/*
 * Arms a CQ without a lock, as in libmlx5, while only one ring can complete. The count of armings,
 * which includes the threads that are in here, is the barrier of three orders. A thread that
 * changes this (a completion for the backlog, another ring that comes alive) clears `lone`, and
 * looks at the count behind a full barrier; here it is the other way round: one of both sees what
 * the other stored, and arms or wakes. A thread that reads an event looks at the count before it
 * moves the arm number. A thread in here may take the old number or the new one: its arming is not
 * taken for answered. A thread that has left took the old number, which counts for nothing now: its
 * arming is answered. The reader waits for those in here, as one might store the old number over
 * the number with which the reader's caller arms next: the NIC would take that for told already,
 * and nobody would be woken any more. A thread that deletes a ring clears `lone`, and waits behind
 * a full barrier until nobody is in here; whoever found the ring in `lone` was counted before:
 * struct, record and register stay until it has left.
 */
RING_INLINE int notify(const struct ibv_cq *ibv, struct sp_cq *cq, enum ring_armed kind)
{
	struct sp_cq_ring *ring;

	atomic_fetch_add(&cq->armings[kind].count, RING_ARMING + RING_ARMER);
	ring = atomic_load(&cq->lone);
	if (ring_unlikely(!ring))
		return notify_locked(ibv, kind);
	arm_both(ring, kind == RING_ARMED_SOLICITED);
#if !defined(__x86_64__) /* on x86 the locked instruction does that */
	ring_wc_end();
#endif
	atomic_fetch_sub_explicit(&cq->armings[kind].count, RING_ARMER, memory_order_release);
	return 0;
}

/*
 * A thread that drives the CQ meanwhile publishes it first, and asks for armings then: it hears of
 * this one, or this one sees that the CQ is driven.
 */
static RING_NOINLINE int notify_unknown(struct ibv_cq *ibv, int solicited_only)
{
	struct sp_dev *dev = ring_dev_of(ibv->context);
	int err = dev->saved.req_notify_cq(ibv, solicited_only);

	if (err)
		return err;
	dev->cb->cq_armed(ibv, solicited_only);
	__sync_synchronize();
	return ring_cq_of(ibv->context, ibv->handle) ? ring_req_notify(ibv, solicited_only) : 0;
}

static __attribute__((noinline)) int notify_solicited(const struct ibv_cq *ibv)
{
	return notify(ibv, ring_cq_known(ibv->context, ibv->handle), RING_ARMED_SOLICITED);
}

int ring_req_notify(struct ibv_cq *ibv, int solicited_only)
{
	struct sp_cq *cq = ring_cq_of(ibv->context, ibv->handle);

	if (ring_unlikely(!cq))
		return notify_unknown(ibv, solicited_only);
	if (solicited_only)
		return notify_solicited(ibv);
	return notify(ibv, cq, RING_ARMED_ANY);
}
