/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posting receives (ibv_post_recv): each is logged, and handed on with the application's wr_id, as
 * receives complete in order.
 */
#include <stdlib.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/recv.h"

void led_rq_free(struct led_rq *rq)
{
	free(rq->slots);
	free(rq->sges);
}

/*
 * Spare slots, behind what may be posted and behind the ring's last: a post that writes slots in
 * pairs finds room for the second, or a slot that nobody uses.
 */
enum { LED_RECV_SPARE = 2 };

/* Moves the head to number n. The next post asks whether there is room. */
void led_recvs_at(struct led_rq *rq, uint32_t n)
{
	rq->at = rq->last = led_recv_slot(rq, n);
	rq->shut = true;
}

int led_rq_alloc(struct led_rq *rq, const struct ibv_qp_cap *cap)
{
	uint32_t n = 1;

	while (n < cap->max_recv_wr + LED_RECV_SPARE)
		n *= 2;
	rq->mask = n - 1;
	rq->max_post = cap->max_recv_wr;
	rq->max_sge = cap->max_recv_sge;
	rq->slots = calloc(n + LED_RECV_SPARE, sizeof(*rq->slots));
	if (rq->max_sge > 1)
		rq->sges = calloc((size_t)n * rq->max_sge, sizeof(*rq->sges));
	if (!rq->slots || (rq->max_sge > 1 && !rq->sges)) {
		led_rq_free(rq);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		rq->slots[i].num_sge = 1;
	led_recvs_at(rq, 0);
	return 0;
}

/* -- to the provider --------------------------------------------------------------------------- */

/*
 * A key whose region is gone is replaced by one that names nothing: harmless until a message comes
 * to that receive, which fails then, as on stock. shell: may the shell be asked?
 */
static int translate(struct sp_qp *qp, const struct sp_carrier *c, uint32_t n,
		     struct ibv_recv_wr *out, struct ibv_sge *sges, bool shell)
{
	const struct led_recv *r = led_recv_slot(&qp->rq, n);
	const struct sp_callbacks *cb = qp->dev->cb;

	*out = (struct ibv_recv_wr){ .wr_id = r->wr_id, .sg_list = sges, .num_sge = r->num_sge };
	memcpy(sges, led_recv_sges(&qp->rq, n), (size_t)r->num_sge * sizeof(*sges));
	for (int i = 0; i < r->num_sge; i++) {
		if (!c->xlat || !sges[i].length ||
		    !cb->lkey(qp->cookie, c->epoch, sges[i].lkey, &sges[i].lkey))
			continue;
		if (!shell || !cb->lkey_gone(qp->cookie, sges[i].lkey))
			return -ENOENT;
		sges[i].lkey = SP_NO_KEY;
	}
	return 0;
}

/* Checks that all keys of what is outstanding are known there. */
int led_recvs_check(struct sp_qp *qp, struct sp_carrier *to)
{
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_recv_wr wr;

	for (uint32_t i = atomic_load(&qp->rq.tail); i != led_recv_head(&qp->rq); i++)
		if (translate(qp, to, i, &wr, sges, true))
			return -ENOENT;
	return 0;
}

/* Hands receives over one by one: the way after a move, or with a key that comes late. */
static int hand_over(struct sp_qp *qp, bool shell)
{
	struct sp_carrier *c = qp->rx;
	struct ibv_sge sges[LED_MAX_SGE];
	struct ibv_recv_wr wr, *bad;
	int err = 0;

	for (; !err && qp->rq.pub != led_recv_head(&qp->rq); qp->rq.pub += !err) {
		err = translate(qp, c, qp->rq.pub, &wr, sges, shell);
		if (!err)
			err = c->dev->saved.post_recv(c->real, &wr, &bad);
	}
	return err;
}

/* Holds receives in the ledger from here on. rq_lock held. */
void led_recvs_hold(struct sp_qp *qp, uint32_t mode)
{
	qp->rq.pub = led_recv_pub(qp);
	led_recvs_at(&qp->rq, led_recv_head(&qp->rq));
	qp->rx_mode |= mode;
}

/* Hands over what waits. rq_lock held; something waits, or has waited. */
int led_recvs_go(struct sp_qp *qp, bool shell)
{
	int err;

	if (qp->srq || (qp->rx_mode & (LED_HOLD | LED_FAILED)))
		return 0;
	qp->rx_mode |= LED_RETRY;
	err = hand_over(qp, shell);
	if (!err)
		qp->rx_mode &= ~LED_RETRY;
	return err;
}

/* -- posts ------------------------------------------------------------------------------------- */

LED_INLINE void put(struct led_rq *rq, uint32_t n, const struct ibv_recv_wr *wr)
{
	struct led_recv *r = led_recv_slot(rq, n);

	r->wr_id = wr->wr_id;
	r->num_sge = wr->num_sge;
	rq->odd |= wr->num_sge != 1;
	memcpy((struct ibv_sge *)led_recv_sges(rq, n), wr->sg_list,
	       (size_t)wr->num_sge * sizeof(*wr->sg_list));
}

/* Writes all receives that there is room for; *to is behind them. */
static int put_list(struct led_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		    uint32_t *to)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);
	uint32_t limit = tail + rq->max_post;
	int err = 0;

	for (; wr; wr = wr->next, ++*to) {
		if (led_unlikely(*to == limit))
			err = ENOMEM;
		else if (led_unlikely((uint32_t)wr->num_sge > rq->max_sge))
			err = EINVAL;
		if (led_unlikely(err)) {
			*bad = wr;
			break;
		}
		put(rq, *to, wr);
	}
	return err;
}

