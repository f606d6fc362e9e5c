/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues. One is a linked list of WQEs (layouts: mlx5dv.h): the library fills the
 * first free one, follows its link, counts in the doorbell record, and links a WQE that was
 * completed behind the last free one.
 *
 * Receives do not belong to a QP: which of them a QP takes is known when it has taken it. A carrier
 * on another NIC takes from a ring there. While all carriers are on the application's own ring, its
 * posts go straight into that. From the first move on, receives that are not in a ring wait in the
 * pool, and are handed to the rings that carriers take from, most to the one that has fewest for
 * each carrier. A receive is in one place only: in the pool, or in one ring.
 *
 * A ring that no carrier takes from any more gives all that it still has back to the pool
 * (ring_srq_recover). Its NIC may have read those WQEs already, so it is spoiled: it is never
 * posted to again, and no carrier may join it.
 */
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/seg.h"
#include "providers/mlx5/srq.h"

/* The highest index of all, which no NIC reaches: its protection check fails. */
#define SRQ_NO_KEY UINT32_MAX

/* -- one ring --------------------------------------------------------------------------------- */

RING_INLINE struct mlx5_wqe_srq_next_seg *slot_link(const struct sp_srq_ring *ring, uint32_t idx)
{
	return (struct mlx5_wqe_srq_next_seg *)(ring->buf + ((size_t)idx << ring->shift));
}

RING_INLINE struct mlx5_wqe_data_seg *slot_segs(const struct sp_srq_ring *ring, uint32_t idx)
{
	return (struct mlx5_wqe_data_seg *)(slot_link(ring, idx) + 1);
}

RING_INLINE uint32_t *slot_keys(const struct sp_srq_ring *ring, uint32_t idx)
{
	return ring->keys + (size_t)idx * ring->max_gs;
}

RING_INLINE bool ring_full(const struct sp_srq_ring *ring)
{
	return ring->head == ring->tail;
}

/* The next free WQE is the newest request from here on. */
RING_INLINE void slot_use(struct sp_srq_ring *ring, uint32_t idx, uint64_t wr_id)
{
	ring->wrid[idx] = wr_id;
	ring->number[idx] = ring->counter;
	ring->busy[idx] = true;
	ring->head = be16toh(slot_link(ring, idx)->next_wqe_index) & ring->mask;
	ring->counter++;
	ring->outstanding++;
}

RING_INLINE void slot_free(struct sp_srq_ring *ring, uint32_t idx)
{
	ring->busy[idx] = false;
	ring->outstanding--;
	if (ring->spoiled)
		return;
	slot_link(ring, ring->tail)->next_wqe_index = htobe16((uint16_t)idx);
	ring->tail = idx;
}

RING_INLINE void ring_ring(const struct sp_srq_ring *ring)
{
	ring_to_device_barrier();
	ring_store_record(ring->dbrec,
			  ring->counter & 0xffff); /* as libmlx5: the rest is reserved */
}

/* The list from its first free WQE to the last: as many as there are. 0: it is not one. */
static uint32_t list_walk(const struct sp_srq_ring *ring, uint32_t *highest)
{
	uint32_t idx = ring->head, n = 1;

	*highest = idx;
	for (; idx != ring->tail && n <= UINT16_MAX; n++) {
		idx = be16toh(slot_link(ring, idx)->next_wqe_index);
		*highest = idx > *highest ? idx : *highest;
	}
	return idx == ring->tail ? n : 0;
}

static void ring_release(struct sp_srq_ring *ring)
{
	free(ring->wrid);
	free(ring->number);
	free(ring->busy);
	free(ring->heap);
	free(ring->keys);
}

static int ring_arrays(struct sp_srq_ring *ring, uint32_t slots, bool keys)
{
	ring->mask = 1;
	while (ring->mask < slots)
		ring->mask *= 2;
	slots = ring->mask--;
	ring->wrid = calloc(slots, sizeof(*ring->wrid));
	ring->number = calloc(slots, sizeof(*ring->number));
	ring->busy = calloc(slots, sizeof(*ring->busy));
	ring->heap = calloc(slots, sizeof(*ring->heap));
	if (keys)
		ring->keys = calloc((size_t)slots * ring->max_gs, sizeof(*ring->keys));
	if (ring->wrid && ring->number && ring->busy && ring->heap && (!keys || ring->keys))
		return 0;
	ring_release(ring);
	return -ENOMEM;
}

