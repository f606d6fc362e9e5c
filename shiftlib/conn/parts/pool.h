/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs made ahead to INIT, for connections that rest without a standby (SHIFT_LAZY=pool). Lock held. */
#ifndef SHIFTLIB_CONN_PARTS_POOL_H
#define SHIFTLIB_CONN_PARTS_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct sh_carrier;
struct sh_nic;
struct sh_pooled; /* one of them; in struct sh_carriers of the connection that it was made for */
struct sh_qp;

void sh_pool_want(struct sh_qp *qp, uint8_t path); /* it rests, and would go there */
/*
 * One that fits, for a standby of that connection: what it holds, which is the caller's to give back by
 * sh_pool_used() or sh_pool_unused(). False: there is none.
 */
bool sh_pool_take(struct sh_qp *qp, uint8_t path, struct sh_carrier *taken);
void sh_pool_used(struct sh_qp *qp,
		  const struct sh_carrier *taken); /* its QP is the standby's now */
void sh_pool_unused(struct sh_qp *qp, const struct sh_carrier *taken); /* it goes */
void sh_pool_leave(struct sh_qp *qp); /* what was made for it goes, as its carriers do */
bool sh_pool_has(const struct sh_qp *qp, const struct sh_nic *nic);
void sh_pool_nic_reopened(const struct sh_nic *nic); /* those of earlier incarnations go */
uint32_t sh_pool_count(const struct sh_nic *nic);    /* that are made */
uint32_t sh_pool_give_back(const struct sh_nic *nic);

#endif