/*
 * Opens the slots from number n on, up to the end of the ring: the next posts need not ask for
 * room.
 */
static void open_room(struct led_rq *rq, uint32_t n)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);
	uint32_t room = tail + rq->max_post - n, left = rq->mask + 1 - (n & rq->mask);

	if (!rq->max_sge || !room)
		return;
	if (room > left)
		room = left;
	rq->shut = false;
	rq->at = led_recv_slot(rq, n);
	rq->last = rq->at + room - 1;
	for (uint32_t i = 0; i < room && rq->odd; i++)
		rq->at[i].num_sge = 1;
}

static struct ibv_recv_wr *nth(struct ibv_recv_wr *wr, uint32_t n)
{
	while (n--)
		wr = wr->next;
	return wr;
}

/*
 * Hands over n receives of the application's list, one by one: the provider may not look at the
 * others. *done: how many it took.
 */
static int hand_some(struct sp_qp *qp, const struct ibv_recv_wr *wr, uint32_t n, uint32_t *done)
{
	struct ibv_recv_wr one, *bad;
	int err = 0;

	for (*done = 0; *done < n && !err; *done += !err, wr = wr->next) {
		one = *wr;
		one.next = NULL;
		err = qp->rq.post(qp->ibv, &one, &bad);
	}
	return err;
}

/* Hands over what was written from head up to `to`. rq_lock held. */
static int post_some(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		     uint32_t from, uint32_t to, int err)
{
	uint32_t done;
	int refusal = hand_some(qp, wr, to - from, &done);

	if (refusal) {
		*bad = nth(wr, done);
		err = refusal;
	}
	led_recvs_at(&qp->rq, from + done);
	if (!err)
		open_room(&qp->rq, from + done);
	return err;
}

/* rq_lock held. */
static int post_later(struct sp_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		      uint32_t from, uint32_t to, int err)
{
	int late = 0;

	led_recvs_at(&qp->rq, to);
	if (qp->rx_mode & LED_FAILED)
		led_backlog_event(qp->rcq, true);
	else if (!(qp->rx_mode & LED_RETRY))
		late = led_recvs_go(qp, false);
	/* refused by a NIC that works: the application's error */
	if (late > 0 && !led_error_seen(qp->rx) && (int32_t)(qp->rq.pub - from) >= 0) {
		*bad = nth(wr, qp->rq.pub - from);
		led_recvs_at(&qp->rq, qp->rq.pub);
		qp->rx_mode &= ~LED_RETRY;
		err = late;
	} else if (late) {
		qp->dev->cb->key_missing(qp->cookie);
	}
	return err;
}

/* Called with rq_lock and nothing written; drops it. */
static LED_HOT int post_others(struct sp_qp *qp)
{
	struct ibv_recv_wr *wr = qp->rq.posting, **bad = qp->rq.bad;
	uint32_t from = led_recv_head(&qp->rq), to = from;
	int err = put_list(&qp->rq, wr, bad, &to);

	if (qp->rx_mode)
		err = post_later(qp, wr, bad, from, to, err);
	else
		err = post_some(qp, wr, bad, from, to, err);
	sp_unlock(&qp->rq_lock);
	return err;
}