static int ring_open(struct sp_srq_ring *ring, struct sp_srq *srq, struct sp_dev *dev,
		     struct ibv_srq *real)
{
	struct mlx5dv_srq dv = { 0 };
	struct mlx5dv_obj obj = { .srq = { .in = real, .out = &dv } };
	int err = ring_init_obj(&obj, MLX5DV_OBJ_SRQ);
	uint32_t highest;

	if (err)
		return err;
	ring->engine = dev->engine;
	ring->srq = srq;
	ring->dev = dev;
	ring->real = real;
	ring->buf = dv.buf;
	ring->dbrec = dv.dbrec;
	ring->shift = (uint32_t)__builtin_ctz(dv.stride);
	ring->max_gs = dv.stride / 16 - 1;
	ring->start = ring->head = dv.head;
	ring->tail = dv.tail;
	ring->cnt = list_walk(ring, &highest);
	if (!ring->cnt || ring->max_gs > RING_SRQ_MAX_GS)
		return -EOPNOTSUPP;
	return ring_arrays(ring, highest + 1, dev != srq->dev);
}

/* -- the pool --------------------------------------------------------------------------------- */

static struct ring_pooled *pool_at(const struct sp_srq *srq, uint32_t i)
{
	uint32_t at = (srq->pool_first + i) % srq->own.cnt;

	return (struct ring_pooled *)((uint8_t *)srq->pool + (size_t)at * srq->pool_stride);
}

/* Made before the first move. It never holds more than the application may have posted. */
static int pool_make(struct sp_srq *srq)
{
	size_t stride = sizeof(struct ring_pooled) + srq->own.max_gs * sizeof(struct ibv_sge);
	void *pool = calloc(srq->own.cnt, stride);
	bool had;

	if (!pool)
		return -ENOMEM;
	ring_lock(&srq->lock);
	had = srq->pool != NULL;
	if (!had) {
		srq->pool = pool;
		srq->pool_stride = (uint32_t)stride;
	}
	ring_unlock(&srq->lock);
	if (had)
		free(pool);
	return 0;
}

static struct ring_pooled *pool_add(struct sp_srq *srq, bool front)
{
	struct ring_pooled *place;

	if (front)
		srq->pool_first = (srq->pool_first + srq->own.cnt - 1) % srq->own.cnt;
	srq->pool_n++;
	place = pool_at(srq, front ? 0 : srq->pool_n - 1);
	place->stuck_since = 0;
	return place;
}

static void pool_pop(struct sp_srq *srq)
{
	srq->pool_first = (srq->pool_first + 1) % srq->own.cnt;
	srq->pool_n--;
}

/* The first one goes to the end: it must not keep the others from the rings. */
static void pool_rotate(struct sp_srq *srq)
{
	const struct ring_pooled *first = pool_at(srq, 0);

	memmove(pool_at(srq, srq->pool_n), first, srq->pool_stride);
	srq->pool_first = (srq->pool_first + 1) % srq->own.cnt;
}

static void pool_load(const struct sp_srq_ring *ring, uint32_t idx, struct ring_pooled *out)
{
	const struct mlx5_wqe_data_seg *seg = slot_segs(ring, idx);

	out->wr_id = ring->wrid[idx];
	for (out->n = 0; out->n < ring->max_gs; out->n++, seg++) {
		if (be32toh(seg->lkey) == MLX5_INVALID_LKEY)
			break;
		out->sge[out->n] = (struct ibv_sge){
			.addr = be64toh(seg->addr),
			.length = be32toh(seg->byte_count),
			.lkey = ring->keys ? slot_keys(ring, idx)[out->n] : be32toh(seg->lkey),
		};
	}
}

/*
 * -ENOENT: the ring's NIC has no key yet for some memory of it; nothing was done. anyway: then with
 * one that is none.
 */
