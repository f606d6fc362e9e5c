/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ledger's queue pair, as the application sees it. */
#include <stdlib.h>

#include "providers/common/qp_lock.h"
#include "providers/ledger/backlog.h"
#include "providers/ledger/failed.h"
#include "providers/ledger/psn.h"
#include "providers/ledger/recv.h"
#include "providers/ledger/send.h"
#include "providers/ledger/srq.h"
#include "providers/ledger/stand_in.h"
#include "providers/ledger/wr.h"

/* -- locking a whole QP ------------------------------------------------------------------------ */

static struct sp_qp_locks locks_of(struct sp_qp *qp)
{
	SP_ASSERT(qp->tx && qp->rx);
	return (struct sp_qp_locks){ &qp->scq->lock, &qp->rcq->lock, &qp->sq_lock, &qp->rq_lock };
}

void led_qp_lock(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	sp_qp_lock_all(&locks);
	SP_ASSERT(qp->tx && qp->rx);
}

bool led_qp_lock_soon(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	return sp_qp_lock_all_soon(&locks);
}

void led_qp_unlock(struct sp_qp *qp)
{
	const struct sp_qp_locks locks = locks_of(qp);

	sp_qp_unlock_all(&locks);
}

/* -- driven from here on ----------------------------------------------------------------------- */

static bool is_extended(const struct ibv_qp_init_attr_ex *attr)
{
	return (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && attr->send_ops_flags;
}

static bool out_of_limits(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr > LED_MAX_WR || cap->max_recv_wr > LED_MAX_WR ||
	       cap->max_send_sge > LED_MAX_SGE || cap->max_recv_sge > LED_MAX_SGE;
}

const char *led_qp_drivable(struct sp_dev *dev, struct ibv_qp *qp,
			    const struct ibv_qp_init_attr_ex *attr)
{
	if (qp->qp_type != IBV_QPT_RC && qp->qp_type != IBV_QPT_UD)
		return "its transport is neither RC nor UD";
	if (qp->srq && !led_srq_of(qp->srq))
		return "its shared receive queue is not driven";
	if (qp->handle >= LED_MAX_HANDLE || qp->qp_num >= SP_TABLE_MAX)
		return "its handle is out of range";
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return "it was made with creation flags";
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH))
		return "it was made with attributes that are not supported";
	/*
	 * Nobody asked for builders by name: a driver's own verb made the QP, and may have added
	 * its own.
	 */
	if (is_extended(attr) && attr->send_ops_flags == UINT64_MAX)
		return "it was made with request builders of direct verbs (mlx5dv_wr_*)";
	if (qp->qp_type == IBV_QPT_RC && out_of_limits(&attr->cap))
		return "its queues are larger than SHIFT keeps account of";
	return NULL;
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
	qp->plain = ibv->qp_type != IBV_QPT_RC;
	qp->post = dev->saved.post_send;
	qp->rq.post = dev->saved.post_recv;
	qp->app_qpn = ibv->qp_num;
	qp->scq = scq;
	qp->rcq = rcq;
	qp->cookie = cookie;
	qp->srq = ibv->srq ? led_srq_of(ibv->srq) : NULL;
	return qp;
}

static void qp_free(struct sp_qp *qp)
{
	led_sq_free(&qp->sq);
	led_rq_free(&qp->rq);
	free(qp);
}

static int ledger_alloc(struct sp_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	int err;

	if (qp->plain)
		return 0;
	err = led_sq_alloc(qp, attr);
	if (err) {
		qp->sq = (struct led_sq){ 0 };
		return err;
	}
	err = led_rq_alloc(&qp->rq, &attr->cap);
	if (err)
		qp->rq = (struct led_rq){ 0 };
	return err;
}

static void qp_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	led_qp_lock(qp);
	qp->scq->users++;
	qp->rcq->users++;
	qp->next_on_scq = qp->scq->qps;
	qp->scq->qps = qp;
	led_stand_in_link(qp);
	led_carrier_publish(qp, c);
	led_live(c->sring, &c->sring_live);
	led_live(c->rring, &c->rring_live);
	led_qp_unlock(qp);
	/* posters do not find a QP whose posts go straight to its provider */
	if (qp->dev->installed && !qp->plain)
		atomic_store_explicit(&qp->dev->qps[qp->ibv->handle], qp, memory_order_release);
	if (qp->ex.on)
		led_wr_install(qp);
}

static int take_number(struct sp_dev *dev, const struct ibv_qp *ibv, struct sp_cq *scq,
		       struct sp_cq *rcq)
{
	int err = sp_table_reserve(&dev->tables.carriers, ibv->qp_num);

	if (err || !atomic_load(&dev->carriers[ibv->qp_num]))
		return err;
	err = led_cq_collect(scq); /* completions of an earlier owner of the number: dropped */
	return err || rcq == scq ? err : led_cq_collect(rcq);
}

