/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Driven QPs and the real QPs that carry them. */
#include <sched.h>
#include <stdlib.h>

#include "providers/mlx5/cqe.h"
#include "providers/mlx5/srq.h"

enum {
	LOCK_TRIES = 64, /* a poster holds the lock for less than a microsecond */
};

/* -- everything of a QP stands still ---------------------------------------------------------- */

static void lock_cqs(struct sp_qp *qp)
{
	struct sp_cq *low = qp->scq < qp->rcq ? qp->scq : qp->rcq;
	struct sp_cq *high = qp->scq < qp->rcq ? qp->rcq : qp->scq;

	ring_lock(&low->lock);
	if (high != low)
		ring_lock(&high->lock);
}

static void unlock_cqs(struct sp_qp *qp)
{
	ring_unlock(&qp->scq->lock);
	if (qp->rcq != qp->scq)
		ring_unlock(&qp->rcq->lock);
}

/*
 * An application holds sq_lock from wr_start to wr_complete, and may poll in between: who waits
 * for sq_lock must not hold a CQ.
 */
void ring_qp_lock(struct sp_qp *qp)
{
	for (;;) {
		lock_cqs(qp);
		if (ring_trylock(&qp->sq_lock))
			break;
		unlock_cqs(qp);
		ring_lock(&qp->sq_lock);
		ring_unlock(&qp->sq_lock);
	}
	ring_lock(&qp->rq_lock);
}

/* The same, but without waiting for a wr_complete that may be far. */
bool ring_qp_lock_soon(struct sp_qp *qp)
{
	for (uint32_t i = 0; i < LOCK_TRIES; i++) {
		lock_cqs(qp);
		if (ring_trylock(&qp->sq_lock)) {
			ring_lock(&qp->rq_lock);
			return true;
		}
		unlock_cqs(qp);
		sched_yield();
	}
	return false;
}

void ring_qp_unlock(struct sp_qp *qp)
{
	ring_unlock(&qp->rq_lock);
	ring_unlock(&qp->sq_lock);
	unlock_cqs(qp);
}

/* -- carriers --------------------------------------------------------------------------------- */

static void rq_free(struct ring_rq *rq)
{
	free(rq->wrid);
	free(rq->keys);
}

static int rq_alloc(struct ring_rq *rq, bool keys)
{
	size_t n = rq->cnt ? rq->cnt : 1;

	rq->wrid = calloc(n, sizeof(*rq->wrid));
	rq->keys = keys ? calloc(n, 1ul << rq->shift) : NULL;
	rq->keys_at = (uintptr_t)rq->keys - (uintptr_t)rq->buf;
	if (!rq->wrid || (keys && !rq->keys)) {
		rq_free(rq);
		return -ENOMEM;
	}
	return 0;
}

static void geometry(struct sp_carrier *c, const struct mlx5dv_qp *dv)
{
	c->dbrec = dv->dbrec;
	c->sq.buf = dv->sq.buf;
	c->sq.mask = dv->sq.wqe_cnt - 1;
	c->sq.end = c->sq.buf + (size_t)dv->sq.wqe_cnt * MLX5_SEND_WQE_BB;
	c->sq.qpn = c->qpn;
	c->rq.buf = dv->rq.buf;
	c->rq.cnt = dv->rq.wqe_cnt;
	c->rq.mask = dv->rq.wqe_cnt - 1;
	c->rq.shift = dv->rq.stride >= 16 ? __builtin_ctz(dv->rq.stride) : 4;
	c->rq.max_gs = dv->rq.stride / 16;
}

void ring_carrier_free(struct sp_carrier *c)
{
	if (c->bf)
		ring_bf_put(c->dev, c->bf);
	rq_free(&c->rq);
	ring_sq_free(&c->sq);
	free(c);
}

int ring_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		      struct sp_carrier **out)
{
	struct mlx5dv_qp dv = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = real, .out = &dv } };
	struct sp_carrier *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = ring_init_obj(&obj, MLX5DV_OBJ_QP);
	if (err)
		goto free_carrier;
	c->engine = dev->engine;
	c->qp = qp;
	c->dev = dev;
	c->real = real;
	c->qpn = real->qp_num;
	c->app_qpn = qp->app_qpn;
	c->xlat = dev != qp->dev;
	if (real->srq)
		c->srq = ring_srq_find(qp->srq, real->srq);
	if (real->srq && !c->srq) {
		err = -EINVAL;
		goto free_carrier;
	}
	atomic_store(&c->attn, c->srq ? RING_ATTN_SRQ : 0);
	geometry(c, &dv);
	/* a queue without entries has no ring: its size keeps every post out */
	if (!dv.sq.wqe_cnt)
		c->sq.mask = 0;
	err = ring_sq_alloc(&c->sq, c->xlat);
	if (err)
		goto free_carrier;
	err = rq_alloc(&c->rq, c->xlat);
	if (err)
		goto free_sq;
	c->bf = ring_bf_get(dev, &dv);
	if (!c->bf) {
		err = -ENOMEM;
		goto free_rq;
	}
	*out = c;
	return 0;
