/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reading requests back out of a send ring and laying them into another. Slow paths only. */
#include <stddef.h>
#include <stdlib.h>

#include "providers/mlx5/blank.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"

/* The place is behind the tables: most of a program's thousands of queues have neither. */
static size_t covered_at(const struct ring_sq *sq)
{
	size_t bytes = ((size_t)sq->mask + 1) * RING_TABLE_BYTES,
	       align = _Alignof(struct ring_covered);

	return (bytes + align - 1) & ~(align - 1);
}

struct ring_covered *ring_sq_covered(const struct ring_sq *sq)
{
	return (struct ring_covered *)((uint8_t *)sq->wrid + covered_at(sq));
}

static void tables_set(struct ring_sq *sq, uint64_t *tables)
{
	size_t n = (size_t)sq->mask + 1;

	sq->wrid = tables;
	sq->wqe_head = (uint32_t *)(tables + n);
	sq->wr_data = (uint8_t *)(sq->wqe_head + n);
}

/* No request has this number for long. */
void ring_sq_forget(struct ring_sq *sq)
{
	if (sq->blank)
		return;
	memset(sq->wqe_head, 0xff, ((size_t)sq->mask + 1) * sizeof(*sq->wqe_head));
	memset(sq->wr_data, 0, (size_t)sq->mask + 1);
}

/*
 * Allocates the tables, in one piece of memory. Pollers find the old tables or the new ones: before
 * the first request there is nothing in them that is asked for.
 */
int ring_sq_fill(struct ring_sq *sq)
{
	uint64_t *tables;

	if (!sq->blank)
		return 0;
	tables = calloc(1, covered_at(sq) + 2 * sizeof(struct ring_covered));
	if (!tables)
		return -ENOMEM;
	sq->blank = false;
	tables_set(sq, tables);
	ring_sq_forget(sq);
	return 0;
}

int ring_sq_alloc_blank(struct ring_sq *sq)
{
	uint64_t *tables = ring_blank(sq->mask + 1);

	ring_sq_unnumber(sq);
	if (!tables)
		return -ENOMEM;
	sq->blank = true;
	tables_set(sq, tables);
	return 0;
}

int ring_sq_alloc(struct ring_sq *sq, bool keys)
{
	size_t n = (size_t)sq->mask + 1;

	ring_sq_unnumber(sq);
	sq->blank = true;
	sq->keys = keys ? calloc(n, MLX5_SEND_WQE_BB) : NULL;
	sq->keys_at = (uintptr_t)sq->keys - (uintptr_t)sq->buf;
	if ((keys && !sq->keys) || ring_sq_fill(sq)) {
		ring_sq_free(sq);
		return -ENOMEM;
	}
	return 0;
}

void ring_sq_free(struct ring_sq *sq)
{
	if (!sq->blank)
		free(sq->wrid);
	free(sq->keys);
	sq->wrid = NULL;
	sq->wqe_head = NULL;
	sq->wr_data = NULL;
	sq->keys = NULL;
}

bool ring_wqe_is_log(const struct ring_sq *sq, uint32_t post)
{
	return sq->wr_data[post & sq->mask] == RING_OP_LOG;
}

/* A log WQE of long ago has another number than the request of so many WQEBBs before it. */
bool ring_wqe_logged(const struct ring_sq *sq, uint32_t post, uint32_t bbs)
{
	return ring_wqe_is_log(sq, post + bbs) &&
	       sq->wqe_head[(post + bbs) & sq->mask] == sq->wqe_head[post & sq->mask];
}

uint32_t ring_wqe_bbs(const struct ring_sq *sq, uint32_t post)
{
	uint32_t ds = be32toh(ring_sq_ctrl(sq, post)->qpn_ds) & 0x3f, bbs = (ds + 3) / 4;

	return bbs + ring_wqe_logged(sq, post, bbs);
}

/* True if the requests from number n at post on end exactly at cur_post. */
static bool walk_ends(const struct ring_sq *sq, uint32_t n, uint32_t post)
{
	for (; n != sq->head; n++) {
		if (sq->wqe_head[post & sq->mask] != n || (int32_t)(sq->cur_post - post) <= 0)
			return false;
		post += ring_wqe_bbs(sq, post);
	}
	return post == sq->cur_post;
}

/*
 * Finds the start of request number n. Its WQEBB is not kept anywhere (the hot path has no use for
 * it): the slot that carries its number is found, and a stale number is told by walking on to the
 * end.
 */
