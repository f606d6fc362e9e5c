/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tables of objects, as one mapping each. */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "providers/common/table.h"

int sp_table_map(struct sp_table *table, uint32_t slots)
{
	void *at = mmap(NULL, (size_t)slots * sizeof(void *), PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	*table = (struct sp_table){ .slots = at, .n = slots };
	return 0;
}

void sp_table_unmap(struct sp_table *table)
{
	if (table->slots)
		munmap(table->slots, (size_t)table->n * sizeof(void *));
	table->slots = NULL;
}

int sp_table_reserve(struct sp_table *table, uint32_t slot)
{
	uint32_t piece = slot / SP_TABLE_PIECE, first = piece * SP_TABLE_PIECE;
	uint64_t bit = 1ull << piece % 64;
	uint32_t n;

	if (slot >= table->n)
		return -ERANGE;
	if (atomic_load(&table->writable[piece / 64]) & bit)
		return 0;
	n = table->n - first < SP_TABLE_PIECE ? table->n - first : SP_TABLE_PIECE;
	if (mprotect((void **)table->slots + first, n * sizeof(void *), PROT_READ | PROT_WRITE))
		return -ENOMEM;
	atomic_fetch_or(&table->writable[piece / 64], bit);
	return 0;
}

int sp_tables_map(struct sp_tables *tables, uint32_t handles)
{
	int err = sp_table_map(&tables->qps, handles);

	if (!err)
		err = sp_table_map(&tables->cqs, handles);
	if (!err)
		err = sp_table_map(&tables->srqs, handles);
	if (!err)
		err = sp_table_map(&tables->carriers, SP_TABLE_MAX);
	return err;
}

void sp_tables_unmap(struct sp_tables *tables)
{
	sp_table_unmap(&tables->carriers);
	sp_table_unmap(&tables->srqs);
	sp_table_unmap(&tables->cqs);
	sp_table_unmap(&tables->qps);
}
