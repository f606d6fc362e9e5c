/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting receives (ibv_post_recv). */
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/xlat.h"

/* The keys that a receive is written with; a constant of each caller. */
enum recv_keys {
	RECV_APP,  /* the application's */
	RECV_LAST, /* the carrier's, if the key is the last one asked for */
	RECV_ANY,  /* the carrier's */
};

/* Writes a segment. False: RECV_LAST, and it is another key. */
RING_INLINE bool put_recv_seg(struct sp_qp *qp, const struct ring_rq *rq, uint8_t *seg,
			      const struct ibv_sge *sge, enum recv_keys keys)
{
	__be32 wire = htobe32(sge->lkey);

	if (keys == RECV_LAST) {
		if (!ring_xlat_hit(&qp->rx_xlat, RING_LKEY, sge->lkey))
			return false;
		wire = qp->rx_xlat.last[RING_LKEY].wire;
	}
	if (keys == RECV_ANY)
		wire = ring_xlat(qp, &qp->rx_xlat, RING_LKEY, sge->lkey);
	if (keys != RECV_APP)
		ring_key_aside(rq->keys_at, seg, sge->lkey);
	ring_seg_data_wire(seg, sge->addr, wire, sge->length);
	return true;
}

RING_INLINE bool put_recv(struct sp_qp *qp, struct ring_rq *rq, const struct ibv_recv_wr *wr,
			  uint32_t idx, enum recv_keys keys)
{
	uint8_t *first = rq->buf + ((size_t)idx << rq->shift);
	const struct ibv_sge *sge = wr->sg_list, *end = sge + wr->num_sge;
	uint8_t *seg = first;

	for (; sge < end; sge++) {
		if (ring_unlikely(!sge->length))
			continue;
		if (!put_recv_seg(qp, rq, seg, sge, keys))
			return false;
		seg += sizeof(struct mlx5_wqe_data_seg);
	}
	if (seg < first + rq->max_gs * 16)
		ring_seg_data(seg, 0, MLX5_INVALID_LKEY, 0);
	rq->wrid[idx] = wr->wr_id;
	return true;
}

RING_INLINE bool rq_full(const struct ring_rq *rq, uint32_t nreq, uint32_t limit)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);

	return rq->head - tail + nreq >= limit;
}

/* Writes a list. EAGAIN: RECV_LAST, and there is another key; nothing is posted. */
RING_INLINE int recv_list(struct sp_qp *qp, struct ring_rq *rq, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad, uint32_t *nreq, enum recv_keys keys)
{
	uint32_t n = 0;
	int err = 0;

	for (; wr; wr = wr->next, n++) {
		if (ring_unlikely(rq_full(rq, n, qp->rq_max_post)))
			err = ENOMEM;
		else if (ring_unlikely(wr->num_sge > qp->rq_max_gs))
			err = EINVAL;
		if (ring_unlikely(err)) {
			*bad = wr;
			break;
		}
		if (!put_recv(qp, rq, wr, (rq->head + n) & rq->mask, keys))
			return EAGAIN;
	}
	*nreq = n;
	return err;
}

/*
 * A key whose region is gone is replaced by one that names nothing: harmless until a message comes
 * to that receive, which fails then, as on stock. shell: may the shell be asked?
 */
int ring_recv_key(struct sp_qp *qp, const struct sp_carrier *c, uint32_t key, bool shell,
		  uint32_t *wire)
{
	const struct sp_callbacks *cb = qp->dev->cb;

	if (!cb->lkey(qp->cookie, c->epoch, key, wire))
		return 0;
	if (!shell || !cb->lkey_gone(qp->cookie, key))
		return -ENOENT;
	*wire = SP_NO_KEY;
	return 0;
}

/*
 * Translates an entry in place, from the published end on, and keeps the application's keys aside.
 */
static int translate_one(struct sp_qp *qp, struct sp_carrier *c, uint32_t idx, bool shell)
{
	struct ring_rq *rq = &c->rq;
	struct mlx5_wqe_data_seg *seg = (void *)(rq->buf + ((size_t)idx << rq->shift));
	uint32_t wire[1 << 8];
	uint32_t n, key;

	for (n = 0; n < rq->max_gs && n < 256; n++) {
		key = be32toh(seg[n].lkey);
		if (key == MLX5_INVALID_LKEY)
			break;
		ring_key_aside(rq->keys_at, (uint8_t *)&seg[n], key);
		if (ring_recv_key(qp, c, key, shell, &wire[n]))
			return -ENOENT;
	}
	while (n--)
		seg[n].lkey = htobe32(wire[n]);
	return 0;
}

/* Publishes what was posted to the NIC. rq_lock is held. -ENOENT: a key is missing. */
int ring_rq_publish(struct sp_qp *qp, bool shell)
{
	struct sp_carrier *c = qp->rx;
	struct ring_rq *rq = &c->rq;
	uint32_t from = rq->pub;
	int err = 0;

	while (!err && rq->pub != rq->head) {
		if (c->xlat)
			err = translate_one(qp, c, rq->pub & rq->mask, shell);
		if (!err)
			rq->pub++;
	}
	SP_ASSERT(rq->head - atomic_load(&rq->tail) <= rq->cnt && rq->head - rq->pub <= rq->cnt);
	if (rq->pub != from) {
		ring_to_device_barrier();
		ring_store_record(&c->dbrec[MLX5_RCV_DBR], rq->pub & 0xffff);
	}
	if (err)
		qp->rx_mode |= RING_KEYS;
	else
		qp->rx_mode &= ~RING_KEYS;
	return err;
}

