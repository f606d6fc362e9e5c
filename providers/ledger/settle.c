/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Settling, the end of a move: what was outstanding is completed in software or posted to the next
 * carrier.
 */
#include "providers/ledger/backlog.h"
#include "providers/ledger/errors.h"
#include "providers/ledger/move.h"
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"

enum { SCATTERED_TO_CQE = 64 }; /* bytes that a NIC may put into a completion */

/* -- outstanding sends ------------------------------------------------------------------------- */

static void describe_target(const struct ibv_send_wr *wr, struct sp_request *i)
{
	switch ((int)wr->opcode) {
	case IBV_WR_RDMA_READ: i->brings = led_length(wr); break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		i->addr = wr->wr.rdma.remote_addr;
		i->rkey = wr->wr.rdma.rkey;
		i->bytes = led_length(wr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		i->cas = 1;
		i->compare = wr->wr.atomic.compare_add;
		i->swap = wr->wr.atomic.swap; /* fall through */
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		i->addr = wr->wr.atomic.remote_addr;
		i->rkey = wr->wr.atomic.rkey;
		i->bytes = sizeof(uint64_t);
		break;
	default: break;
	}
}

uint32_t led_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max)
{
	uint32_t n, count = 0;

	led_qp_lock(qp);
	for (n = led_tail(qp); n != qp->sq.head; n++, count++) {
		if (count >= max)
			continue;
		info[count] = (struct sp_request){
			.kind = led_kind_of(qp, n),
			.signaled = led_signaled(qp, n),
			.send_fence = !!(led_slot(qp, n)->wr.send_flags & IBV_SEND_FENCE),
			.published = (int32_t)(n - led_given(qp)) < 0,
			.answered = led_recalled_answer(qp, n),
		};
		describe_target(&led_slot(qp, n)->wr, &info[count]);
	}
	led_psn_tell(qp, info, count < max ? count : max);
	led_qp_unlock(qp);
	return count;
}

/* -- settle ------------------------------------------------------------------------------------ */

struct settle {
	struct sp_qp *qp;
	struct sp_carrier *to;
	const enum sp_fate *fates;
	uint32_t n;	/* number of fates */
	uint32_t first; /* the first request */
	struct sp_settled *out;
};

/*
 * True if an earlier move found the request executed: it was not sent since, so nobody hears of it
 * in this move.
 */
static bool was_done(const struct settle *s, uint32_t i)
{
	return *led_mark(s->qp, s->first + i) & LED_MARK_DELIVERED;
}

static bool is_done(const struct settle *s, uint32_t i)
{
	return s->fates[i] == SP_FATE_DELIVERED || s->fates[i] == SP_FATE_WON || was_done(s, i);
}

/*
 * Some NICs put a small READ's answer into its completion, where each request has one, and the
 * provider copies it to the buffers when it polls that (mlx5). Such a READ is executed, as a
 * request with the fence flag behind it was; but if the completion is lost, so are its bytes.
 */
static bool lost_with_its_completion(const struct sp_qp *qp, uint32_t n)
{
	return qp->sq.sig_all && led_kind_of(qp, n) == SP_REQ_READ && !led_recalled_answer(qp, n) &&
	       led_length(&led_slot(qp, n)->wr) <= SCATTERED_TO_CQE;
}

/*
 * Checks that all keys of what will be posted are known there, and that the rest can be completed.
 * A withheld request with a key that is missing stays withheld, and so does all behind it: nothing
 * was promised of these to the peer.
 */
static int settle_check(const struct settle *s)
{
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_send_wr wr;
	uint32_t i, total = s->qp->sq.head - s->first;
	int err;

	for (i = 0; i < total; i++) {
		if (i < s->n && is_done(s, i)) {
			if (!was_done(s, i) && lost_with_its_completion(s->qp, s->first + i))
				return -EIO;
			continue;
		}
		if (led_must_ask(s->qp, s->first + i))
			return i < s->n ? -EACCES : 0; /* withheld requests stay so, from here on */
		err = led_translate_send(s->qp, s->to, s->first + i, &wr, sges);
		if (err)
			return err == -ENOENT && i >= s->n ? 0 : err;
	}
	return 0;
}

/* Completes a request in software, as the NIC would have: an unsignaled one leaves no trace. */
static void deliver(const struct settle *s, uint32_t n)
{
	const struct led_taken taken = { s->qp, UINT32_MAX, true };
	struct ibv_wc wc;

	if (!led_signaled(s->qp, n))
		return;
	led_soft_send(s->qp, n, IBV_WC_SUCCESS, 0, &wc);
	led_backlog_push(s->qp->scq, &wc, &taken);
}

/* Their answers were lost, but are known: the swaps found what they had compared with. */
static void bring_answers(const struct settle *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct ibv_send_wr *wr = &led_slot(s->qp, s->first + i)->wr;
		const uint8_t *old = (const uint8_t *)&wr->wr.atomic.compare_add;
		uint32_t left = s->fates[i] == SP_FATE_WON ? sizeof(uint64_t) : 0, len;

		for (int k = 0; k < wr->num_sge && left; k++, left -= len, old += len) {
			len = wr->sg_list[k].length < left ? wr->sg_list[k].length : left;
			memcpy((void *)(uintptr_t)wr->sg_list[k].addr, old, len);
		}
	}
}