free_rq:
	rq_free(&c->rq);
free_sq:
	ring_sq_free(&c->sq);
free_carrier:
	free(c);
	return err;
}

/* All locks held. Completions that an earlier owner of the QPN left behind are made nobody's. */
static void carrier_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	ring_cq_sweep(c->sring, c, RING_SWEEP_NOT_OURS);
	ring_cq_sweep(c->rring, c, RING_SWEEP_NOT_OURS);
	c->next = qp->carriers;
	qp->carriers = c;
	atomic_store_explicit(&c->dev->carriers[c->qpn], c, memory_order_release);
}

/* All locks held. */
static void carrier_retract(struct sp_carrier *c, enum ring_sweep receives)
{
	atomic_store(&c->dev->carriers[c->qpn], NULL);
	ring_cq_sweep(c->sring, c, receives);
	ring_cq_sweep(c->rring, c, receives);
	ring_srq_leave(c);
	ring_unlive(c->sring, &c->sring_live);
	ring_unlive(c->rring, &c->rring_live);
}

/* Everything that fits carrier 0 must fit here, WQE by WQE. */
static bool holds_all(const struct sp_carrier *c, const struct sp_carrier *first)
{
	return c->sq.mask >= first->sq.mask && c->rq.cnt >= first->rq.cnt &&
	       c->rq.max_gs >= first->rq.max_gs;
}

static struct sp_carrier *carrier_zero(struct sp_qp *qp)
{
	struct sp_carrier *c = qp->carriers;

	while (c->next)
		c = c->next;
	return c;
}

int ring_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		     const struct sp_qp_caps *caps, struct sp_cq_ring *sring,
		     struct sp_cq_ring *rring, struct sp_carrier **out)
{
	struct sp_carrier *c;
	int err;

	if (sring->cq != qp->scq || rring->cq != qp->rcq || sring->dev != dev || rring->dev != dev)
		return -EINVAL;
	/* carriers but 0 translate (another context has other keys), and what does knows RC only */
	if (dev == qp->dev || qp->type != IBV_QPT_RC)
		return -EINVAL;
	err = ring_hold_make(qp);
	if (err)
		return err;
	err = ring_carrier_make(qp, dev, real, &c);
	if (err)
		return err;
	if (!holds_all(c, carrier_zero(qp)) || caps->max_inline < qp->max_inline) {
		ring_carrier_free(c);
		return -EINVAL;
	}
	c->epoch = epoch;
	c->sring = sring;
	c->rring = rring;
	atomic_fetch_or(&c->attn, RING_ATTN_PROGRESS);
	ring_qp_lock(qp);
	carrier_publish(qp, c);
	ring_qp_unlock(qp);
	*out = c;
	return 0;
}

void ring_carrier_del(struct sp_carrier *c)
{
	struct sp_qp *qp = c->qp;
	struct sp_carrier **at;
	bool husk = !c->next; /* carrier 0 */

	ring_qp_lock(qp);
	atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	c->left = true;
	ring_unlive(c->sring, &c->sring_live);
	ring_unlive(c->rring, &c->rring_live);
	if (!husk) {
		for (at = &qp->carriers; *at != c;)
			at = &(*at)->next;
		*at = c->next;
		carrier_retract(c, RING_SWEEP_GIVE_BACK);
	}
	ring_qp_unlock(qp);
	if (!husk)
		ring_carrier_free(c);
}

/* -- ownership -------------------------------------------------------------------------------- */

static bool record_is(const struct sp_carrier *c, int which, uint32_t index)
{
	__be32 record = __atomic_load_n(&c->dbrec[which], __ATOMIC_ACQUIRE);

	return (be32toh(record) & 0xffff) == (index & 0xffff);
}

