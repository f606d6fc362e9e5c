/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Handing over: requests of the ledger go to the provider of the active carrier, with that
 * carrier's keys. Requests that may not run yet stay in the ledger.
 */
#include <stdlib.h>

#include "providers/ledger/log.h"
#include "providers/ledger/psn.h"
#include "providers/ledger/recv.h"
#include "providers/ledger/send.h"

/* True if posts go straight to the provider. */
bool led_tx_direct(const struct sp_qp *qp)
{
	return !(qp->tx_mode & ~(LED_XLAT | LED_WIDE | LED_LOG | LED_TELL));
}

/* -- keys -------------------------------------------------------------------------------------- */

static uint32_t *rkey_of(struct ibv_send_wr *wr)
{
	switch ((int)wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ: return &wr->wr.rdma.rkey;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return &wr->wr.atomic.rkey;
	default: return NULL;
	}
}

/* The key of a request that moves nothing is not looked at (IBA). */
static int translate_rkey(struct sp_qp *qp, const struct sp_carrier *c, struct ibv_send_wr *wr)
{
	uint32_t *rkey = rkey_of(wr);

	if (!rkey || !qp->dev->cb->rkey(qp->cookie, c->epoch, *rkey, rkey))
		return 0;
	return led_kind(wr->opcode) != SP_REQ_ATOMIC && !led_length(wr) ? 0 : -ENOENT;
}

/* Allocates the SGEs that a batch of requests with translated keys may need. */
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

/*
 * Builds request n as the carrier's NIC takes it. -ENOENT: a key is missing. -EOPNOTSUPP: the
 * request can run on its own NIC only.
 */
int led_translate_send(struct sp_qp *qp, struct sp_carrier *c, uint32_t n, struct ibv_send_wr *out,
		       struct ibv_sge *sges)
{
	const struct ibv_send_wr *wr = &led_slot(qp, n)->wr;
	uint8_t mark = *led_mark(qp, n);

	if (mark & LED_MARK_WIDE)
		return -EOPNOTSUPP;
	memcpy(out, wr, offsetof(struct ibv_send_wr, qp_type));
	out->sg_list = sges;
	if (mark & LED_MARK_SIGNAL)
		out->send_flags |= IBV_SEND_SIGNALED;
	memcpy(sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*sges));
	for (int i = 0; i < wr->num_sge && !(wr->send_flags & IBV_SEND_INLINE); i++)
		if (sges[i].length &&
		    qp->dev->cb->lkey(qp->cookie, c->epoch, sges[i].lkey, &sges[i].lkey))
			return -ENOENT;
	return translate_rkey(qp, c, out);
}

/* -- handing over ------------------------------------------------------------------------------ */

enum { LOGGED = LED_BATCH / 2 }; /* requests of a batch where a log WQE may lie behind each */

struct batch {
	struct ibv_send_wr wr[LED_BATCH];
	/* number of the request, or of the request behind the log WQE */
	uint32_t number[LED_BATCH];
	uint32_t n;
	struct led_log_data log[LOGGED];
};

/* True if the request completes without being posted. */
static bool passed_over(const struct sp_qp *qp, uint32_t n)
{
	return *led_mark(qp, n) & LED_MARK_DELIVERED;
}

/*
 * Returns the next request that is to be posted. Requests passed over are never left in front of
 * others, which lose their mark when they complete.
 */
static uint32_t next_to_post(const struct sp_qp *qp, uint32_t n)
{
	while (n != qp->sq.head && passed_over(qp, n))
		n++;
	return n;
}

static bool tells_of_writes(const struct sp_qp *qp, uint32_t n)
{
	enum sp_request_kind kind = led_kind_of(qp, n);

	return kind != SP_REQ_WRITE && kind != SP_REQ_LOCAL;
}

bool led_must_ask(const struct sp_qp *qp, uint32_t n)
{
	return (qp->tx_mode & LED_HOME) && led_kind_of(qp, n) == SP_REQ_ATOMIC;
}

static int as_it_is(struct sp_qp *qp, uint32_t n, struct ibv_send_wr *out)
{
	const struct ibv_send_wr *slot = &led_slot(qp, n)->wr;

	if (*led_mark(qp, n) & LED_MARK_WIDE)
		*out = qp->sq.wide[n & qp->sq.mask];
	else
		memcpy(out, slot, offsetof(struct ibv_send_wr, qp_type));
	out->sg_list = slot->sg_list;
	out->num_sge = slot->num_sge;
	return 0;
}

