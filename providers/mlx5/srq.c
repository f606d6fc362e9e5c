/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shared receive queue of the ring engine. A queue is a linked list of WQEs (layouts:
 * mlx5dv.h): the library fills the first free one, follows its link, counts in the doorbell record,
 * and links a WQE that was completed behind the last free one.
 *
 * Receives do not belong to a QP: which QP took one is known from its completion. A carrier on
 * another NIC takes from a ring there. While all carriers are on the application's own ring, its
 * posts go straight into that. From the first move on, receives that are not in a ring wait in the
 * pool, and are handed to the rings that carriers take from, most to the ring with the fewest for
 * each carrier. A receive is in one place only: in the pool, or in one ring.
 *
 * A ring that no carrier takes from any more gives all that it still has back to the pool
 * (ring_srq_recover). Its NIC may have read those WQEs already, so it is spoiled: it is never
 * posted to again, and no carrier may join it.
 */
#include <stdlib.h>

#include "providers/mlx5/carrier.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/errors.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/scatter.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/srq_pool.h"
#include "providers/mlx5/srq_ring.h"
#include "providers/common/srq_rings.h"

/* -- completions ------------------------------------------------------------------------------- */

uint8_t ring_srq_take(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint64_t *wr_id)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask, left;
	const struct mlx5_cqe64 *data;
	const uint8_t *src;
	uint8_t status = IBV_WC_SUCCESS;

	sp_lock(&ring->srq->lock);
	*wr_id = ring->wrid[idx];
	if (cqe->op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)) {
		data = cqe->op_own & MLX5_INLINE_SCATTER_32 ? cqe : cqe - 1;
		src = (const uint8_t *)data;
		left = ring_scatter_list(ring_slot_segs(ring, idx), ring->max_gs, &src,
					 be32toh(cqe->byte_cnt));
		status = left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
	}
	if (ring->busy[idx])
		ring_slot_free(ring, idx);
	else
		ring_slot_spent(ring, idx);
	ring_srq_check_limit(ring->srq);
	ring_srq_served(ring->srq, ring);
	sp_unlock(&ring->srq->lock);
	return status;
}

void ring_srq_give_back(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;
	struct sp_srq *srq = ring->srq;

	sp_lock(&srq->lock);
	if (ring->busy[idx] && srq->pool) {
		ring_pool_load(ring, idx, ring_pool_add(srq, true));
		ring_slot_free(ring, idx);
		ring->turn = sp_share_end(&srq->turns);
		ring_pool_feed_or_tell(srq);
	} else {
		ring_slot_spent(ring, idx);
	}
	sp_unlock(&srq->lock);
}

void ring_srq_drop(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;

	sp_lock(&ring->srq->lock);
	if (ring->busy[idx])
		ring_slot_free(ring, idx);
	else
		ring_slot_spent(ring, idx);
	sp_unlock(&ring->srq->lock);
}

/* Posts the same request into the next free slot, which may be the same one. */
static void slot_again(struct sp_srq_ring *ring, uint32_t idx)
{
	uint64_t wr_id = ring->wrid[idx];
	uint32_t to;

	ring_slot_free(ring, idx);
	to = ring->head;
	memcpy(ring_slot_segs(ring, to), ring_slot_segs(ring, idx),
	       ring->max_gs * sizeof(struct mlx5_wqe_data_seg));
	if (ring->keys)
		memcpy(ring_slot_keys(ring, to), ring_slot_keys(ring, idx),
		       ring->max_gs * sizeof(*ring->keys));
	ring_slot_use(ring, to, wr_id);
	ring_srq_doorbell(ring);
}

void ring_srq_repost(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;

	sp_lock(&ring->srq->lock);
	/* receives of a ring that is left went back to the pool, or will */
	if (ring->busy[idx] && !ring->spoiled)
		slot_again(ring, idx);
	else
		ring_slot_spent(ring, idx);
	sp_unlock(&ring->srq->lock);
}

/* -- posting ----------------------------------------------------------------------------------- */

