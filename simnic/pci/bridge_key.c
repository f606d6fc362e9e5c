/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys: of all guest memory, of a list of pages, and indirect ones. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "simnic/pci/bridge_own.h"

#define ENTRIES_OF_OCTOWORD 2 /* addresses of pages have 8 bytes each */
#define MAX_OCTOWORDS	    (1u << 20)

/* The pages as a key has them: its first byte is where its address says. */
static struct sn_bridge_pages pages_of(const struct sn_bridge_key *key)
{
	struct sn_bridge_pages pages = key->pages;

	pages.offset = pages.shift < 64 ? key->start & ((1ull << pages.shift) - 1) : 0;
	return pages;
}

static int register_physical(struct sn_bridge *bridge, const struct sn_bridge_key *key,
			     uint32_t *lkey)
{
	uint64_t start = key->any_length ? 0 : key->start;
	uint64_t length = key->any_length ? sn_bridge_reach(bridge) : key->length;
	uint64_t at = sn_bridge_at(bridge, start, length);

	if (!at)
		return -EINVAL;
	return sn_mr_reg_as(bridge->dev, key->variant, key->pd, at, length, start, key->access,
			    lkey);
}

static int register_klms(struct sn_bridge *bridge, const struct sn_bridge_key *key, uint32_t *lkey)
{
	const struct sn_indirect want = { .pdn = key->pd,
					  .variant = key->variant,
					  .remote_end = key->remote_end,
					  .n_entries = key->octowords,
					  .iova = key->start,
					  .access = key->access };

	if (!key->octowords || key->octowords > SN_MAX_ENTRIES)
		return -EINVAL;
	return sn_mr_reg_indirect(bridge->dev, &want, lkey);
}

/* Requests change four octowords at a time, also of a shorter list (MLX5_UMR_MTT_ALIGNMENT). */
static uint32_t together(uint32_t octowords)
{
	return (octowords + 3) & ~3u;
}

static int register_paged(struct sn_bridge *bridge, const struct sn_bridge_key *key, uint32_t *lkey)
{
	const struct sn_paged want = { .variant = key->variant,
				       .remote_end = key->remote_end,
				       .pdn = key->pd,
				       .access = key->access,
				       .entries = together(key->octowords) * ENTRIES_OF_OCTOWORD };

	if (!key->free || !key->octowords || key->octowords > MAX_OCTOWORDS)
		return -EINVAL;
	return sn_mr_reg_paged(bridge->dev, &want, lkey);
}

static int register_key(struct sn_bridge *bridge, const struct sn_bridge_object *object,
			uint32_t *lkey)
{
	const struct sn_bridge_key *key = &object->key;

	switch (key->mode) {
	case SN_BRIDGE_PHYSICAL: return register_physical(bridge, key, lkey);
	case SN_BRIDGE_PAGES:
		if (!key->pages.n)
			return register_paged(bridge, key, lkey);
		return sn_mr_reg_as(bridge->dev, key->variant, key->pd, (uint64_t)object->map.at,
				    key->length, key->start, key->access, lkey);
	case SN_BRIDGE_KLMS: return register_klms(bridge, key, lkey);
	case SN_BRIDGE_WINDOW:
		return sn_window_alloc(bridge->dev, key->pd, key->variant, key->remote_end, lkey);
	}
	return -EINVAL;
}

static bool has_pages(const struct sn_bridge_key *key)
{
	return key->mode == SN_BRIDGE_PAGES && key->pages.n;
}

int sn_bridge_key_create(struct sn_bridge *bridge, const struct sn_bridge_key *key, uint32_t *index)
{
	const struct sn_bridge_pages pages = pages_of(key);
	struct sn_bridge_object *object;
	uint32_t lkey;
	int err;

	object = sn_bridge_make(bridge, SN_BRIDGE_IS_KEY, &pages, has_pages(key) ? key->length : 0);
	if (!object)
		return -errno;
	object->key = *key;
	/* The context of a key has no bit for this right: it is the library that looks at it. */
	object->key.access |= IBV_ACCESS_MW_BIND;
	object->key.pages.page = NULL; /* the caller's list */
	err = register_key(bridge, object, &lkey);
	if (err) {
		sn_bridge_discard(bridge, object);
		return err;
	}
	sn_bridge_add(bridge, object, lkey >> 8);
	*index = object->number;
	return 0;
}

int sn_bridge_key_destroy(struct sn_bridge *bridge, uint32_t index)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_KEY, index);
	int err;

	if (!object)
		return -ENOENT;
	err = sn_mr_dereg_index(bridge->dev, index);
	if (!err)
		sn_bridge_drop(bridge, object);
	return err;
}

int sn_bridge_key_query(struct sn_bridge *bridge, uint32_t index, struct sn_bridge_key *key)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_KEY, index);

	if (!object)
		return -ENOENT;
	*key = object->key;
	return 0;
}
