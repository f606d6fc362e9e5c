/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_post_recv: logged, and handed on with the application's wr_id, as receives complete in order. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/recv.h"

void led_rq_free(struct led_rq *rq)
{
	free(rq->slots);
	free(rq->sges);
}

int led_rq_alloc(struct led_rq *rq, const struct ibv_qp_cap *cap)
{
	uint32_t n = 1;

	while (n < cap->max_recv_wr)
		n *= 2;
	rq->mask = n - 1;
	rq->max_post = cap->max_recv_wr;
	rq->max_sge = cap->max_recv_sge;
	rq->one_sge = rq->max_sge ? 1 : -1;
	rq->slots = calloc(n, sizeof(*rq->slots));
	rq->sges = calloc((size_t)n * (rq->max_sge ? rq->max_sge : 1), sizeof(*rq->sges));
	if (!rq->slots || !rq->sges) {
		led_rq_free(rq);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		rq->slots[i].sg_list = rq->sges + (size_t)i * rq->max_sge;
		rq->slots[i].next = &rq->slots[(i + 1) & rq->mask];
	}
	return 0;
}

/* -- to the provider --------------------------------------------------------------------------- */

static int translate(struct sp_qp *qp, const struct sp_carrier *c, uint32_t n,
		     struct ibv_recv_wr *out, struct ibv_sge *sges)
{
	const struct ibv_recv_wr *wr = &qp->rq.slots[n & qp->rq.mask];

	*out = (struct ibv_recv_wr){ .wr_id = wr->wr_id, .sg_list = sges, .num_sge = wr->num_sge };
	memcpy(sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*sges));
	for (int i = 0; i < wr->num_sge; i++)
		if (c->xlat && sges[i].length &&
		    qp->dev->cb->lkey(qp->cookie, c->epoch, sges[i].lkey, &sges[i].lkey))
			return -ENOENT;
	return 0;
}

/* All keys of what is outstanding known there? */
int led_recvs_check(struct sp_qp *qp, struct sp_carrier *to)
{
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_recv_wr wr;

	for (uint32_t i = atomic_load(&qp->rq.tail); i != qp->rq.head; i++)
		if (translate(qp, to, i, &wr, sges))
			return -ENOENT;
	return 0;
}

/* One by one: this is the way after a move, or with a key that comes late. */
static int hand_over(struct sp_qp *qp)
{
	struct sp_carrier *c = qp->rx;
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_recv_wr wr, *bad;
	int err = 0;

	for (; !err && qp->rq.pub != qp->rq.head; qp->rq.pub += !err) {
		err = translate(qp, c, qp->rq.pub, &wr, sges);
		if (!err)
			err = c->dev->saved.post_recv(c->real, &wr, &bad);
	}
	return err;
}

/* rq_lock held. */
int led_recvs_go(struct sp_qp *qp)
{
	int err;

	if (qp->srq || (qp->rx_mode & (LED_HOLD | LED_FAILED)))
		return 0;
	err = hand_over(qp);
	qp->rx_mode &= ~LED_RETRY;
	if (err)
		qp->rx_mode |= LED_RETRY;
	return err;
}

/* -- posts ------------------------------------------------------------------------------------- */

/* As led_limit. */
static LED_NOINLINE uint32_t limit_now(struct led_rq *rq)
{
	rq->limit = atomic_load_explicit(&rq->tail, memory_order_acquire) + rq->max_post;
	return rq->limit;
}

LED_INLINE void put(struct ibv_recv_wr *slot, const struct ibv_recv_wr *wr)
{
	slot->wr_id = wr->wr_id;
	slot->num_sge = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		slot->sg_list[i] = wr->sg_list[i];
}

/* As long as each has one SGE: without a call, so that all is in registers. *at is behind them. */
LED_INLINE struct ibv_recv_wr *put_most(const struct led_rq *rq, struct ibv_recv_wr *wr,
					uint32_t *at)
{
	struct ibv_recv_wr *slot = &rq->slots[*at & rq->mask];
	const int32_t one_sge = rq->one_sge;
	uint32_t limit = rq->limit;

	while (led_likely(*at != limit && wr->num_sge == one_sge)) {
		slot->wr_id = wr->wr_id;
		slot->num_sge = 1;
		slot->sg_list[0] = wr->sg_list[0];
		slot = slot->next;
		++*at;
		wr = wr->next;
		if (!wr)
			break;
	}
	return wr;
}

