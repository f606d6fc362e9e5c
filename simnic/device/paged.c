/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Keys over lists of pages. Linux' driver has thousands of them in store (its mkey cache): a
 * registration takes one, fills its list by requests to a queue pair of the driver's own, and names
 * its addresses and rights with the last request; a deregistration makes it free again. Pages are
 * mapped when the key is used first, as a list may come in many requests.
 */
#include "simnic/device/paged.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/check.h"

enum {
	SEGMENT = 16,
	CTRL_BYTES = 16,
	UMR_BYTES = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY_BYTES = offsetof(struct mlx5_wqe_mkey_context_seg, inseg),
	HEAD_BYTES = CTRL_BYTES + UMR_BYTES + MKEY_BYTES,
	ENTRY_BYTES = 8,
	OCTOWORD_ENTRIES = 2,
	OFFSET_HIGH = CTRL_BYTES + 16, /* upper half of the list's offset */
	TAG_MASK = 0xff,
	PD_MASK = 0xffffff,
	SHIFT_MASK = 0x1f,
	CHECK_NOT_FREE = 1 << 5, /* Linux' names: it fails unless the key is free */
	CHECK_FREE = 2 << 5,	 /* ... if it is */
};

/* Bits of the mask that mlx5dv.h does not have: Linux' MLX5_MKEY_MASK_. */
#define MASK_PAGE_SIZE	   (1ull << 1)
#define MASK_PD		   (1ull << 7)
#define MASK_LOCAL_READ	   (1ull << 17)
#define MASK_RELAXED_WRITE (1ull << 25) /* PCIe ordering, which is not simulated: no effect */
#define MASK_RELAXED_READ  (1ull << 47)
#define PAGE_BITS	   (~0xfffull) /* of an entry; below are its rights */
#define KNOWN_FLAGS                                                                                \
	(MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | CHECK_FREE |   \
	 CHECK_NOT_FREE)
#define KNOWN_MASKS                                                                                \
	(MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |                \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |                     \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN | MASK_PAGE_SIZE | MASK_PD | MASK_LOCAL_READ |            \
	 MASK_RELAXED_WRITE | MASK_RELAXED_READ | RIGHTS_MASKS)
#define RIGHTS_MASKS                                                                               \
	(MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |                                          \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |                                          \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |                                         \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC)

static const struct {
	uint64_t mask;
	uint8_t flag;
	uint32_t access;
} rights[] = {
	{ MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE,
	  MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE },
	{ MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ,
	  MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ, IBV_ACCESS_REMOTE_READ },
	{ MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE,
	  MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE },
	{ MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC,
	  IBV_ACCESS_REMOTE_ATOMIC },
};

/* ---- objects -------------------------------------------------------------------------------- */

int sn_mr_reg_paged(struct sn_dev *dev, const struct sn_paged *want, uint32_t *key)
{
	struct sn_mr *mr = calloc(1, sizeof(*mr));
	struct sn_pages *pages = calloc(1, sizeof(*pages) + want->entries * sizeof(pages->page[0]));

	if (!mr || !pages || !dev->trapped) {
		free(mr);
		free(pages);
		return dev->trapped ? -ENOMEM : -EOPNOTSUPP;
	}
	pages->n = want->entries;
	pages->shift = 12;
	mr->kind = SN_MR_PAGED;
	mr->pages = pages;
	mr->free = true;
	mr->pdn = want->pdn;
	mr->access = want->access;
	mr->remote_end = want->remote_end;
	mr->own_command = true;
	sn_lock();
	sn_mr_add(dev, mr, want->variant);
	*key = mr->key;
	sn_unlock();
	return 0;
}

static void unmap(struct sn_dev *dev, struct sn_mr *mr)
{
	if (mr->pages->at)
		dev->events.unmap(dev->events.ctx, mr->pages->at, mr->length);
	mr->pages->at = 0;
}

void sn_pages_forget(struct sn_dev *dev, struct sn_mr *mr)
{
	unmap(dev, mr);
	free(mr->pages);
	mr->pages = NULL;
}

