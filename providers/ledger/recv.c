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

LED_INLINE int put_list(struct led_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t head = rq->head;
	uint32_t limit = atomic_load_explicit(&rq->tail, memory_order_acquire) + rq->max_post;
	int err = 0;

	for (; wr; wr = wr->next, head++) {
		struct ibv_recv_wr *slot = &rq->slots[head & rq->mask];

		if (led_unlikely(head == limit))
			err = ENOMEM;
		else if (led_unlikely((uint32_t)wr->num_sge > rq->max_sge))
			err = EINVAL;
		if (led_unlikely(err)) {
			*bad = wr;
			break;
		}
		slot->wr_id = wr->wr_id;
		slot->num_sge = wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			slot->sg_list[i] = wr->sg_list[i];
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

/* Slots from `from` to head, as a chain. */
LED_INLINE int hand_chain(struct sp_qp *qp, uint32_t from, uint32_t *done)
{
	struct led_rq *rq = &qp->rq;
	struct ibv_recv_wr *last = &rq->slots[(rq->head - 1) & rq->mask], *next = last->next;
	struct ibv_recv_wr *bad = NULL;
	int err;

	last->next = NULL;
	err = qp->rx->dev->saved.post_recv(qp->rx->real, &rq->slots[from & rq->mask], &bad);
	last->next = next;
	*done = rq->head - from;
	if (led_unlikely(err))
		*done = bad ? ((uint32_t)(bad - rq->slots) - from) & rq->mask : 0;
	return err;
}

/* rq_lock held; drops it. */
static LED_NOINLINE int post_slow(struct sp_qp *qp, struct ibv_recv_wr *wr,
				  struct ibv_recv_wr **bad, uint32_t from, int err)
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
	sp_unlock(&qp->rq_lock);
	return err;
}

int led_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_qp *qp = led_qp_of(ibv);
	uint32_t from, done;
	int err, refusal;

	if (led_unlikely(!qp || qp->plain))
		return led_dev_of(ibv->context)->saved.post_recv(ibv, wr, bad);
	sp_lock(&qp->rq_lock);
	from = qp->rq.head;
	err = put_list(&qp->rq, wr, bad);
	if (led_unlikely(qp->rx_mode))
		return post_slow(qp, wr, bad, from, err);
	if (led_likely(qp->rq.head != from)) {
		refusal = hand_chain(qp, from, &done);
		qp->rq.pub = from + done;
		if (led_unlikely(refusal)) {
			*bad = nth(wr, done);
			qp->rq.head = from + done;
			err = refusal;
		}
	}
	sp_unlock(&qp->rq_lock);
	return err;
}
