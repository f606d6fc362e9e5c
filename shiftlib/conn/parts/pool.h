/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs made ahead to INIT, for connections that rest without a standby (SHIFT_LAZY=pool).
 */
#ifndef SHIFTLIB_CONN_PARTS_POOL_H
#define SHIFTLIB_CONN_PARTS_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_nic;
struct sh_pooled; /* a QP made ahead; struct sh_qp of its owner points to it */
struct sh_conn_part;
struct sh_qp;

bool sh_pool_has(const struct sh_qp *qp, const struct sh_nic *nic) SH_LOCKED;
/* Drops QPs of earlier incarnations. */
void sh_pool_nic_reopened(const struct sh_nic *nic) SH_LOCKED;
uint32_t sh_pool_count(const struct sh_nic *nic) SH_LOCKED; /* that are made */
uint32_t sh_pool_give_back(const struct sh_nic *nic) SH_LOCKED;

extern const struct sh_conn_part sh_pool_part;

#endif
