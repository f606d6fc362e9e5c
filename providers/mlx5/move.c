/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move from one carrier to another: withhold, flushed, seal, lay receives, settle; or fail.
 * Called by the shell. Everything of the QP stands still meanwhile (ring_qp_lock).
 */
#include <stdlib.h>

#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/srq.h"
#include "providers/mlx5/xlat.h"

/* -- the marker ------------------------------------------------------------------------------- */

static bool error_seen(const struct sp_carrier *c)
{
	return atomic_load(&c->err_mode) != RING_ERR_NONE;
}

/*
 * A hidden NOP behind the last request ends a flush that would leave no trace: acknowledged but
 * unsignaled requests leave no completion. And a QP with nothing outstanding has nothing to flush,
 * so nothing would tell a NIC that went to ERR from one that only said so and goes on executing
 * what the peer sends: the NOP's flush does.
 */
static bool marker_proves(const struct sp_qp *qp, const struct sp_carrier *c)
{
	return !error_seen(c) && qp->max_post && (c->srq || atomic_load(&c->rq.tail) == c->rq.pub);
}

static bool marker_wanted(const struct sp_qp *qp, struct sp_carrier *c)
{
	if (atomic_load(&c->sq.tail) == c->sq.head)
		return marker_proves(qp, c);
	return !c->sq_err && ring_nop_need(c) == RING_NOP_NEEDED;
}

/*
 * Only once there is no way back to this carrier, and never on the next one: it takes a place that
 * the application paid for. If receives were laid into a carrier and it died before the sends came,
 * the place is on that one, whose send queue is empty.
 */
static void marker_try(struct sp_qp *qp)
{
	bool leaving = (qp->tx_mode & RING_HOLD) && (qp->rx_mode & RING_HOLD);

	if (leaving && !(qp->tx_mode & (RING_FOREIGN | RING_FAILED)) && marker_wanted(qp, qp->rx))
		ring_nop_post(qp->rx);
}

/* -- leave ------------------------------------------------------------------------------------ */

void ring_qp_withhold(struct sp_qp *qp)
{
	/* without memory, posts are refused until the move is over */
	(void)ring_hold_make(qp);
	ring_qp_lock(qp);
	ring_hold_enter(qp);
	atomic_store(&qp->withheld, true);
	if (!(qp->rx_mode & (RING_HOLD | RING_KEYS | RING_XLAT)))
		qp->rx->rq.pub = qp->rx->rq.head;
	qp->tx_mode |= RING_HOLD;
	qp->rx_mode |= RING_HOLD;
	ring_qp_unlock(qp);
}

static bool sealed(const struct sp_carrier *c, enum ring_attn queue)
{
	return atomic_load(&c->attn) & queue;
}

/*
 * A flush begins behind the last good completion of its queue, and in a QP that executes nothing
 * any more. That it began is enough: a CQ that overran may never show its end. A queue that was
 * sealed is out of the question: the receives may lie in a later carrier, which is being left too.
 */
static bool sends_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	bool complete = atomic_load(&c->sq.tail) == c->sq.head;

	return sealed(c, RING_ATTN_SQ_SEALED) ||
	       ((error_seen(c) || !qp->max_post) && (c->sq_err || complete));
}

static bool receives_flushed(const struct sp_qp *qp, const struct sp_carrier *c)
{
	bool complete = atomic_load(&c->rq.tail) == (qp->rx_mode ? c->rq.pub : c->rq.head);

	if (c->srq) /* no flush tells, the last of the queue's WQEs does */
		return sealed(c, RING_ATTN_RQ_SEALED) || atomic_load(&c->last_receive);
	return sealed(c, RING_ATTN_RQ_SEALED) ||
	       ((error_seen(c) || !qp->max_post) && (c->rq_err || complete));
}

/* Whose first error counts: an application's own, wherever it was seen, forbids to go on. */
static const struct sp_carrier *error_of(const struct sp_qp *qp)
{
	enum ibv_wc_status status = atomic_load(&qp->rx->app_status);

	if (!atomic_load(&qp->tx->app_status) ||
	    (status && ring_error_class(status) == SP_ERROR_APPLICATION))
		return qp->rx;
	return qp->tx;
}