static void seen_foreign(struct sp_qp *qp, bool first)
{
	uint32_t none = RING_HAND_NONE;

	atomic_compare_exchange_strong(&qp->foreign, &none,
				       first ? RING_HAND_FIRST : RING_HAND_INTRUDES);
}

/*
 * Somebody who posts past us (mlx5dv users) has moved the doorbell record of the application's own
 * QP. All stores of ours to a record are made under its queue's lock, which is held.
 */
bool ring_qp_own_tx(struct sp_qp *qp)
{
	struct sp_carrier *c = carrier_zero(qp);
	bool ours = record_is(c, MLX5_SND_DBR, c->sq.cur_post);

	if (!ours) {
		seen_foreign(qp, !c->sq.cur_post);
		ring_bf_share(c->dev, c->bf->reg, c->bf->size);
	}
	return ours;
}

/* Where a post rings as soon as it was written, pub is not kept; nor is it by ring_qp_fail. */
bool ring_qp_own_rx(struct sp_qp *qp)
{
	struct sp_carrier *c = carrier_zero(qp);
	bool fast = c == qp->rx && !(qp->rx_mode & ~RING_FIRST);
	bool ours = (qp->rx_mode & RING_FAILED) ||
		    record_is(c, MLX5_RCV_DBR, fast ? c->rq.head : c->rq.pub);

	if (!ours)
		seen_foreign(qp, !c->rq.head);
	return ours;
}

/* Its completions are taken by somebody else. A holder between start_poll and end_poll owes slots. */
static void cq_look(struct sp_qp *qp, struct sp_cq *cq)
{
	uint32_t record;

	if (!ring_trylock(&cq->lock))
		return;
	record = be32toh(__atomic_load_n(&cq->ring.dbrec[RING_CQ_SET_CI], __ATOMIC_ACQUIRE));
	if (!cq->held && !cq->owes && (record & 0xffffff) != (cq->ring.ci & 0xffffff))
		seen_foreign(qp, !cq->ring.ci);
	ring_unlock(&cq->lock);
}

/* Whoever holds a lock just now is the application, in a verb of ours: the next look tells. */
static void look_for_others(struct sp_qp *qp)
{
	if (ring_trylock(&qp->sq_lock)) {
		ring_qp_own_tx(qp);
		ring_tx_unlock(qp);
	}
	if (ring_trylock(&qp->rq_lock)) {
		ring_qp_own_rx(qp);
		ring_unlock(&qp->rq_lock);
	}
	cq_look(qp, qp->scq);
	if (qp->rcq != qp->scq)
		cq_look(qp, qp->rcq);
}

const char *ring_qp_reason(struct sp_qp *qp, bool *intruder)
{
	if (!atomic_load(&qp->foreign))
		look_for_others(qp);
	*intruder = atomic_load(&qp->foreign) == RING_HAND_INTRUDES;
	if (*intruder)
		return "somebody else writes to rings that SHIFT drives (direct verbs): SHIFT "
		       "leaves it alone";
	if (atomic_load(&qp->foreign))
		return "somebody else posts to its rings (direct verbs): SHIFT leaves it alone";
	if (atomic_load(&qp->windows))
		return "it uses memory windows, which exist on one NIC only";
	return NULL;
}

/* -- queue pairs ------------------------------------------------------------------------------ */

static const char *cannot_drive(const struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
				const struct sp_cq *scq, const struct sp_cq *rcq)
{
	if (qp->qp_type != IBV_QPT_RC && qp->qp_type != IBV_QPT_UD)
		return "its transport is neither RC nor UD";
	if (qp->srq && !ring_srq_of(qp->srq))
		return "its shared receive queue is not driven";
	if (!scq || !rcq)
		return "its completion queue is not driven";
	if (qp->handle >= RING_MAX_HANDLE)
		return "its handle is out of range";
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return "it was made with creation flags";
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH))
		return "it was made with attributes that are not supported";
	return NULL;
}

static void set_limits(struct sp_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	const struct sp_carrier *c = qp->tx;

	qp->type = qp->ibv->qp_type;
	qp->sig_bits = attr->sq_sig_all ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
	qp->atomics = qp->dev->atomics;
	qp->max_post = attr->cap.max_send_wr;
	qp->max_inline = attr->cap.max_inline_data;
	qp->sq_gs = attr->cap.max_send_sge;
	qp->rq_max_post = c->rq.cnt;
	qp->rq_gs = c->rq.max_gs;
	qp->max_gs = qp->ibv->state >= IBV_QPS_RTS ? qp->sq_gs : -1;
	qp->rq_max_gs = qp->ibv->state >= IBV_QPS_INIT ? qp->rq_gs : -1;
}