int led_qp_drive(struct sp_dev *dev, struct ibv_qp *ibv, const struct ibv_qp_init_attr_ex *attr,
		 struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		 const char **why_not)
{
	struct sp_carrier *c;
	struct sp_qp *qp;
	int err;

	*why_not =
		scq && rcq ? led_qp_drivable(dev, ibv, attr) : "its completion queue is not driven";
	if (*why_not) {
		led_qp_foreign(dev, ibv);
		return -EOPNOTSUPP;
	}
	err = sp_table_reserve(&dev->tables.qps, ibv->handle);
	if (!err)
		err = take_number(dev, ibv, scq, rcq);
	if (err)
		return err;
	qp = qp_alloc(dev, ibv, scq, rcq, cookie);
	if (!qp)
		return -ENOMEM;
	err = ledger_alloc(qp, attr);
	if (!err)
		err = led_carrier_make(qp, dev, ibv, &c);
	if (err) {
		qp_free(qp);
		return err;
	}
	c->sring = &scq->ring;
	c->rring = &rcq->ring;
	if (ibv->state >= IBV_QPS_RTR)
		led_srq_join(c);
	qp->tx = qp->rx = c;
	qp->ex.on = !qp->plain && is_extended(attr);
	qp_publish(qp, c);
	*out = qp;
	return 0;
}

/* Frees the number of a QP that was driven: another QP may have it now, whose completions pass. */
void led_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp)
{
	struct sp_carrier *gone = &led_carrier_gone;

	if (qp->qp_num < SP_TABLE_MAX && atomic_load(&dev->carriers[qp->qp_num]) == gone)
		atomic_compare_exchange_strong(&dev->carriers[qp->qp_num], &gone, NULL);
}

/*
 * Returns why the QP cannot be protected. Only their provider writes these queues: nobody else can
 * post, so no intruder is looked for.
 */
const char *led_qp_reason(struct sp_qp *qp, bool *intruder)
{
	*intruder = false;
	if (atomic_load(&qp->windows))
		return "it uses memory windows, which exist on one NIC only";
	if (qp->srq && !qp->dev->tells_last)
		return "its NIC's driver does not tell when a queue pair has taken its last "
		       "receive of a shared queue";
	return NULL;
}

/* All locks held. */
static void forget_completions(struct sp_qp *qp)
{
	led_backlog_drop(qp->scq, qp);
	led_backlog_drop(qp->rcq, qp);
	led_failed_unlink(qp);
	led_marked_unlink(qp);
	led_cq_refresh(qp->scq);
	led_cq_refresh(qp->rcq);
}

static void scq_unlink(struct sp_qp *qp)
{
	struct sp_qp **at = &qp->scq->qps;

	while (*at != qp)
		at = &(*at)->next_on_scq;
	*at = qp->next_on_scq;
}

void led_qp_undrive(struct sp_qp *qp)
{
	struct sp_carrier *c;

	if (qp->dev->installed)
		atomic_store(&qp->dev->qps[qp->ibv->handle], NULL);
	if (qp->srq) /* receives that the QP took and nobody has seen go with it, as on stock */
		(void)led_cq_collect(qp->rcq);
	led_qp_lock(qp);
	for (c = qp->carriers; c; c = c->next)
		led_carrier_retract(c);
	forget_completions(qp);
	scq_unlink(qp);
	led_stand_in_unlink(qp);
	SP_ASSERT(qp->scq->users && qp->rcq->users);
	qp->scq->users--;
	qp->rcq->users--;
	led_qp_unlock(qp);
	if (qp->ex.on)
		led_wr_restore(qp);
	while ((c = qp->carriers)) {
		qp->carriers = c->next;
		free(c);
	}
	qp_free(qp);
}

/* Nothing that was posted exists any more. All locks held. */
static void reset(struct sp_qp *qp)
{
	struct sp_carrier *c = sp_carrier_zero(qp), *other;

	for (other = qp->carriers; other != c; other = other->next)
		led_carrier_seal(other);
	led_srq_leave(c);
	forget_completions(qp);
	memset(qp->sq.marks, 0, (size_t)qp->sq.mask + 1);
	qp->sq.head = qp->sq.limit = qp->sq.two_sided = qp->sq.scribbled = 0;
	atomic_store(&qp->sq.pub, 0);
	qp->sq.owes = false;
	atomic_store(&qp->tail, 0);
	qp->rq.pub = 0;
	atomic_store(&qp->rq.tail, 0);
	led_recvs_at(&qp->rq, 0);
	qp->send_counted = qp->recv_counted = 0;
	atomic_store(&qp->may_write, false);
	atomic_store(&qp->may_read, false);
	c->sq_err = c->rq_err = c->mute = c->left = c->recalled = false;
	c->first = 0;
	for (int i = 0; i < LED_HIDDEN_KINDS; i++)
		c->hidden[i].out = false;
	c->log.on = false;
	c->mtu = 0;
	atomic_store(&c->last_receive, false);
	atomic_store(&c->err_mode, LED_ERR_NONE);
	atomic_store(&c->app_status, 0);
	atomic_fetch_and(&c->attn, LED_ATTN_EACH | LED_ATTN_NAMED);
	atomic_store(&qp->withheld, false);
	led_live(c->sring, &c->sring_live);
	led_live(c->rring, &c->rring_live);
	qp->tx = qp->rx = c;
	qp->tx_mode = qp->rx_mode = 0;
	led_psn_end(qp);
}