static int pool_lay(struct sp_srq_ring *ring, const struct ring_pooled *from, bool anyway)
{
	const struct sp_callbacks *cb = ring->srq->dev->cb;
	struct mlx5_wqe_data_seg *seg = slot_segs(ring, ring->head);
	uint32_t wire[RING_SRQ_MAX_GS], i;

	for (i = 0; i < from->n; i++) {
		wire[i] = from->sge[i].lkey;
		if (!ring->keys || !cb->srq_lkey(ring->srq->cookie, ring->path, wire[i], &wire[i]))
			continue;
		if (!anyway)
			return -ENOENT;
		wire[i] = SRQ_NO_KEY;
	}
	for (i = 0; i < from->n; i++, seg++) {
		ring_seg_data((uint8_t *)seg, from->sge[i].addr, wire[i], from->sge[i].length);
		if (ring->keys)
			slot_keys(ring, ring->head)[i] = from->sge[i].lkey;
	}
	if (i < ring->max_gs)
		ring_seg_data((uint8_t *)seg, 0, MLX5_INVALID_LKEY, 0);
	slot_use(ring, ring->head, from->wr_id);
	return 0;
}

/* -- which ring gets the next receive --------------------------------------------------------- */

static bool takes_more(const struct sp_srq_ring *ring)
{
	return ring->users && !ring->spoiled && !ring_full(ring);
}

/* The one with the fewest receives for each of its carriers. */
static struct sp_srq_ring *feed_choose(struct sp_srq *srq)
{
	struct sp_srq_ring *best = NULL, *ring;

	for (ring = &srq->own; ring; ring = ring->next)
		if (takes_more(ring) &&
		    (!best || (uint64_t)ring->outstanding * best->users <
				      (uint64_t)best->outstanding * ring->users))
			best = ring;
	return best;
}

/* By the shell's clock; without one, none is too long. */
static bool stuck_for_good(struct ring_pooled *r, uint64_t now, uint64_t patience)
{
	if (now && !r->stuck_since)
		r->stuck_since = now;
	return now && now - r->stuck_since >= patience;
}

static void feed_ring_all(struct sp_srq *srq)
{
	for (struct sp_srq_ring *ring = &srq->own; ring; ring = ring->next) {
		if (ring->fed)
			ring_ring(ring);
		ring->fed = false;
	}
}

/* srq->lock held. Each of the pool is looked at once. */
static int feed(struct sp_srq *srq, uint64_t now, uint64_t patience)
{
	uint32_t n = srq->pool_n, stuck = 0;
	struct sp_srq_ring *ring;

	for (; n && (ring = feed_choose(srq)); n--) {
		struct ring_pooled *first = pool_at(srq, 0);

		if (pool_lay(ring, first, false) &&
		    (!stuck_for_good(first, now, patience) || pool_lay(ring, first, true))) {
			pool_rotate(srq);
			stuck++;
			continue;
		}
		ring->fed = true;
		pool_pop(srq);
	}
	feed_ring_all(srq);
	srq->stuck &= stuck != 0;
	return stuck ? -ENOENT : 0;
}

static void feed_or_tell(struct sp_srq *srq)
{
	if (!feed(srq, 0, 0) || srq->stuck)
		return;
	srq->stuck = true;
	srq->dev->cb->srq_stuck(srq->cookie);
}

/* All that the application has posted and that is not completed. */
static uint32_t total(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	uint32_t n = srq->pool_n;

	for (ring = &srq->own; ring; ring = ring->next)
		n += ring->outstanding;
	return n;
}

/* After a move the devices count a part each; the limit is one of all that there is. */
static void check_limit(struct sp_srq *srq)
{
	if (!srq->limit || !srq->split || total(srq) >= srq->limit)
		return;
	srq->limit = 0;
	srq->dev->cb->srq_limit(srq->cookie);
}

/* -- shares ----------------------------------------------------------------------------------- */

static uint32_t all_users(const struct sp_srq *srq)
{
	const struct sp_srq_ring *ring;
	uint32_t n = 0;

	for (ring = &srq->own; ring; ring = ring->next)
		n += ring->users;
	return n;
}

static uint32_t part_of(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	return users ? (uint32_t)((uint64_t)receives * ring->users / users) : 0;
}

/* Less than a quarter of its part. */
static bool in_want(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	return !ring->spoiled && ring->outstanding * 4ull < part_of(ring, receives, users);
}

static bool any_in_want(const struct sp_srq *srq)
{
	uint32_t receives = total(srq), users = all_users(srq);
	const struct sp_srq_ring *ring;

	for (ring = &srq->own; ring; ring = ring->next)
		if (in_want(ring, receives, users))
			return true;
	return false;
}