bool ring_sq_find(const struct ring_sq *sq, uint32_t n, uint32_t *post)
{
	uint32_t back, at;

	*post = sq->cur_post;
	if (n == sq->head)
		return true;
	for (back = 1; back <= sq->mask + 1; back++) {
		at = sq->cur_post - back;
		if (sq->wqe_head[at & sq->mask] == n && !ring_wqe_is_log(sq, at) &&
		    walk_ends(sq, n, at)) {
			*post = at;
			return true;
		}
	}
	return false;
}

bool ring_walk_start(struct ring_walk *w, const struct ring_sq *sq)
{
	w->sq = sq;
	w->n = atomic_load(&sq->tail);
	return ring_sq_find(sq, w->n, &w->post);
}

/* Returns the slot of the next request that is the application's, or -1. */
int64_t ring_walk_next(struct ring_walk *w)
{
	uint32_t slot;

	while (w->n != w->sq->head) {
		slot = w->post & w->sq->mask;
		w->n++;
		w->post += ring_wqe_bbs(w->sq, w->post);
		if (w->sq->wr_data[slot] != RING_OP_HIDDEN)
			return slot;
	}
	return -1;
}

enum sp_request_kind ring_wr_kind(const struct ring_sq *sq, uint32_t slot)
{
	switch (ring_ctrl_opcode(ring_sq_ctrl(sq, slot))) {
	case MLX5_OPCODE_RDMA_WRITE: return SP_REQ_WRITE;
	case MLX5_OPCODE_RDMA_READ: return SP_REQ_READ;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA: return SP_REQ_ATOMIC;
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_SEND_INVAL: return SP_REQ_TWO_SIDED;
	default: return SP_REQ_LOCAL;
	}
}

static void key_unit(struct ring_wqe *w, uint32_t unit, bool remote)
{
	w->keys |= 1ull << unit;
	if (remote)
		w->rkeys |= 1ull << unit;
}

/* Returns the place of the key in such a 16-byte unit. */
static __be32 *key_at(struct ring_wqe *w, uint32_t unit)
{
	bool remote = w->rkeys >> unit & 1;

	return (__be32 *)(w->bytes + unit * 16 + (remote ? 8 : 4));
}

uint32_t ring_wqe_key(const struct ring_wqe *w, uint32_t unit)
{
	return be32toh(*key_at((struct ring_wqe *)w, unit));
}

static void find_keys(struct ring_wqe *w, enum ibv_qp_type type)
{
	uint32_t unit = 1, n;

	switch (ring_ctrl_opcode((struct mlx5_wqe_ctrl_seg *)w->bytes)) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		/* IBA 9.7.4.1.5: without data the key is not looked at, and may be anything */
		if (w->ds > 2)
			key_unit(w, 1, true);
		unit = 2;
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		key_unit(w, 1, true);
		unit = 3;
		break;
	case MLX5_OPCODE_NOP:
	case MLX5_OPCODE_UMR: return;
	default: unit = type == IBV_QPT_UD ? 4 : 1; break;
	}
	while (unit < w->ds) {
		n = be32toh(*(__be32 *)(w->bytes + unit * 16));
		if (n & MLX5_INLINE_SEG) {
			unit += ((n & 0x3ff) + 4 + 15) / 16;
		} else {
			key_unit(w, unit, false);
			unit++;
		}
	}
}

/* Returns the place of the application's key for the 16-byte unit with this index in the ring. */
static uint32_t *key_aside(const struct ring_sq *sq, size_t unit)
{
	size_t units = ((size_t)sq->mask + 1) * 4;

	return (uint32_t *)(sq->keys + unit % units * 16);
}

/* Copies a WQE out in a straight line, with the application's keys. */
void ring_wqe_load(const struct ring_sq *sq, uint32_t post, enum ibv_qp_type type,
		   struct ring_wqe *out)
{
	const uint8_t *at = (uint8_t *)ring_sq_ctrl(sq, post);
	size_t first = (post & sq->mask) * 4ul, fit = sq->end - at;

	out->slot = post & sq->mask;
	out->ds = be32toh(ring_sq_ctrl(sq, post)->qpn_ds) & 0x3f;
	out->bbs = (out->ds + 3) / 4;
	out->keys = out->rkeys = 0;
	fit = out->ds * 16 < fit ? out->ds * 16 : fit;
	memcpy(out->bytes, at, fit);
	memcpy(out->bytes + fit, sq->buf, out->ds * 16 - fit);
	find_keys(out, type);
	for (uint32_t u = 0; sq->keys && u < out->ds; u++)
		if (out->keys >> u & 1)
			*key_at(out, u) = htobe32(*key_aside(sq, first + u));
}

/*
 * Memory windows are of one NIC. Their keys, and what SEND_INVAL takes from the peer, name
 * something else on another.
 */
