/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting sends (ibv_post_send). */
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/log.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/wqe.h"
#include "providers/mlx5/xlat.h"

/* A request under construction. */
struct sq_wqe {
	uint8_t *seg;
	uint32_t ds, bytes;
};

RING_INLINE __be32 wr_imm(const struct ibv_send_wr *wr, uint8_t imm)
{
	if (ring_likely(!imm))
		return 0;
	return imm == 1 ? wr->imm_data : htobe32(wr->invalidate_rkey);
}

RING_INLINE int put_inline(const struct sp_qp *qp, const struct ring_sq *sq,
			   const struct ibv_send_wr *wr, struct sq_wqe *w)
{
	uint8_t *at = w->seg + sizeof(struct mlx5_wqe_inl_data_seg);
	uint32_t total = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		total += sge->length;
		if (ring_unlikely(total > qp->max_inline || sge->length > qp->max_inline))
			return ENOMEM;
		at = ring_seg_copy(sq, at, (const void *)(uintptr_t)sge->addr, sge->length);
	}
	w->ds += ring_seg_inline(w->seg, total);
	w->bytes = total;
	return 0;
}

/* xlat, here and below: a constant; the ring is that of a carrier with other keys. */
RING_INLINE void put_data_seg(struct sp_qp *qp, const struct ring_sq *sq, uint8_t *seg,
			      const struct ibv_sge *sge, uint32_t length, bool xlat)
{
	if (xlat)
		ring_xlat_data(qp, sq, seg, sge->addr, sge->lkey, length);
	else
		ring_seg_data(seg, sge->addr, sge->lkey, length);
}

RING_INLINE void put_raddr(struct sp_qp *qp, const struct ring_sq *sq, uint8_t *seg, uint64_t addr,
			   uint32_t rkey, bool xlat)
{
	if (xlat)
		ring_xlat_raddr(qp, sq, seg, addr, rkey);
	else
		ring_seg_raddr(seg, addr, rkey);
}

RING_INLINE void put_sges(struct sp_qp *qp, const struct ring_sq *sq, const struct ibv_send_wr *wr,
			  bool atomic, struct sq_wqe *w, bool xlat)
{
	const struct ibv_sge *sge = wr->sg_list, *end = sge + wr->num_sge;
	uint8_t *seg = w->seg;
	uint32_t length;

	for (; sge < end; sge++) {
		if (ring_unlikely(seg == sq->end))
			seg = sq->buf;
		if (ring_unlikely(!sge->length))
			continue;
		length = atomic ? 8 : sge->length;
		put_data_seg(qp, sq, seg, sge, length, xlat);
		w->bytes += length;
		seg += sizeof(struct mlx5_wqe_data_seg);
		w->ds++;
	}
}

static RING_NOINLINE int put_umr(struct sp_qp *qp, struct ring_sq *sq, const struct ibv_send_wr *wr,
				 struct mlx5_wqe_ctrl_seg *ctrl, struct sq_wqe *w)
{
	static const struct ibv_mw_bind_info nothing;
	bool bind = wr->opcode == IBV_WR_BIND_MW;
	uint32_t key = bind ? wr->bind_mw.mw->rkey : wr->invalidate_rkey;
	int err;

	atomic_store_explicit(&qp->others.windows, true, memory_order_relaxed);
	sq->fm_cache = MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE;
	ctrl->imm = htobe32(key);
	err = ring_umr_build(sq, &w->seg, &w->ds, bind ? wr->bind_mw.mw->type : IBV_MW_TYPE_2,
			     bind ? wr->bind_mw.rkey : 0, bind ? &wr->bind_mw.bind_info : &nothing);
	if (!err) {
		sq->wr_data[sq->cur_post & sq->mask] = bind ? RING_OP_BIND_MW : RING_OP_LOCAL_INV;
		sq->psn_ahead--; /* a UMR sends no packet */
	}
	return err;
}

