/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys in use that SHIFT does not know: such a connection must not be called protected. */
#ifndef SHIFTLIB_CONN_MEET_UNKNOWN_H
#define SHIFTLIB_CONN_MEET_UNKNOWN_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

void sh_unknown_told(uint32_t lkey) SH_LOCKED; /* a region has it, or no more */

extern const struct sh_conn_part sh_unknown_part;

#endif