uint64_t sn_pages_at(struct sn_dev *dev, struct sn_mr *mr, uint64_t va)
{
	struct sn_pages *pages = mr->pages;
	uint64_t first = mr->iova & ((1ull << pages->shift) - 1);

	if (!pages->at)
		pages->at = dev->events.map(dev->events.ctx, pages->page, pages->n, pages->shift,
					    first, mr->length);
	return pages->at ? pages->at + (va - mr->iova) : 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* New entries are inline, or lie where the one data segment behind the key's says. */
static bool find_entries(const uint8_t *raw, uint32_t bytes, struct sn_repage *repage)
{
	struct mlx5_wqe_data_seg data;
	uint32_t wanted = repage->n * ENTRY_BYTES;

	if (!repage->n)
		return true;
	if (repage->flags & MLX5_WQE_UMR_CTRL_FLAG_INLINE) {
		repage->entries = raw + HEAD_BYTES;
		return wanted <= bytes - HEAD_BYTES;
	}
	if (bytes < HEAD_BYTES + sizeof(data))
		return false;
	memcpy(&data, raw + HEAD_BYTES, sizeof(data));
	repage->list.addr = be64toh(data.addr);
	repage->list.lkey = be32toh(data.lkey);
	return wanted <= be32toh(data.byte_count);
}

static uint32_t first_entry(const uint8_t *raw, const struct mlx5_wqe_umr_ctrl_seg *ctrl)
{
	uint32_t high;

	if (!(ctrl->flags & MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET))
		return 0;
	memcpy(&high, raw + OFFSET_HIGH, sizeof(high));
	return (be32toh(high) << 16 | be16toh(ctrl->translation_offset)) * OCTOWORD_ENTRIES;
}

bool sn_repage_decode(const uint8_t *raw, uint32_t ds, struct sn_repage *repage)
{
	struct mlx5_wqe_mkey_context_seg mkey;
	struct mlx5_wqe_umr_ctrl_seg ctrl;
	uint32_t key;

	if (ds * SEGMENT < HEAD_BYTES)
		return false;
	memcpy(&key, raw + 12, sizeof(key));
	memcpy(&ctrl, raw + CTRL_BYTES, sizeof(ctrl));
	memcpy(&mkey, raw + CTRL_BYTES + UMR_BYTES, MKEY_BYTES);
	*repage = (struct sn_repage){
		.key = be32toh(key),
		.tag = (uint8_t)be32toh(mkey.qpn_mkey),
		.flags = ctrl.flags,
		.rights = mkey.access_flags,
		.shift = mkey.log_page_size & SHIFT_MASK,
		.free = mkey.free & MLX5_WQE_MKEY_CONTEXT_FREE,
		.mask = be64toh(ctrl.mkey_mask),
		.iova = be64toh(mkey.start_addr),
		.length = be64toh(mkey.len),
		.pdn = be32toh(mkey.flags_pd) & PD_MASK,
		.first = first_entry(raw, &ctrl),
		.n = (uint32_t)be16toh(ctrl.klm_octowords) * OCTOWORD_ENTRIES,
	};
	if (repage->flags & ~KNOWN_FLAGS || repage->mask & ~KNOWN_MASKS)
		return false;
	return find_entries(raw, ds * SEGMENT, repage);
}

static bool may_change(const struct sn_qp *qp, const struct sn_mr *mr,
		       const struct sn_repage *repage)
{
	if (!mr || mr->kind != SN_MR_PAGED || (!qp->attr.changes_all && mr->pdn != qp->attr.pdn))
		return false;
	if (repage->n > mr->pages->n || repage->first > mr->pages->n - repage->n)
		return false;
	if (repage->mask & MASK_PAGE_SIZE && repage->shift < 12)
		return false;
	return !(repage->flags & (mr->free ? CHECK_FREE : CHECK_NOT_FREE));
}

/* The driver's own queue pair has no protection domain: its requests read by any key. */
static uint32_t domain_of(const struct sn_qp *qp, uint32_t lkey)
{
	const struct sn_mr *mr = qp->attr.changes_all ? sn_mr_of_index(qp->dev, lkey) : NULL;

	return mr ? mr->pdn : qp->attr.pdn;
}

/* Where the new entries are in this process; NULL: the request may not read them there. */
static const uint8_t *entries_of(const struct sn_qp *qp, const struct sn_repage *repage)
{
	if (repage->entries || !repage->n)
		return repage->entries;
	return (const uint8_t *)sn_mr_translate(qp->dev, repage->list.lkey,
						domain_of(qp, repage->list.lkey), repage->list.addr,
						repage->n * ENTRY_BYTES, 0);
}

static void set_entries(struct sn_mr *mr, const struct sn_repage *repage, const uint8_t *entries)
{
	uint64_t entry;

	SN_ASSERT((uint64_t)repage->first + repage->n <= mr->pages->n);
	for (uint32_t i = 0; i < repage->n; i++) {
		memcpy(&entry, entries + i * ENTRY_BYTES, sizeof(entry));
		mr->pages->page[repage->first + i] = be64toh(entry) & PAGE_BITS;
	}
}

static void set_rights(struct sn_mr *mr, const struct sn_repage *repage)
{
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		if (!(repage->mask & rights[i].mask))
			continue;
		mr->access &= ~rights[i].access;
		if (repage->rights & rights[i].flag)
			mr->access |= rights[i].access;
	}
}

static void set_context(struct sn_mr *mr, const struct sn_repage *repage)
{
	set_rights(mr, repage);
	if (repage->mask & MASK_PAGE_SIZE)
		mr->pages->shift = repage->shift;
	if (repage->mask & MASK_PD)
		mr->pdn = repage->pdn;
	if (repage->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN)
		mr->length = repage->length;
	if (repage->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR)
		mr->iova = repage->iova;
	if (repage->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE)
		mr->free = repage->free;
	if (repage->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY)
		mr->key = (mr->key & ~(uint32_t)TAG_MASK) | repage->tag;
}

uint8_t sn_repage(struct sn_qp *qp, const struct sn_repage *repage)
{
	struct sn_mr *mr = sn_mr_of_index(qp->dev, repage->key);
	const uint8_t *entries = entries_of(qp, repage);

	if (!may_change(qp, mr, repage) || (repage->n && !entries))
		return MLX5_CQE_SYNDROME_MW_BIND_ERR;
	sn_posted_push(qp->dev); /* writes by the old list land before the change */
	unmap(qp->dev, mr);
	set_entries(mr, repage, entries);
	set_context(mr, repage);
	return 0;
}