RING_INLINE int put_rc_header(struct sp_qp *qp, struct ring_sq *sq, const struct ibv_send_wr *wr,
			      uint8_t shape, struct mlx5_wqe_ctrl_seg *ctrl, struct sq_wqe *w,
			      bool xlat)
{
	switch (shape) {
	case RING_SHAPE_SEND: return 0;
	case RING_SHAPE_RDMA:
		put_raddr(qp, sq, w->seg, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey, xlat);
		w->seg += 16;
		w->ds += 1;
		return 0;
	case RING_SHAPE_ATOMIC:
		if (ring_unlikely(!qp->atomics.use))
			return EOPNOTSUPP;
		qp->atomics.use = RING_ATOMICS_USED;
		qp->tx_xlat.missing |= xlat && qp->atomics.barred;
		put_raddr(qp, sq, w->seg, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey, xlat);
		ring_seg_atomic(w->seg + 16, wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
				wr->wr.atomic.swap, wr->wr.atomic.compare_add);
		w->seg += 32;
		w->ds += 2;
		return 0;
	case RING_SHAPE_UMR: qp->tx_xlat.missing |= xlat; return put_umr(qp, sq, wr, ctrl, w);
	default: return EOPNOTSUPP;
	}
}

RING_INLINE void put_ud_header(const struct ring_sq *sq, const struct ibv_send_wr *wr,
			       struct sq_wqe *w)
{
	ring_seg_ud(w->seg, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	w->seg += sizeof(struct mlx5_wqe_av);
	w->ds += sizeof(struct mlx5_wqe_av) / 16;
	if (ring_unlikely(w->seg == sq->end))
		w->seg = sq->buf;
}

RING_INLINE int put_data(struct sp_qp *qp, const struct ring_sq *sq, const struct ibv_send_wr *wr,
			 uint8_t shape, struct sq_wqe *w, bool *inl, bool xlat)
{
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge) {
		*inl = true;
		return put_inline(qp, sq, wr, w);
	}
	put_sges(qp, sq, wr, shape == RING_SHAPE_ATOMIC, w, xlat);
	return 0;
}

/*
 * Writes one request at cur_post, and its log WQE (log: a constant; the ring is logged). On error
 * nothing is advanced.
 */
RING_INLINE int put_wqe(struct sp_qp *qp, struct ring_sq *sq, const struct ibv_send_wr *wr,
			struct ring_batch *b, bool xlat, bool log)
{
	const struct ring_opcode *op = &ring_opcodes[wr->opcode];
	struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(sq, sq->cur_post);
	struct sq_wqe w = { (uint8_t *)(ctrl + 1), 1, 0 };
	uint32_t idx = sq->cur_post & sq->mask, n;
	bool inl = b->inl;
	int err;

	sq->wr_data[idx] = 0;
	ring_ctrl_begin(ctrl, ring_ctrl_flags(sq, qp->sig_bits, wr->send_flags));
	ctrl->imm = wr_imm(wr, op->imm);
	if (xlat && ring_unlikely(op->imm == 2))
		qp->tx_xlat.missing = true;
	if (xlat || ring_likely(qp->type == IBV_QPT_RC)) {
		err = put_rc_header(qp, sq, wr, op->shape, ctrl, &w, xlat);
		if (ring_unlikely(err))
			return err;
	} else {
		put_ud_header(sq, wr, &w);
	}
	err = put_data(qp, sq, wr, op->shape, &w, &inl, xlat);
	if (ring_unlikely(err))
		return err;
	ring_ctrl_opcode_set(ctrl, sq->cur_post, op->mlx5);
	ctrl->qpn_ds = htobe32(w.ds | sq->qpn_field);
	sq->wrid[idx] = wr->wr_id;
	n = sq->head + b->nreq;
	sq->wqe_head[idx] = n;
	sq->cur_post += (w.ds + 3) / 4;
	qp->two_sided += op->two_sided;
	if (ring_unlikely(w.bytes > sq->mtu) && op->shape != RING_SHAPE_ATOMIC)
		ring_count_packets(sq, w.bytes);
	b->ctrl = ctrl;
	b->ds = w.ds;
	b->inl = inl;
	if (log)
		ring_log_batch(sq, b, op->mlx5, n);
	return 0;
}

RING_INLINE int post_list(struct sp_qp *qp, struct ring_sq *sq, uint32_t limit,
			  struct ibv_send_wr *wr, struct ibv_send_wr **bad, struct ring_batch *b,
			  bool xlat, bool log)
{
	int err;

	for (; wr; wr = wr->next, b->nreq++) {
		if (ring_unlikely((unsigned)wr->opcode >= RING_OPCODES))
			err = EINVAL;
		else if (ring_unlikely(ring_sq_full(sq, b->nreq, limit)))
			err = ENOMEM;
		else if (ring_unlikely(wr->num_sge > qp->max_gs))
			err = ENOMEM;
		else
			err = put_wqe(qp, sq, wr, b, xlat, log);
		if (ring_unlikely(err)) {
			*bad = wr;
			return err;
		}
	}
	return 0;
}

