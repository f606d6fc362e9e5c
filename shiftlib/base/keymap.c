/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/base/keymap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_EMPTY   0ull	/* key 0 */
#define SLOT_REMOVED UINT64_MAX /* key ~0 */
#define SPECIAL_SET  (1ull << 32)

/*
 * One 64-bit word per slot, so that a reader gets key and value of the same moment. A key stays in
 * its slot for as long as it is in the table: a search that starts at its home slot and ends at an
 * empty one cannot run past it.
 */
struct sh_keymap_table {
	unsigned int bits;
	/* Writer's: */
	size_t n_used;			    /* slots not empty */
	struct sh_keymap_table *next_spare; /* another table of the same size */
	_Atomic uint64_t slots[];
};

static uint64_t slot_make(uint32_t key, uint32_t value)
{
	return (uint64_t)key << 32 | value;
}

static uint32_t slot_key(uint64_t slot)
{
	return (uint32_t)(slot >> 32);
}

static bool key_is_special(uint32_t key)
{
	return key == 0 || key == UINT32_MAX;
}

static size_t table_size(const struct sh_keymap_table *table)
{
	return (size_t)1 << table->bits;
}

/* Multiplication by 2^32 / golden ratio: keys of one NIC differ in a few middle bits only. */
static size_t table_home(const struct sh_keymap_table *table, uint32_t key)
{
	return (key * 0x9e3779b1u) >> (32 - table->bits);
}

static size_t table_next(const struct sh_keymap_table *table, size_t i)
{
	return (i + 1) & (table_size(table) - 1);
}

static struct sh_keymap_table *table_alloc(unsigned int bits)
{
	struct sh_keymap_table *table;

	table = calloc(1, sizeof(*table) + (sizeof(table->slots[0]) << bits));
	if (table)
		table->bits = bits;
	return table;
}

/* Index of key, or of the slot that ended the search (its word is then not the key's). */
static size_t table_find(const struct sh_keymap_table *table, uint32_t key, uint64_t *word)
{
	size_t i = table_home(table, key), left = table_size(table);

	for (; left; left--, i = table_next(table, i)) {
		/* Acquire: see sh_keymap_get. */
		*word = atomic_load_explicit(&table->slots[i], memory_order_acquire);
		if (*word == SLOT_EMPTY || slot_key(*word) == key)
			break;
	}
	return i;
}

static void slot_store(struct sh_keymap_table *table, size_t i, uint64_t word)
{
	/* Release: who sees a word of a table in use again sees the version that led there. */
	atomic_store_explicit(&table->slots[i], word, memory_order_release);
}

static uint64_t slot_load(const struct sh_keymap_table *table, size_t i)
{
	return atomic_load_explicit(&table->slots[i], memory_order_relaxed);
}

/* Writer. The key is not in the table; there is room. */
static void table_add(struct sh_keymap_table *table, uint32_t key, uint32_t value)
{
	size_t i = table_home(table, key);
	uint64_t word;

	for (;; i = table_next(table, i)) {
		word = slot_load(table, i);
		if (word == SLOT_EMPTY || word == SLOT_REMOVED)
			break;
	}
	if (word == SLOT_EMPTY)
		table->n_used++;
	slot_store(table, i, slot_make(key, value));
}

/*
 * Writer. A removed slot in front of an empty one may become empty itself, since no search has to
 * go past it; so tables whose keys come and go rarely need to be replaced.
 */
static void table_remove_at(struct sh_keymap_table *table, size_t i)
{
	size_t mask = table_size(table) - 1;

	slot_store(table, i, SLOT_REMOVED);
	if (slot_load(table, table_next(table, i)) != SLOT_EMPTY)
		return;
	for (; slot_load(table, i) == SLOT_REMOVED; i = (i - 1) & mask) {
		slot_store(table, i, SLOT_EMPTY);
		table->n_used--;
	}
}

static void table_wipe(struct sh_keymap_table *table)
{
	size_t i;

	for (i = 0; i < table_size(table); i++)
		slot_store(table, i, SLOT_EMPTY);
	table->n_used = 0;
}

static void table_copy(struct sh_keymap_table *to, const struct sh_keymap_table *from)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < table_size(from); i++) {
		word = slot_load(from, i);
		if (word != SLOT_EMPTY && word != SLOT_REMOVED)
			table_add(to, slot_key(word), (uint32_t)word);
	}
}

void sh_keymap_init(struct sh_keymap *map)
{
	memset(map, 0, sizeof(*map));
}

void sh_keymap_uninit(struct sh_keymap *map)
{
	struct sh_keymap_table *table;
	unsigned int bits;

	free(atomic_load_explicit(&map->table, memory_order_relaxed));
	for (bits = 0; bits <= SH_KEYMAP_MAX_BITS; bits++) {
		while ((table = map->spare[bits])) {
			map->spare[bits] = table->next_spare;
			free(table);
		}
	}
	sh_keymap_init(map);
}

static struct sh_keymap_table *keymap_table(const struct sh_keymap *map)
{
	return atomic_load_explicit(&map->table, memory_order_acquire);
}