/* Returns how many of the batch that the provider took are not the log's. */
static uint32_t batch_requests(const struct sp_qp *qp, const struct batch *b)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < b->n; i++)
		count += !led_log_is(qp, b->wr[i].wr_id);
	return count;
}

/*
 * Fills a batch with up to max requests from *at on, which is moved behind them. Returns the error
 * of the first that cannot go.
 */
LED_INLINE int batch_fill(struct sp_qp *qp, struct sp_carrier *c, uint32_t *at, uint32_t max,
			  struct batch *b)
{
	uint32_t stride = qp->sq.max_sge > LED_SLOT_SGES ? qp->sq.max_sge : LED_SLOT_SGES;
	int err = 0;

	*at = next_to_post(qp, *at);
	for (b->n = 0; b->n < max && b->n < LED_BATCH && *at != qp->sq.head;) {
		struct ibv_send_wr *wr = &b->wr[b->n];

		if ((qp->tx_mode & LED_WRITES) && tells_of_writes(qp, *at))
			err = -EPROTO;
		else if (led_must_ask(qp, *at))
			err = -EACCES;
		else if (c->xlat)
			err = led_translate_send(qp, c, *at, wr, &qp->sq.scratch[b->n * stride]);
		else
			err = as_it_is(qp, *at, wr);
		if (err)
			break;
		wr->next = NULL;
		if (b->n)
			wr[-1].next = wr;
		b->number[b->n++] = *at;
		*at = next_to_post(qp, *at + 1);
	}
	return err;
}

/*
 * Puts a log WQE behind request i of the batch, at place `to`. behind: the number of the next
 * request.
 */
static void batch_log(struct sp_carrier *c, struct batch *b, uint32_t i, uint32_t to,
		      uint32_t behind)
{
	led_log_put(c, b->number[i], &b->wr[to], &b->log[i]);
	b->number[to] = behind;
}

/*
 * Fills a batch with log WQEs among the requests, so with half as many: what was filled in makes
 * place for them from the end. Apart from batch_fill(), which should not pay for it.
 */
static LED_HOT int batch_fill_logged(struct sp_qp *qp, struct sp_carrier *c, uint32_t *at,
				     uint32_t max, struct batch *b)
{
	int err = batch_fill(qp, c, at, max < LOGGED ? max : LOGGED, b);
	uint32_t n, to = b->n, behind = *at;
	bool due[LOGGED];

	for (n = 0; n < b->n; n++)
		to += due[n] = led_log_due(c, led_kind_of(qp, b->number[n]));
	b->n = to;
	while (n--) {
		if (due[n])
			batch_log(c, b, n, --to, behind);
		behind = b->number[n];
		b->wr[--to] = b->wr[n];
		b->number[to] = behind;
	}
	for (n = 0; n < b->n; n++)
		b->wr[n].next = n + 1 < b->n ? &b->wr[n + 1] : NULL;
	return err;
}

/*
 * A recall may have put more back than a queue takes. Some providers would take more than they
 * promised, but completion queues are as long as the promise.
 */
static uint32_t room_there(const struct sp_qp *qp)
{
	uint32_t used = led_pub(qp) - led_tail(qp);

	return used < qp->sq.max_post ? qp->sq.max_post - used : 0;
}

/* Marks the requests, of those that the provider took, behind which log WQEs lie. */
static void batch_mark(const struct sp_qp *qp, const struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (led_log_is(qp, b->wr[i].wr_id))
			*led_mark(qp, b->number[i - 1]) |= LED_MARK_LOGGED;
		else
			*led_mark(qp, b->number[i]) &= (uint8_t)~LED_MARK_LOGGED;
}

/*
 * Counts the packets of what the provider took. at: the request up to which the ledger is handed
 * over.
 */
LED_INLINE void batch_count(struct sp_qp *qp, const struct batch *b, uint32_t at)
{
	struct led_psn *psn = &qp->sq.psn;

	if (!psn->on)
		return;
	psn->ahead -= at - led_pub(qp) - b->n;
	for (uint32_t i = 0; i < b->n; i++)
		psn->ahead += led_more_packets_of(psn, &b->wr[i]);
}

