/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_post_send: requests are written into slots of the ledger, which the provider gets as a chain. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/send.h"

/* -- the ledger's memory ----------------------------------------------------------------------- */

void led_sq_free(struct led_sq *sq)
{
	free(sq->slots);
	free(sq->marks);
	free(sq->sges);
	free(sq->inlined);
	free(sq->wide);
	free(sq->scratch);
}

/* Twice as many as may be posted: those that completed last can be recalled, whatever is withheld. */
static uint32_t room_for(uint32_t max_post)
{
	uint32_t n = 1;

	while (n < 2 * max_post)
		n *= 2;
	return n;
}

int led_sq_alloc(struct sp_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct led_sq *sq = &qp->sq;
	uint32_t n = room_for(attr->cap.max_send_wr);

	sq->mask = n - 1;
	sq->max_post = attr->cap.max_send_wr;
	sq->max_sge = attr->cap.max_send_sge;
	sq->max_inline = attr->cap.max_inline_data;
	sq->sig_all = attr->sq_sig_all;
	sq->slots = aligned_alloc(64, n * sizeof(*sq->slots));
	sq->marks = calloc(n, 1);
	if (sq->max_sge > LED_SLOT_SGES)
		sq->sges = calloc((size_t)n * sq->max_sge, sizeof(*sq->sges));
	if (!sq->slots || !sq->marks || (sq->max_sge > LED_SLOT_SGES && !sq->sges)) {
		led_sq_free(sq);
		return -ENOMEM;
	}
	memset(sq->slots, 0, n * sizeof(*sq->slots));
	for (uint32_t i = 0; i < n; i++) {
		sq->slots[i].wr.wr_id = (uintptr_t)&sq->slots[i];
		sq->slots[i].wr.next = &sq->slots[(i + 1) & sq->mask].wr;
	}
	return 0;
}

/* All that a batch may need, of requests whose keys are translated. */
int led_sq_scratch(struct sp_qp *qp)
{
	size_t n = (size_t)LED_BATCH *
		   (qp->sq.max_sge > LED_SLOT_SGES ? qp->sq.max_sge : LED_SLOT_SGES);
	struct ibv_sge *scratch = calloc(n, sizeof(*scratch));
	bool had;

	if (!scratch)
		return -ENOMEM;
	sp_lock(&qp->sq_lock);
	had = qp->sq.scratch;
	if (!had)
		qp->sq.scratch = scratch;
	sp_unlock(&qp->sq_lock);
	if (had)
		free(scratch);
	return 0;
}

/* sq_lock is held for these two. */
LED_NOINLINE int led_inline_make(struct led_sq *sq)
{
	if (!sq->inlined && sq->max_inline)
		sq->inlined = malloc(((size_t)sq->mask + 1) * sq->max_inline);
	return sq->inlined ? 0 : ENOMEM;
}

LED_NOINLINE int led_wide_make(struct led_sq *sq)
{
	if (!sq->wide)
		sq->wide = calloc((size_t)sq->mask + 1, sizeof(*sq->wide));
	return sq->wide ? 0 : ENOMEM;
}

/* -- one request into its slot ----------------------------------------------------------------- */

