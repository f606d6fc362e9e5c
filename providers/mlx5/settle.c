/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Settling, the end of a move: what was outstanding is completed in software or laid into the next
 * carrier.
 */
#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/recall.h"
#include "providers/mlx5/scatter.h"
#include "providers/mlx5/settle.h"
#include "providers/mlx5/wqe.h"
#include "providers/mlx5/xlat.h"

/* -- outstanding sends ------------------------------------------------------------------------- */

/* A request that settle laid as a NOP is local, like any NOP. */
static void describe(const struct ring_sq *sq, uint32_t slot, struct sp_request *i)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(sq, slot);

	i->kind = ring_wr_kind(sq, slot);
	i->signaled = ring_ctrl_signaled(ctrl);
	i->send_fence = ring_ctrl_send_fence(ctrl);
}

/*
 * Describes what a request does to memory: the peer's, by the application's keys. A NOP that stands
 * for a request does nothing any more.
 */
static void describe_target(const struct ring_wqe *wqe, struct sp_request *i)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = (const struct mlx5_wqe_ctrl_seg *)wqe->bytes;
	const struct mlx5_wqe_raddr_seg *raddr = (const void *)(wqe->bytes + 16);
	const struct mlx5_wqe_atomic_seg *atomic = (const void *)(wqe->bytes + 32);
	uint8_t op = ring_ctrl_opcode(ctrl);
	bool is_atomic = op == MLX5_OPCODE_ATOMIC_CS || op == MLX5_OPCODE_ATOMIC_FA;

	if (op == MLX5_OPCODE_RDMA_READ)
		i->brings = ring_wqe_data_len(wqe);
	if (op != MLX5_OPCODE_RDMA_WRITE && op != MLX5_OPCODE_RDMA_WRITE_IMM && !is_atomic)
		return;
	i->addr = be64toh(raddr->raddr);
	i->rkey = be32toh(raddr->rkey);
	i->bytes = is_atomic ? sizeof(uint64_t) : ring_wqe_data_len(wqe);
	i->cas = op == MLX5_OPCODE_ATOMIC_CS;
	if (i->cas) {
		i->compare = be64toh(atomic->compare);
		i->swap = be64toh(atomic->swap_add);
	}
}

/* True if the log WQE of a request that is complete may still lie before the walk's start. */
static bool logged_before(const struct ring_walk *w)
{
	return ring_wqe_is_log(w->sq, w->post - 1) &&
	       w->sq->wqe_head[(w->post - 1) & w->sq->mask] == w->n - 1;
}

/* c: the carrier that they were published on; NULL: they are held. */
static uint32_t list_queue(const struct sp_qp *qp, const struct ring_sq *sq,
			   const struct sp_carrier *c, struct sp_request *info, uint32_t have,
			   uint32_t max)
{
	uint32_t first = have, sum = 0, packets;
	bool numbered = c && sq->numbered, behind, before;
	struct ring_wqe wqe;
	struct ring_walk w;
	int64_t slot;

	if (!sq->buf || !ring_walk_start(&w, sq))
		return have;
	before = numbered && logged_before(&w);
	for (; (slot = ring_walk_next(&w)) >= 0; have++) {
		ring_wqe_load(sq, slot, qp->type, &wqe);
		packets = numbered ? ring_wqe_packets(sq, &wqe) : 0;
		behind = numbered && ring_wqe_logged(sq, (uint32_t)slot, wqe.bbs);
		if (have < max) {
			info[have] = (struct sp_request){ .numbered = numbered,
							  .psn = sum,
							  .packets = packets,
							  .behind = behind,
							  .before = before && have == first };
			describe(sq, slot, &info[have]);
			describe_target(&wqe, &info[have]);
			info[have].published = c != NULL;
			info[have].answered = c && ring_recalled_answer(c, w.n - 1, slot);
		}
		sum += packets + behind;
	}
	/* the last packet of the newest one has the number before the next */
	for (uint32_t i = first; numbered && i < have && i < max; i++)
		info[i].psn = (info[i].psn + sq->head + sq->psn_ahead - sum) & RING_PSN_MASK;
	return have;
}