static void put(struct sp_srq_ring *ring, const struct ibv_recv_wr *wr)
{
	struct mlx5_wqe_data_seg *seg = ring_slot_segs(ring, ring->head);
	int i;

	for (i = 0; i < wr->num_sge; i++, seg++)
		ring_seg_data((uint8_t *)seg, wr->sg_list[i].addr, wr->sg_list[i].lkey,
			      wr->sg_list[i].length);
	if ((uint32_t)i < ring->max_gs)
		ring_seg_data((uint8_t *)seg, 0, MLX5_INVALID_LKEY, 0);
	ring_slot_use(ring, ring->head, wr->wr_id);
}

static void put_pool(struct sp_srq *srq, const struct ibv_recv_wr *wr)
{
	struct ring_pooled *to = ring_pool_add(srq, false);

	to->wr_id = wr->wr_id;
	to->n = (uint32_t)wr->num_sge;
	memcpy(to->sge, wr->sg_list, to->n * sizeof(*to->sge));
}

static bool srq_full(const struct sp_srq *srq)
{
	return srq->split ? ring_srq_total(srq) >= srq->own.cnt - 1 : sp_ring_full(&srq->own);
}

static int post_list(struct sp_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		if (ring_unlikely(wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->own.max_gs))
			err = EINVAL;
		else if (ring_unlikely(srq_full(srq)))
			err = ENOMEM;
		if (ring_unlikely(err)) {
			*bad = wr;
			break;
		}
		if (ring_unlikely(srq->split))
			put_pool(srq, wr);
		else
			put(&srq->own, wr);
	}
	return err;
}

/* Looks at the first post whether the ring is as it was made. srq->lock held. */
static void take_over(struct sp_srq *srq)
{
	srq->first = false;
	srq->foreign |= __atomic_load_n(srq->own.dbrec, __ATOMIC_ACQUIRE) != 0;
}

int ring_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_srq *srq = ring_srq_of(ibv);
	uint32_t counter;
	int err;

	if (ring_unlikely(!srq))
		return ring_dev_of(ibv->context)->saved.post_srq_recv(ibv, wr, bad);
	sp_lock(&srq->lock);
	if (ring_unlikely(srq->first))
		take_over(srq);
	if (ring_unlikely(srq->foreign)) {
		sp_unlock(&srq->lock);
		return srq->dev->saved.post_srq_recv(ibv, wr, bad);
	}
	counter = srq->own.counter;
	err = post_list(srq, wr, bad);
	if (ring_unlikely(srq->split))
		ring_pool_feed_or_tell(srq);
	else if (srq->own.counter != counter)
		ring_srq_doorbell(&srq->own);
	sp_unlock(&srq->lock);
	return err;
}

/* -- carriers ---------------------------------------------------------------------------------- */

struct sp_srq_ring *ring_srq_find(struct sp_srq *srq, const struct ibv_srq *real)
{
	return sp_rings_find(srq, real);
}

void ring_srq_join(struct sp_carrier *c)
{
	sp_ring_join(c);
}

void ring_srq_leave(struct sp_carrier *c)
{
	sp_ring_leave(c);
}

/*
 * Only the shell adds and removes carriers: no lock. A receive that the carrier took may still lie
 * in the CQ. If the carrier left before it is collected, it would be recovered with the ring, and
 * used twice.
 */
void ring_qp_last_receive(struct sp_qp *qp, uint32_t epoch)
{
	struct sp_carrier *c = sp_carrier_at(qp, epoch);

	if (!c)
		return;
	atomic_store(&c->last_receive, true);
	if (!ring_cq_collect(qp->rcq))
		ring_srq_leave(c);
}

/* -- as the shell sees them -------------------------------------------------------------------- */

