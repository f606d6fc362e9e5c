/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reading send and receive WQEs out of the application's rings (layouts: mlx5dv.h). */
#include <errno.h>
#include <string.h>

#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/qp.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"

#define SEGMENT	    16
#define CTRL_BYTES  16
#define INLINE_HEAD 4 /* bytes before the data of an inline segment */

uint16_t sn_rq_producer(const struct sn_qp *qp)
{
	return (uint16_t)be32toh(atomic_load_explicit(&qp->db[MLX5_RCV_DBR], memory_order_acquire));
}

uint16_t sn_sq_producer(const struct sn_qp *qp)
{
	return (uint16_t)be32toh(atomic_load_explicit(&qp->db[MLX5_SND_DBR], memory_order_acquire));
}

/* A WQE may wrap at the ring's end; out gets it in one piece. */
void sn_wqe_raw(const struct sn_qp *qp, uint16_t idx, void *out, uint32_t bytes)
{
	uint32_t ring = qp->attr.sq_wqe_cnt * MLX5_SEND_WQE_BB;
	uint32_t at = (idx & (qp->attr.sq_wqe_cnt - 1)) * MLX5_SEND_WQE_BB;
	uint32_t first = bytes < ring - at ? bytes : ring - at;

	memcpy(out, qp->sq_buf + at, first);
	if (first < bytes)
		memcpy((uint8_t *)out + first, qp->sq_buf, bytes - first);
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

/* Bytes of the segments between control and data segments; -1: no such opcode here. */
static int wqe_head_bytes(const struct sn_qp *qp, uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		return qp->attr.type == IBV_QPT_UD ? (int)sizeof(struct mlx5_wqe_datagram_seg) : 0;
	case MLX5_OPCODE_SEND_INVAL: return qp->attr.type == IBV_QPT_RC ? 0 : -1;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		return qp->attr.type == IBV_QPT_UD ? -1 : (int)sizeof(struct mlx5_wqe_raddr_seg);
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		return qp->attr.type == IBV_QPT_RC ? (int)(sizeof(struct mlx5_wqe_raddr_seg) +
							   sizeof(struct mlx5_wqe_atomic_seg))
						   : -1;
	default: return -1;
	}
}

static void decode_head(struct sn_wqe *wqe, const uint8_t *raw, int head)
{
	if (head == sizeof(struct mlx5_wqe_datagram_seg)) {
		memcpy(&wqe->av, raw + CTRL_BYTES, sizeof(wqe->av));
		return;
	}
	if (!head)
		return;
	wqe->raddr = get64(raw + CTRL_BYTES);
	wqe->rkey = get32(raw + CTRL_BYTES + 8);
	if (head > SEGMENT) {
		wqe->swap_add = get64(raw + CTRL_BYTES + 16);
		wqe->compare = get64(raw + CTRL_BYTES + 24);
	}
}

/* Decodes an inline segment. Returns the bytes that it takes in the WQE, 0: malformed. */
static uint32_t decode_inline(struct sn_wqe *wqe, const uint8_t *raw, uint32_t at, uint32_t end)
{
	uint32_t n = get32(raw + at) & ~MLX5_INLINE_SEG;

	if (n > end - at - INLINE_HEAD)
		return 0;
	wqe->is_inline = true;
	if (n) {
		wqe->pieces_inline |= 1ULL << wqe->n_sge;
		wqe->sge[wqe->n_sge++] = (struct sn_sge){ .addr = at + INLINE_HEAD, .length = n };
	}
	wqe->length += n;
	return (n + INLINE_HEAD + SEGMENT - 1) & ~(SEGMENT - 1u);
}

static void decode_pointer(struct sn_wqe *wqe, const uint8_t *seg)
{
	struct sn_sge *sge = &wqe->sge[wqe->n_sge++];

	sge->length = get32(seg);
	sge->lkey = get32(seg + 4);
	sge->addr = get64(seg + 8);
	if (!sge->length) /* PRM: zero stands for 2 GiB */
		sge->length = 1u << 31;
	wqe->length += sge->length;
}

/* Decodes segments of both kinds in any order: UCX posts a header inline, and a pointer behind. */
static void decode_data(struct sn_wqe *wqe, const uint8_t *raw, uint32_t at, uint32_t end)
{
	while (at < end) {
		uint32_t used = SEGMENT;

		if (get32(raw + at) & MLX5_INLINE_SEG)
			used = decode_inline(wqe, raw, at, end);
		else
			decode_pointer(wqe, raw + at);
		if (!used) {
			wqe->syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
			return;
		}
		at += used;
	}
}

/* Reads and atomics have nowhere to put their result in an inline WQE. */
static bool wqe_is_sane(const struct sn_wqe *wqe)
{
	switch (wqe->opcode) {
	case MLX5_OPCODE_RDMA_READ: return !wqe->is_inline;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA: return !wqe->is_inline && wqe->length == 8;
	default: return true;
	}
}

/* Decodes a UMR, whose meaning depends on whose key it names. */
static void decode_umr(const struct sn_qp *qp, uint16_t idx, struct sn_wqe *wqe)
{
	const uint8_t *raw = wqe->raw;
	const struct sn_mr *mr;
	bool ok;

	sn_wqe_raw(qp, idx, wqe->raw, wqe->ds * SEGMENT);
	mr = sn_mr_of_index(qp->dev, get32(raw + 12));
	wqe->to_indirect = mr && mr->kind == SN_MR_INDIRECT;
	wqe->to_paged = mr && mr->kind == SN_MR_PAGED;
	if (wqe->to_paged)
		ok = sn_repage_decode(raw, wqe->ds, &wqe->repage);
	else
		ok = wqe->to_indirect ? sn_umr_decode(raw, wqe->ds, &wqe->umr)
				      : sn_bind_decode(raw, wqe->ds, &wqe->bind);
	if (!ok)
		wqe->syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
}

