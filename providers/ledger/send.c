/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting sends (ibv_post_send): into slots of the ledger, which the provider gets as a chain. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/psn.h"
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

/* Returns the slots to make: twice the limit, to recall the latest, whatever is withheld. */
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
	sq->bytes = n * sizeof(*sq->slots);
	sq->max_post = attr->cap.max_send_wr;
	sq->max_sge = attr->cap.max_send_sge;
	sq->one_sge = sq->max_sge ? 1 : -1;
	sq->max_inline = attr->cap.max_inline_data;
	sq->sig_all = attr->sq_sig_all;
	sq->psn.limit = LED_PSN_NO_LIMIT;
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
		sq->slots[i].wr.sg_list = sq->slots[i].own.sge;
	}
	return 0;
}

/* Allocate at first use. sq_lock is held for these two. */
LED_NOINLINE int led_inline_make(struct led_sq *sq)
{
	if (!sq->inlined && sq->max_inline)
		sq->inlined = malloc(((size_t)sq->mask + 1) * sq->max_inline);
	if (sq->inlined)
		sq->inline_short = sq->max_inline < LED_SHORT ? sq->max_inline : LED_SHORT;
	return sq->inlined ? 0 : ENOMEM;
}

LED_NOINLINE int led_wide_make(struct led_sq *sq)
{
	if (!sq->wide)
		sq->wide = calloc((size_t)sq->mask + 1, sizeof(*sq->wide));
	return sq->wide ? 0 : ENOMEM;
}

/* -- one request into its slot ----------------------------------------------------------------- */

/* False: there is more than a slot has room for. */
LED_INLINE bool copy_inline(uint8_t *at, uint32_t room, const struct ibv_sge *sge, int n,
			    uint32_t *length)
{
	uint32_t left = room;

	for (int i = 0; i < n; at += sge[i].length, i++) {
		if (led_unlikely(sge[i].length > left))
			return false;
		memcpy(at, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
		left -= sge[i].length;
	}
	*length = room - left;
	return true;
}

/* The buffers are the application's again when the post returns. */
LED_INLINE int put_inline(struct led_sq *sq, union led_send *slot, const struct ibv_send_wr *wr,
			  uint32_t *length)
{
	uint8_t *at;

	if (led_unlikely(!sq->inlined && led_inline_make(sq))) {
		slot->wr.num_sge = 0;
		return led_length(wr) ? ENOMEM : 0;
	}
	at = led_inline_at(sq, slot);
	if (!copy_inline(at, sq->max_inline, wr->sg_list, wr->num_sge, length))
		return ENOMEM;
	slot->wr.sg_list = slot->own.sge;
	slot->wr.num_sge = *length != 0;
	slot->own.sge[0] = (struct ibv_sge){ .addr = (uintptr_t)at, .length = *length };
	return 0;
}

/*
 * A request that needs more than a slot has, or names a memory window, is kept whole: it can run on
 * its own NIC only. Its SGEs, and inline data, are those of the slot.
 */
LED_NOINLINE int led_put_wide(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr)
{
	size_t at = (size_t)(slot - qp->sq.slots);

	if (led_wide_make(&qp->sq))
		return ENOMEM;
	atomic_store_explicit(&qp->windows, true, memory_order_relaxed);
	led_psn_end(qp);
	qp->sq.wide[at] = *wr;
	qp->sq.wide[at].wr_id = (uintptr_t)slot;
	qp->sq.wide[at].next = NULL;
	qp->sq.marks[at] |= LED_MARK_WIDE;
	qp->tx_mode |= LED_WIDE;
	if (!atomic_load(&qp->sq.marks_used))
		led_carriers_each(qp);
	return 0;
}

/* The last in the order of the enum: WRITEs, SENDs, READ, atomics. */
#define LED_LAST_PLAIN IBV_WR_ATOMIC_FETCH_AND_ADD

/* The part of a slot that each request has, from num_sge to the operands. */
#define LED_PLAIN_FROM offsetof(struct ibv_send_wr, num_sge)
#define LED_PLAIN_SIZE (offsetof(struct ibv_send_wr, qp_type) - LED_PLAIN_FROM)

LED_INLINE void put_plain(union led_send *slot, const struct ibv_send_wr *wr)
{
	memcpy((char *)slot + LED_PLAIN_FROM, (const char *)wr + LED_PLAIN_FROM, LED_PLAIN_SIZE);
	slot->own.wr_id = wr->wr_id;
}

LED_INLINE uint32_t put_sges(const struct led_sq *sq, union led_send *slot,
			     const struct ibv_send_wr *wr)
{
	struct ibv_sge *to = slot->own.sge;

	if (wr->num_sge > LED_SLOT_SGES)
		to = led_many_sges(sq, slot);
	slot->wr.sg_list = to;
	return led_copy_sges(to, wr->sg_list, (uint32_t)wr->num_sge);
}

LED_INLINE int put(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr,
		   uint32_t *ahead)
{
	uint32_t bytes = 0;
	int err = 0;

	if (led_unlikely((uint32_t)wr->num_sge > qp->sq.max_sge))
		return EINVAL;
	put_plain(slot, wr);
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge)
		err = put_inline(&qp->sq, slot, wr, &bytes);
	else
		bytes = put_sges(&qp->sq, slot, wr);
	led_count(&qp->sq.psn, wr->opcode, bytes, ahead);
	if (led_unlikely((unsigned)wr->opcode > LED_LAST_PLAIN) && !err)
		err = led_put_wide(qp, slot, wr);
	return err;
}