static struct sh_keymap_table *keymap_take_table(struct sh_keymap *map, unsigned int bits)
{
	struct sh_keymap_table *table = map->spare[bits];

	if (!table)
		return table_alloc(bits);
	map->spare[bits] = table->next_spare;
	table_wipe(table);
	return table;
}

/*
 * The version moves after the new table is in place and before the old one can be written again: a
 * reader that found nothing in a table written again sees another version than before its search.
 */
static void keymap_publish(struct sh_keymap *map, struct sh_keymap_table *table)
{
	struct sh_keymap_table *old = keymap_table(map);

	atomic_store_explicit(&map->table, table, memory_order_release);
	atomic_fetch_add_explicit(&map->version, 1, memory_order_release);
	if (!old)
		return;
	old->next_spare = map->spare[old->bits];
	map->spare[old->bits] = old;
}

/* The smallest table that the keys fill to less than half; so the next change of table is far. */
static unsigned int keymap_bits_for(size_t n_keys)
{
	unsigned int bits = SH_KEYMAP_MIN_BITS;

	while (bits < SH_KEYMAP_MAX_BITS && n_keys >= (size_t)1 << (bits - 1))
		bits++;
	return bits;
}

/* True if at most three quarters of the slots are used, so that every search ends soon. */
static bool keymap_has_room(const struct sh_keymap_table *table)
{
	return table && table->n_used < table_size(table) - table_size(table) / 4;
}

static int keymap_make_room(struct sh_keymap *map)
{
	struct sh_keymap_table *old = keymap_table(map), *table;
	unsigned int bits = keymap_bits_for(map->n_keys + 1);

	if (keymap_has_room(old))
		return 0;
	if (map->n_keys >= (size_t)3 << (SH_KEYMAP_MAX_BITS - 2))
		return -ENOMEM;
	table = keymap_take_table(map, bits);
	if (!table)
		return -ENOMEM;
	if (old)
		table_copy(table, old);
	keymap_publish(map, table);
	return 0;
}

static int keymap_put_special(struct sh_keymap *map, uint32_t key, uint32_t value)
{
	atomic_store_explicit(&map->special[key & 1], SPECIAL_SET | value, memory_order_release);
	return 0;
}

int sh_keymap_put(struct sh_keymap *map, uint32_t key, uint32_t value)
{
	struct sh_keymap_table *table = keymap_table(map);
	uint64_t word = SLOT_EMPTY;
	size_t i = 0;
	int ret;

	if (key_is_special(key))
		return keymap_put_special(map, key, value);
	if (table)
		i = table_find(table, key, &word);
	if (word != SLOT_EMPTY && slot_key(word) == key) {
		slot_store(table, i, slot_make(key, value));
		return 0;
	}
	ret = keymap_make_room(map);
	if (ret)
		return ret;
	table_add(keymap_table(map), key, value);
	map->n_keys++;
	return 0;
}

static int keymap_remove_special(struct sh_keymap *map, uint32_t key)
{
	uint64_t old = atomic_exchange_explicit(&map->special[key & 1], 0, memory_order_acq_rel);

	return old ? 0 : -ENOENT;
}

int sh_keymap_remove(struct sh_keymap *map, uint32_t key)
{
	struct sh_keymap_table *table = keymap_table(map);
	uint64_t word;
	size_t i;

	if (key_is_special(key))
		return keymap_remove_special(map, key);
	if (!table)
		return -ENOENT;
	i = table_find(table, key, &word);
	if (word == SLOT_EMPTY || slot_key(word) != key)
		return -ENOENT;
	table_remove_at(table, i);
	map->n_keys--;
	return 0;
}

void sh_keymap_clear(struct sh_keymap *map)
{
	struct sh_keymap_table *table = keymap_table(map);

	keymap_remove_special(map, 0);
	keymap_remove_special(map, UINT32_MAX);
	if (table)
		table_wipe(table);
	map->n_keys = 0;
}

static bool keymap_get_special(const struct sh_keymap *map, uint32_t key, uint32_t *value)
{
	uint64_t word = atomic_load_explicit(&map->special[key & 1], memory_order_acquire);

	*value = (uint32_t)word;
	return word & SPECIAL_SET;
}

/*
 * A hit is right in any table: while the table is current, the word is the key's present value; in
 * a replaced one, its value when the table was replaced, after this search began. A miss counts
 * only if the table was not replaced meanwhile. The search's acquiring loads order it before the
 * second load of the version, against the writer's move of the version before it wipes.
 */
bool sh_keymap_get(const struct sh_keymap *map, uint32_t key, uint32_t *value)
{
	struct sh_keymap_table *table;
	uint64_t version, word;

	if (key_is_special(key))
		return keymap_get_special(map, key, value);
	do {
		version = atomic_load_explicit(&map->version, memory_order_acquire);
		table = keymap_table(map);
		if (!table)
			return false;
		table_find(table, key, &word);
		if (word != SLOT_EMPTY && slot_key(word) == key) {
			*value = (uint32_t)word;
			return true;
		}
	} while (version != atomic_load_explicit(&map->version, memory_order_acquire));
	return false;
}