/* Called with rq_lock held; drops it. */
static RING_NOINLINE int post_recv_slow(struct sp_qp *qp, struct ibv_recv_wr *wr,
					struct ibv_recv_wr **bad)
{
	struct ring_rq *rq = &qp->rx->rq;
	uint32_t nreq;
	int err;

	if (qp->rx_mode & RING_FIRST) {
		qp->rx_mode &= ~RING_FIRST;
		if (!ring_qp_own_rx(qp))
			qp->rx_mode |= RING_FOREIGN;
	}
	if (qp->rx_mode & RING_FOREIGN) {
		sp_unlock(&qp->rq_lock);
		return qp->dev->saved.post_recv(qp->ibv, wr, bad);
	}
	if (ring_rq_fill(rq)) {
		qp->rx_mode |= RING_FIRST; /* the next one asks again */
		sp_unlock(&qp->rq_lock);
		*bad = wr;
		return ENOMEM;
	}
	err = recv_list(qp, rq, wr, bad, &nreq, RECV_APP);
	rq->head += nreq;
	if (qp->rx_mode & RING_FAILED) {
		ring_backlog_event(qp->rcq, true);
	} else if (!(qp->rx_mode & (RING_HOLD | RING_KEYS)) && nreq) {
		if (!qp->rx_mode)
			rq->pub = rq->head - nreq;
		if (ring_rq_publish(qp, false))
			qp->dev->cb->key_missing(qp->cookie);
	}
	sp_unlock(&qp->rq_lock);
	return err;
}

/* Posts without translation. Here and below: called with rq_lock held; drops it. */
static __attribute__((noinline)) int post_recv_plain(struct sp_qp *qp, struct ibv_recv_wr *wr,
						     struct ibv_recv_wr **bad)
{
	struct sp_carrier *c = qp->rx;
	uint32_t nreq;
	int err = recv_list(qp, &c->rq, wr, bad, &nreq, RECV_APP);

	if (ring_likely(nreq)) {
		c->rq.head += nreq;
		SP_ASSERT(c->rq.head - atomic_load(&c->rq.tail) <= c->rq.cnt);
		ring_to_device_barrier();
		ring_store_record(&c->dbrec[MLX5_RCV_DBR], c->rq.head & 0xffff);
	}
	sp_unlock(&qp->rq_lock);
	return err;
}

RING_INLINE int recv_end(struct sp_qp *qp, uint32_t nreq, int err)
{
	struct sp_carrier *c = qp->rx;

	if (ring_likely(nreq)) {
		c->rq.head += nreq;
		c->rq.pub = c->rq.head;
		SP_ASSERT(c->rq.head - atomic_load(&c->rq.tail) <= c->rq.cnt);
		ring_to_device_barrier();
		ring_store_record(&c->dbrec[MLX5_RCV_DBR], c->rq.head & 0xffff);
	}
	sp_unlock(&qp->rq_lock);
	return err;
}

/* If a key is not known, the slow way writes all of them. */
static RING_NOINLINE int post_recv_any(struct sp_qp *qp, struct ibv_recv_wr *wr,
				       struct ibv_recv_wr **bad)
{
	uint32_t nreq;
	int err = recv_list(qp, &qp->rx->rq, wr, bad, &nreq, RECV_ANY);

	if (qp->rx_xlat.missing) {
		qp->rx_xlat.missing = false;
		return post_recv_slow(qp, wr, bad);
	}
	return recv_end(qp, nreq, err);
}

/*
 * Posts after a move: written once, with the carrier's keys. A lookup is a call at the end: the
 * usual way then has few registers to save.
 */
static __attribute__((noinline)) int post_recv_xlat(struct sp_qp *qp, struct ibv_recv_wr *wr,
						    struct ibv_recv_wr **bad)
{
	uint32_t nreq;
	int err = recv_list(qp, &qp->rx->rq, wr, bad, &nreq, RECV_LAST);

	if (ring_unlikely(err == EAGAIN))
		return post_recv_any(qp, wr, bad);
	return recv_end(qp, nreq, err);
}

RING_INLINE int post_recv_locked(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (ring_likely(!qp->rx_mode))
		return post_recv_plain(qp, wr, bad);
	if (qp->rx_mode == RING_XLAT)
		return post_recv_xlat(qp, wr, bad);
	return post_recv_slow(qp, wr, bad);
}

static RING_NOINLINE int post_recv_waiting(struct sp_qp *qp, struct ibv_recv_wr *wr,
					   struct ibv_recv_wr **bad)
{
	sp_lock_wait(&qp->rq_lock);
	return post_recv_locked(qp, wr, bad);
}

int ring_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_qp *qp = ring_qp_of(ibv);

	if (ring_unlikely(!qp))
		return ring_dev_of(ibv->context)->saved.post_recv(ibv, wr, bad);
	if (ring_unlikely(!sp_trylock(&qp->rq_lock)))
		return post_recv_waiting(qp, wr, bad);
	return post_recv_locked(qp, wr, bad);
}