uint32_t ring_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max)
{
	uint32_t n;

	ring_qp_lock(qp);
	n = list_queue(qp, &qp->tx->sq, qp->tx, info, 0, max);
	n = list_queue(qp, &qp->hold, NULL, info, n, max);
	ring_qp_unlock(qp);
	return n;
}

/* -- settle ------------------------------------------------------------------------------------ */

struct settle {
	struct sp_qp *qp;
	struct sp_carrier *to;
	const enum sp_fate *fates;
	uint32_t n;
	struct sp_settled *out;
	struct ring_batch batch;
	bool laid; /* true if completions from here on must wait for what runs again */
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
 * Where each request has a completion, a NIC may put a small READ's answer into that instead of its
 * buffers (PRM, scatter to CQE). Such a READ is executed, as a request with the fence flag behind
 * it was; but if the completion is lost, so are its bytes.
 */
static bool lost_with_its_completion(const struct settle *s, const struct ring_sq *sq,
				     uint32_t slot, const struct ring_wqe *app)
{
	return s->qp->sig_bits && ring_wr_kind(sq, slot) == SP_REQ_READ &&
	       ring_wqe_data_len(app) <= RING_CQE_DATA;
}

/*
 * Checks that all keys of what will be laid are known on the new carrier, and that the rest can be
 * completed. A withheld request with a key that is missing stays withheld, and so does all behind
 * it: nothing was promised of these to the peer.
 */
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
		if (by_fate && s->fates[i] == SP_FATE_WON)
			continue;
		if (by_fate && s->fates[i] == SP_FATE_DELIVERED) {
			if (!ring_recalled_answer(s->qp->tx, w.n - 1, slot) &&
			    lost_with_its_completion(s, sq, slot, &app))
				return -EIO;
			continue;
		}
		if (s->qp->atomics.barred && ring_wr_kind(sq, (uint32_t)slot) == SP_REQ_ATOMIC)
			return by_fate ? -EACCES : 0; /* withheld requests stay so, from here on */
		err = ring_wqe_translate(s->to, &app, &wire);
		if (err)
			return err == -ENOENT && !by_fate ? 0 : err;
	}
	return 0;
}

static uint8_t original_opcode(const struct ring_sq *sq, uint32_t slot)
{
	return sq->wr_data[slot] ? sq->wr_data[slot] : ring_ctrl_opcode(ring_sq_ctrl(sq, slot));
}

/* Completes a request in software, as the NIC would have: an unsignaled one leaves no trace. */
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
	soft.cqe.byte_cnt = htobe32(ring_op_atomic(comp.op) ? (uint32_t)sizeof(uint64_t)
							    : ring_wqe_data_len(&wqe));
	comp.cqe = &soft.cqe;
	ring_backlog_push(qp->scq, qp, &comp);
}

/* Lays a NOP for a delivered request whose completion has to come after what is laid again. */
static void lay_nop(struct settle *s, const struct ring_sq *sq, uint32_t slot)
{
	struct ring_wqe nop = { .ds = 1, .bbs = 1 };
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)nop.bytes;

	if (!ring_ctrl_signaled(ring_sq_ctrl(sq, slot)))
		return;
	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	ring_lay(s->to, &nop, &nop, sq->wrid[slot], original_opcode(sq, slot), &s->batch);
}

/* Lays a request again. False: a key is missing. *bytes: data that it moves. */
static bool lay_again(struct settle *s, const struct ring_sq *sq, uint32_t slot, uint64_t *bytes)
{
	struct ring_wqe app, wire;

	ring_wqe_load(sq, slot, s->qp->type, &app);
	if (ring_wqe_translate(s->to, &app, &wire))
		return false;
	ring_lay(s->to, &app, &wire, sq->wrid[slot], sq->wr_data[slot], &s->batch);
	*bytes += ring_wqe_data_len(&app);
	return true;
}

/* The answer was lost, but is known: the swap found what it had compared with. */
static void bring_answer(const struct ring_sq *sq, uint32_t slot)
{
	struct ring_wqe wqe;
	const struct mlx5_wqe_atomic_seg *atomic = (const void *)(wqe.bytes + 32);
	uint64_t old;

	ring_wqe_load(sq, slot, IBV_QPT_RC, &wqe);
	old = be64toh(atomic->compare);
	(void)ring_scatter_send((struct ring_sq *)sq, slot, &old, sizeof(old));
}

