/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The debts of a NIC: debt.c. */
#ifndef SHIFTLIB_OBJECT_DEBT_H
#define SHIFTLIB_OBJECT_DEBT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_busy;
struct sh_ctx;
struct sh_nic;

/* True if a NIC of this context may not obey, which is kept from the application. NULL: false. */
bool sh_debts_kept(const struct sh_ctx *ctx) SH_DROPS;
/* True for a verb that would wait for these alone of the context's other NICs. */
bool sh_debts_kept_by(const struct sh_ctx *ctx, struct sh_nic *const *nics, uint32_t n) SH_DROPS;
/*
 * Waits until no job holds the object. False: some does, and a NIC of the context other than the
 * object's own may not obey.
 */
bool sh_debt_idle(const struct sh_ctx *ctx, struct sh_busy *busy) SH_DROPS;
/*
 * Leaves a destruction: pay(object) destroys something of the context, behind all that was left
 * before, in a thread that may wait for ever. Returns its result, or 0: it will be done. closes:
 * the context is gone behind it.
 */
int sh_debt_defer(struct sh_ctx *ctx, int (*pay)(void *object), void *object, bool closes) SH_DROPS;

#endif