static bool bound_to_its_nic(const struct ring_wqe *w)
{
	uint8_t opcode = ring_ctrl_opcode((const struct mlx5_wqe_ctrl_seg *)w->bytes);

	return opcode == MLX5_OPCODE_UMR || opcode == MLX5_OPCODE_SEND_INVAL;
}

/* Copies a WQE without what lies behind its end. */
static void wqe_copy(struct ring_wqe *out, const struct ring_wqe *in)
{
	memcpy(out, in, offsetof(struct ring_wqe, bytes) + in->ds * 16);
}

/*
 * Copies a WQE with the keys of the carrier. -ENOENT: a key is missing. -EOPNOTSUPP: the request
 * cannot run there.
 */
int ring_wqe_translate(struct sp_carrier *to, const struct ring_wqe *in, struct ring_wqe *out)
{
	const struct sp_callbacks *cb = to->qp->dev->cb;
	uint32_t key, wire;
	int err;

	wqe_copy(out, in);
	if (!to->xlat)
		return 0;
	if (bound_to_its_nic(in))
		return -EOPNOTSUPP;
	for (uint32_t u = 0; u < in->ds; u++) {
		if (!(in->keys >> u & 1))
			continue;
		key = be32toh(*key_at(out, u));
		err = (in->rkeys >> u & 1 ? cb->rkey : cb->lkey)(to->qp->cookie, to->epoch, key,
								 &wire);
		if (err)
			return -ENOENT;
		*key_at(out, u) = htobe32(wire);
	}
	return 0;
}

/*
 * Writes a WQE at cur_post, as the next request. app: with the application's keys; wire: as it
 * runs.
 */
struct mlx5_wqe_ctrl_seg *ring_wqe_lay(struct ring_sq *dst, const struct ring_wqe *app,
				       const struct ring_wqe *wire, uint64_t wr_id, uint8_t wr_data)
{
	struct mlx5_wqe_ctrl_seg *ctrl = ring_sq_ctrl(dst, dst->cur_post);
	size_t first = (dst->cur_post & dst->mask) * 4ul;
	size_t fit = dst->end - (uint8_t *)ctrl;
	uint32_t slot = dst->cur_post & dst->mask;

	fit = wire->ds * 16 < fit ? wire->ds * 16 : fit;
	memcpy(ctrl, wire->bytes, fit);
	memcpy(dst->buf, wire->bytes + fit, wire->ds * 16 - fit);
	ctrl->opmod_idx_opcode = htobe32((dst->cur_post & 0xffff) << 8) |
				 (ctrl->opmod_idx_opcode & htobe32(0xff0000ff));
	ctrl->qpn_ds = htobe32(dst->qpn_field | wire->ds);
	for (uint32_t u = 0; dst->keys && u < app->ds; u++)
		if (app->keys >> u & 1)
			*key_aside(dst, first + u) = be32toh(*key_at((void *)app, u));
	dst->wrid[slot] = wr_id;
	dst->wr_data[slot] = wr_data;
	dst->wqe_head[slot] = dst->head++;
	dst->cur_post += wire->bbs;
	dst->psn_ahead += ring_wqe_packets(dst, wire) - 1;
	return ctrl;
}

/* Returns the bytes that the data segments can take: what a READ brings. */
uint32_t ring_wqe_data_len(const struct ring_wqe *w)
{
	uint64_t lkeys = w->keys & ~w->rkeys;
	uint32_t sum = 0;

	for (uint32_t u = 0; u < w->ds; u++)
		if (lkeys >> u & 1)
			sum += be32toh(*(const __be32 *)(w->bytes + u * 16));
	return sum;
}

/* Returns the bytes of inline data in that unit. */
static uint32_t inline_len(const struct ring_wqe *w, uint32_t unit)
{
	uint32_t n = unit < w->ds ? be32toh(*(const __be32 *)(w->bytes + unit * 16)) : 0;

	return n & MLX5_INLINE_SEG ? n & ~MLX5_INLINE_SEG : 0;
}

/* The MTU is that queue's: see ring_packets(). */
uint32_t ring_wqe_packets(const struct ring_sq *sq, const struct ring_wqe *w)
{
	switch (ring_ctrl_opcode((const struct mlx5_wqe_ctrl_seg *)w->bytes)) {
	case MLX5_OPCODE_NOP:
	case MLX5_OPCODE_UMR: return 0;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA: return 1;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		return ring_packets(sq, ring_wqe_data_len(w) + inline_len(w, 2));
	default: return ring_packets(sq, ring_wqe_data_len(w) + inline_len(w, 1));
	}
}
