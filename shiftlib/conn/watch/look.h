/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A look at all connections now and then: sh_conns.check_at. */
#ifndef SHIFTLIB_CONN_WATCH_LOOK_H
#define SHIFTLIB_CONN_WATCH_LOOK_H

#include "shiftlib/loop/loop.h"

extern const struct sh_module sh_looks_module;

#endif
