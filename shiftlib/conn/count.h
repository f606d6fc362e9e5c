/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How many connections are guarded, move, leave and wait, as sh_conns and their contexts count
 * them.
 */
#ifndef SHIFTLIB_CONN_COUNT_H
#define SHIFTLIB_CONN_COUNT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_qp;

void sh_count_guarded(struct sh_qp *qp, bool on) SH_LOCKED;
/* Counts by what the core has become, behind a step. */
void sh_count_core(struct sh_qp *qp, uint64_t now) SH_LOCKED;
void sh_count_none(struct sh_qp *qp) SH_LOCKED; /* takes it out of all counts */
/* How long an answer may take, as so many move now. */
uint64_t sh_count_busy_ns(uint64_t now) SH_LOCKED;

#endif