void ring_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out)
{
	const struct sp_carrier *err;

	ring_qp_lock(qp);
	if (in_error) /* one in RTR would ignore the doorbell, and one in RTS execute it */
		marker_try(qp);
	err = error_of(qp);
	out->error_seen = error_seen(qp->rx) || sealed(qp->rx, RING_ATTN_RQ_SEALED) ||
			  (!sealed(qp->tx, RING_ATTN_SQ_SEALED) && error_seen(qp->tx));
	out->sq = sends_flushed(qp, qp->tx);
	out->rq = receives_flushed(qp, qp->rx);
	out->recv_count = qp->recv_base + atomic_load(&qp->rx->rq.tail);
	out->status = atomic_load(&err->app_status);
	out->vendor_err = atomic_load(&err->app_vendor);
	ring_qp_unlock(qp);
}

void ring_qp_seal(struct sp_qp *qp)
{
	struct sp_carrier *c;
	uint32_t last;

	ring_qp_lock(qp);
	last = qp->tx->epoch > qp->rx->epoch ? qp->tx->epoch : qp->rx->epoch;
	for (c = qp->carriers; c; c = c->next)
		if (c->epoch <= last)
			atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	ring_qp_unlock(qp);
}

/* -- receives --------------------------------------------------------------------------------- */

struct recv_wqe {
	struct mlx5_wqe_data_seg seg[256];
	uint32_t keys[256];
	uint32_t n;
};

/* The entry with the application's keys, and with those of the carrier. */
static int recv_load(struct sp_qp *qp, struct sp_carrier *from, struct sp_carrier *to,
		     uint32_t index, struct recv_wqe *w)
{
	struct ring_rq *rq = &from->rq;
	uint32_t idx = index & rq->mask, wire;
	const uint8_t *at = rq->buf + ((size_t)idx << rq->shift);
	/* what was not published yet has the application's keys still in place */
	bool aside = rq->keys && (int32_t)(index - rq->pub) < 0;

	memcpy(w->seg, at, 1u << rq->shift);
	for (w->n = 0; w->n < rq->max_gs; w->n++) {
		if (be32toh(w->seg[w->n].lkey) == MLX5_INVALID_LKEY)
			break;
		w->keys[w->n] = be32toh(w->seg[w->n].lkey);
		if (aside)
			w->keys[w->n] = *(uint32_t *)(rq->keys + (at - rq->buf) + w->n * 16);
		wire = w->keys[w->n];
		if (to->xlat && qp->dev->cb->lkey(qp->cookie, to->epoch, w->keys[w->n], &wire))
			return -ENOENT;
		w->seg[w->n].lkey = htobe32(wire);
	}
	return 0;
}

static void recv_lay(struct sp_carrier *to, const struct recv_wqe *w, uint64_t wr_id)
{
	struct ring_rq *rq = &to->rq;
	uint32_t idx = rq->head++ & rq->mask;
	struct mlx5_wqe_data_seg *seg = (void *)(rq->buf + ((size_t)idx << rq->shift));

	memcpy(seg, w->seg, w->n * sizeof(*seg));
	for (uint32_t n = 0; rq->keys && n < w->n; n++)
		ring_key_aside(rq->keys_at, (uint8_t *)&seg[n], w->keys[n]);
	if (w->n < rq->max_gs)
		seg[w->n] = (struct mlx5_wqe_data_seg){ .lkey = htobe32(MLX5_INVALID_LKEY) };
	rq->wrid[idx] = wr_id;
}

static int recv_check(struct sp_qp *qp, struct sp_carrier *to)
{
	struct ring_rq *rq = &qp->rx->rq;
	struct recv_wqe w;

	if (!to->xlat || qp->srq)
		return 0;
	for (uint32_t i = atomic_load(&rq->tail); i != rq->head; i++)
		if (recv_load(qp, qp->rx, to, i, &w))
			return -ENOENT;
	return 0;
}