static struct sp_qp *qp_alloc(struct sp_dev *dev, struct ibv_qp *ibv, struct sp_cq *scq,
			      struct sp_cq *rcq, void *cookie)
{
	struct sp_qp *qp = aligned_alloc(64, (sizeof(*qp) + 63) & ~63ul);

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	qp->engine = dev->engine;
	qp->dev = dev;
	qp->ibv = ibv;
	qp->app_qpn = ibv->qp_num;
	qp->scq = scq;
	qp->rcq = rcq;
	qp->cookie = cookie;
	qp->srq = ibv->srq ? ring_srq_of(ibv->srq) : NULL;
	return qp;
}

/* From here on pollers and posters find it. */
static void qp_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	ring_qp_lock(qp);
	qp->scq->users++;
	qp->rcq->users++;
	carrier_publish(qp, c);
	ring_live(c->sring, &c->sring_live);
	ring_live(c->rring, &c->rring_live);
	qp->tx_mode = qp->rx_mode = RING_FIRST;
	ring_qp_unlock(qp);
	if (qp->dev->installed)
		atomic_store_explicit(&qp->dev->qps[qp->ibv->handle], qp, memory_order_release);
	if (qp->ex)
		ring_wr_install(qp);
}

int ring_qp_drive(struct sp_dev *dev, struct ibv_qp *ibv, const struct ibv_qp_init_attr_ex *attr,
		  struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		  const char **why_not)
{
	struct sp_carrier *c;
	struct sp_qp *qp;
	int err;

	*why_not = cannot_drive(ibv, attr, scq, rcq);
	if (*why_not) {
		ring_qp_foreign(dev, ibv);
		return -EOPNOTSUPP;
	}
	qp = qp_alloc(dev, ibv, scq, rcq, cookie);
	if (!qp)
		return -ENOMEM;
	err = ring_carrier_make(qp, dev, ibv, &c);
	if (err)
		goto free_qp;
	/* PRM: with out-of-order placement half of the ring may be posted, consumed in any order */
	if (c->rq.cnt && attr->cap.max_recv_wr * 2 == c->rq.cnt) {
		*why_not = "its receive queue is consumed out of order";
		ring_qp_foreign(dev, ibv);
		err = -EOPNOTSUPP;
		goto free_carrier;
	}
	c->sring = &scq->ring;
	c->rring = &rcq->ring;
	if (ibv->state >= IBV_QPS_RTR)
		ring_srq_join(c);
	qp->tx = qp->rx = c;
	qp->ex = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && attr->send_ops_flags;
	set_limits(qp, attr);
	qp_publish(qp, c);
	*out = qp;
	return 0;
free_carrier:
	ring_carrier_free(c);
free_qp:
	free(qp);
	return err;
}

void ring_failed_unlink(struct sp_qp *qp)
{
	struct sp_qp **at;

	for (at = &qp->scq->failed_tx; *at && *at != qp;)
		at = &(*at)->tx_failed.next;
	if (*at)
		*at = qp->tx_failed.next;
	for (at = &qp->rcq->failed_rx; *at && *at != qp;)
		at = &(*at)->rx_failed.next;
	if (*at)
		*at = qp->rx_failed.next;
	memset(&qp->tx_failed, 0, sizeof(qp->tx_failed));
	memset(&qp->rx_failed, 0, sizeof(qp->rx_failed));
}

/* No completion of the past is delivered any more. All locks held. */
static void forget_completions(struct sp_qp *qp)
{
	ring_backlog_drop(qp->scq, qp);
	ring_backlog_drop(qp->rcq, qp);
	ring_failed_unlink(qp);
	ring_late_unlink(qp);
	ring_cq_refresh_slow(qp->scq);
	ring_cq_refresh_slow(qp->rcq);
}

void ring_qp_undrive(struct sp_qp *qp)
{
	struct sp_carrier *c;

	if (qp->dev->installed)
		atomic_store(&qp->dev->qps[qp->ibv->handle], NULL);
	ring_qp_lock(qp);
	for (c = qp->carriers; c; c = c->next)
		carrier_retract(c, RING_SWEEP_DROP);
	forget_completions(qp);
	qp->scq->users--;
	qp->rcq->users--;
	ring_qp_unlock(qp);
	if (qp->ex)
		ring_wr_restore(qp);
	while ((c = qp->carriers)) {
		qp->carriers = c->next;
		ring_carrier_free(c);
	}
	if (qp->hold_made) {
		free(qp->hold.buf);
		ring_sq_free(&qp->hold);
	}
	free(qp);
}

