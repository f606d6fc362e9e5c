/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine's queue pair, as the application sees it. */
#include <stdlib.h>

#include "providers/common/qp_lock.h"
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/bf.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/failed.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/wqe.h"
#include "providers/mlx5/wr.h"
#include "providers/mlx5/xlat.h"

#define RING_OUT_OF_ORDER "its receive queue is consumed out of order"

/* -- locking a whole QP ------------------------------------------------------------------------ */

static struct sp_qp_locks locks_of(struct sp_qp *qp)
{
	SP_ASSERT(qp->tx && qp->rx);
	return (struct sp_qp_locks){ &qp->scq->lock, &qp->rcq->lock, &qp->sq_lock, &qp->rq_lock };
}

void ring_qp_lock(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	sp_qp_lock_all(&locks);
	SP_ASSERT(qp->tx && qp->rx);
}

bool ring_qp_lock_soon(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	return sp_qp_lock_all_soon(&locks);
}

void ring_qp_unlock(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	sp_qp_unlock_all(&locks);
}

/* -- driven from here on ----------------------------------------------------------------------- */

static bool is_extended(const struct ibv_qp_init_attr_ex *attr)
{
	return (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && attr->send_ops_flags;
}

/* PRM: with out-of-order placement half of the ring may be posted, consumed in any order. */
static bool out_of_order(uint32_t ring, const struct ibv_qp_init_attr_ex *attr)
{
	return ring && attr->cap.max_recv_wr * 2 == ring;
}

static const char *cannot_drive(struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	if (qp->qp_type != IBV_QPT_RC && qp->qp_type != IBV_QPT_UD)
		return "its transport is neither RC nor UD";
	if (qp->srq && !ring_srq_of(qp->srq))
		return "its shared receive queue is not driven";
	if (qp->handle >= RING_MAX_HANDLE)
		return "its handle is out of range";
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return "it was made with creation flags";
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH))
		return "it was made with attributes that are not supported";
	if (is_extended(attr) && ring_direct_builders((struct ibv_qp_ex *)qp))
		return "it was made with request builders of direct verbs (mlx5dv_wr_*)";
	return NULL;
}

const char *ring_qp_drivable(struct sp_dev *dev, struct ibv_qp *qp,
			     const struct ibv_qp_init_attr_ex *attr)
{
	const char *why = cannot_drive(qp, attr);
	struct mlx5dv_qp dv = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = qp, .out = &dv } };

	(void)dev;
	if (why)
		return why;
	if (ring_init_obj(&obj, MLX5DV_OBJ_QP))
		return "libmlx5 does not tell where its rings are";
	if (!qp->srq && out_of_order(dv.rq.wqe_cnt, attr))
		return RING_OUT_OF_ORDER;
	return NULL;
}

static void set_limits(struct sp_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	const struct sp_carrier *c = qp->tx;

	qp->type = qp->ibv->qp_type;
	qp->sig_bits = attr->sq_sig_all ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
	qp->atomics.use = qp->dev->atomics ? RING_ATOMICS_UNUSED : RING_ATOMICS_NONE;
	qp->max_post = attr->cap.max_send_wr;
	qp->max_inline = attr->cap.max_inline_data;
	qp->limits.sq_gs = attr->cap.max_send_sge;
	qp->rq_max_post = c->rq.cnt;
	qp->limits.rq_gs = c->rq.max_gs;
	qp->max_gs = qp->ibv->state >= IBV_QPS_RTS ? qp->limits.sq_gs : -1;
	qp->rq_max_gs = qp->ibv->state >= IBV_QPS_INIT ? qp->limits.rq_gs : -1;
}

static struct sp_qp *qp_alloc(struct sp_dev *dev, struct ibv_qp *ibv, struct sp_cq *scq,
			      struct sp_cq *rcq, void *cookie, bool ex)
{
	struct sp_qp *qp = aligned_alloc(64, (sizeof(*qp) + 63) & ~63ul);

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	if (ex) {
		qp->ex.saved = calloc(1, sizeof(*qp->ex.saved));
		if (!qp->ex.saved) {
			free(qp);
			return NULL;
		}
	}
	qp->ex.on = ex;
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

static void qp_free(struct sp_qp *qp)
{
	ring_xlat_free(qp);
	free(qp->ex.saved);
	free(qp);
}

static void qp_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	ring_qp_lock(qp);
	qp->scq->users++;
	qp->rcq->users++;
	ring_carrier_publish(qp, c);
	ring_live(c->sring, &c->sring_live);
	ring_live(c->rring, &c->rring_live);
	qp->tx_mode = qp->rx_mode = RING_FIRST;
	ring_qp_unlock(qp);
	if (qp->dev->installed)
		atomic_store_explicit(&qp->dev->qps[qp->ibv->handle], qp, memory_order_release);
	if (qp->ex.on)
		ring_wr_install(qp);
}