/* All that there is room for. */
static int put_list(struct led_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t head = rq->head, limit = limit_now(rq);
	int err = 0;

	for (; wr; wr = wr->next, head++) {
		if (led_unlikely(head == limit))
			err = ENOMEM;
		else if (led_unlikely((uint32_t)wr->num_sge > rq->max_sge))
			err = EINVAL;
		if (led_unlikely(err)) {
			*bad = wr;
			break;
		}
		put(&rq->slots[head & rq->mask], wr);
	}
	rq->head = head;
	return err;
}

static struct ibv_recv_wr *nth(struct ibv_recv_wr *wr, uint32_t n)
{
	while (n--)
		wr = wr->next;
	return wr;
}

/* Slots from `from` to head, as a chain: where not all of the application's list may go. */
static int hand_chain(struct sp_qp *qp, uint32_t from, uint32_t *done)
{
	struct led_rq *rq = &qp->rq;
	struct ibv_recv_wr *last = &rq->slots[(rq->head - 1) & rq->mask], *next = last->next;
	struct ibv_recv_wr *bad = NULL;
	int err;

	last->next = NULL;
	err = rq->post(qp->rx->real, &rq->slots[from & rq->mask], &bad);
	last->next = next;
	*done = rq->head - from;
	if (err)
		*done = bad ? ((uint32_t)(bad - rq->slots) - from) & rq->mask : 0;
	return err;
}

/* Fewer than all there are. rq_lock held. */
static int post_some(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		     uint32_t from, int err)
{
	uint32_t done;
	int refusal = qp->rq.head == from ? 0 : hand_chain(qp, from, &done);

	qp->rq.pub = qp->rq.head;
	if (!refusal)
		return err;
	*bad = nth(wr, done);
	qp->rq.head = qp->rq.pub = from + done;
	return refusal;
}

/* rq_lock held. */
static int post_later(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		      uint32_t from, int err)
{
	int late = 0;

	if (qp->rx_mode & LED_FAILED)
		led_backlog_event(qp->rcq, true);
	else if (!(qp->rx_mode & LED_RETRY))
		late = led_recvs_go(qp);
	/* refused by a NIC that works: the application's error */
	if (late > 0 && !led_error_seen(qp->rx) && (int32_t)(qp->rq.pub - from) >= 0) {
		*bad = nth(wr, qp->rq.pub - from);
		qp->rq.head = qp->rq.pub;
		qp->rx_mode &= ~LED_RETRY;
		err = late;
	} else if (late) {
		qp->dev->cb->key_missing(qp->cookie);
	}
	return err;
}

/* Called with rq_lock and nothing written; drops it. */
static LED_HOT int post_others(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t from = qp->rq.head;
	int err = put_list(&qp->rq, wr, bad);

	if (qp->rx_mode)
		err = post_later(qp, wr, bad, from, err);
	else
		err = post_some(qp, wr, bad, from, err);
	sp_unlock(&qp->rq_lock);
	return err;
}

/* The provider takes no more from rq.refused on. Drops rq_lock. */
static LED_NOINLINE int refused(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
				int err)
{
	const struct ibv_recv_wr *end = qp->rq.refused ? qp->rq.refused : wr;

	for (; wr && wr != end; wr = wr->next)
		qp->rq.pub++;
	*bad = wr;
	qp->rq.head = qp->rq.pub;
	sp_unlock(&qp->rq_lock);
	return err;
}

static LED_NOINLINE int post_late(struct sp_qp *qp, struct ibv_recv_wr *wr,
				  struct ibv_recv_wr **bad)
{
	sp_lock_wait(&qp->rq_lock);
	return post_others(qp, wr, bad);
}

/* What was logged is handed on as it is: the provider gives the application's own wr_id back. */
int led_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_qp *qp = led_qp_of(ibv);
	uint32_t head;
	int err;

	if (led_unlikely(!qp))
		return led_dev_of(ibv->context)->saved.post_recv(ibv, wr, bad);
	if (led_unlikely(!wr))
		return 0;
	if (led_unlikely(!sp_trylock(&qp->rq_lock)))
		return post_late(qp, wr, bad);
	head = qp->rq.head;
	if (led_unlikely(put_most(&qp->rq, wr, &head) || qp->rx_mode))
		return post_others(qp, wr, bad);
	qp->rq.head = head;
	qp->rq.refused = NULL;
	err = qp->rq.post(ibv, wr, &qp->rq.refused);
	if (led_unlikely(err))
		return refused(qp, wr, bad, err);
	qp->rq.pub = qp->rq.head;
	sp_unlock(&qp->rq_lock);
	return 0;
}