/* Drops completions of the past that lie in a ring, before numbers begin anew. */
static void reset_begin(struct sp_qp *qp)
{
	(void)led_cq_collect(qp->scq);
	if (qp->rcq != qp->scq)
		(void)led_cq_collect(qp->rcq);
}

/* Drops a plain QP's completions, as its provider has done with those in its CQ. */
static void reset_plain(struct sp_qp *qp)
{
	led_qp_lock(qp);
	forget_completions(qp);
	led_qp_unlock(qp);
}

void led_qp_modified(struct sp_qp *qp, enum ibv_qp_state state)
{
	if (qp->plain && !qp->srq) {
		if (state == IBV_QPS_RESET)
			reset_plain(qp);
		return;
	}
	if (state == IBV_QPS_RESET)
		reset_begin(qp);
	led_qp_lock(qp);
	if (state == IBV_QPS_RESET && !qp->plain)
		reset(qp);
	else if (state == IBV_QPS_RESET)
		led_srq_leave(qp->rx);
	if (state == IBV_QPS_RTR)
		led_srq_join(sp_carrier_zero(qp));
	if (state == IBV_QPS_ERR)
		atomic_store(&qp->guard, false);
	led_qp_unlock(qp);
	if (qp->ex.on && (state == IBV_QPS_RESET || state == IBV_QPS_RTS))
		led_wr_install(qp);
}

/* -- counts ----------------------------------------------------------------------------------- */

uint32_t led_qp_recv_count(struct sp_qp *qp)
{
	return atomic_load_explicit(&qp->rq.tail, memory_order_acquire);
}

/* True if a completion would show that all that was handed over is complete. */
static bool end_is_told(const struct sp_qp *qp)
{
	const struct led_hidden *fence = &qp->tx->hidden[LED_HIDDEN_FENCE];

	return led_completes(qp, led_pub(qp) - 1) || (fence->out && fence->n == led_pub(qp));
}

static enum sp_sending sending_state(const struct sp_qp *qp)
{
	if (qp->sq.head == led_tail(qp))
		return SP_SENDING_NONE;
	return qp->sq.head == led_pub(qp) && !end_is_told(qp) ? SP_SENDING_UNTOLD
							      : SP_SENDING_AWAITED;
}

enum sp_sending led_qp_sending(struct sp_qp *qp, uint32_t *number)
{
	enum sp_sending sending;

	if (!sp_trylock(&qp->sq_lock))
		return SP_SENDING_AWAITED;
	sending = sending_state(qp);
	*number = qp->sq.head;
	sp_unlock(&qp->sq_lock);
	return sending;
}

bool led_qp_tell(struct sp_qp *qp, uint32_t number)
{
	bool rests;

	if (!sp_trylock(&qp->sq_lock))
		return false;
	rests = qp->sq.head == number && sending_state(qp) != SP_SENDING_AWAITED;
	if (rests)
		qp->tx_mode |= LED_TELL;
	sp_unlock(&qp->sq_lock);
	return rests;
}

/* Completions that lie in a CQ unseen cannot be looked at: done says less than it might. */
void led_qp_sent(struct sp_qp *qp, struct sp_sent *sent)
{
	*sent = (struct sp_sent){ .done = led_tail(qp) };
	if (!sp_trylock_often(&qp->sq_lock))
		return;
	sent->posted = led_pub(qp);
	sent->posted_known = true;
	sp_unlock(&qp->sq_lock);
}

void led_qp_guard(struct sp_qp *qp, bool on)
{
	atomic_store(&qp->guard, on);
}

/* Only the shell counts, or changes what is counted: no lock. */
uint64_t led_qp_progressed(struct sp_qp *qp)
{
	uint32_t sends = atomic_load_explicit(&qp->tail, memory_order_relaxed);
	uint32_t receives = atomic_load_explicit(&qp->rq.tail, memory_order_relaxed);

	qp->progressed += (uint32_t)(sends - qp->send_counted);
	qp->progressed += (uint32_t)(receives - qp->recv_counted);
	qp->send_counted = sends;
	qp->recv_counted = receives;
	return qp->progressed;
}

/* Done is what was posted and is not outstanding; no poller counts. */
void led_qp_send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done)
{
	led_qp_lock(qp);
	*posted = *done = qp->sq.two_sided;
	for (uint32_t n = led_tail(qp); n != qp->sq.head; n++)
		*done -= led_kind_of(qp, n) == SP_REQ_TWO_SIDED;
	led_qp_unlock(qp);
}
