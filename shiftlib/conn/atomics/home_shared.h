/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics on memory that other processes may have too (MAP_SHARED), where nobody has named them.
 */
#ifndef SHIFTLIB_CONN_ATOMICS_HOME_SHARED_H
#define SHIFTLIB_CONN_ATOMICS_HOME_SHARED_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"

struct sh_qp;

/* Around the questions of one look: what is mapped is read once, at the first that needs it. */
void sh_home_shared_begin(void) SH_LOCKED;
void sh_home_shared_end(void) SH_LOCKED;
/* May atomics that come to it change such memory? Says so. */
bool sh_home_shared(const struct sh_qp *qp) SH_LOCKED;

#endif