static uint32_t recv_source(uint32_t i, uint32_t tail, uint32_t head)
{
#if SHIFT_MUTANT == 4
	if (head - tail >= 2 && i - tail < 2)
		return tail + 1 - (i - tail);
#endif
	return i;
}

static void recv_move(struct sp_qp *qp, struct sp_carrier *to)
{
	struct sp_carrier *from = qp->rx;
	uint32_t tail = atomic_load(&from->rq.tail), at;
	struct recv_wqe w;

	for (uint32_t i = tail; !qp->srq && i != from->rq.head; i++) {
		at = recv_source(i, tail, from->rq.head);
		(void)recv_load(qp, from, to, at, &w); /* checked: the keys are there */
		recv_lay(to, &w, from->rq.wrid[at & from->rq.mask]);
	}
	/* nothing that the left ring still says counts */
	atomic_fetch_or(&from->attn, RING_ATTN_RQ_SEALED);
	qp->recv_base += tail;
	qp->rx = to;
	qp->rx_mode &= RING_FIRST;
	qp->rx_mode |= to->xlat ? RING_XLAT : 0;
	ring_xlat_forget(&qp->rx_xlat);
	to->rq.pub = to->rq.head;
	ring_live(to->rring, &to->rring_live);
	ring_srq_leave(from);
	ring_srq_join(to);
	ring_to_device_barrier();
	ring_store_record(&to->dbrec[MLX5_RCV_DBR], to->rq.head & 0xffff);
}

int ring_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to)
{
	int err = 0;

	ring_qp_lock(qp);
	if (to != qp->rx) {
		err = recv_check(qp, to);
		if (!err)
			recv_move(qp, to);
	}
	ring_qp_unlock(qp);
	return err;
}

/* -- outstanding sends ------------------------------------------------------------------------ */

/* A request that settle laid as a NOP stands for what it was. */
static void describe(const struct ring_sq *sq, uint32_t slot, bool published, struct sp_request *i)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(sq, slot);

	i->kind = ring_wr_kind(sq, slot);
	i->signaled = ring_ctrl_signaled(ctrl);
	i->send_fence = ring_ctrl_send_fence(ctrl);
	i->published = published;
}

static uint32_t list_queue(const struct ring_sq *sq, bool published, struct sp_request *info,
			   uint32_t have, uint32_t max)
{
	struct ring_walk w;
	int64_t slot;

	if (!sq->buf || !ring_walk_start(&w, sq))
		return have;
	for (; (slot = ring_walk_next(&w)) >= 0; have++)
		if (have < max)
			describe(sq, slot, published, &info[have]);
	return have;
}

