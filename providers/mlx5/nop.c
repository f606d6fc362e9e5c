/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hidden NOPs, and laying one request. */
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/log.h"
#include "providers/mlx5/nop.h"
#include "providers/mlx5/wqe.h"

/* Lays the request into the carrier and counts it in the batch that rings later. */
void ring_lay(struct sp_carrier *to, const struct ring_wqe *app, const struct ring_wqe *wire,
	      uint64_t wr_id, uint8_t wr_data, struct ring_batch *batch)
{
	batch->ctrl = ring_wqe_lay(&to->sq, app, wire, wr_id, wr_data);
	batch->ds = wire->ds;
	batch->nreq++;
	if (to->sq.log.every)
		ring_log_batch(&to->sq, batch, ring_ctrl_opcode(batch->ctrl), to->sq.head - 1);
}

/*
 * Returns whether a NOP would show when all that was published is complete. Its completion is that
 * of all before.
 */
enum ring_nop_need ring_nop_need(const struct sp_carrier *c)
{
	uint32_t tail = atomic_load(&c->sq.tail), post, first, last = 0;

	if (tail == c->sq.head)
		return RING_NOP_IDLE;
	if (!ring_sq_find(&c->sq, tail, &post))
		return RING_NOP_NO_ROOM;
	for (first = post; post != c->sq.cur_post; post += ring_wqe_bbs(&c->sq, post))
		last = post;
	if (ring_ctrl_signaled(ring_sq_ctrl(&c->sq, last)))
		return RING_NOP_SIGNALED;
	/* a NOP takes one WQEBB; before the first one a log WQE may still wait for its answer */
	return c->sq.cur_post - first + !!c->sq.log.every > c->sq.mask ? RING_NOP_NO_ROOM
								       : RING_NOP_NEEDED;
}

/*
 * While a signaled request is not complete, nothing behind it is, and a NOP would tell nothing. But
 * it would take a place in the completion queue: if many wait for one path, all take theirs when
 * the path is back, and the queue would overrun.
 */
bool ring_nop_early(const struct sp_carrier *c)
{
	struct ring_walk w;
	int64_t slot;

	if (!ring_walk_start(&w, &c->sq))
		return true;
	while ((slot = ring_walk_next(&w)) >= 0)
		if (ring_ctrl_signaled(ring_sq_ctrl(&c->sq, (uint32_t)slot)))
			return true;
	return false;
}

/*
 * Copy a WQEBB of the send ring, and the application's keys beside it, out of the ring or back into
 * it.
 */
static void cover(const struct ring_sq *sq, struct ring_covered *out)
{
	uint32_t slot = sq->cur_post & sq->mask;
	size_t at = (size_t)slot * MLX5_SEND_WQE_BB;

	out->post = sq->cur_post;
	out->number = sq->wqe_head[slot];
	out->wrid = sq->wrid[slot];
	out->wr_data = sq->wr_data[slot];
	memcpy(out->wqe, sq->buf + at, sizeof(out->wqe));
	if (sq->keys)
		memcpy(out->keys, sq->keys + at, sizeof(out->keys));
}

static void uncover(struct ring_sq *sq, const struct ring_covered *in)
{
	uint32_t slot = in->post & sq->mask;
	size_t at = (size_t)slot * MLX5_SEND_WQE_BB;

	sq->wqe_head[slot] = in->number;
	sq->wrid[slot] = in->wrid;
	sq->wr_data[slot] = in->wr_data;
	memcpy(sq->buf + at, in->wqe, sizeof(in->wqe));
	if (sq->keys)
		memcpy(sq->keys + at, in->keys, sizeof(in->keys));
}

/* True if nothing was posted behind the newest NOP. */
static bool nop_is_last(const struct sp_carrier *c)
{
	return c->nops && c->nop_n[0] == c->sq.head - 1 &&
	       ring_sq_covered(&c->sq)[0].post == c->sq.cur_post - 1;
}

/*
 * Takes hidden NOPs that end the send ring out of it again, so that what they cover can be read.
 * All locks held; the carrier is sealed. The NIC was told of them: the doorbell record stays.
 */
void ring_nops_withdraw(struct sp_carrier *c)
{
	struct ring_sq *sq = &c->sq;
	struct ring_covered *covered = ring_sq_covered(sq);

	while (nop_is_last(c)) {
		uncover(sq, &covered[0]);
		if (atomic_load(&sq->tail) == sq->head)
			atomic_fetch_sub(&sq->tail, 1);
		sq->head--;
		sq->cur_post--;
		sq->psn_ahead++; /* a NOP has no packet: the next request's stays the same */
		c->nops_withdrawn++;
		c->nops--;
		c->nop_n[0] = c->nop_n[1];
		covered[0] = covered[1];
	}
}

void ring_nop_post(struct sp_carrier *c)
{
	struct ring_wqe nop = { .ds = 1, .bbs = 1 };
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)nop.bytes;
	struct ring_covered *covered = ring_sq_covered(&c->sq);
	struct ring_batch batch = { 0 };

	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	c->nop_n[1] = c->nop_n[0];
	covered[1] = covered[0];
	cover(&c->sq, &covered[0]);
	c->nop_n[0] = c->sq.head;
	c->nops = c->nops ? 2 : 1;
	ring_lay(c, &nop, &nop, 0, RING_OP_HIDDEN, &batch);
	ring_doorbell(c, &batch);
}
