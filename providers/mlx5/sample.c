/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The keys of the ring engine that are in use: a sample, read back from the rings. */
#include "providers/common/sample.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/sample.h"
#include "providers/mlx5/srq_ring.h"
#include "providers/mlx5/wqe.h"

/* ---- sends ----------------------------------------------------------------------------------- */

static void sample_wqe(struct sp_sample *s, const struct ring_wqe *w)
{
	for (uint32_t u = 0; u < w->ds; u++)
		if (w->keys >> u & 1)
			sp_sample_add(s, ring_wqe_key(w, u), w->rkeys >> u & 1);
}

/* Finds the start of request number n, which ends at `post`; its slot carries the number. */
static bool sample_before(const struct ring_sq *sq, uint32_t n, uint32_t post, uint32_t *at)
{
	uint32_t back;

	for (back = 1; back <= (RING_MAX_DS + 3) / 4 + 1; back++) {
		*at = post - back;
		if (sq->wqe_head[*at & sq->mask] == n && !ring_wqe_is_log(sq, *at) &&
		    ring_wqe_bbs(sq, *at) == back)
			return true;
	}
	return false;
}

/* Samples sends. sq_lock is held. */
static void sample_sends(struct sp_sample *s, const struct sp_qp *qp)
{
	const struct ring_sq *sq = &qp->tx->sq;
	uint32_t tail = atomic_load_explicit(&sq->tail, memory_order_acquire);
	uint32_t n = sq->head, post = sq->cur_post, left = SP_SAMPLE_REQUESTS;
	struct ring_wqe wqe;

	for (; left && n != tail; left--, n--) {
		if (!sample_before(sq, n - 1, post, &post))
			return;
		ring_wqe_load(sq, post, (enum ibv_qp_type)qp->type, &wqe);
		sample_wqe(s, &wqe);
	}
}

/* ---- receives -------------------------------------------------------------------------------- */

static void sample_receive(struct sp_sample *s, const struct sp_carrier *c, uint32_t idx)
{
	const struct ring_rq *rq = &c->rq;
	const struct mlx5_wqe_data_seg *seg = (void *)(rq->buf + ((size_t)idx << rq->shift));

	for (uint32_t i = 0; i < rq->max_gs; i++, seg++) {
		if (be32toh(seg->lkey) == MLX5_INVALID_LKEY)
			return;
		sp_sample_add(s,
			      c->xlat ? *(const uint32_t *)((uintptr_t)seg + rq->keys_at)
				      : be32toh(seg->lkey),
			      false);
	}
}

/* Samples the latest receive, and some of the others in turn. rq_lock is held. */
static void sample_receives(struct sp_sample *s, const struct sp_qp *qp, uint32_t turn)
{
	const struct ring_rq *rq = &qp->rx->rq;
	uint32_t posted = rq->head - atomic_load_explicit(&rq->tail, memory_order_acquire);

	for (uint32_t i = 0; i < SP_SAMPLE_RECEIVES && i < posted; i++) {
		uint32_t back = sp_sample_back(turn, i, posted);

		sample_receive(s, qp->rx, (rq->head - 1 - back) & rq->mask);
	}
}

/* Samples a slot of a shared queue, whose lock is held. */
static void sample_slot(struct sp_sample *s, const struct sp_srq_ring *ring, uint32_t idx)
{
	const struct mlx5_wqe_data_seg *seg = ring_slot_segs(ring, idx);

	for (uint32_t i = 0; i < ring->max_gs; i++, seg++) {
		if (be32toh(seg->lkey) == MLX5_INVALID_LKEY)
			return;
		sp_sample_add(s, ring->keys ? ring_slot_keys(ring, idx)[i] : be32toh(seg->lkey),
			      false);
	}
}

static void sample_shared(struct sp_sample *s, struct sp_srq *srq, uint32_t turn)
{
	const struct sp_srq_ring *ring;
	uint32_t i, idx;

	if (!sp_trylock(&srq->lock))
		return;
	for (ring = srq->foreign ? NULL : &srq->own; ring; ring = ring->next)
		for (i = 0; i < SP_SAMPLE_SLOTS; i++) {
			idx = (turn * SP_SAMPLE_SLOTS + i) & ring->mask;
			if (idx < ring->cnt && ring->busy[idx])
				sample_slot(s, ring, idx);
		}
	sp_unlock(&srq->lock);
}

uint32_t ring_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
		      uint32_t room)
{
	struct sp_sample s = { .keys = keys, .room = room };

	if (atomic_load(&qp->others.hand))
		return 0;
	if (qp->srq) {
		sample_shared(&s, qp->srq, turn);
	} else if (sp_trylock(&qp->rq_lock)) {
		if (!(qp->rx_mode & ~(RING_FIRST | RING_XLAT)))
			sample_receives(&s, qp, turn);
		sp_unlock(&qp->rq_lock);
	}
	if (sends && sp_trylock(&qp->sq_lock)) {
		if (ring_tx_direct(qp))
			sample_sends(&s, qp);
		ring_tx_unlock(qp);
	}
	return s.n;
}