void sn_wqe_decode(const struct sn_qp *qp, uint16_t idx, struct sn_wqe *wqe)
{
	uint8_t raw[SN_WQE_MAX_BYTES];
	int head;

	memset(wqe, 0, offsetof(struct sn_wqe, av));
	sn_wqe_raw(qp, idx, raw, CTRL_BYTES);
	wqe->idx = idx;
	wqe->opcode = raw[3];
	wqe->ds = get32(raw + 4) & 0x3f;
	wqe->nbb = (uint16_t)((wqe->ds + 3) / 4);
	wqe->fm_ce_se = raw[11];
	memcpy(&wqe->imm, raw + 12, 4);
	if (!wqe->ds || get32(raw + 4) >> 8 != qp->qpn || (uint16_t)(get32(raw) >> 8) != idx) {
		sn_protocol_error("WQE's control segment is not of this QP and index", qp->qpn,
				  get32(raw) >> 8, idx);
		wqe->syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		wqe->nbb = wqe->nbb ? wqe->nbb : 1;
		return;
	}
	if (wqe->opcode == MLX5_OPCODE_NOP)
		return;
	if (wqe->opcode == MLX5_OPCODE_UMR && sn_qp_is_connected(qp)) {
		decode_umr(qp, idx, wqe);
		return;
	}
	head = wqe_head_bytes(qp, wqe->opcode);
	if (head < 0 || CTRL_BYTES + head > wqe->ds * SEGMENT) {
		wqe->syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		return;
	}
	sn_wqe_raw(qp, idx, raw, wqe->ds * SEGMENT);
	decode_head(wqe, raw, head);
	decode_data(wqe, raw, CTRL_BYTES + (uint32_t)head, wqe->ds * SEGMENT);
	if (!wqe->syndrome && !wqe_is_sane(wqe))
		wqe->syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
}

static int sge_pieces(struct sn_dev *dev, uint32_t pdn, const struct sn_sge *sge, uint32_t access,
		      struct iovec *iov, uint32_t room)
{
	return sn_mr_pieces(dev, sge->lkey, pdn, sge->addr, sge->length, access, iov, room);
}

int sn_sge_translate(struct sn_dev *dev, uint32_t pdn, const struct sn_sge *sge, uint32_t n,
		     uint32_t access, struct iovec *iov)
{
	uint32_t pieces = 0;
	int got;

	for (uint32_t i = 0; i < n; i++) {
		SN_ASSERT(pieces <= SN_WQE_MAX_SGE);
		got = sge_pieces(dev, pdn, &sge[i], access, iov + pieces, SN_WQE_MAX_SGE - pieces);
		if (got < 0)
			return got;
		pieces += (uint32_t)got;
	}
	return (int)pieces;
}

/* Inline data in the ring: two pieces where the data wraps. */
static int inline_pieces(const struct sn_qp *qp, uint16_t idx, const struct sn_sge *sge,
			 struct iovec *iov, uint32_t room)
{
	uint32_t ring = qp->attr.sq_wqe_cnt * MLX5_SEND_WQE_BB;
	uint32_t at = (uint32_t)(idx * MLX5_SEND_WQE_BB + sge->addr) & (ring - 1);
	uint32_t first = sge->length < ring - at ? sge->length : ring - at;
	uint32_t n = first < sge->length ? 2 : 1;

	if (n > room)
		return -EACCES;
	iov[0] = (struct iovec){ qp->sq_buf + at, first };
	if (n == 2)
		iov[1] = (struct iovec){ qp->sq_buf, sge->length - first };
	return (int)n;
}

int sn_wqe_gather(const struct sn_qp *qp, const struct sn_wqe *wqe, uint32_t access,
		  struct iovec *iov)
{
	uint32_t n = 0, room;
	int got;

	if (!wqe->pieces_inline)
		return sn_sge_translate(qp->dev, qp->attr.pdn, wqe->sge, wqe->n_sge, access, iov);
	for (uint32_t i = 0; i < wqe->n_sge; i++) {
		SN_ASSERT(n <= SN_WQE_MAX_SGE);
		room = SN_WQE_MAX_SGE - n;
		got = wqe->pieces_inline >> i & 1
			      ? inline_pieces(qp, wqe->idx, &wqe->sge[i], iov + n, room)
			      : sge_pieces(qp->dev, qp->attr.pdn, &wqe->sge[i], access, iov + n,
					   room);
		if (got < 0)
			return got;
		n += (uint32_t)got;
	}
	return (int)n;
}

/* Data segments of a receive WQE, up to the terminator; returns their number. */
uint32_t sn_wqe_scatter(const uint8_t *segments, uint32_t bytes, struct sn_sge *sge)
{
	uint32_t at, n = 0;

	for (at = 0; at + SEGMENT <= bytes && n < SN_WQE_MAX_SGE; at += SEGMENT) {
		uint32_t lkey = get32(segments + at + 4), length = get32(segments + at);

		if (lkey == MLX5_INVALID_LKEY)
			break;
		sge[n].length = length ? length : 1u << 31;
		sge[n].lkey = lkey;
		sge[n++].addr = get64(segments + at + 8);
	}
	return n;
}
