/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: one key serves as lkey and rkey, as on a ConnectX. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/null.h"
#include "simnic/device/posted.h"
#include "simnic/device/window.h"
#include "simnic/fabric/check.h"

#define KEY_INDEX_MASK 0xffffff

static struct sn_mr **mr_bucket(struct sn_dev *dev, uint32_t key)
{
	return &dev->mr[(key >> 8) % SN_MR_BUCKETS];
}

struct sn_mr *sn_mr_of_index(struct sn_dev *dev, uint32_t key)
{
	struct sn_mr *mr;

	for (mr = *mr_bucket(dev, key); mr && mr->key >> 8 != key >> 8; mr = mr->next)
		;
	return mr;
}

static struct sn_mr *mr_find(struct sn_dev *dev, uint32_t key)
{
	struct sn_mr *mr;

	for (mr = *mr_bucket(dev, key); mr && mr->key != key; mr = mr->next)
		;
	return mr;
}

/* A driver has keys for all of its protection domains: their number is 0. */
static bool pd_matches(const struct sn_dev *dev, const struct sn_mr *mr, uint32_t pdn)
{
	return mr->pdn == pdn || (!mr->pdn && dev->trapped);
}

static bool mr_holds(const struct sn_mr *mr, uint64_t va, uint64_t len)
{
	return va >= mr->iova && len <= mr->length && va - mr->iova <= mr->length - len;
}

/* IBA 10.6.3: key, protection domain, rights and bounds, all of them. */
static struct sn_mr *mr_permitted(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va,
				  uint64_t len, uint32_t access)
{
	struct sn_mr *mr = mr_find(dev, key);

	if (!mr || mr->free || !pd_matches(dev, mr, pdn) || (mr->access & access) != access)
		return NULL;
	return mr_holds(mr, va, len) ? mr : NULL;
}

static uint64_t mr_at(struct sn_dev *dev, struct sn_mr *mr, uint64_t va, uint64_t len,
		      uint32_t access)
{
	switch (mr->kind) {
	case SN_MR_REGION: return mr->addr + (va - mr->iova);
	case SN_MR_WINDOW_1:
	case SN_MR_WINDOW_2: return sn_window_translate(dev, mr, va, len, access);
	case SN_MR_PAGED: return sn_pages_at(dev, mr, va);
	case SN_MR_INDIRECT: break;
	}
	return 0;
}

/* Translates for the null key itself, which is given to all: remote ends may not use it. */
static uint64_t null_at(uint64_t len, uint32_t access)
{
	const uint32_t remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	return access & remote ? 0 : sn_null_at(len, access);
}

int sn_mr_pieces(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
		 uint32_t access, struct iovec *iov, uint32_t max)
{
	struct sn_mr *mr = mr_permitted(dev, key, pdn, va, len, access);
	uint64_t at = 0;

	if (mr && mr->kind == SN_MR_INDIRECT)
		return sn_indirect_pieces(dev, mr, va - mr->iova, len, access, iov, max);
	if (mr)
		at = mr_at(dev, mr, va, len, access);
	else if (key == SN_NULL_KEY)
		at = null_at(len, access);
	if (!at || !max)
		return -EACCES;
	iov[0] = (struct iovec){ (void *)at, len };
	return 1;
}

uint64_t sn_mr_translate(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
			 uint32_t access)
{
	struct iovec iov;

	return sn_mr_pieces(dev, key, pdn, va, len, access, &iov, 1) == 1 ? (uint64_t)iov.iov_base
									  : 0;
}

static uint32_t key_new(struct sn_dev *dev)
{
	return atomic_fetch_add(&dev->nic->next_key, 1) & KEY_INDEX_MASK;
}

/*
 * The kernel's driver keeps what was deregistered, and gives it out again, key and all. Lock held.
 */
static uint32_t key_take(struct sn_dev *dev)
{
	uint32_t index;

	SN_ASSERT(dev->n_kept_keys <= SN_KEPT_KEYS);
	if (dev->n_kept_keys)
		return dev->kept_keys[--dev->n_kept_keys];
	index = key_new(dev);
	return index << 8 | ((index * 0x35) & 0xff);
}

static void mr_insert(struct sn_dev *dev, struct sn_mr *mr)
{
	struct sn_mr **bucket = mr_bucket(dev, mr->key);

	mr->next = *bucket;
	*bucket = mr;
}

void sn_mr_add(struct sn_dev *dev, struct sn_mr *mr, uint8_t variant)
{
	mr->key = key_new(dev) << 8 | variant;
	mr_insert(dev, mr);
}

static void key_keep(struct sn_dev *dev, uint32_t key)
{
	if (dev->n_kept_keys < SN_KEPT_KEYS)
		dev->kept_keys[dev->n_kept_keys++] = key;
}