/* logged: a constant. */
LED_INLINE int hand_over(struct sp_qp *qp, struct sp_carrier *c, uint32_t max, uint32_t *done,
			 bool logged)
{
	struct ibv_send_wr *bad;
	struct batch b;
	int err = 0, refused;
	uint32_t at, room;

	*done = 0;
	while (!err && *done < max && led_pub(qp) != qp->sq.head) {
		at = led_pub(qp);
		bad = NULL;
		room = room_there(qp);
		if (!room)
			return ENOMEM;
		room = room < max - *done ? room : max - *done;
		err = logged ? batch_fill_logged(qp, c, &at, room, &b)
			     : batch_fill(qp, c, &at, room, &b);
		refused = b.n ? c->dev->saved.post_send(c->real, b.wr, &bad) : 0;
		if (refused) {
			b.n = bad ? (uint32_t)(bad - b.wr) : 0;
			at = b.number[b.n];
			err = refused;
		}
		if (refused && logged)
			led_log_missed(c);
		if (logged)
			batch_mark(qp, &b);
		batch_count(qp, &b, at);
		*done += logged ? batch_requests(qp, &b) : b.n;
		SP_ASSERT((int32_t)(qp->sq.head - at) >= 0);
		atomic_store_explicit(&qp->sq.pub, at, memory_order_relaxed);
		if ((int32_t)(qp->sq.owed - at) <= 0)
			qp->sq.owes = false;
	}
	return err;
}

static LED_HOT int hand_over_logged(struct sp_qp *qp, struct sp_carrier *c, uint32_t max,
				    uint32_t *done)
{
	return hand_over(qp, c, max, done, true);
}

/*
 * Hands up to max withheld requests to the carrier, in order. sq_lock held. 0, or why not all went:
 * an errno, the provider's or for want of room (positive), -ENOENT, -EOPNOTSUPP, -EPROTO. *done:
 * how many the provider took.
 */
int led_hand_over(struct sp_qp *qp, struct sp_carrier *c, uint32_t max, uint32_t *done)
{
	if (led_unlikely(c->log.on))
		return hand_over_logged(qp, c, max, done);
	return hand_over(qp, c, max, done, false);
}

/*
 * Returns how many requests lie before the end of the first signaled one that waits; UINT32_MAX if
 * there is none. What is owed comes first: behind a fence nothing may be left that has run.
 */
static uint32_t to_next_signaled(const struct sp_qp *qp)
{
	uint32_t n = led_given(qp);

	while (n != qp->sq.head && !led_completes(qp, n))
		n++;
	return n == qp->sq.head ? UINT32_MAX : n + 1 - led_pub(qp);
}

static void fence_if_reached(struct sp_qp *qp, uint32_t done)
{
	if (!done || qp->sq.owes || !led_completes(qp, led_pub(qp) - 1))
		return;
	qp->tx_mode &= ~LED_FENCE_NEXT;
	qp->tx_mode |= LED_FENCE;
}

/* Hands over as much as is allowed. sq_lock held. */
int led_go_some(struct sp_qp *qp, uint32_t max)
{
	bool fence = qp->tx_mode & LED_FENCE_NEXT;
	uint32_t done, most = fence ? to_next_signaled(qp) : max;
	int err;

	if (qp->tx_mode & (LED_HOLD | LED_FENCE | LED_FAILED))
		return 0;
	err = led_hand_over(qp, qp->tx, most < max ? most : max, &done);
	if (fence)
		fence_if_reached(qp, done);
	qp->tx_mode &= ~LED_RETRY;
	if (err)
		qp->tx_mode |= LED_RETRY;
	return err;
}

int led_go(struct sp_qp *qp)
{
	return qp->tx_mode & LED_GATE ? 0 : led_go_some(qp, UINT32_MAX);
}

/* Returns the error for the shell, which asks a provider that refuses now again. */
static int error_for_shell(int err)
{
	return err > 0 ? -EAGAIN : err;
}

int led_qp_publish(struct sp_qp *qp)
{
	int err, recv_err = 0;

	led_qp_lock(qp);
	err = led_go(qp);
	if ((qp->rx_mode & LED_RETRY) && !(qp->rx_mode & (LED_HOLD | LED_FAILED)))
		recv_err = led_recvs_go(qp, true);
	led_qp_unlock(qp);
	return error_for_shell(recv_err ? recv_err : err);
}

int led_qp_resume(struct sp_qp *qp)
{
	int err, recv_err = 0;

	led_qp_lock(qp);
	atomic_store(&qp->withheld, false);
	qp->tx_mode &= ~(LED_HOLD | LED_FENCE | LED_FENCE_NEXT);
	err = led_go(qp);
	if (qp->rx_mode & LED_HOLD) {
		qp->rx_mode &= ~LED_HOLD;
		recv_err = led_recvs_go(qp, true);
	}
	led_qp_unlock(qp);
	return error_for_shell(recv_err ? recv_err : err);
}