int ring_qp_drive(struct sp_dev *dev, struct ibv_qp *ibv, const struct ibv_qp_init_attr_ex *attr,
		  struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		  const char **why_not)
{
	struct sp_carrier *c;
	struct sp_qp *qp;
	int err;

	*why_not = scq && rcq ? cannot_drive(ibv, attr) : "its completion queue is not driven";
	if (*why_not) {
		ring_qp_foreign(dev, ibv);
		return -EOPNOTSUPP;
	}
	err = sp_table_reserve(&dev->tables.qps, ibv->handle);
	if (err)
		return err;
	qp = qp_alloc(dev, ibv, scq, rcq, cookie, is_extended(attr));
	if (!qp)
		return -ENOMEM;
	err = ring_carrier_make(qp, dev, ibv, &c);
	if (err)
		goto free_qp;
	if (out_of_order(c->rq.cnt, attr)) {
		*why_not = RING_OUT_OF_ORDER;
		ring_qp_foreign(dev, ibv);
		err = -EOPNOTSUPP;
		goto free_carrier;
	}
	c->sring = &scq->ring;
	c->rring = &rcq->ring;
	if (ibv->state >= IBV_QPS_RTR)
		ring_srq_join(c);
	qp->tx = qp->rx = c;
	set_limits(qp, attr);
	qp_publish(qp, c);
	*out = qp;
	return 0;
free_carrier:
	ring_carrier_free(c);
free_qp:
	qp_free(qp);
	return err;
}

/* All locks held. */
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
		ring_carrier_retract(c, RING_SWEEP_DROP);
	forget_completions(qp);
	SP_ASSERT(qp->scq->users && qp->rcq->users);
	qp->scq->users--;
	qp->rcq->users--;
	ring_qp_unlock(qp);
	if (qp->ex.on)
		ring_wr_restore(qp);
	while ((c = qp->carriers)) {
		qp->carriers = c->next;
		ring_carrier_free(c);
	}
	if (qp->hold_made) {
		free(qp->hold.buf);
		ring_sq_free(&qp->hold);
	}
	qp_free(qp);
}