uint32_t ring_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max)
{
	uint32_t n;

	ring_qp_lock(qp);
	n = list_queue(&qp->tx->sq, true, info, 0, max);
	n = list_queue(&qp->hold, false, info, n, max);
	ring_qp_unlock(qp);
	return n;
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

/* -- settle ----------------------------------------------------------------------------------- */

struct settle {
	struct sp_qp *qp;
	struct sp_carrier *to;
	const enum sp_fate *fates;
	uint32_t n;
	struct sp_settled *out;
	struct ring_batch batch;
	bool behind_read; /* completions must wait for a READ that runs again */
};

static uint32_t queue_len(const struct ring_sq *sq)
{
	uint32_t count = 0;
	struct ring_walk w;

	if (!ring_walk_start(&w, sq))
		return 0;
	while (ring_walk_next(&w) >= 0)
		count++;
	return count;
}

/* A ring that cannot be read back must not pass for an empty one. */
static bool queues_readable(const struct sp_qp *qp)
{
	struct ring_walk w;

	return ring_walk_start(&w, &qp->tx->sq) &&
	       (!qp->hold.buf || ring_walk_start(&w, &qp->hold));
}

/*
 * PRM, scatter to CQE: where each request has a completion, a NIC may put what a small READ brings into
 * that instead of its buffers. Such a READ is executed, as a request with a fence behind it was; but
 * if the completion is lost, so are its bytes.
 */
static bool lost_with_its_completion(const struct settle *s, const struct ring_sq *sq,
				     uint32_t slot, const struct ring_wqe *app)
{
	return s->qp->sig_bits && ring_wr_kind(sq, slot) == SP_REQ_READ &&
	       ring_wqe_data_len(app) <= RING_CQE_DATA;
}

/* Are all keys of what will be laid known on the new carrier? Can the rest be completed? */
static int settle_check(struct settle *s, const struct ring_sq *sq, bool by_fate)
{
	struct ring_wqe app, wire;
	struct ring_walk w;
	int64_t slot;
	int err;

	if (!sq->buf || !ring_walk_start(&w, sq))
		return 0;
	for (uint32_t i = 0; (slot = ring_walk_next(&w)) >= 0; i++) {
		ring_wqe_load(sq, slot, s->qp->type, &app);
		if (by_fate && s->fates[i] == SP_FATE_DELIVERED) {
			if (lost_with_its_completion(s, sq, slot, &app))
				return -EIO;
			continue;
		}
		err = ring_wqe_translate(s->to, &app, &wire);
		if (err)
			return err;
	}
	return 0;
}

static uint8_t original_opcode(const struct ring_sq *sq, uint32_t slot)
{
	return sq->wr_data[slot] ? sq->wr_data[slot] : ring_ctrl_opcode(ring_sq_ctrl(sq, slot));
}

/* Complete it in software, as the NIC would have: unsignaled ones leave no trace. */
static void deliver(struct settle *s, const struct ring_sq *sq, uint32_t slot)
{
	struct sp_qp *qp = s->qp;
	struct ring_comp comp = { .wr_id = sq->wrid[slot], .qpn = qp->app_qpn };
	struct ring_entry soft;
	struct ring_wqe wqe;

	if (!ring_ctrl_signaled(ring_sq_ctrl(sq, slot)))
		return;
	comp.op = original_opcode(sq, slot);
	ring_soft_make(&soft, qp, MLX5_CQE_REQ, comp.op, IBV_WC_SUCCESS, 0);
	ring_wqe_load(sq, slot, qp->type, &wqe);
	soft.cqe.byte_cnt = htobe32(ring_wqe_data_len(&wqe));
	comp.cqe = &soft.cqe;
	ring_backlog_push(qp->scq, qp, &comp);
}

/* Delivered, but its completion has to come after a READ that is laid again: lay a NOP. */
static void lay_nop(struct settle *s, const struct ring_sq *sq, uint32_t slot)
{
	struct ring_wqe nop = { .ds = 1, .bbs = 1 };
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)nop.bytes;

	if (!ring_ctrl_signaled(ring_sq_ctrl(sq, slot)))
		return;
	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	ring_lay(s->to, &nop, &nop, sq->wrid[slot], original_opcode(sq, slot), &s->batch);
}

/* How many bytes of data it moves. */
static uint32_t lay_again(struct settle *s, const struct ring_sq *sq, uint32_t slot)
{
	struct ring_wqe app, wire;

	ring_wqe_load(sq, slot, s->qp->type, &app);
	(void)ring_wqe_translate(s->to, &app, &wire); /* checked */
	ring_lay(s->to, &app, &wire, sq->wrid[slot], sq->wr_data[slot], &s->batch);
	return ring_wqe_data_len(&app);
}

static void settle_one(struct settle *s, const struct ring_sq *sq, uint32_t slot, enum sp_fate fate)
{
	switch (fate) {
	case SP_FATE_DELIVERED:
		if (s->behind_read)
			lay_nop(s, sq, slot);
		else
			deliver(s, sq, slot);
		s->out->delivered++;
		break;
	case SP_FATE_READ_AGAIN: s->behind_read = true; /* fall through */
	case SP_FATE_RESEND:
		s->out->resent_bytes += lay_again(s, sq, slot);
		s->out->resent++;
		break;
	}
}

