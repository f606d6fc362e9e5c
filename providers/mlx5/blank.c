/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared tables that nobody has written to. They are mapped read-only: a post that did not ask for
 * tables of its own ends the program, and does not mix up the requests of others.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "providers/mlx5/blank.h"

static uint64_t *_Atomic blanks[32]; /* by the logarithm of their size */

static uint64_t *blank_map(uint32_t n)
{
	size_t bytes = (size_t)n * RING_TABLE_BYTES;
	uint64_t *at =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	memset(at + n, 0xff, (size_t)n * sizeof(uint32_t));
	if (!mprotect(at, bytes, PROT_READ))
		return at;
	munmap(at, bytes);
	return NULL;
}

uint64_t *ring_blank(uint32_t n)
{
	uint64_t *_Atomic *place = &blanks[__builtin_ctz(n)];
	uint64_t *made = atomic_load_explicit(place, memory_order_acquire), *first = NULL;

	if (made)
		return made;
	made = blank_map(n);
	if (!made || atomic_compare_exchange_strong(place, &first, made))
		return made;
	munmap(made, (size_t)n * RING_TABLE_BYTES); /* another thread was first */
	return first;
}
