/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tables from a handle or a QPN to an object of ours, mapped as large as they can become. A slot is read
 * without a look at the table; before it is written it must have been reserved. Only pieces with reserved
 * slots can be written, so that a program which locks its memory (mlockall) pays for those alone: of a
 * piece that cannot, the kernel locks the one page of zeros that it has.
 */
#ifndef RING_TABLE_H
#define RING_TABLE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

enum {
	RING_TABLE_PIECE = 1 << 15, /* slots: 256 KiB */
	RING_TABLE_WORDS = RING_MAX_QPN / RING_TABLE_PIECE / 64,
};

struct ring_table {
	void *slots; /* NULL: not mapped */
	uint32_t n;
	_Atomic(uint64_t) writable[RING_TABLE_WORDS]; /* a bit for each piece */
};

/* At most RING_MAX_QPN slots, all NULL. 0 or -ENOMEM. */
int ring_table_map(struct ring_table *table, uint32_t slots);
void ring_table_unmap(struct ring_table *table);

/* By any thread, for good. 0; -ERANGE: there is no such slot; -ENOMEM. */
int ring_table_reserve(struct ring_table *table, uint32_t slot);

#pragma GCC visibility pop

#endif