/* The buffers are the application's again when the post returns. */
static LED_NOINLINE int put_inline(struct led_sq *sq, union led_send *slot,
				   const struct ibv_send_wr *wr)
{
	uint32_t length = led_length(wr);
	uint8_t *at;

	if (length > sq->max_inline)
		return ENOMEM;
	if (length && !sq->inlined && led_inline_make(sq))
		return ENOMEM;
	slot->wr.sg_list = slot->own.sge;
	slot->wr.num_sge = length ? 1 : 0;
	if (!length)
		return 0;
	at = sq->inlined + (size_t)(slot - sq->slots) * sq->max_inline;
	slot->own.sge[0] = (struct ibv_sge){ .addr = (uintptr_t)at, .length = length };
	for (int i = 0; i < wr->num_sge; at += wr->sg_list[i].length, i++)
		memcpy(at, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	return 0;
}

static LED_NOINLINE void put_many_sges(struct led_sq *sq, union led_send *slot,
				       const struct ibv_send_wr *wr)
{
	slot->wr.sg_list = sq->sges + (size_t)(slot - sq->slots) * sq->max_sge;
	memcpy(slot->wr.sg_list, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
}

/*
 * A request that needs more than a slot has, or names a memory window: kept whole. It can run on its own
 * NIC only. Its SGEs, and inline data, are those of the slot.
 */
static LED_NOINLINE int put_wide(struct sp_qp *qp, union led_send *slot,
				 const struct ibv_send_wr *wr)
{
	size_t at = (size_t)(slot - qp->sq.slots);

	if (led_wide_make(&qp->sq))
		return ENOMEM;
	atomic_store_explicit(&qp->windows, true, memory_order_relaxed);
	qp->sq.wide[at] = *wr;
	qp->sq.wide[at].wr_id = (uintptr_t)slot;
	qp->sq.wide[at].next = NULL;
	qp->sq.marks[at] |= LED_MARK_WIDE;
	atomic_store(&qp->sq.marks_used, true);
	return 0;
}

int led_put_wide(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr)
{
	return put_wide(qp, slot, wr);
}

/* In the order of the enum: WRITEs, SENDs, READ, atomics. */
#define LED_LAST_PLAIN IBV_WR_ATOMIC_FETCH_AND_ADD

LED_INLINE int put_data(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr)
{
	if (led_unlikely((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge))
		return put_inline(&qp->sq, slot, wr);
	slot->wr.num_sge = wr->num_sge;
	slot->wr.sg_list = slot->own.sge;
	if (led_unlikely(wr->num_sge > LED_SLOT_SGES))
		put_many_sges(&qp->sq, slot, wr);
	else
		for (int i = 0; i < wr->num_sge; i++)
			slot->own.sge[i] = wr->sg_list[i];
	return 0;
}

LED_INLINE int put(struct sp_qp *qp, uint32_t n, const struct ibv_send_wr *wr)
{
	union led_send *slot = led_slot(qp, n);
	int err;

	slot->wr.opcode = wr->opcode;
	slot->wr.send_flags = wr->send_flags;
	slot->wr.imm_data = wr->imm_data;
	slot->wr.wr = wr->wr;
	slot->own.wr_id = wr->wr_id;
	err = put_data(qp, slot, wr);
	if (led_unlikely((unsigned)wr->opcode > LED_LAST_PLAIN) && !err)
		err = put_wide(qp, slot, wr);
	if (led_unlikely(err))
		led_scribbled(&qp->sq, n + 1);
	return err;
}

LED_INLINE bool two_sided(enum ibv_wr_opcode opcode)
{
	return led_kind(opcode) == SP_REQ_TWO_SIDED;
}

/* As many as there is room for. Their number is what head moved by. */
LED_INLINE int put_list(struct sp_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint32_t head = qp->sq.head, tail = led_tail(qp);
	int err = 0;

	for (; wr; wr = wr->next, head++) {
		/* a recall may have put more back than a queue takes */
		if (led_unlikely(head - tail >= qp->sq.max_post))
			err = ENOMEM;
		else if (led_unlikely((uint32_t)wr->num_sge > qp->sq.max_sge))
			err = EINVAL;
		else
			err = put(qp, head, wr);
		if (led_unlikely(err)) {
			*bad = wr;
			break;
		}
		qp->sq.two_sided += two_sided(wr->opcode);
	}
	qp->sq.head = head;
	return err;
}

/* -- to the provider --------------------------------------------------------------------------- */

/* Slots from n on, as a chain. Returns an errno; *done: how many it took. */
LED_INLINE int hand_chain(struct sp_qp *qp, struct sp_carrier *c, uint32_t from, uint32_t n,
			  uint32_t *done)
{
	struct ibv_send_wr *first = &led_slot(qp, from)->wr,
			   *last = &led_slot(qp, from + n - 1)->wr;
	struct ibv_send_wr *next = last->next, *bad = NULL;
	int err;

	last->next = NULL;
	err = qp->post(c->real, first, &bad);
	last->next = next;
	*done = n;
	if (led_unlikely(err))
		*done = bad ? (((union led_send *)bad - qp->sq.slots) - from) & qp->sq.mask : 0;
	return err;
}

/* A post is undone from request n on: the application gets the error. */
LED_NOINLINE void led_unwrite(struct sp_qp *qp, uint32_t n)
{
	for (uint32_t i = n; i != qp->sq.head; i++) {
		qp->sq.two_sided -= two_sided(led_slot(qp, i)->wr.opcode);
		*led_mark(qp, i) = 0;
	}
	led_scribbled(&qp->sq, qp->sq.head);
	qp->sq.head = n;
}

/*
 * What was written from `from` on goes to the provider, or waits. Returns an errno, and then the first
 * one that it refuses.
 */
static LED_NOINLINE int posted_slow(struct sp_qp *qp, uint32_t from, uint32_t *refused)
{
	int err;

	if (from == qp->sq.head)
		return 0;
	if (qp->tx_mode & LED_FAILED) {
		led_backlog_event(qp->scq, true); /* an error wakes who waits for solicited ones */
		return 0;
	}
	if (qp->tx_mode & LED_RETRY)
		return 0;
	err = led_go(qp);
	/* refused by an NIC that works: it is the application's error. By another, it moves soon. */
	if (err > 0 && !led_error_seen(qp->tx) && (int32_t)(led_pub(qp) - from) >= 0) {
		*refused = led_pub(qp);
		qp->tx_mode &= ~LED_RETRY;
		led_unwrite(qp, *refused);
		return err;
	}
	if (err)
		qp->dev->cb->key_missing(qp->cookie);
	if (qp->tx_mode & LED_GATE)
		qp->dev->cb->gated(qp->cookie);
	return 0;
}

/* The same for all or none of them: ibv_wr_complete. sq_lock is held. */
int led_sends_posted(struct sp_qp *qp, uint32_t from)
{
	uint32_t n = qp->sq.head - from, done, refused;
	int err;

	if (!n)
		return 0;
	if (qp->tx_mode || qp->sq.wide) {
		err = posted_slow(qp, from, &refused);
		return err;
	}
	err = hand_chain(qp, qp->tx, from, n, &done);
	atomic_store_explicit(&qp->sq.pub, from + done, memory_order_relaxed);
	if (!err)
		return 0;
	if (!done) {
		led_unwrite(qp, from);
		return err;
	}
	qp->tx_mode |= LED_RETRY; /* some of them run: the others wait until they can */
	qp->dev->cb->key_missing(qp->cookie);
	return 0;
}

static struct ibv_send_wr *nth(struct ibv_send_wr *wr, uint32_t n)
{
	while (n--)
		wr = wr->next;
	return wr;
}

/* Called with sq_lock held, behind the writing; drops it. */
static LED_NOINLINE int post_slow(struct sp_qp *qp, struct ibv_send_wr *wr,
				  struct ibv_send_wr **bad, uint32_t from, int err)
{
	uint32_t refused;
	int err_now = posted_slow(qp, from, &refused);

	sp_unlock(&qp->sq_lock);
	if (err_now)
		*bad = nth(wr, refused - from);
	return err_now ? err_now : err;
}

int led_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sp_qp *qp = led_qp_of(ibv);
	uint32_t from, n, done;
	int err;

	if (led_unlikely(!qp || qp->plain))
		return led_dev_of(ibv->context)->saved.post_send(ibv, wr, bad);
	sp_lock(&qp->sq_lock);
	from = qp->sq.head;
	err = put_list(qp, wr, bad);
	if (led_unlikely(qp->tx_mode || qp->sq.wide))
		return post_slow(qp, wr, bad, from, err);
	n = qp->sq.head - from;
	if (led_likely(n)) {
		int refusal = hand_chain(qp, qp->tx, from, n, &done);

		atomic_store_explicit(&qp->sq.pub, from + done, memory_order_relaxed);
		if (led_unlikely(refusal)) {
			*bad = nth(wr, done);
			led_unwrite(qp, from + done);
			err = refusal;
		}
	}
	sp_unlock(&qp->sq_lock);
	return err;
}

/* context->ops.bind_mw: what the provider would post itself goes through the ledger. */
int led_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW };
	struct sp_qp *qp = led_qp_of(ibv);
	struct ibv_send_wr *bad;
	int err;

	if (!qp || qp->plain)
		return led_dev_of(ibv->context)->saved.bind_mw(ibv, mw, bind);
	wr.send_flags = bind->send_flags;
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = bind->bind_info;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	err = led_post_send(ibv, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}