/* Everything that was posted now lies in the new carrier, or is complete. */
static void settle_switch(struct settle *s)
{
	struct sp_qp *qp = s->qp;
	struct sp_carrier *c;

	for (c = qp->carriers; c; c = c->next) {
		if (c->epoch >= s->to->epoch)
			continue;
		atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
		c->left = true;
		ring_unlive(c->sring, &c->sring_live);
		ring_unlive(c->rring, &c->rring_live);
	}
	ring_qp_progressed(qp);
	qp->tx->sq_counted = qp->tx->sq.head;
	atomic_store(&qp->tx->sq.tail, qp->tx->sq.head);
	qp->tx = s->to;
	qp->tx_mode &= RING_FIRST | RING_FAILED | RING_GATE;
	qp->tx_mode |= s->to->xlat ? RING_XLAT : 0;
	ring_xlat_forget(&qp->tx_xlat);
	atomic_store(&qp->withheld, false);
	if (ring_tx_direct(qp))
		ring_hold_exit(qp);
	ring_live(s->to->sring, &s->to->sring_live);
	if (s->batch.nreq)
		ring_doorbell(s->to, &s->batch);
}

static void settle_all(struct settle *s)
{
	struct sp_qp *qp = s->qp;
	struct ring_walk w;
	int64_t slot;

	ring_walk_start(&w, &qp->tx->sq);
	for (uint32_t i = 0; (slot = ring_walk_next(&w)) >= 0; i++)
		settle_one(s, &qp->tx->sq, slot, s->fates[i]);
	while (ring_hold_len(qp) && !(qp->tx_mode & RING_GATE)) {
		lay_again(s, &qp->hold, qp->hold.tail_post & qp->hold.mask);
		ring_hold_pop(qp);
		s->out->published++;
	}
	settle_switch(s);
}

int ring_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates, uint32_t n,
		   struct sp_settled *out)
{
	struct settle s = { .qp = qp, .to = to, .fates = fates, .n = n, .out = out };
	int err;

	memset(out, 0, sizeof(*out));
	do {
		err = ring_backlog_reserve(qp->scq, n);
		if (err)
			return err;
		ring_qp_lock(qp);
		if (to == qp->tx || !queues_readable(qp) || n != queue_len(&qp->tx->sq))
			err = -EINVAL;
		else if (!ring_backlog_has(qp->scq, n))
			err = -EAGAIN; /* a drain was quicker */
		if (!err)
			err = settle_check(&s, &qp->tx->sq, true);
		if (!err)
			err = settle_check(&s, &qp->hold, false);
		if (!err)
			settle_all(&s);
		ring_qp_unlock(qp);
	} while (err == -EAGAIN);
	return err;
}

/* -- fail ------------------------------------------------------------------------------------- */

static void fail_queues(struct sp_qp *qp)
{
	struct ring_sq *sq = &qp->tx->sq;

	(void)ring_sq_find(sq, atomic_load(&sq->tail), &sq->tail_post);
	qp->tx_mode = qp->rx_mode = RING_FAILED;
	qp->tx_failed.next = qp->scq->failed_tx;
	qp->scq->failed_tx = qp;
	qp->rx_failed.next = qp->rcq->failed_rx;
	qp->rcq->failed_rx = qp;
	qp->tx_failed.on = qp->rx_failed.on = true;
	ring_cq_refresh_slow(qp->scq);
	ring_cq_refresh_slow(qp->rcq);
}

void ring_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		  uint32_t n_delivered)
{
	struct sp_carrier *c;

	(void)ring_hold_make(qp); /* without memory, later posts are refused */
	ring_qp_lock(qp);
	for (c = qp->carriers; c; c = c->next)
		atomic_fetch_or(&c->attn, RING_ATTN_SQ_SEALED | RING_ATTN_RQ_SEALED);
	if (!qp->tx_failed.on) {
		qp->tx_failed.first = first;
		qp->tx_failed.vendor_err = vendor_err;
		qp->tx_failed.delivered = n_delivered;
		fail_queues(qp);
		ring_backlog_event(qp->scq, true);
		ring_backlog_event(qp->rcq, true);
	}
	ring_qp_unlock(qp);
}