static void settle_one(struct settle *s, const struct ring_sq *sq, uint32_t slot, enum sp_fate fate)
{
	switch (fate) {
	case SP_FATE_WON: bring_answer(sq, slot); /* fall through */
	case SP_FATE_DELIVERED:
		if (s->laid)
			lay_nop(s, sq, slot);
		else
			deliver(s, sq, slot);
		s->out->delivered++;
		break;
	case SP_FATE_READ_AGAIN:
	case SP_FATE_RESEND:
		s->laid = true;
		(void)lay_again(s, sq, slot, &s->out->resent_bytes); /* checked */
		s->out->resent++;
		break;
	}
}

/* Makes `to` the active carrier: everything that was posted lies there now, or is complete. */
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
	qp->tx_mode &= RING_FIRST | RING_FAILED | RING_GATE | RING_WRITES | RING_TELL;
	qp->tx_mode |= s->to->xlat ? RING_XLAT : 0;
	qp->tx_mode |= qp->atomics.barred && !s->to->xlat ? RING_HOME : 0;
	qp->tx_mode |= s->to->sq.log.every ? RING_LOG : 0;
	ring_xlat_forget(&qp->tx_xlat);
	atomic_store(&qp->withheld, false);
	if (ring_tx_direct(qp))
		ring_hold_exit(qp);
	ring_live(s->to->sring, &s->to->sring_live);
	if (s->batch.nreq)
		ring_doorbell(s->to, &s->batch);
}

/*
 * Lays what was withheld, up to the first request that may not run yet. False: its key is missing.
 */
static bool settle_publish(struct settle *s)
{
	struct sp_qp *qp = s->qp;
	uint64_t bytes = 0;

	while (ring_hold_len(qp) && !(qp->tx_mode & (RING_GATE | RING_WRITES)) &&
	       !ring_hold_must_ask(qp)) {
		if (!lay_again(s, &qp->hold, qp->hold.tail_post & qp->hold.mask, &bytes))
			return false;
		ring_hold_pop(qp);
		s->out->published++;
	}
	return true;
}

#if SHIFT_MUTANT == 5
/* Lays a WRITE of some requests ago, which has completed, once more, unsignaled. */
static void lay_complete(struct settle *s, const struct ring_sq *sq)
{
	enum { AGO = 9 };
	struct ring_wqe app, wire;
	uint32_t post, slot;

	if (s->qp->sig_bits || !ring_sq_find(sq, atomic_load(&sq->tail) - AGO, &post))
		return;
	slot = post & sq->mask;
	if (ring_wr_kind(sq, slot) != SP_REQ_WRITE)
		return;
	ring_wqe_load(sq, slot, s->qp->type, &app);
	((struct mlx5_wqe_ctrl_seg *)app.bytes)->fm_ce_se &= (uint8_t)~MLX5_WQE_CTRL_CQ_UPDATE;
	if (!ring_wqe_translate(s->to, &app, &wire))
		ring_lay(s->to, &app, &wire, 0, RING_OP_HIDDEN, &s->batch);
}
#endif

static void settle_all(struct settle *s)
{
	struct sp_qp *qp = s->qp;
	struct ring_walk w;
	int64_t slot;
	bool keys;

#if SHIFT_MUTANT == 5
	lay_complete(s, &qp->tx->sq);
#endif
	ring_walk_start(&w, &qp->tx->sq);
	for (uint32_t i = 0; (slot = ring_walk_next(&w)) >= 0; i++)
		settle_one(s, &qp->tx->sq, slot, s->fates[i]);
	keys = settle_publish(s);
	settle_switch(s);
	if ((!keys || (qp->tx_mode & RING_WRITES) || ring_hold_must_ask(qp)) && ring_hold_go(qp))
		qp->dev->cb->key_missing(qp->cookie);
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
			err = -EAGAIN; /* a collect took the room first */
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