/* libmlx5 has zeroed the records; nothing that was posted exists any more. All locks held. */
static void reset(struct sp_qp *qp)
{
	struct sp_carrier *c = carrier_zero(qp), *other;

	for (other = qp->carriers; other != c; other = other->next)
		atomic_fetch_or(&other->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	ring_cq_sweep(c->sring, c, RING_SWEEP_DROP);
	ring_cq_sweep(c->rring, c, RING_SWEEP_DROP);
	ring_srq_leave(c);
	atomic_store(&c->last_receive, false);
	forget_completions(qp);
	c->sq.head = c->sq.cur_post = c->sq.fm_cache = 0;
	atomic_store(&c->sq.tail, 0);
	memset(c->sq.wqe_head, 0xff, ((size_t)c->sq.mask + 1) * sizeof(*c->sq.wqe_head));
	c->rq.head = c->rq.pub = 0;
	atomic_store(&c->rq.tail, 0);
	c->sq_err = c->rq_err = c->left = false;
	c->nops = c->sq_counted = c->rq_counted = 0;
	atomic_store(&c->err_mode, RING_ERR_NONE);
	atomic_store(&c->app_status, 0);
	atomic_store(&c->attn, c->srq ? RING_ATTN_SRQ : 0);
	atomic_store(&qp->hold.tail, qp->hold.head);
	qp->hold.tail_post = qp->hold.cur_post;
	qp->hold.fm_cache = 0;
	atomic_store(&qp->withheld, false);
	ring_live(c->sring, &c->sring_live);
	ring_live(c->rring, &c->rring_live);
	qp->tx = qp->rx = c;
	qp->tx_mode = qp->rx_mode = RING_FIRST;
	qp->two_sided = qp->recv_base = 0;
	ring_xlat_forget(&qp->tx_xlat);
	ring_xlat_forget(&qp->rx_xlat);
}

void ring_qp_modified(struct sp_qp *qp, enum ibv_qp_state state)
{
	ring_qp_lock(qp);
	if (state == IBV_QPS_RESET) {
		reset(qp);
		qp->max_gs = qp->rq_max_gs = -1;
	}
	if (state == IBV_QPS_INIT)
		qp->rq_max_gs = qp->rq_gs;
	if (state == IBV_QPS_RTR)
		ring_srq_join(carrier_zero(qp));
	if (state == IBV_QPS_RTS)
		qp->max_gs = qp->sq_gs;
	if (state == IBV_QPS_ERR)
		atomic_store(&qp->guard, false);
	ring_qp_unlock(qp);
	if (qp->ex && (state == IBV_QPS_RESET || state == IBV_QPS_RTS))
		ring_wr_install(qp);
}

/* -- counts ----------------------------------------------------------------------------------- */

uint32_t ring_qp_recv_count(struct sp_qp *qp)
{
	uint32_t n;

	ring_lock(&qp->rq_lock);
	n = qp->recv_base + atomic_load_explicit(&qp->rx->rq.tail, memory_order_acquire);
	ring_unlock(&qp->rq_lock);
	return n;
}

static bool qp_sending_locked(struct sp_qp *qp)
{
	uint32_t tail = atomic_load(&qp->tx->sq.tail);

	return qp->tx->sq.head - tail != ring_nops(qp->tx, tail) || ring_hold_len(qp);
}

static enum sp_sending qp_sending_state(struct sp_qp *qp)
{
	if (!qp_sending_locked(qp))
		return SP_SENDING_NONE;
	return ring_hold_len(qp) || ring_nop_need(qp->tx) == RING_NOP_SIGNALED ? SP_SENDING_AWAITED
									       : SP_SENDING_UNTOLD;
}

enum sp_sending ring_qp_sending(struct sp_qp *qp, uint32_t *number)
{
	enum sp_sending sending;

	if (!ring_trylock(&qp->sq_lock))
		return SP_SENDING_AWAITED;
	sending = qp_sending_state(qp);
	*number = qp->tx->sq.head;
	ring_unlock(&qp->sq_lock);
	return sending;
}

void ring_qp_guard(struct sp_qp *qp, bool on)
{
	atomic_store(&qp->guard, on);
}
