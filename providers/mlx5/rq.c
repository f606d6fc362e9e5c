/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_post_recv. */
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/seg.h"

RING_INLINE void put_recv(struct ring_rq *rq, const struct ibv_recv_wr *wr, uint32_t idx)
{
	uint8_t *first = rq->buf + ((size_t)idx << rq->shift);
	const struct ibv_sge *sge = wr->sg_list, *end = sge + wr->num_sge;
	uint8_t *seg = first;

	for (; sge < end; sge++) {
		if (ring_unlikely(!sge->length))
			continue;
		ring_seg_data(seg, sge->addr, sge->lkey, sge->length);
		seg += sizeof(struct mlx5_wqe_data_seg);
	}
	if (seg < first + rq->max_gs * 16)
		ring_seg_data(seg, 0, MLX5_INVALID_LKEY, 0);
	rq->wrid[idx] = wr->wr_id;
}

RING_INLINE bool rq_full(const struct ring_rq *rq, uint32_t nreq, uint32_t limit)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);

	return rq->head - tail + nreq >= limit;
}

RING_INLINE int recv_list(struct sp_qp *qp, struct ring_rq *rq, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad, uint32_t *nreq)
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
		put_recv(rq, wr, (rq->head + n) & rq->mask);
	}
	*nreq = n;
	return err;
}

/* Translate in place from the published end on, keeping the application's keys aside. */
static int translate_one(struct sp_qp *qp, struct sp_carrier *c, uint32_t idx)
{
	struct ring_rq *rq = &c->rq;
	struct mlx5_wqe_data_seg *seg = (void *)(rq->buf + ((size_t)idx << rq->shift));
	uint32_t *keys = rq->keys + ((size_t)idx << (rq->shift - 4));
	uint32_t wire[1 << 8];
	uint32_t n;

	for (n = 0; n < rq->max_gs && n < 256; n++) {
		keys[n] = be32toh(seg[n].lkey);
		if (keys[n] == MLX5_INVALID_LKEY)
			break;
		if (qp->dev->cb->lkey(qp->cookie, c->epoch, keys[n], &wire[n]))
			return -ENOENT;
	}
	while (n--)
		seg[n].lkey = htobe32(wire[n]);
	return 0;
}

/* Hand what was posted but not published to the NIC. rq_lock is held. -ENOENT: a key is missing. */
int ring_rq_publish(struct sp_qp *qp)
{
	struct sp_carrier *c = qp->rx;
	struct ring_rq *rq = &c->rq;
	uint32_t from = rq->pub;
	int err = 0;

	while (!err && rq->pub != rq->head) {
		if (c->xlat)
			err = translate_one(qp, c, rq->pub & rq->mask);
		if (!err)
			rq->pub++;
	}
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
		ring_unlock(&qp->rq_lock);
		return qp->dev->saved.post_recv(qp->ibv, wr, bad);
	}
	err = recv_list(qp, rq, wr, bad, &nreq);
	rq->head += nreq;
	if (qp->rx_mode & RING_FAILED) {
		ring_backlog_event(qp->rcq, true);
	} else if (!(qp->rx_mode & (RING_HOLD | RING_KEYS)) && nreq) {
		if (!qp->rx_mode)
			rq->pub = rq->head - nreq;
		if (ring_rq_publish(qp))
			qp->dev->cb->key_missing(qp->cookie);
	}
	ring_unlock(&qp->rq_lock);
	return err;
}

int ring_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_qp *qp = ring_qp_of(ibv);
	struct sp_carrier *c;
	uint32_t nreq;
	int err;

	if (ring_unlikely(!qp))
		return ring_dev_of(ibv->context)->saved.post_recv(ibv, wr, bad);
	ring_lock(&qp->rq_lock);
	if (ring_unlikely(qp->rx_mode))
		return post_recv_slow(qp, wr, bad);
	c = qp->rx;
	err = recv_list(qp, &c->rq, wr, bad, &nreq);
	if (ring_likely(nreq)) {
		c->rq.head += nreq;
		ring_to_device_barrier();
		ring_store_record(&c->dbrec[MLX5_RCV_DBR], c->rq.head & 0xffff);
	}
	ring_unlock(&qp->rq_lock);
	return err;
}