/* For a ring with room; not for a key. */
static bool pool_waits(const struct sp_srq *srq)
{
	return srq->pool_n && !srq->stuck;
}

static void tell_if_in_want(struct sp_srq *srq, const struct sp_srq_ring *ring)
{
	if (srq->split && !pool_waits(srq) && in_want(ring, total(srq), all_users(srq)))
		srq->dev->cb->srq_stuck(srq->cookie);
}

/* What a ring has beyond its part. */
static uint32_t surplus(const struct sp_srq_ring *ring, uint32_t receives, uint32_t users)
{
	uint32_t part = part_of(ring, receives, users);

	if (ring->spoiled || !ring->users || ring->outstanding <= part)
		return 0;
	return ring->outstanding - part;
}

struct sp_srq_ring *ring_srq_share(struct sp_srq *srq, uint32_t *n)
{
	struct sp_srq_ring *ring, *most = NULL;
	uint32_t receives, users, more;

	*n = 0;
	ring_lock(&srq->lock);
	receives = total(srq);
	users = all_users(srq);
	if (srq->split && !pool_waits(srq) && any_in_want(srq))
		for (ring = &srq->own; ring; ring = ring->next) {
			more = surplus(ring, receives, users);
			if (more > *n) {
				most = ring;
				*n = more;
			}
		}
	ring_unlock(&srq->lock);
	return most;
}

/* -- completions ------------------------------------------------------------------------------ */

uint8_t ring_srq_take(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, uint64_t *wr_id)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask, left;
	const struct mlx5_cqe64 *data;
	const uint8_t *src;
	uint8_t status = IBV_WC_SUCCESS;

	ring_lock(&ring->srq->lock);
	*wr_id = ring->wrid[idx];
	if (cqe->op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)) {
		data = cqe->op_own & MLX5_INLINE_SCATTER_32 ? cqe : cqe - 1;
		src = (const uint8_t *)data;
		left = ring_scatter_list(slot_segs(ring, idx), ring->max_gs, &src,
					 be32toh(cqe->byte_cnt));
		status = left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
	}
	if (ring->busy[idx])
		slot_free(ring, idx);
	check_limit(ring->srq);
	tell_if_in_want(ring->srq, ring);
	ring_unlock(&ring->srq->lock);
	return status;
}

void ring_srq_give_back(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;
	struct sp_srq *srq = ring->srq;

	ring_lock(&srq->lock);
	if (ring->busy[idx] && srq->pool) {
		pool_load(ring, idx, pool_add(srq, true));
		slot_free(ring, idx);
		feed_or_tell(srq);
	}
	ring_unlock(&srq->lock);
}

void ring_srq_drop(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;

	ring_lock(&ring->srq->lock);
	if (ring->busy[idx])
		slot_free(ring, idx);
	ring_unlock(&ring->srq->lock);
}

/* The same request in the next free slot, which may be the one that it was in. */
static void slot_again(struct sp_srq_ring *ring, uint32_t idx)
{
	uint64_t wr_id = ring->wrid[idx];
	uint32_t to;

	slot_free(ring, idx);
	to = ring->head;
	memcpy(slot_segs(ring, to), slot_segs(ring, idx),
	       ring->max_gs * sizeof(struct mlx5_wqe_data_seg));
	if (ring->keys)
		memcpy(slot_keys(ring, to), slot_keys(ring, idx),
		       ring->max_gs * sizeof(*ring->keys));
	slot_use(ring, to, wr_id);
	ring_ring(ring);
}

void ring_srq_repost(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct sp_srq_ring *ring = c->srq;
	uint32_t idx = be16toh(cqe->wqe_counter) & ring->mask;

	ring_lock(&ring->srq->lock);
	/* what a ring that is left still had went back to the pool, or will */
	if (ring->busy[idx] && !ring->spoiled)
		slot_again(ring, idx);
	ring_unlock(&ring->srq->lock);
}

/* -- posting ---------------------------------------------------------------------------------- */

static void put(struct sp_srq_ring *ring, const struct ibv_recv_wr *wr)
{
	struct mlx5_wqe_data_seg *seg = slot_segs(ring, ring->head);
	int i;

	for (i = 0; i < wr->num_sge; i++, seg++)
		ring_seg_data((uint8_t *)seg, wr->sg_list[i].addr, wr->sg_list[i].lkey,
			      wr->sg_list[i].length);
	if ((uint32_t)i < ring->max_gs)
		ring_seg_data((uint8_t *)seg, 0, MLX5_INVALID_LKEY, 0);
	slot_use(ring, ring->head, wr->wr_id);
}

