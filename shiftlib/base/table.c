/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include "shiftlib/base/table.h"

static size_t table_hash(const void *key, size_t capacity)
{
	uint64_t x = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15ULL;

	return (size_t)(x >> 20) & (capacity - 1);
}

static struct sh_table_slot *table_find(const struct sh_table *table, const void *key)
{
	size_t i;

	if (!table->capacity)
		return NULL;
	for (i = table_hash(key, table->capacity);; i = (i + 1) & (table->capacity - 1)) {
		if (table->slots[i].key == key)
			return &table->slots[i];
		if (!table->slots[i].key)
			return NULL;
	}
}

static void table_insert(struct sh_table *table, const void *key, void *value)
{
	size_t i = table_hash(key, table->capacity);

	while (table->slots[i].key)
		i = (i + 1) & (table->capacity - 1);
	table->slots[i].key = key;
	table->slots[i].value = value;
	table->used++;
	table->live++;
}

/* Keeps the load below 3/4, removed slots counted, so that searches end. */
static int table_reserve(struct sh_table *table)
{
	struct sh_table grown = { 0 };
	size_t i;

	if (table->capacity && (table->used + 1) * 4 <= table->capacity * 3)
		return 0;
	grown.capacity = table->live * 4 < 64 ? 64 : table->capacity;
	if (table->live * 2 >= grown.capacity)
		grown.capacity = table->capacity * 2;
	grown.slots = calloc(grown.capacity, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (i = 0; i < table->capacity; i++)
		if (table->slots[i].key && table->slots[i].key != table)
			table_insert(&grown, table->slots[i].key, table->slots[i].value);
	free(table->slots);
	*table = grown;
	return 0;
}

int sh_table_put(struct sh_table *table, const void *key, void *value)
{
	struct sh_table_slot *slot = table_find(table, key);
	int ret;

	if (slot) {
		slot->value = value;
		return 0;
	}
	ret = table_reserve(table);
	if (!ret)
		table_insert(table, key, value);
	return ret;
}

void *sh_table_get(const struct sh_table *table, const void *key)
{
	struct sh_table_slot *slot = table_find(table, key);

	return slot ? slot->value : NULL;
}

void *sh_table_remove(struct sh_table *table, const void *key)
{
	struct sh_table_slot *slot = table_find(table, key);

	if (!slot)
		return NULL;
	slot->key = table; /* keeps later keys of the same run findable */
	table->live--;
	return slot->value;
}
