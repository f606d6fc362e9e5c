/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows: binding and local invalidation are UMR requests on the wire. */
#include <stddef.h>

#include "providers/mlx5/dev.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/sq.h"

enum {
	UMR_KLM_BYTES = 64, /* one KLM, padded as the device wants it */
	UMR_MASK_BIND = MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC,
};

static void put_control(uint8_t *at, bool type2, bool bind)
{
	struct mlx5_wqe_umr_ctrl_seg *seg = (void *)at;
	uint64_t mask = MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY;

	memset(seg, 0, sizeof(*seg));
	seg->flags = MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	if (type2) {
		mask |= MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN;
		seg->flags |=
			bind ? MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE : MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN;
	}
	/* one KLM, rounded up to 8, in 32-byte units */
	seg->klm_octowords = bind ? htobe16(4) : 0;
	seg->mkey_mask = htobe64(bind ? mask | UMR_MASK_BIND : mask);
}

static uint8_t access_bits(unsigned access)
{
	return (access & IBV_ACCESS_LOCAL_WRITE ? MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE
						: 0) |
	       (access & IBV_ACCESS_REMOTE_WRITE ? MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE
						 : 0) |
	       (access & IBV_ACCESS_REMOTE_READ ? MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ
						: 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC ? MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC : 0);
}

static void put_mkey(uint8_t *at, uint32_t qpn, bool type2, uint32_t rkey,
		     const struct ibv_mw_bind_info *info)
{
	struct mlx5_wqe_mkey_context_seg *seg = (void *)at;
	bool bind = info->length;

	seg->qpn_mkey = htobe32((rkey & 0xff) | (type2 && bind ? qpn << 8 : 0xffffff00));
	if (!bind) {
		seg->free = MLX5_WQE_MKEY_CONTEXT_FREE;
		return;
	}
	seg->free = 0;
	seg->access_flags = access_bits(info->mw_access_flags);
	seg->start_addr = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : htobe64(info->addr);
	seg->len = htobe64(info->length);
}

static void put_klm(uint8_t *at, const struct ibv_mw_bind_info *info)
{
	struct mlx5_wqe_umr_klm_seg *seg = (void *)at;

	memset(at, 0, UMR_KLM_BYTES);
	seg->byte_count = htobe32(info->length);
	seg->mkey = htobe32(info->mr->lkey);
	seg->address = htobe64(info->addr);
}

static uint8_t *wrap(const struct ring_sq *sq, uint8_t *at)
{
	return at == sq->end ? sq->buf : at;
}

/*
 * Writes the segments behind the control segment: where, how, what. Returns 0 or an errno, as the
 * verbs do.
 */
int ring_umr_build(struct ring_sq *sq, uint8_t **seg, uint32_t *ds, enum ibv_mw_type type,
		   uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	bool type2 = type == IBV_MW_TYPE_2;
	uint8_t *at = *seg;

	/* the device's KLMs are 31 bits wide; as in libmlx5, 2 GiB itself is let through */
	if (info->length > 1ull << 31)
		return EOPNOTSUPP;
	put_control(at, type2, info->length);
	at = wrap(sq, at + sizeof(struct mlx5_wqe_umr_ctrl_seg));
	put_mkey(at, sq->qpn_field >> 8, type2, rkey, info);
	at = wrap(sq, at + offsetof(struct mlx5_wqe_mkey_context_seg, inseg));
	*ds += (sizeof(struct mlx5_wqe_umr_ctrl_seg) +
		offsetof(struct mlx5_wqe_mkey_context_seg, inseg)) /
	       16;
	if (info->length) {
		put_klm(at, info);
		at = wrap(sq, at + UMR_KLM_BYTES);
		*ds += UMR_KLM_BYTES / 16;
	}
	*seg = at;
	return 0;
}

/* Takes context->ops.bind_mw: what libmlx5 would post itself goes through our ring instead. */
int ring_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW };
	struct ibv_send_wr *bad;
	int err;

	if (!ring_qp_of(qp))
		return ring_dev_of(qp->context)->saved.bind_mw(qp, mw, bind);
	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) {
		errno = EINVAL;
		return EINVAL;
	}
	wr.send_flags = bind->send_flags;
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = bind->bind_info;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	err = ring_post_send(qp, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}