static void put_pool(struct sp_srq *srq, const struct ibv_recv_wr *wr)
{
	struct ring_pooled *to = pool_add(srq, false);

	to->wr_id = wr->wr_id;
	to->n = (uint32_t)wr->num_sge;
	memcpy(to->sge, wr->sg_list, to->n * sizeof(*to->sge));
}

static bool srq_full(const struct sp_srq *srq)
{
	return srq->split ? total(srq) >= srq->own.cnt - 1 : ring_full(&srq->own);
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

/* Nobody has posted yet: is the ring as it was made? srq->lock held. */
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
	ring_lock(&srq->lock);
	if (ring_unlikely(srq->first))
		take_over(srq);
	if (ring_unlikely(srq->foreign)) {
		ring_unlock(&srq->lock);
		return srq->dev->saved.post_srq_recv(ibv, wr, bad);
	}
	counter = srq->own.counter;
	err = post_list(srq, wr, bad);
	if (ring_unlikely(srq->split))
		feed_or_tell(srq);
	else if (srq->own.counter != counter)
		ring_ring(&srq->own);
	ring_unlock(&srq->lock);
	return err;
}

/* -- carriers --------------------------------------------------------------------------------- */

struct sp_srq_ring *ring_srq_find(struct sp_srq *srq, const struct ibv_srq *real)
{
	struct sp_srq_ring *ring;

	ring_lock(&srq->lock);
	for (ring = &srq->own; ring && ring->real != real;)
		ring = ring->next;
	ring_unlock(&srq->lock);
	return ring;
}

/* From here on it takes receives of its ring. */
void ring_srq_join(struct sp_carrier *c)
{
	struct sp_srq *srq;

	if (!c->srq || c->srq_user)
		return;
	srq = c->srq->srq;
	ring_lock(&srq->lock);
	c->srq_user = true;
	c->srq->users++;
	srq->split |= c->srq != &srq->own;
	if (srq->split || srq->pool_n) {
		feed_or_tell(srq);
		tell_if_in_want(srq, c->srq);
	}
	ring_unlock(&srq->lock);
}

void ring_srq_leave(struct sp_carrier *c)
{
	struct sp_srq *srq;

	if (!c->srq || !c->srq_user)
		return;
	srq = c->srq->srq;
	ring_lock(&srq->lock);
	c->srq_user = false;
	c->srq->users--;
	ring_unlock(&srq->lock);
}

/*
 * Only the shell adds carriers and takes them away: no lock. What it took may lie in the CQ still, and
 * would be recovered with the ring if it left before that is known: it would be used twice.
 */
void ring_qp_last_receive(struct sp_qp *qp, uint32_t epoch)
{
	struct sp_carrier *c = qp->carriers;

	while (c && c->epoch != epoch)
		c = c->next;
	if (!c)
		return;
	atomic_store(&c->last_receive, true);
	if (!ring_cq_collect(qp->rcq))
		ring_srq_leave(c);
}

/* -- as the shell sees them ------------------------------------------------------------------- */

int ring_srq_drive(struct sp_dev *dev, struct ibv_srq *ibv, void *cookie, struct sp_srq **out)
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
	err = ring_open(&srq->own, srq, dev, ibv);
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
	ring_release(&srq->own);
	free(srq->pool);
	free(srq);
}

int ring_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow, uint8_t path,
		      struct sp_srq_ring **out)
{
	struct sp_srq_ring *ring = calloc(1, sizeof(*ring));
	int err;

	if (!ring)
		return -ENOMEM;
	err = pool_make(srq);
	if (!err)
		err = ring_open(ring, srq, dev, shadow);
	if (!err && (ring->cnt < srq->own.cnt || ring->max_gs < srq->own.max_gs)) {
		ring_release(ring);
		err = -EINVAL;
	}
	if (err) {
		free(ring);
		return err;
	}
	ring->path = path;
	/* one that stands in for the application's own: QPs find it there */
	if (dev == srq->dev && shadow->handle < RING_MAX_HANDLE)
		atomic_store(&dev->srqs[shadow->handle], srq);
	ring_lock(&srq->lock);
	ring->next = srq->own.next;
	srq->own.next = ring;
	ring_unlock(&srq->lock);
	*out = ring;
	return 0;
}

