/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/pool.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK (1 << 16) /* bytes taken at once */
#define ALIGN 16

static void pool_grow(struct sn_cm_pool *pool)
{
	size_t size = (pool->size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	uint8_t *block =
		mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return;
	for (size_t at = 0; at + size <= BLOCK; at += size)
		sn_cm_pool_put(pool, block + at);
}

void *sn_cm_pool_get(struct sn_cm_pool *pool)
{
	void *object;

	if (!pool->free)
		pool_grow(pool);
	object = pool->free;
	if (!object)
		return NULL;
	memcpy(&pool->free, object, sizeof(pool->free));
	memset(object, 0, pool->size);
	return object;
}

void sn_cm_pool_put(struct sn_cm_pool *pool, void *object)
{
	memcpy(object, &pool->free, sizeof(pool->free));
	pool->free = object;
}