/* The rings tell more than the attributes. */
int ring_srq_drive(struct sp_dev *dev, struct ibv_srq *ibv, const struct ibv_srq_attr *attr,
		   void *cookie, struct sp_srq **out)
{
	struct sp_srq *srq;
	int err;

	if (ibv->handle >= RING_MAX_HANDLE)
		return -EOPNOTSUPP;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->engine = dev->engine;
	srq->dev = dev;
	srq->ibv = ibv;
	srq->cookie = cookie;
	srq->first = true;
	err = sp_table_reserve(&dev->tables.srqs, ibv->handle);
	if (!err)
		err = ring_srq_open(&srq->own, srq, dev, ibv);
	if (err) {
		free(srq);
		return err;
	}
	*out = srq;
	atomic_store_explicit(&dev->srqs[ibv->handle], srq, memory_order_release);
	return 0;
}

void ring_srq_undrive(struct sp_srq *srq)
{
	atomic_store(&srq->dev->srqs[srq->ibv->handle], NULL);
	while (srq->own.next)
		ring_srq_ring_del(srq->own.next);
	ring_srq_close(&srq->own);
	free(srq->pool);
	free(srq);
}

int ring_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
		      const struct ibv_srq_attr *attr, uint8_t path, struct sp_srq_ring **out)
{
	struct sp_srq_ring *ring = calloc(1, sizeof(*ring));
	/* a stand-in for the application's own queue: QPs find it there */
	bool stands_in = dev == srq->dev && shadow->handle < RING_MAX_HANDLE;
	int err = 0;

	if (!ring)
		return -ENOMEM;
	if (stands_in)
		err = sp_table_reserve(&dev->tables.srqs, shadow->handle);
	if (!err)
		err = ring_pool_make(srq);
	if (!err)
		err = ring_srq_open(ring, srq, dev, shadow);
	if (!err && (ring->cnt < srq->own.cnt || ring->max_gs < srq->own.max_gs)) {
		ring_srq_close(ring);
		err = -EINVAL;
	}
	if (err) {
		free(ring);
		return err;
	}
	ring->path = path;
	if (stands_in)
		atomic_store(&dev->srqs[shadow->handle], srq);
	sp_rings_link(srq, ring);
	*out = ring;
	return 0;
}

void ring_srq_ring_del(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;

	sp_rings_unlink(srq, ring);
	if (ring->dev == srq->dev && ring->real->handle < RING_MAX_HANDLE)
		atomic_store(&ring->dev->srqs[ring->real->handle], NULL);
	ring_srq_close(ring);
	free(ring);
}

static int hand_back_one(struct sp_srq *srq, uint32_t idx)
{
	const struct mlx5_wqe_data_seg *seg = ring_slot_segs(&srq->own, idx);
	struct ibv_sge sge[RING_SRQ_MAX_GS];
	struct ibv_recv_wr wr = { .wr_id = srq->own.wrid[idx], .sg_list = sge }, *bad;

	for (; (uint32_t)wr.num_sge < srq->own.max_gs; wr.num_sge++, seg++) {
		if (be32toh(seg->lkey) == MLX5_INVALID_LKEY)
			break;
		sge[wr.num_sge] = (struct ibv_sge){ .addr = be64toh(seg->addr),
						    .length = be32toh(seg->byte_count),
						    .lkey = be32toh(seg->lkey) };
	}
	return -srq->dev->saved.post_srq_recv(srq->ibv, &wr, &bad);
}

/*
 * libmlx5 has never posted to the queue, and no receive was taken: it writes each where it already
 * is. The record goes from one to its old value.
 */
int ring_srq_hand_back(struct sp_srq *srq)
{
	uint32_t idx, n;
	int err = 0;

	sp_lock(&srq->lock);
	if (srq->split || srq->own.users || srq->own.counter != srq->own.outstanding)
		err = -EBUSY;
	if (!err && !srq->foreign) {
		srq->foreign = true;
		idx = srq->own.start;
		for (n = srq->own.counter; n && !err; n--) {
			err = hand_back_one(srq, idx);
			idx = be16toh(ring_slot_link(&srq->own, idx)->next_wqe_index) &
			      srq->own.mask;
		}
	}
	sp_unlock(&srq->lock);
	return err;
}