/* True if a request is like most: for one buffer, of a kind that needs no more than a slot has. */
LED_INLINE bool like_most(const struct ibv_send_wr *wr, int32_t one_sge)
{
	return led_likely((unsigned)wr->opcode <= LED_LAST_PLAIN && wr->num_sge == one_sge &&
			  !(wr->send_flags & IBV_SEND_INLINE));
}

LED_INLINE uint32_t put_most(union led_send *slot, const struct ibv_send_wr *wr)
{
	put_plain(slot, wr);
	slot->wr.sg_list = slot->own.sge;
	return led_copy_sge(slot->own.sge, wr->sg_list);
}

/* A table of led_kind's answer, as it is looked up for each request. */
static const uint32_t is_two_sided[32] = {
	[IBV_WR_RDMA_WRITE_WITH_IMM] = 1,
	[IBV_WR_SEND] = 1,
	[IBV_WR_SEND_WITH_IMM] = 1,
	[IBV_WR_SEND_WITH_INV] = 1,
};

LED_INLINE uint32_t two_sided(enum ibv_wr_opcode opcode)
{
	return is_two_sided[(unsigned)opcode % 32];
}

/*
 * Returns the number from which on requests have no room. Not looked up at each post, as pollers
 * write the tail all the time. A recall may have put more back than a queue takes.
 */
LED_NOINLINE uint32_t led_limit(struct sp_qp *qp, uint32_t head)
{
	uint32_t tail = led_tail(qp), most = qp->sq.max_post;

	qp->sq.limit = head - tail < most ? tail + most : head;
	return qp->sq.limit;
}

/*
 * The writes of one call. Behind the loops, wr is the first request that is not written, or NULL.
 */
struct writing {
	struct ibv_send_wr *wr;
	union led_send *slot, *last; /* slot of wr; slot of the request before it */
	uint32_t head, limit, two_sided, ahead;
};

LED_INLINE struct writing write_begin(const struct sp_qp *qp, struct ibv_send_wr *wr)
{
	return (struct writing){ .wr = wr,
				 .slot = led_slot(qp, qp->sq.head),
				 .head = qp->sq.head,
				 .limit = qp->sq.limit };
}

LED_INLINE void write_next(struct writing *w)
{
	w->wr = w->wr->next;
	w->last = w->slot;
	w->slot = (union led_send *)w->slot->wr.next;
	w->head++;
}

