/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections that wait until the application pauses in its set-up. */
#ifndef SHIFTLIB_CONN_MEET_AHEAD_H
#define SHIFTLIB_CONN_MEET_AHEAD_H

#include "shiftlib/base/locked.h"

struct sh_qp;

/* Puts the introduction off until the set-up pauses. */
void sh_ahead_wait(struct sh_qp *qp) SH_LOCKED;

#endif
