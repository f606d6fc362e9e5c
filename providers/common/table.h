/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tables from a handle or a QPN to an object of ours, mapped as large as they can become. A slot is
 * read without a look at the table; before it is written it must have been reserved. Only pieces
 * with reserved slots can be written, so that a program which locks its memory (mlockall) pays for
 * those alone: of other pieces the kernel locks its one page of zeros.
 */
#ifndef SHIFT_TABLE_H
#define SHIFT_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum {
	SP_TABLE_MAX = 1 << 24,	  /* QPNs are 24 bits wide */
	SP_TABLE_PIECE = 1 << 15, /* slots: 256 KiB */
	SP_TABLE_WORDS = SP_TABLE_MAX / SP_TABLE_PIECE / 64,
};

struct sp_table {
	void *slots; /* NULL: not mapped */
	uint32_t n;
	_Atomic(uint64_t) writable[SP_TABLE_WORDS]; /* a bit for each piece */
};

/* Maps at most SP_TABLE_MAX slots, all NULL. 0 or -ENOMEM. */
int sp_table_map(struct sp_table *table, uint32_t slots);
void sp_table_unmap(struct sp_table *table);

/* Reserves a slot for good, by any thread. 0; -ERANGE: there is no such slot; -ENOMEM. */
int sp_table_reserve(struct sp_table *table, uint32_t slot);

/* The tables of a context: three by handle, and the carriers by QPN. */
struct sp_tables {
	struct sp_table qps, cqs, srqs, carriers;
};

/* 0, or -ENOMEM: some may be mapped, and are to be unmapped. */
int sp_tables_map(struct sp_tables *tables, uint32_t handles);
void sp_tables_unmap(struct sp_tables *tables);

#pragma GCC visibility pop

#endif