LED_INLINE void write_end(struct sp_qp *qp, const struct writing *w)
{
	qp->sq.two_sided += w->two_sided;
	qp->sq.psn.ahead += w->ahead;
	qp->sq.head = w->head;
}

/* Writes requests while they are like most, as the first is: no call, all is in registers. */
LED_INLINE void write_most(struct sp_qp *qp, struct writing *w)
{
	const int32_t one_sge = qp->sq.one_sge;
	uint32_t bytes;

	do {
		if (led_unlikely(w->head == w->limit))
			break;
		bytes = put_most(w->slot, w->wr);
		led_count(&qp->sq.psn, w->wr->opcode, bytes, &w->ahead);
		w->two_sided += is_two_sided[w->wr->opcode];
		write_next(w);
	} while (w->wr && like_most(w->wr, one_sge));
}

LED_INLINE bool no_room(struct sp_qp *qp, struct writing *w)
{
	if (led_unlikely(w->head == w->limit))
		w->limit = led_limit(qp, w->head);
	return w->head == w->limit;
}

LED_INLINE int write_all(struct sp_qp *qp, struct writing *w)
{
	int err;

	while (w->wr) {
		if (no_room(qp, w))
			return ENOMEM;
		err = put(qp, w->slot, w->wr, &w->ahead);
		if (led_unlikely(err)) {
			led_scribbled(&qp->sq, w->head + 1);
			return err;
		}
		w->two_sided += two_sided(w->wr->opcode);
		write_next(w);
	}
	return 0;
}

/* -- to the provider --------------------------------------------------------------------------- */

/* Hands slots over as a chain, on the application's NIC. *refused: the first not taken. */
LED_INLINE int hand_chain(struct sp_qp *qp, union led_send *first, union led_send *last,
			  struct ibv_send_wr **refused)
{
	struct ibv_send_wr *next = last->wr.next;
	int err;

	last->wr.next = NULL;
	err = qp->post(qp->ibv, &first->wr, refused);
	last->wr.next = next;
	return err;
}

/* Returns how many of those from there on the provider took. */
static uint32_t count_taken(const struct sp_qp *qp, uint32_t from,
			    const struct ibv_send_wr *refused)
{
	if (!refused)
		return 0;
	return ((uint32_t)((const union led_send *)refused - qp->sq.slots) - from) & qp->sq.mask;
}

/* Undoes a post from request n on: the application gets the error. */
LED_NOINLINE void led_unwrite(struct sp_qp *qp, uint32_t n)
{
	for (uint32_t i = n; i != qp->sq.head; i++) {
		qp->sq.two_sided -= two_sided(led_slot(qp, i)->wr.opcode);
		*led_mark(qp, i) = 0;
	}
	led_scribbled(&qp->sq, qp->sq.head);
	qp->sq.head = n;
	qp->sq.limit = n; /* the next post asks anew */
}

/*
 * Hands over what was written from `from` on, or lets it wait. Returns an errno and the first
 * request refused. whole: a refusal counts only if no request was taken; if some run, the others
 * wait.
 */