/* The shell hears of it before the request can be seen: until then the lock is held. */
static void tx_tell(struct sp_qp *qp)
{
	if (!(qp->tx_mode & RING_TELL))
		return;
	qp->tx_mode &= ~RING_TELL;
	qp->dev->cb->posted(qp->cookie);
}

/*
 * Called at a post by the slow way: tells the shell, if it asked; and decides at the first post
 * whether the ring is ours: nobody else may have posted to it. ENOMEM: not decided yet.
 */
int ring_tx_enter(struct sp_qp *qp)
{
	bool ours;

	tx_tell(qp);
	if (!(qp->tx_mode & RING_FIRST))
		return 0;
	ours = ring_qp_own_tx(qp);
	if (ours && ring_sq_fill(&qp->tx->sq))
		return ENOMEM;
	qp->tx_mode &= ~RING_FIRST;
	if (!ours)
		qp->tx_mode |= RING_FOREIGN;
	return 0;
}

/* Returns how many requests the queue that is written now may hold. */
uint32_t ring_tx_limit(struct sp_qp *qp)
{
	struct ring_sq *sq = &qp->tx->sq;
	uint32_t tail;

	if (ring_tx_direct(qp))
		return qp->max_post;
	tail = atomic_load_explicit(&sq->tail, memory_order_acquire);
	return qp->max_post - (sq->head - tail - ring_nops(qp->tx, tail));
}

/*
 * Takes the requests from WQEBB `from` on back. Their numbers must not be found by ring_sq_find:
 * they will be those of others.
 */
void ring_sq_unwrite(struct ring_sq *sq, uint32_t from, uint32_t nreq)
{
	uint32_t *number;

	for (uint32_t post = from; nreq && (int32_t)(sq->cur_post - post) >= 0; post++) {
		number = &sq->wqe_head[post & sq->mask];
		/* the last slot may be the oldest request's already */
		if (*number - sq->head < nreq)
			*number = sq->head ^ 1u << 31;
	}
	sq->cur_post = from;
}

/*
 * Moves requests that were written into the carrier's ring to the hold, as they cannot run there
 * while a key is missing. The NIC has not been told of them.
 */
static void batch_to_hold(struct sp_qp *qp, const struct ring_batch *batch)
{
	struct ring_sq *sq = &qp->tx->sq;
	uint32_t end = sq->cur_post, slot, logged;
	struct ring_wqe app;

	ring_hold_enter(qp);
	for (uint32_t post = batch->from; post != end; post += app.bbs + logged) {
		ring_wqe_load(sq, post, qp->type, &app);
		logged = ring_wqe_logged(sq, post, app.bbs);
		sq->psn_ahead -= ring_wqe_packets(sq, &app) - 1 + logged;
		slot = app.slot;
		ring_wqe_lay(&qp->hold, &app, &app, sq->wrid[slot], sq->wr_data[slot]);
	}
	ring_log_take_back(sq, batch->from);
	ring_sq_unwrite(sq, batch->from, batch->nreq);
}

/* True if a key of what lies in the carrier's ring was not known. The answer is cleared. */
static bool batch_missing(struct sp_qp *qp, const struct ring_sq *sq)
{
	bool missing = qp->tx_xlat.missing;

	qp->tx_xlat.missing = false;
	return missing && sq == &qp->tx->sq;
}

/* Ends a batch that was written to sq: rings, or keeps it withheld. */
void ring_tx_commit(struct sp_qp *qp, struct ring_sq *sq, const struct ring_batch *batch)
{
	int err;

	bool missing = batch_missing(qp, sq);

	if (!batch->nreq)
		return;
	if (missing) {
		batch_to_hold(qp, batch);
	} else {
		sq->head += batch->nreq;
		if (sq == &qp->tx->sq) {
			ring_doorbell(qp->tx, batch);
			return;
		}
	}
	if (qp->tx_mode & RING_FAILED) {
		/* an error wakes a thread that waits for solicited events */
		ring_backlog_event(qp->scq, true);
		return;
	}
	if (qp->tx_mode & RING_KEYS)
		return;
	err = ring_hold_go(qp);
	if (err && err != -EAGAIN)
		qp->dev->cb->key_missing(qp->cookie);
	if (qp->tx_mode & RING_GATE)
		qp->dev->cb->gated(qp->cookie);
}