/* libmlx5 has zeroed the records; nothing that was posted exists any more. All locks held. */
static void reset(struct sp_qp *qp)
{
	struct sp_carrier *c = sp_carrier_zero(qp), *other;

	for (other = qp->carriers; other != c; other = other->next)
		atomic_fetch_or(&other->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	ring_cq_sweep(c->sring, c, RING_SWEEP_DROP);
	ring_cq_sweep(c->rring, c, RING_SWEEP_DROP);
	ring_srq_leave(c);
	atomic_store(&c->last_receive, false);
	forget_completions(qp);
	c->sq.head = c->sq.cur_post = c->sq.fm_cache = 0;
	ring_sq_unnumber(&c->sq);
	atomic_store(&c->sq.tail, 0);
	ring_sq_forget(&c->sq);
	c->rq.head = c->rq.pub = 0;
	atomic_store(&c->rq.tail, 0);
	c->sq_err = c->rq_err = c->left = c->recalled = false;
	c->nops = c->nops_withdrawn = c->nops_again = 0;
	c->sq_counted = c->rq_counted = 0;
	c->sq.log = (struct ring_log){ 0 };
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
	qp->atomics.barred = false;
	if (qp->atomics.use)
		qp->atomics.use = RING_ATOMICS_UNUSED;
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
		qp->rq_max_gs = qp->limits.rq_gs;
	if (state == IBV_QPS_RTR)
		ring_srq_join(sp_carrier_zero(qp));
	if (state == IBV_QPS_RTS)
		qp->max_gs = qp->limits.sq_gs;
	if (state == IBV_QPS_ERR)
		atomic_store(&qp->guard, false);
	if (qp->ex.on && (state == IBV_QPS_RESET || state == IBV_QPS_RTS))
		ring_wr_install(qp); /* under the lock: a thread may post */
	ring_qp_unlock(qp);
}

/* -- counts ----------------------------------------------------------------------------------- */

void ring_qp_number(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu)
{
	struct sp_carrier *c;

	ring_qp_lock(qp);
	for (c = qp->carriers; c; c = c->next)
		if (c->epoch == epoch)
			ring_sq_number(&c->sq, psn, mtu);
	ring_qp_unlock(qp);
}

uint32_t ring_qp_recv_count(struct sp_qp *qp)
{
	uint32_t n;

	sp_lock(&qp->rq_lock);
	n = qp->recv_base + atomic_load_explicit(&qp->rx->rq.tail, memory_order_acquire);
	sp_unlock(&qp->rq_lock);
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

	if (!sp_trylock(&qp->sq_lock))
		return SP_SENDING_AWAITED;
	sending = qp_sending_state(qp);
	*number = qp->tx->sq.head;
	sp_unlock(&qp->sq_lock);
	return sending;
}

bool ring_qp_tell(struct sp_qp *qp, uint32_t number)
{
	bool rests;

	if (!sp_trylock(&qp->sq_lock))
		return false;
	rests = qp->tx->sq.head == number && qp_sending_state(qp) != SP_SENDING_AWAITED;
	if (rests && !(qp->tx_mode & RING_FOREIGN))
		qp->tx_mode |= RING_TELL;
	sp_unlock(&qp->sq_lock);
	return rests;
}

/* A hidden NOP completes without an answer. */
void ring_qp_sent(struct sp_qp *qp, struct sp_sent *sent)
{
	struct sp_carrier *c = qp->tx;

	*sent = (struct sp_sent){ .done = atomic_load(&c->sq.tail) };
	if (c->nops)
		return;
	if (sp_trylock_often(&qp->sq_lock)) {
		sent->posted = c->sq.head;
		sent->posted_known = true;
		sp_unlock(&qp->sq_lock);
	}
	if (sp_trylock_often(&qp->scq->lock)) {
		sent->done_known = ring_cq_sent(c->sring, c, &sent->done);
		sp_unlock(&qp->scq->lock);
	}
}

static bool queue_posted(struct sp_lock *lock, const uint32_t *mode)
{
	bool posted;

	if (!sp_trylock(lock))
		return false;
	posted = !(*mode & (RING_FIRST | RING_FOREIGN));
	sp_unlock(lock);
	return posted;
}

bool ring_qp_posted(struct sp_qp *qp)
{
	return queue_posted(&qp->sq_lock, &qp->tx_mode) || queue_posted(&qp->rq_lock, &qp->rx_mode);
}

void ring_qp_guard(struct sp_qp *qp, bool on)
{
	atomic_store(&qp->guard, on);
}

/* Only the shell adds carriers, takes them away or changes what is counted of them: no lock. */
uint64_t ring_qp_progressed(struct sp_qp *qp)
{
	uint32_t sends, receives;

	for (struct sp_carrier *c = qp->carriers; c; c = c->next) {
		sends = atomic_load_explicit(&c->sq.tail, memory_order_relaxed);
		receives = atomic_load_explicit(&c->rq.tail, memory_order_relaxed);
		qp->progressed += (uint32_t)(sends - c->sq_counted);
		qp->progressed += (uint32_t)(receives - c->rq_counted);
		c->sq_counted = sends;
		c->rq_counted = receives;
	}
	return qp->progressed;
}

static uint32_t count_two_sided(const struct ring_sq *sq)
{
	uint32_t count = 0;
	struct ring_walk w;
	int64_t slot;

	if (!sq->buf || !ring_walk_start(&w, sq))
		return 0;
	while ((slot = ring_walk_next(&w)) >= 0)
		count += ring_wr_kind(sq, slot) == SP_REQ_TWO_SIDED;
	return count;
}

/* Done is what was posted and is not outstanding; no poller counts. */
void ring_qp_send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done)
{
	ring_qp_lock(qp);
	*posted = qp->two_sided;
	*done = qp->two_sided - count_two_sided(&qp->tx->sq) - count_two_sided(&qp->hold);
	ring_qp_unlock(qp);
}