/* Completes those before the first one that runs again. */
static void deliver_leading(const struct settle *s)
{
	uint32_t i;

	for (i = 0; i < s->n && is_done(s, i); i++) {
		deliver(s, s->first + i);
		s->out->delivered++;
	}
	led_advance(s->qp, s->first + i);
}

/*
 * Lets a delivered request complete in its turn, behind one that runs again (so i is not 0): when
 * the one before it, which gets a signal for that, has completed.
 */
static void deliver_later(const struct settle *s, uint32_t i)
{
	struct sp_qp *qp = s->qp;

	*led_mark(qp, s->first + i) |= LED_MARK_DELIVERED;
	if (!is_done(s, i - 1))
		*led_mark(qp, s->first + i - 1) |= LED_MARK_SIGNAL;
	if (!atomic_load(&qp->sq.marks_used))
		led_carriers_each(qp);
	qp->marked++;
	s->out->delivered++;
}

/* Clears the marks that an earlier move left, except that what ran stays so. */
static void unmark_all(const struct sp_qp *qp)
{
	for (uint32_t n = led_tail(qp); n != led_tail(qp) + qp->sq.mask + 1; n++)
		*led_mark(qp, n) &= LED_MARK_DELIVERED;
}

static void mark_all(const struct settle *s)
{
	uint32_t i = led_tail(s->qp) - s->first;

	unmark_all(s->qp);
	s->qp->marked = 0;
	for (; i < s->n; i++) {
		if (is_done(s, i)) {
			deliver_later(s, i);
			continue;
		}
		s->out->resent++;
		s->out->resent_bytes += led_length(&led_slot(s->qp, s->first + i)->wr);
	}
	if (s->qp->marked)
		led_marked_link(s->qp);
	led_cq_refresh(s->qp->scq);
}

/* Makes `to` the active carrier: everything that was posted before is complete, or waits for it. */
static void settle_switch(const struct settle *s)
{
	struct sp_qp *qp = s->qp;

	for (struct sp_carrier *c = qp->carriers; c; c = c->next) {
		if (c->epoch >= s->to->epoch)
			continue;
		led_carrier_seal(c);
		c->left = true;
		led_unlive(c->sring, &c->sring_live);
		led_unlive(c->rring, &c->rring_live);
	}
	qp->tx = s->to;
	qp->tx->first = led_tail(qp);
	qp->tx_mode &= LED_FAILED | LED_GATE | LED_WRITES | LED_HOME | LED_TELL;
	qp->tx_mode |= LED_XLAT;
	atomic_store(&qp->sq.pub, led_tail(qp));
	qp->sq.owed = s->first + s->n;
	qp->sq.owes = qp->sq.owed != led_tail(qp);
	led_psn_begin(qp, s->to);
	atomic_store(&qp->withheld, false);
	led_live(s->to->sring, &s->to->sring_live);
}

/*
 * Hands over again what had been posted, whatever the modes say; what waited behind it obeys them.
 */
static int settle_again(const struct settle *s)
{
	struct sp_qp *qp = s->qp;
	uint32_t end = s->first + s->n, mode = qp->tx_mode & LED_WRITES, done;
	int err = 0;

	qp->tx_mode &= ~LED_WRITES;
	if (s->out->resent)
		err = led_hand_over(qp, qp->tx, s->out->resent, &done);
	qp->tx_mode |= mode;
	if (err)
		return err;
	if ((int32_t)(end - led_pub(qp)) > 0) { /* the last ones are delivered */
		qp->sq.psn.ahead -= end - led_pub(qp);
		atomic_store(&qp->sq.pub, end);
	}
	qp->sq.owes = false;
	return 0;
}

static void settle_publish(const struct settle *s)
{
	struct sp_qp *qp = s->qp;
	uint32_t end = s->first + s->n;
	int err = settle_again(s);

	if (err)
		qp->tx_mode |= LED_RETRY;
	else
		err = led_go(qp);
	if (err)
		qp->dev->cb->key_missing(qp->cookie);
	s->out->published = (int32_t)(led_pub(qp) - end) > 0 ? led_pub(qp) - end : 0;
}

static void settle_all(const struct settle *s)
{
	bring_answers(s);
	deliver_leading(s);
	mark_all(s);
	settle_switch(s);
	settle_publish(s);
}

int led_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates, uint32_t n,
		  struct sp_settled *out)
{
	struct settle s = { .qp = qp, .to = to, .fates = fates, .n = n, .out = out };
	int err;

	memset(out, 0, sizeof(*out));
	do {
		err = led_backlog_reserve(qp->scq, n);
		if (err)
			return err;
		led_qp_lock(qp);
		s.first = led_tail(qp);
		if (to == qp->tx || n != led_given(qp) - s.first)
			err = -EINVAL;
		else if (!led_backlog_has(qp->scq, n))
			err = -EAGAIN; /* a collect took the room first */
		if (!err)
			err = settle_check(&s);
		if (!err)
			settle_all(&s);
		led_qp_unlock(qp);
	} while (err == -EAGAIN);
	return err;
}
