/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Expected PSNs: asked of the NIC for the core, and whether to believe the peer's. */
#ifndef SHIFTLIB_CONN_PARTS_EXACT_H
#define SHIFTLIB_CONN_PARTS_EXACT_H

#include "shiftlib/base/locked.h"

struct sh_conn_part;

extern const struct sh_conn_part sh_exact_part;

#endif