int sn_mr_reg(struct sn_dev *dev, uint32_t pdn, uint64_t addr, uint64_t length, uint64_t iova,
	      uint32_t access, uint32_t *lkey, uint32_t *rkey)
{
	struct sn_mr *mr;

	/* IBA 10.6.3.3: remote write and atomic need local write. */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->pdn = pdn;
	mr->addr = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;
	sn_lock();
	mr->key = key_take(dev);
	mr_insert(dev, mr);
	sn_unlock();
	*lkey = *rkey = mr->key;
	return 0;
}

int sn_mr_reg_as(struct sn_dev *dev, uint8_t variant, uint32_t pdn, uint64_t addr, uint64_t length,
		 uint64_t iova, uint32_t access, uint32_t *key)
{
	struct sn_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->pdn = pdn;
	mr->addr = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;
	mr->own_command = true;
	sn_lock();
	sn_mr_add(dev, mr, variant);
	*key = mr->key;
	sn_unlock();
	return 0;
}

int sn_mr_reg_indirect(struct sn_dev *dev, const struct sn_indirect *want, uint32_t *key)
{
	struct sn_mr *mr = calloc(1, sizeof(*mr) + want->n_entries * sizeof(mr->entries[0]));
	int err = 0;

	if (!mr)
		return -ENOMEM;
	mr->kind = want->n_entries ? SN_MR_INDIRECT : SN_MR_REGION;
	mr->n_entries = want->n_entries;
	mr->free = want->n_entries;
	mr->remote_end = want->remote_end;
	mr->pdn = want->pdn;
	mr->length = want->length;
	mr->iova = want->iova;
	mr->access = want->access;
	mr->own_command = true;
	sn_lock();
	if (want->length) {
		mr->addr = sn_mr_translate(dev, want->of_key, want->pdn, want->of_va, want->length,
					   want->access);
		err = mr->addr ? 0 : -EINVAL;
	}
	if (!err) {
		sn_mr_add(dev, mr, (uint8_t)want->variant);
		*key = mr->key;
	}
	sn_unlock();
	if (err)
		free(mr);
	return err;
}

int sn_mr_change(struct sn_dev *dev, uint32_t lkey, uint32_t pdn, uint32_t access)
{
	struct sn_mr *mr;

	sn_lock();
	sn_posted_push(dev); /* what the old rights allowed lands before the change */
	mr = mr_find(dev, lkey);
	if (mr) {
		mr->pdn = pdn;
		mr->access = access;
	}
	sn_unlock();
	return mr ? 0 : -EINVAL;
}

int sn_mr_dereg(struct sn_dev *dev, uint32_t lkey)
{
	struct sn_mr **link, *mr;

	sn_lock();
	for (link = mr_bucket(dev, lkey); *link && (*link)->key != lkey; link = &(*link)->next)
		;
	mr = *link;
	if (mr) {
		*link = mr->next;
		if (!mr->own_command)
			key_keep(dev, lkey);
	}
	sn_posted_push(dev); /* nothing is written to it any more */
	if (mr && mr->kind == SN_MR_PAGED)
		sn_pages_forget(dev, mr);
	sn_unlock();
	free(mr);
	return mr ? 0 : -EINVAL;
}

int sn_mr_dereg_index(struct sn_dev *dev, uint32_t index)
{
	const struct sn_mr *mr;
	uint32_t key = 0;

	sn_lock();
	mr = sn_mr_of_index(dev, index << 8);
	if (mr)
		key = mr->key;
	sn_unlock();
	return mr ? sn_mr_dereg(dev, key) : -ENOENT;
}

static int prefetch_check(const struct sn_mr *mr, uint32_t pdn, const struct ibv_sge *sge,
			  bool writes)
{
	if (!mr || mr->kind != SN_MR_REGION || !(mr->access & IBV_ACCESS_ON_DEMAND))
		return -ENOENT;
	if (mr->pdn != pdn || (writes && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	return mr_holds(mr, sge->addr, sge->length) ? 0 : -EFAULT;
}

int sn_mr_prefetch(struct sn_dev *dev, uint32_t pdn, const struct ibv_sge *sge, bool writes)
{
	int rc;

	sn_lock();
	rc = prefetch_check(mr_find(dev, sge->lkey), pdn, sge, writes);
	sn_unlock();
	return rc;
}

void sn_mr_free_all(struct sn_dev *dev)
{
	struct sn_mr *mr;
	int i;

	for (i = 0; i < SN_MR_BUCKETS; i++) {
		while ((mr = dev->mr[i])) {
			dev->mr[i] = mr->next;
			if (mr->kind == SN_MR_PAGED)
				sn_pages_forget(dev, mr);
			free(mr);
		}
	}
}
