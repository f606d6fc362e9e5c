/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The null key: writes by it go nowhere, and reads find zeros (ibv_alloc_null_mr). Lock held. */
#ifndef SIMNIC_DEVICE_NULL_H
#define SIMNIC_DEVICE_NULL_H

#include <stdint.h>

/*
 * Returns an address for so many bytes; 0: more than 2 GiB, an atomic, or no memory. access: the
 * kind of access.
 */
uint64_t sn_null_at(uint64_t len, uint32_t access);

#endif
