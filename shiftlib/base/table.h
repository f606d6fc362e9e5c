/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A hash table from pointer to pointer, for control verbs. Guarded by its owner's lock. */
#ifndef SHIFTLIB_TABLE_H
#define SHIFTLIB_TABLE_H

#include <stddef.h>

struct sh_table_slot {
	const void *key; /* NULL: never used; the table itself: removed */
	void *value;
};

struct sh_table {
	struct sh_table_slot *slots;
	size_t capacity, used; /* used counts removed slots too */
	size_t live;
};

/* 0 or -ENOMEM. A key that is there already gets the new value. */
int sh_table_put(struct sh_table *table, const void *key, void *value);
void *sh_table_get(const struct sh_table *table, const void *key);
void *sh_table_remove(struct sh_table *table, const void *key);

#endif