static int post_send_xlat(struct sp_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_send_other(struct sp_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* Posts while withheld or failed, or the very first time. Called with sq_lock held; drops it. */
static RING_NOINLINE int post_send_slow(struct sp_qp *qp, struct ibv_send_wr *wr,
					struct ibv_send_wr **bad)
{
	struct ring_batch batch = { 0 };
	struct ring_sq *sq;
	int err = ring_tx_enter(qp);

	if (qp->tx_mode & RING_FOREIGN) {
		sp_unlock(&qp->sq_lock);
		return qp->dev->saved.post_send(qp->ibv, wr, bad);
	}
	if (qp->tx_mode == RING_XLAT)
		return post_send_xlat(qp, wr, bad);
	if (ring_tx_logged(qp))
		return post_send_other(qp, wr, bad);
	sq = qp->tx_mode ? &qp->hold : &qp->tx->sq;
	if (err || (sq == &qp->hold && !qp->hold_made)) {
		err = ENOMEM;
		*bad = wr;
	} else {
		err = post_list(qp, sq, ring_tx_limit(qp), wr, bad, &batch, false, false);
		ring_tx_commit(qp, sq, &batch);
	}
	ring_tx_unlock(qp);
	return err;
}

static RING_NOINLINE int post_missing(struct sp_qp *qp, struct ring_batch *batch, uint32_t from,
				      int err)
{
	batch->from = from;
	ring_tx_commit(qp, &qp->tx->sq, batch);
	ring_tx_unlock(qp);
	return err;
}

/*
 * Writes a list once, into the carrier's ring. xlat, log: constants. Called with sq_lock held;
 * drops it.
 */
RING_INLINE int post_direct(struct sp_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
			    bool xlat, bool log)
{
	struct ring_batch batch = { 0 };
	struct sp_carrier *c = qp->tx;
	uint32_t from = c->sq.cur_post;
	int err;

	err = post_list(qp, &c->sq, qp->max_post, wr, bad, &batch, xlat, log);
	if (xlat && ring_unlikely(qp->tx_xlat.missing))
		return post_missing(qp, &batch, from, err);
	if (ring_likely(batch.nreq)) {
		c->sq.head += batch.nreq;
		ring_doorbell(c, &batch);
	}
	sp_unlock(&qp->sq_lock);
	return err;
}

static __attribute__((noinline)) int post_send_xlat(struct sp_qp *qp, struct ibv_send_wr *wr,
						    struct ibv_send_wr **bad)
{
	return post_direct(qp, wr, bad, true, false);
}

static __attribute__((noinline)) int post_send_both(struct sp_qp *qp, struct ibv_send_wr *wr,
						    struct ibv_send_wr **bad)
{
	return post_direct(qp, wr, bad, true, true);
}

static __attribute__((noinline)) int post_send_logged(struct sp_qp *qp, struct ibv_send_wr *wr,
						      struct ibv_send_wr **bad)
{
	return post_direct(qp, wr, bad, false, true);
}

/*
 * The rarer ways, without a frame of its own. Called with sq_lock held; drops it. XLAT alone is
 * asked for before it.
 */
static __attribute__((noinline)) int post_send_other(struct sp_qp *qp, struct ibv_send_wr *wr,
						     struct ibv_send_wr **bad)
{
	if (qp->tx_mode == RING_LOG)
		return post_send_logged(qp, wr, bad);
	return ring_tx_logged(qp) ? post_send_both(qp, wr, bad) : post_send_slow(qp, wr, bad);
}

int ring_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sp_qp *qp = ring_qp_of(ibv);

	if (ring_unlikely(!qp))
		return ring_dev_of(ibv->context)->saved.post_send(ibv, wr, bad);
	sp_lock(&qp->sq_lock);
	if (ring_unlikely(qp->tx_mode)) {
		if (ring_likely(qp->tx_mode == RING_XLAT))
			return post_send_xlat(qp, wr, bad);
		return post_send_other(qp, wr, bad);
	}
	return post_direct(qp, wr, bad, false, false);
}
