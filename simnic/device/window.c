/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows (IBA 10.6.7). A window has an index of its own in the table of keys. Each bind
 * gives it another tag, so keys of earlier binds are dead. Each access looks up the region behind
 * it: a region that is gone takes its windows' bytes along.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/window.h"
#include "simnic/fabric/nic.h"

enum {
	SEGMENT = 16,
	CTRL_BYTES = 16,
	UMR_BYTES = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY_BYTES = offsetof(struct mlx5_wqe_mkey_context_seg, inseg),
	KLM_BYTES = sizeof(struct mlx5_wqe_umr_klm_seg),
	TAG_MASK = 0xff,
	REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

/* ---- objects -------------------------------------------------------------------------------- */

int sn_window_alloc(struct sn_dev *dev, uint32_t pdn, uint8_t variant, bool type2, uint32_t *rkey)
{
	struct sn_mr *window = calloc(1, sizeof(*window));

	if (!window)
		return -ENOMEM;
	window->pdn = pdn;
	window->kind = type2 ? SN_MR_WINDOW_2 : SN_MR_WINDOW_1;
	window->own_command = true;
	sn_lock();
	sn_mr_add(dev, window, variant);
	*rkey = window->key;
	sn_unlock();
	return 0;
}

int sn_window_free(struct sn_dev *dev, uint32_t rkey)
{
	return sn_mr_dereg_index(dev, rkey >> 8) ? -EINVAL : 0; /* each bind changed the rest */
}

/* ---- requests ------------------------------------------------------------------------------- */

static uint32_t access_of(uint8_t flags)
{
	static const struct {
		uint8_t flag;
		uint32_t access;
	} of[] = {
		{ MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE },
		{ MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ, IBV_ACCESS_REMOTE_READ },
		{ MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC },
	};
	uint32_t access = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (flags & of[i].flag)
			access |= of[i].access;
	return access;
}

bool sn_bind_decode(const uint8_t *raw, uint32_t ds, struct sn_bind *bind)
{
	uint32_t bytes = ds * SEGMENT, key;
	struct mlx5_wqe_umr_ctrl_seg umr;
	struct mlx5_wqe_mkey_context_seg mkey;
	struct mlx5_wqe_umr_klm_seg klm;

	if (bytes < CTRL_BYTES + UMR_BYTES + MKEY_BYTES)
		return false;
	memcpy(&key, raw + 12, sizeof(key));
	memcpy(&umr, raw + CTRL_BYTES, sizeof(umr));
	memcpy(&mkey, raw + CTRL_BYTES + UMR_BYTES, MKEY_BYTES);
	*bind = (struct sn_bind){ .key = be32toh(key),
				  .tag = (uint8_t)be32toh(mkey.qpn_mkey),
				  .free = mkey.free & MLX5_WQE_MKEY_CONTEXT_FREE,
				  .type2 = be64toh(umr.mkey_mask) &
					   MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN };
	if (bind->free)
		return true;
	if (bytes < CTRL_BYTES + UMR_BYTES + MKEY_BYTES + KLM_BYTES ||
	    !(umr.flags & MLX5_WQE_UMR_CTRL_FLAG_INLINE))
		return false;
	memcpy(&klm, raw + CTRL_BYTES + UMR_BYTES + MKEY_BYTES, sizeof(klm));
	bind->access = access_of(mkey.access_flags);
	bind->iova = be64toh(mkey.start_addr);
	bind->length = be64toh(mkey.len);
	bind->of_key = be32toh(klm.mkey);
	bind->of_va = be64toh(klm.address);
	return be32toh(klm.byte_count) == (uint32_t)bind->length;
}

/*
 * IBA 10.6.7.2.2: the region is of the same domain and may be bound to. It is writable if the
 * window is.
 */
static bool may_bind(struct sn_dev *dev, const struct sn_mr *window, const struct sn_bind *bind)
{
	uint32_t needed = IBV_ACCESS_MW_BIND;

	if (bind->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))
		needed |= IBV_ACCESS_LOCAL_WRITE;
	return sn_mr_translate(dev, bind->of_key, window->pdn, bind->of_va, bind->length, needed);
}

/* A window of type 2 belongs to the queue pair that bound it, until it is invalidated. */
static bool may_change(const struct sn_qp *qp, const struct sn_mr *window,
		       const struct sn_bind *bind)
{
	if (window->pdn != qp->attr.pdn || bind->type2 != (window->kind == SN_MR_WINDOW_2))
		return false;
	if (window->kind == SN_MR_WINDOW_1)
		return true;
	return bind->free ? window->qpn == qp->qpn : !window->length;
}

uint8_t sn_window_bind(struct sn_qp *qp, const struct sn_bind *bind)
{
	struct sn_mr *window = sn_mr_of_index(qp->dev, bind->key);

	if (!window || (window->kind != SN_MR_WINDOW_1 && window->kind != SN_MR_WINDOW_2) ||
	    window->key != bind->key || !may_change(qp, window, bind))
		return MLX5_CQE_SYNDROME_MW_BIND_ERR;
	if (!bind->free && !may_bind(qp->dev, window, bind))
		return MLX5_CQE_SYNDROME_MW_BIND_ERR;
	if (bind->free && sn_nic_quirk(qp->dev->nic, SN_QUIRK_UNBIND_IGNORED))
		return 0;
	sn_posted_push(qp->dev); /* the old key's writes land before the change */
	window->key = (window->key & ~(uint32_t)TAG_MASK) | bind->tag;
	window->access = bind->free ? 0 : bind->access & REMOTE;
	window->iova = bind->iova;
	window->length = bind->free ? 0 : bind->length;
	window->of_key = bind->of_key;
	window->of_va = bind->of_va;
	window->qpn = bind->free ? 0 : qp->qpn;
	return 0;
}

bool sn_window_is_not_of(const struct sn_qp *qp, uint32_t key)
{
	const struct sn_mr *window = sn_nic_quirk(qp->dev->nic, SN_QUIRK_WINDOW_ONE_QP)
					     ? sn_mr_of_index(qp->dev, key)
					     : NULL;

	return window && window->kind == SN_MR_WINDOW_1 && window->qpn != qp->qpn;
}

uint64_t sn_window_translate(struct sn_dev *dev, const struct sn_mr *window, uint64_t va,
			     uint64_t len, uint32_t access)
{
	/* Not for local use, and the region's remote rights do not matter. */
	if (!(access & REMOTE))
		return 0;
	return sn_mr_translate(dev, window->of_key, window->pdn,
			       window->of_va + (va - window->iova), len, IBV_ACCESS_MW_BIND);
}
