/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The null key: what is written by it goes nowhere, and zeros are read (ibv_alloc_null_mr). Lock held. */
#ifndef SIMNIC_DEVICE_NULL_H
#define SIMNIC_DEVICE_NULL_H

#include <stdint.h>

/* An address for so many bytes; 0: more than 2 GiB, an atomic, or there is no memory. access: what is done there. */
uint64_t sn_null_at(uint64_t len, uint32_t access);

#endif
