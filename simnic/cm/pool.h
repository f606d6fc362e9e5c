/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pools: memory for objects of one size, from the kernel and never given back. The device takes
 * from a pool while its program is halted, perhaps in the middle of malloc(). Lock held.
 */
#ifndef SIMNIC_CM_POOL_H
#define SIMNIC_CM_POOL_H

#include <stddef.h>

struct sn_cm_pool {
	size_t size; /* bytes of an object, at least a pointer's */
	void *free;  /* list; the first word of each is the next one */
};

void *sn_cm_pool_get(struct sn_cm_pool *pool); /* filled with 0; NULL: no memory */
void sn_cm_pool_put(struct sn_cm_pool *pool, void *object);

#endif
