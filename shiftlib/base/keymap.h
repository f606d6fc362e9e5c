/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A map of 32-bit memory keys: which key stands for this one on the other NIC. Threads that post
 * look up without a lock; one writer at a time (the caller's lock).
 *
 * Tables are replaced when they grow. A replaced table is not freed before fini, as a reader may be
 * in it, but it is used again when a table of its size is needed: at most two of each size exist,
 * so keys that come and go for ever need no more than four times the largest table. A reader that
 * was overtaken so far that its table is in use again can only miss; it then sees that the map's
 * version moved, and looks again.
 */
#ifndef SHIFTLIB_KEYMAP_H
#define SHIFTLIB_KEYMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SH_KEYMAP_MIN_BITS 6
#define SH_KEYMAP_MAX_BITS 26 /* 50 million keys: above what any device offers */

struct sh_keymap_table;

struct sh_keymap {
	_Atomic(struct sh_keymap_table *) table; /* NULL until the first put */
	_Atomic uint64_t version;		 /* moves with every change of table */
	_Atomic uint64_t special[2];		 /* keys 0 and ~0, which mark slots in tables */
	/* Writer's: */
	struct sh_keymap_table *spare[SH_KEYMAP_MAX_BITS + 1];
	size_t n_keys;
};

void sh_keymap_init(struct sh_keymap *map);
/* No reader may be left. */
void sh_keymap_uninit(struct sh_keymap *map);

/* Writer's lock held. Adds or replaces. 0, or -ENOMEM (nothing changed). */
int sh_keymap_put(struct sh_keymap *map, uint32_t key, uint32_t value);
/* Writer's lock held. 0, or -ENOENT. */
int sh_keymap_remove(struct sh_keymap *map, uint32_t key);
/* Writer's lock held. */
void sh_keymap_clear(struct sh_keymap *map);

/* Any thread, no lock, no system call. */
bool sh_keymap_get(const struct sh_keymap *map, uint32_t key, uint32_t *value);

#endif