static LED_NOINLINE int posted_slow(struct sp_qp *qp, uint32_t from, bool whole, uint32_t *refused)
{
	int32_t took;
	int err;

	if (from == qp->sq.head)
		return 0;
	led_uncount(qp, from);
	if (qp->tx_mode & LED_FAILED) {
		/* an error wakes a thread that waits for solicited events */
		led_backlog_event(qp->scq, true);
		return 0;
	}
	if (qp->tx_mode & LED_RETRY)
		return 0;
	err = led_go(qp);
	took = (int32_t)(led_pub(qp) - from);
	/*
	 * A NIC that works refused: the application's error. If it does not work, the requests move
	 * soon.
	 */
	if (err > 0 && !led_error_seen(qp->tx) && (whole ? took == 0 : took >= 0) &&
	    led_pub(qp) != qp->sq.head) { /* else the refused one was a log WQE behind them */
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

/* Hands over all or none of them, for ibv_wr_complete. sq_lock is held. */
int led_sends_posted(struct sp_qp *qp, uint32_t from)
{
	uint32_t n = qp->sq.head - from, done, refused;
	struct ibv_send_wr *bad = NULL;
	int err;

	if (!n)
		return 0;
	if (qp->tx_mode)
		return posted_slow(qp, from, true, &refused);
	err = hand_chain(qp, led_slot(qp, from), led_slot(qp, from + n - 1), &bad);
	done = led_likely(!err) ? n : count_taken(qp, from, bad);
	atomic_store_explicit(&qp->sq.pub, from + done, memory_order_relaxed);
	if (!err)
		return 0;
	if (!done) {
		led_unpost(qp, from);
		return err;
	}
	led_uncount(qp, from + done);
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

/* Takes back what the provider refused, from sq.refused on. Drops sq_lock. */
static LED_NOINLINE int undo_refused(struct sp_qp *qp, int err)
{
	uint32_t from = led_pub(qp), done = count_taken(qp, from, qp->sq.refused);

	qp->sq.refused = NULL;
	*qp->sq.bad = nth(qp->sq.posting, done);
	atomic_store_explicit(&qp->sq.pub, from + done, memory_order_relaxed);
	led_unpost(qp, from + done);
	sp_unlock(&qp->sq_lock);
	return err;
}

/* Hands what was written to the provider. Drops sq_lock. */
LED_INLINE int post_direct(struct sp_qp *qp, union led_send *first, union led_send *last, int err)
{
	int err_now;

	SP_ASSERT(qp->sq.head - led_tail(qp) <= qp->sq.mask + 1);
	err_now = hand_chain(qp, first, last, &qp->sq.refused);
	if (led_unlikely(err_now))
		return undo_refused(qp, err_now);
	atomic_store_explicit(&qp->sq.pub, qp->sq.head, memory_order_relaxed);
	sp_unlock(&qp->sq_lock);
	return err;
}

/* Returns the number of the first request that was written. */
static uint32_t number_before(const struct sp_qp *qp, const struct writing *w,
			      const union led_send *first)
{
	return w->head - (((uint32_t)(w->last - first) & qp->sq.mask) + 1);
}

/* The shell hears of it before the lock is dropped: until then the queue counts as busy. */
LED_NOINLINE void led_tx_tell(struct sp_qp *qp)
{
	if (!(qp->tx_mode & LED_TELL))
		return;
	qp->tx_mode &= ~LED_TELL;
	qp->dev->cb->posted(qp->cookie);
}

/* Hands over by the slow way. err: of a request that was not written. Drops sq_lock. */
static LED_NOINLINE int post_slow(struct sp_qp *qp, uint32_t from, int err)
{
	struct ibv_send_wr *wr = qp->sq.posting, **bad = qp->sq.bad;
	uint32_t no;
	int err_now;

	led_tx_tell(qp);
	err_now = posted_slow(qp, from, false, &no);
	sp_unlock(&qp->sq_lock);
	if (err_now)
		*bad = nth(wr, no - from);
	return err_now ? err_now : err;
}

/* Posts a list with a request that is not like most. Drops sq_lock. */
static LED_HOT int post_others(struct sp_qp *qp)
{
	struct writing w = write_begin(qp, qp->sq.posting);
	union led_send *first = w.slot;
	uint32_t from = w.head;
	int err = write_all(qp, &w);

	write_end(qp, &w);
	if (led_unlikely(err))
		*qp->sq.bad = w.wr;
	if (led_unlikely(qp->tx_mode || from == w.head))
		return post_slow(qp, from, err);
	return post_direct(qp, first, w.last, err);
}

/* -- one request alone, of a plain kind: each of these drops sq_lock --------------------------- */

LED_INLINE bool must_wait(const struct sp_qp *qp)
{
	return led_unlikely(qp->tx_mode || qp->sq.head == qp->sq.limit);
}

LED_INLINE int post_put(struct sp_qp *qp, union led_send *slot, const struct ibv_send_wr *wr)
{
	put_plain(slot, wr);
	qp->sq.two_sided += is_two_sided[wr->opcode];
	qp->sq.head++;
	return post_direct(qp, slot, slot, 0);
}

static LED_HOT int post_single(struct sp_qp *qp, const struct ibv_send_wr *wr)
{
	union led_send *slot = led_slot(qp, qp->sq.head);

	if (must_wait(qp))
		return post_others(qp);
	slot->wr.sg_list = slot->own.sge;
	led_count_now(&qp->sq, wr->opcode, led_copy_sge(slot->own.sge, wr->sg_list));
	return post_put(qp, slot, wr);
}

/* Posts inline data of one piece: in place, if they are short. */
static LED_HOT int post_inline(struct sp_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t at = qp->sq.head & qp->sq.mask;
	union led_send *slot = &qp->sq.slots[at];
	size_t length = wr->sg_list->length;
	uint8_t *copy;

	if (must_wait(qp) || led_unlikely(length - 1 >= qp->sq.inline_short))
		return post_others(qp);
	copy = qp->sq.inlined + (size_t)at * qp->sq.max_inline;
	slot->wr.sg_list = slot->own.sge;
	slot->own.sge[0].addr = (uintptr_t)copy;
	slot->own.sge[0].length = (uint32_t)length;
	slot->own.sge[0].lkey = 0;
	led_copy_short(copy, (const uint8_t *)(uintptr_t)wr->sg_list->addr, length);
	return post_put(qp, slot, wr);
}

/* Posts a request without a buffer, or with more than one. */
static LED_HOT int post_sges(struct sp_qp *qp, const struct ibv_send_wr *wr)
{
	union led_send *slot = led_slot(qp, qp->sq.head);

	if (must_wait(qp) || led_unlikely((uint32_t)wr->num_sge > qp->sq.max_sge ||
					  (wr->send_flags & IBV_SEND_INLINE)))
		return post_others(qp);
	led_count_now(&qp->sq, wr->opcode, put_sges(&qp->sq, slot, wr));
	return post_put(qp, slot, wr);
}

/* -- any request ------------------------------------------------------------------------------- */

/* Drops sq_lock. */
static LED_HOT int post_list(struct sp_qp *qp)
{
	struct writing w = write_begin(qp, qp->sq.posting);
	union led_send *first = w.slot;

	if (led_unlikely(!like_most(w.wr, qp->sq.one_sge)))
		return post_others(qp);
	write_most(qp, &w);
	if (w.wr)
		return post_others(qp);
	write_end(qp, &w);
	if (led_unlikely(qp->tx_mode))
		return post_slow(qp, number_before(qp, &w, first), 0);
	return post_direct(qp, first, w.last, 0);
}

static LED_NOINLINE int post_late(struct sp_qp *qp, struct ibv_send_wr *wr,
				  struct ibv_send_wr **bad)
{
	sp_lock_wait(&qp->sq_lock);
	qp->sq.posting = wr;
	qp->sq.bad = bad;
	return post_others(qp);
}

int led_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sp_qp *qp = led_qp_of(ibv);

	if (led_unlikely(!qp))
		return led_dev_of(ibv->context)->saved.post_send(ibv, wr, bad);
	if (led_unlikely(!wr))
		return 0;
	if (led_unlikely(!sp_trylock(&qp->sq_lock)))
		return post_late(qp, wr, bad);
	qp->sq.posting = wr;
	qp->sq.bad = bad;
	if (wr->next || led_unlikely((unsigned)wr->opcode > LED_LAST_PLAIN))
		return post_list(qp);
	if (wr->num_sge != qp->sq.one_sge)
		return post_sges(qp, wr);
	if (wr->send_flags & IBV_SEND_INLINE)
		return post_inline(qp, wr);
	return post_single(qp, wr);
}

/* Takes context->ops.bind_mw: a bind that the provider would post goes through the ledger. */
int led_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW };
	struct sp_qp *qp = led_qp_of(ibv);
	struct ibv_send_wr *bad;
	int err;

	if (!qp)
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
