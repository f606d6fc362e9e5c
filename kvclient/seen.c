/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reader's memory of the values that it has believed: under which key, and how new. Keys are
 * kept as hashes: the keys that are read are ours and our peers', not of an attacker's choice.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "kvclient/check.h"
#include "kvclient/seen.h"

#define KV_SEEN_MIN 64u
#define KV_SEEN_MAX 65536u /* entries, three quarters of them used: 1 MiB */

struct kv_seen_entry {
	uint64_t hash; /* 0: free */
	uint64_t stamp;
};

struct kv_seen {
	uint32_t n, size;
	struct kv_seen_entry entry[];
};

/* FNV-1a, mixed so that its low bits may choose the place. */
static uint64_t kv_seen_hash(const char *key)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *key; key++)
		hash = (hash ^ (uint8_t)*key) * 0x100000001b3;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static struct kv_seen_entry *kv_seen_find(struct kv_seen *seen, uint64_t hash)
{
	uint32_t at = (uint32_t)hash & (seen->size - 1);

	KV_ASSERT(hash && seen->n < seen->size); /* a free place ends the search */
	while (seen->entry[at].hash && seen->entry[at].hash != hash)
		at = (at + 1) & (seen->size - 1);
	return &seen->entry[at];
}

static struct kv_seen *kv_seen_grow(struct kv_seen *old)
{
	uint32_t i, size = old ? old->size * 2 : KV_SEEN_MIN;
	struct kv_seen *seen;

	if (size > KV_SEEN_MAX)
		return old;
	seen = calloc(1, sizeof(*seen) + size * sizeof(seen->entry[0]));
	if (!seen)
		return old;
	seen->size = size;
	for (i = 0; old && i < old->size; i++)
		if (old->entry[i].hash)
			*kv_seen_find(seen, old->entry[i].hash) = old->entry[i];
	seen->n = old ? old->n : 0;
	free(old);
	return seen;
}

bool kv_seen_newest(struct kv_seen **seen, const char *key, uint64_t stamp)
{
	uint64_t hash = kv_seen_hash(key);
	struct kv_seen_entry *entry;

	if (!*seen || (*seen)->n >= (*seen)->size / 4 * 3)
		*seen = kv_seen_grow(*seen);
	if (!*seen)
		return true;
	entry = kv_seen_find(*seen, hash);
	if (entry->hash && stamp < entry->stamp)
		return false;
	if (!entry->hash && (*seen)->n >= (*seen)->size / 4 * 3)
		return true; /* the table is full: this key is not remembered */
	(*seen)->n += !entry->hash;
	entry->hash = hash;
	entry->stamp = stamp;
	return true;
}