/* Takes back what the provider refused, from rq.bad on. Drops rq_lock. */
static LED_NOINLINE int undo_refused(struct sp_qp *qp, int err)
{
	const struct ibv_recv_wr *wr = qp->rq.posting, *bad = *qp->rq.bad;
	uint32_t n = 0, done = 0;

	for (; wr; wr = wr->next, n++)
		if (wr == bad)
			done = n;
	*qp->rq.bad = nth(qp->rq.posting, done); /* a provider that did not say took none */
	led_recvs_at(&qp->rq, led_recv_head(&qp->rq) - (n - done));
	sp_unlock(&qp->rq_lock);
	return err;
}

static LED_NOINLINE int post_late(struct sp_qp *qp, struct ibv_recv_wr *wr,
				  struct ibv_recv_wr **bad)
{
	sp_lock_wait(&qp->rq_lock);
	qp->rq.posting = wr;
	qp->rq.bad = bad;
	return post_others(qp);
}

LED_INLINE void log_one(struct led_recv *r, const struct ibv_recv_wr *wr)
{
	r->wr_id = wr->wr_id;
	r->sge = wr->sg_list[0];
}

/*
 * Ends a list that reaches to the last slot, or beyond. True: there was room, and all have their
 * slot.
 */
static LED_NOINLINE bool log_last(struct led_rq *rq, const struct led_recv *behind, bool more)
{
	if (rq->shut || behind != rq->last + 1 || more)
		return false;
	led_recvs_at(rq, (uint32_t)(behind - rq->slots));
	return true;
}

/* Logs a list in pairs, as looking for room costs. False: not all were written; ask put_list(). */
LED_INLINE bool log_list(struct led_rq *rq, const struct ibv_recv_wr *wr)
{
	const int64_t one = sizeof(struct led_recv);
	char *end = (char *)(rq->last + 1);
	/* negative, so that reaching the end costs no comparison */
	int64_t at = (char *)rq->at - end;

	while (led_likely(wr->num_sge == 1)) {
		log_one((struct led_recv *)(end + at), wr);
		wr = wr->next;
		if (!wr) {
			at += one;
			break;
		}
		if (led_unlikely(wr->num_sge != 1))
			return false;
		log_one((struct led_recv *)(end + at + one), wr);
		wr = wr->next;
		at += 2 * one;
		if (led_unlikely(at >= 0))
			break;
		if (!wr)
			break;
	}
	if (led_unlikely(at >= 0))
		return log_last(rq, (struct led_recv *)(end + at), wr);
	if (led_unlikely(wr))
		return false;
	rq->at = (struct led_recv *)(end + at);
	return true;
}

/* Posting nothing is no error. */
static LED_NOINLINE int post_none(void)
{
	return 0;
}

/* Hands on what was logged as it is: the provider gives the application's own wr_id back. */
LED_INLINE int post_logged(struct sp_qp *qp, struct ibv_qp *ibv, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad)
{
	int err = qp->rq.post(ibv, wr, bad);

	if (led_unlikely(err))
		return undo_refused(qp, err);
	sp_unlock(&qp->rq_lock);
	__asm__("" : "+r"(err)); /* err is 0 already: without this, the compiler makes another 0 */
	return err;
}

static LED_HOT int post_list(struct sp_qp *qp)
{
	if (led_unlikely(!log_list(&qp->rq, qp->rq.posting)))
		return post_others(qp);
	return post_logged(qp, qp->ibv, qp->rq.posting, qp->rq.bad);
}

int led_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sp_qp *qp = led_qp_of(ibv);
	struct led_recv *r;

	if (led_unlikely(!qp))
		return led_dev_of(ibv->context)->saved.post_recv(ibv, wr, bad);
	if (led_unlikely(!wr))
		return post_none();
	if (led_unlikely(!sp_trylock(&qp->rq_lock)))
		return post_late(qp, wr, bad);
	qp->rq.posting = wr;
	qp->rq.bad = bad;
	if (wr->next || led_unlikely(wr->num_sge != 1))
		return post_list(qp);
	r = qp->rq.at;
	if (led_unlikely(r == qp->rq.last)) /* r may be shut */
		return post_list(qp);
	log_one(r, wr);
	qp->rq.at++;
	return post_logged(qp, ibv, wr, bad);
}
