/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Indirect keys, as mlx5dv_create_mkey() makes them. A request names the attributes of the key
 * that it changes (mask) and, with a translation offset, the first entry of the list that it
 * changes. Entries go four at a time, as they are 64 bytes then. (Linux: an offset in mlx5e's
 * NVMe-TCP receive path, MLX5_UMR_KLM_NUM_ENTRIES_ALIGNMENT; the alignment,
 * MLX5_IB_UMR_XLT_ALIGNMENT.) The rights for the remote end are the key's. The key of an entry
 * needs the same protection domain, and must be writable by the NIC where it is written
 * (rdma-core's test_mlx5_mkey.py writes by a key over a region with local write alone).
 */
#include "simnic/device/indirect.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <string.h>

#include "simnic/device/dev.h"
#include "simnic/device/mr.h"
#include "simnic/device/null.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"

enum {
	SEGMENT = 16,
	CTRL_BYTES = 16,
	UMR_BYTES = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY_BYTES = offsetof(struct mlx5_wqe_mkey_context_seg, inseg),
	HEAD_BYTES = CTRL_BYTES + UMR_BYTES + MKEY_BYTES,
	TOGETHER = 4,		 /* entries */
	REPEATS = 0x400,	 /* in place of the first entry's key: the others are repeated */
	CHECK_NOT_FREE = 1 << 5, /* Linux' names: it fails unless the key is free */
	CHECK_FREE = 2 << 5,	 /* ... if it is */
	TAG_MASK = 0xff,
	ANY_QPN = 0xffffff, /* the key is no single queue pair's: none is here */
	WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

#define KNOWN_FLAGS                                                                                \
	(MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | CHECK_FREE |   \
	 CHECK_NOT_FREE | MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN)

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

#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

/* ---- requests ------------------------------------------------------------------------------- */

static uint64_t known_masks(void)
{
	uint64_t masks = MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
			 MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |
			 MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN;

	for (size_t i = 0; i < N_RIGHTS; i++)
		masks |= rights[i].mask;
	return masks;
}

/* Entries are in the request itself: a list elsewhere in memory is not simulated. */
static bool entries_are_sane(const struct sn_umr *umr, uint32_t bytes)
{
	if (umr->first % TOGETHER || umr->n % TOGETHER)
		return false;
	return !umr->n || (umr->flags & MLX5_WQE_UMR_CTRL_FLAG_INLINE &&
			   umr->n <= (bytes - HEAD_BYTES) / sizeof(*umr->entries));
}

/* Decodes the head of a repeated list, which comes as the first entry, and takes it off. */
static bool repeat_decode(struct sn_umr *umr)
{
	const struct mlx5_wqe_umr_repeat_block_seg *block = (const void *)umr->entries;
	uint32_t entries;

	if (umr->first || !umr->n || be32toh(block->op) != REPEATS)
		return true;
	entries = be16toh(block->num_ent);
	if (!entries || entries >= umr->n)
		return false;
	umr->repeat = be32toh(block->repeat_count);
	umr->n = entries;
	umr->entries++;
	return umr->repeat;
}

bool sn_umr_decode(const uint8_t *raw, uint32_t ds, struct sn_umr *umr)
{
	struct mlx5_wqe_mkey_context_seg mkey;
	struct mlx5_wqe_umr_ctrl_seg ctrl;
	bool has_offset;
	uint32_t key;

	if (ds * SEGMENT < HEAD_BYTES)
		return false;
	memcpy(&key, raw + 12, sizeof(key));
	memcpy(&ctrl, raw + CTRL_BYTES, sizeof(ctrl));
	memcpy(&mkey, raw + CTRL_BYTES + UMR_BYTES, MKEY_BYTES);
	has_offset = ctrl.flags & MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET;
	*umr = (struct sn_umr){ .key = be32toh(key),
				.tag = (uint8_t)be32toh(mkey.qpn_mkey),
				.flags = ctrl.flags,
				.rights = mkey.access_flags,
				.free = mkey.free & MLX5_WQE_MKEY_CONTEXT_FREE,
				.mask = be64toh(ctrl.mkey_mask),
				.iova = be64toh(mkey.start_addr),
				.length = be64toh(mkey.len),
				.first = has_offset ? be16toh(ctrl.translation_offset) : 0,
				.n = be16toh(ctrl.klm_octowords),
				.entries = (const void *)(raw + HEAD_BYTES) };
	if (!has_offset && ctrl.bsf_octowords)
		return false; /* signatures */
	if (umr->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN && be32toh(mkey.qpn_mkey) >> 8 != ANY_QPN)
		return false;
	if (umr->flags & ~KNOWN_FLAGS || umr->mask & ~known_masks())
		return false;
	return entries_are_sane(umr, ds * SEGMENT) && repeat_decode(umr);
}

static bool may_change(const struct sn_qp *qp, const struct sn_mr *list, const struct sn_umr *umr)
{
	if (!list || list->kind != SN_MR_INDIRECT || list->key != umr->key)
		return false;
	if (list->pdn != qp->attr.pdn || umr->first + umr->n > list->n_entries)
		return false;
	return !(umr->flags & (list->free ? CHECK_FREE : CHECK_NOT_FREE));
}

static void set_rights(struct sn_mr *list, const struct sn_umr *umr)
{
	for (size_t i = 0; i < N_RIGHTS; i++) {
		if (!(umr->mask & rights[i].mask))
			continue;
		list->access &= ~rights[i].access;
		if (umr->rights & rights[i].flag)
			list->access |= rights[i].access;
	}
}

static void set_repeated(struct sn_mr *list, const struct sn_umr *umr)
{
	const struct mlx5_wqe_umr_repeat_ent_seg *from = (const void *)umr->entries;

	for (uint32_t i = 0; i < umr->n; i++)
		list->entries[i] = (struct sn_entry){ .va = be64toh(from[i].va),
						      .length = be16toh(from[i].byte_count),
						      .key = be32toh(from[i].memkey),
						      .stride = be16toh(from[i].stride) };
	list->repeat = umr->repeat;
	list->n_repeated = umr->n;
}

static void set_entries(struct sn_mr *list, const struct sn_umr *umr, uint32_t first)
{
	struct mlx5_wqe_umr_klm_seg klm;

	if (umr->n && !first)
		list->repeat = 0;

	SN_ASSERT(!umr->n || (uint64_t)first + umr->n <= list->n_entries);
	for (uint32_t i = 0; i < umr->n; i++) {
		memcpy(&klm, &umr->entries[i], sizeof(klm));
		list->entries[first + i] = (struct sn_entry){ .va = be64toh(klm.address),
							      .length = be32toh(klm.byte_count),
							      .key = be32toh(klm.mkey) };
	}
}

uint8_t sn_indirect_change(struct sn_qp *qp, const struct sn_umr *umr)
{
	struct sn_mr *list = sn_mr_of_index(qp->dev, umr->key);

	if (!may_change(qp, list, umr))
		return MLX5_CQE_SYNDROME_MW_BIND_ERR;
	sn_posted_push(qp->dev); /* the old entries' writes land before the change */
	set_rights(list, umr);
	if (umr->repeat)
		set_repeated(list, umr);
	else
		set_entries(list, umr,
			    sn_nic_quirk(qp->dev->nic, SN_QUIRK_UMR_OFFSET_IGNORED) ? 0
										    : umr->first);
	if (umr->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN)
		list->length = umr->length;
	if (umr->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR)
		list->iova = umr->iova;
	if (umr->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE)
		list->free = umr->free;
	if (umr->mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY)
		list->key = (list->key & ~(uint32_t)TAG_MASK) | umr->tag;
	return 0;
}

/* ---- access --------------------------------------------------------------------------------- */

static uint64_t entry_bytes(const struct sn_entry *entry)
{
	return entry->length ? entry->length : 1u << 31;
}

/*
 * Translates an entry, which names a region or the null key: lists of lists are not simulated, and
 * windows are for the remote end alone.
 */
static uint64_t entry_at(struct sn_dev *dev, const struct sn_mr *list, const struct sn_entry *entry,
			 uint64_t offset, uint64_t len, uint32_t access)
{
	const struct sn_mr *under = sn_mr_of_index(dev, entry->key);

	if (entry->key == SN_NULL_KEY)
		return sn_nic_quirk(dev->nic, SN_QUIRK_NULL_KEY_REFUSED) ? 0
									 : sn_null_at(len, access);
	if (!under || (under->kind != SN_MR_REGION && under->kind != SN_MR_PAGED))
		return 0;
	return sn_mr_translate(dev, entry->key, list->pdn, entry->va + offset, len,
			       access & WRITES ? IBV_ACCESS_LOCAL_WRITE : 0);
}

/* A walk over the bytes of a list: those left to skip, those left to find, and the pieces found. */
struct walk {
	struct sn_dev *dev;
	const struct sn_mr *list;
	uint64_t offset, len;
	uint32_t access;
	struct iovec *iov;
	uint32_t n, max;
};

/* -EACCES: the entry's bytes may not be accessed, or are one piece too many. */
static int walk_entry(struct walk *w, const struct sn_entry *entry)
{
	uint64_t bytes = entry_bytes(entry), take, at;

	if (w->offset >= bytes) {
		w->offset -= bytes;
		return 0;
	}
	take = bytes - w->offset < w->len ? bytes - w->offset : w->len;
	at = w->n < w->max ? entry_at(w->dev, w->list, entry, w->offset, take, w->access) : 0;
	if (!at)
		return -EACCES;
	w->iov[w->n++] = (struct iovec){ (void *)at, take };
	w->len -= take;
	w->offset = 0;
	return 0;
}

static int walk_once(struct walk *w, uint32_t n_entries, uint64_t repetition)
{
	int err = 0;

	for (uint32_t i = 0; i < n_entries && w->len && !err; i++) {
		struct sn_entry entry = w->list->entries[i];

		entry.va += repetition * entry.stride;
		err = walk_entry(w, &entry);
	}
	return err;
}

static int walk_repeated(struct walk *w)
{
	uint64_t round = 0, at;
	int err = 0;

	for (uint32_t i = 0; i < w->list->n_repeated; i++)
		round += entry_bytes(&w->list->entries[i]);
	SN_ASSERT(round);
	at = w->offset / round;
	w->offset %= round;
	for (; at < w->list->repeat && w->len && !err; at++)
		err = walk_once(w, w->list->n_repeated, at);
	return err;
}

int sn_indirect_pieces(struct sn_dev *dev, const struct sn_mr *list, uint64_t offset, uint64_t len,
		       uint32_t access, struct iovec *iov, uint32_t max)
{
	struct walk w = { dev, list, offset, len, access, iov, 0, max };
	int err = list->repeat ? walk_repeated(&w) : walk_once(&w, list->n_entries, 0);

	return err || w.len ? -EACCES : (int)w.n;
}
