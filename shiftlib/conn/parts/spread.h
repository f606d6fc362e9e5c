/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* SHIFT_BACKUP=spread: what this process has dealt out, by backup/spread.h. */
#ifndef SHIFTLIB_CONN_PARTS_SPREAD_H
#define SHIFTLIB_CONN_PARTS_SPREAD_H

#include <stdint.h>
#include "shiftlib/backup/spread.h"
#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

/* The order of a connection that this end leads; 0: as the paths are numbered. */
uint32_t sh_spread_draw(const struct sh_qp *qp) SH_LOCKED;

extern const struct sh_conn_part sh_spread_part;

#endif
