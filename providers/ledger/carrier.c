/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Carriers: the real QPs that carry driven ones. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/send.h"
#include "providers/ledger/srq.h"

struct sp_carrier led_carrier_gone = { .attn = LED_ATTN_EACH };

static void hidden_make(struct led_hidden *hidden)
{
	hidden->slot.wr = (struct ibv_send_wr){ .wr_id = (uintptr_t)&hidden->slot,
						.sg_list = hidden->slot.own.sge,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
}

int led_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		     struct sp_carrier **out)
{
	struct sp_carrier *c;
	int err = sp_table_reserve(&dev->tables.carriers, real->qp_num);

	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->engine = dev->engine;
	c->qp = qp;
	c->dev = dev;
	c->real = real;
	c->qpn = real->qp_num;
	c->app_qpn = qp->app_qpn;
	c->xlat = dev != qp->dev;
	if (real->srq)
		c->srq = led_srq_find(qp->srq, real->srq);
	if (real->srq && !c->srq) {
		free(c);
		return -EINVAL;
	}
	if (c->srq || qp->plain || atomic_load(&qp->sq.marks_used))
		c->attn |= LED_ATTN_EACH;
	if (c->qpn != c->app_qpn)
		c->attn |= LED_ATTN_NAMED;
	for (int i = 0; i < LED_HIDDEN_KINDS; i++)
		hidden_make(&c->hidden[i]);
	*out = c;
	return 0;
}

/* Publishes a carrier. All locks held. */
void led_carrier_publish(struct sp_qp *qp, struct sp_carrier *c)
{
	SP_ASSERT(c->sring && c->rring);
	c->next = qp->carriers;
	qp->carriers = c;
	atomic_store_explicit(&c->dev->carriers[c->qpn], c, memory_order_release);
}

/*
 * All locks held. Completions that nobody has polled are dropped when they are polled: the receives
 * of a shared queue have been accounted for, as the shell collects first, and recovers the rest.
 */
void led_carrier_retract(struct sp_carrier *c)
{
	atomic_store(&c->dev->carriers[c->qpn], &led_carrier_gone);
	led_srq_leave(c);
	led_unlive(c->sring, &c->sring_live);
	led_unlive(c->rring, &c->rring_live);
}

void led_carrier_seal(struct sp_carrier *c)
{
	atomic_fetch_or(&c->attn, LED_ATTN_SQ_SEALED | LED_ATTN_RQ_SEALED);
}

/* Makes each completion of this QP look at marks from now on. sq_lock held. */
void led_carriers_each(struct sp_qp *qp)
{
	atomic_store(&qp->sq.marks_used, true);
	for (struct sp_carrier *c = qp->carriers; c; c = c->next)
		atomic_fetch_or(&c->attn, LED_ATTN_EACH);
}

static bool holds_all(const struct sp_qp *qp, const struct ibv_qp_cap *caps)
{
	return caps->max_send_wr >= qp->sq.max_post && caps->max_send_sge >= qp->sq.max_sge &&
	       caps->max_inline_data >= qp->sq.max_inline &&
	       (qp->srq ||
		(caps->max_recv_wr >= qp->rq.max_post && caps->max_recv_sge >= qp->rq.max_sge));
}

/*
 * Takes out the completions that an earlier owner of the number left behind, while they are
 * nobody's.
 */
static int clear_number(struct sp_dev *dev, const struct ibv_qp *real, struct sp_cq *scq,
			struct sp_cq *rcq)
{
	int err;

	if (!atomic_load(&dev->carriers[real->qp_num]))
		return 0;
	err = led_cq_collect(scq);
	if (!err && rcq != scq)
		err = led_cq_collect(rcq);
	return err;
}

int led_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		    const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		    struct sp_cq_ring *rring, struct sp_carrier **out)
{
	struct sp_carrier *c;
	int err;

	if (sring->cq != qp->scq || rring->cq != qp->rcq || sring->dev != dev || rring->dev != dev)
		return -EINVAL;
	/* carriers but 0 translate: another context has other keys */
	if (dev == qp->dev || qp->plain || !holds_all(qp, caps))
		return -EINVAL;
	if (qp->srq && !dev->tells_last)
		return -EOPNOTSUPP;
	err = led_sq_scratch(qp);
	if (!err)
		err = led_carrier_make(qp, dev, real, &c);
	if (err)
		return err;
	err = clear_number(dev, real, qp->scq, qp->rcq);
	if (err) {
		free(c);
		return err;
	}
	c->epoch = epoch;
	c->sring = sring;
	c->rring = rring;
	atomic_fetch_or(&c->attn, LED_ATTN_PROGRESS);
	led_qp_lock(qp);
	led_carrier_publish(qp, c);
	led_qp_unlock(qp);
	*out = c;
	return 0;
}

void led_carrier_del(struct sp_carrier *c)
{
	struct sp_qp *qp = c->qp;
	bool husk = !c->next; /* carrier 0 */

	if (c->srq) { /* receives that the carrier took and nobody has seen go back to the queue */
		led_carrier_seal(c);
		(void)led_cq_collect(qp->rcq);
	}
	led_qp_lock(qp);
	led_carrier_seal(c);
	c->left = true;
	led_unlive(c->sring, &c->sring_live);
	led_unlive(c->rring, &c->rring_live);
	if (!husk) {
		sp_carrier_unlink(qp, c);
		led_carrier_retract(c);
	}
	led_qp_unlock(qp);
	if (!husk)
		free(c);
}