void ring_srq_ring_del(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;
	struct sp_srq_ring *prev;

	ring_lock(&srq->lock);
	for (prev = &srq->own; prev->next != ring;)
		prev = prev->next;
	prev->next = ring->next;
	ring_unlock(&srq->lock);
	if (ring->dev == srq->dev && ring->real->handle < RING_MAX_HANDLE)
		atomic_store(&ring->dev->srqs[ring->real->handle], NULL);
	ring_release(ring);
	free(ring);
}

struct sp_srq_ring *ring_srq_own(struct sp_srq *srq)
{
	return &srq->own;
}

void ring_srq_look(struct sp_srq_ring *ring, struct sp_srq_state *out)
{
	struct sp_srq *srq = ring->srq;

	ring_lock(&srq->lock);
	out->users = ring->users;
	out->receives = ring->outstanding;
	out->spoiled = ring->spoiled;
	out->split = srq->split;
	ring_unlock(&srq->lock);
}

static bool older(const struct sp_srq_ring *ring, uint32_t a, uint32_t b)
{
	return (int32_t)(ring->number[a] - ring->number[b]) < 0;
}

/* A heap of slots, the newest request on top: of thousands, finding each anew takes too long. */
static void heap_sift(const struct sp_srq_ring *ring, uint32_t n, uint32_t i)
{
	uint32_t *heap = ring->heap, child, slot;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && older(ring, heap[child], heap[child + 1]))
			child++;
		if (!older(ring, heap[i], heap[child]))
			return;
		slot = heap[i];
		heap[i] = heap[child];
		heap[child] = slot;
	}
}

/* All that are posted and not completed. */
static uint32_t heap_make(const struct sp_srq_ring *ring)
{
	uint32_t n = 0, i;

	for (i = 0; i <= ring->mask; i++)
		if (ring->busy[i])
			ring->heap[n++] = i;
	for (i = n / 2; i-- > 0;)
		heap_sift(ring, n, i);
	return n;
}

static uint32_t heap_pop(const struct sp_srq_ring *ring, uint32_t n)
{
	uint32_t top = ring->heap[0];

	ring->heap[0] = ring->heap[n - 1];
	heap_sift(ring, n - 1, 0);
	return top;
}

uint32_t ring_srq_recover(struct sp_srq_ring *ring)
{
	struct sp_srq *srq = ring->srq;
	uint32_t n = 0, left, idx;

	ring_lock(&srq->lock);
	if (srq->pool) {
		n = heap_make(ring);
		ring->spoiled = true;
		srq->split = true;
		for (left = n; left; left--) {
			idx = heap_pop(ring, left);
			pool_load(ring, idx, pool_add(srq, true));
			slot_free(ring, idx);
		}
		feed_or_tell(srq);
	}
	ring_unlock(&srq->lock);
	return n;
}

int ring_srq_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	int err;

	ring_lock(&srq->lock);
	err = srq->split ? feed(srq, now_ns, patience_ns) : 0;
	ring_unlock(&srq->lock);
	return err;
}

static int hand_back_one(struct sp_srq *srq, uint32_t idx)
{
	const struct mlx5_wqe_data_seg *seg = slot_segs(&srq->own, idx);
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
 * libmlx5 has never posted to it, and no receive was taken: it writes each where it already is. The
 * record goes from one to what it was.
 */
int ring_srq_hand_back(struct sp_srq *srq)
{
	uint32_t idx, n;
	int err = 0;

	ring_lock(&srq->lock);
	if (srq->split || srq->own.users || srq->own.counter != srq->own.outstanding)
		err = -EBUSY;
	if (!err && !srq->foreign) {
		srq->foreign = true;
		idx = srq->own.start;
		for (n = srq->own.counter; n && !err; n--) {
			err = hand_back_one(srq, idx);
			idx = be16toh(slot_link(&srq->own, idx)->next_wqe_index) & srq->own.mask;
		}
	}
	ring_unlock(&srq->lock);
	return err;
}

void ring_srq_limit(struct sp_srq *srq, uint32_t limit)
{
	ring_lock(&srq->lock);
	srq->limit = limit;
	check_limit(srq);
	ring_unlock(&srq->lock);
}
